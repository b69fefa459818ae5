"""Simulated teaching: held-out mAP by the number of judgements, and the time of one judgement.

A simulated person answers from the labels. The rows are the training part of a set, with all
classes; the score is the mean average precision on the test part, where each row queries the
others. Policies: ``nearest`` judges the ten nearest rows of random queries, as someone does who
looks at search results; ``random`` judges random rows near random queries; ``next`` is what the
page asks.

``choose`` compares λ and the weight of the prior on other sets, reduced to 64 components. Chosen
were those that gained much after 200 judgements and hardly lost before.

    python benchmarks/teaching.py [SET …] [choose] [speed] [browser]

Stored in results/teaching.jsonl.
"""

import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from sklearn.model_selection import train_test_split

from _common import data_folder, load_split, run_parts
from dualmetric import mean_average_precision
from dualmetric.datasets import load_dataset
from dualmetric.teach import policy
from dualmetric.teach.judgements import Judgement
from dualmetric.teach.policy import N_ASKED, Question
from dualmetric.teach.session import MARGIN, PRIOR_COUNTS, PRIOR_QUERIES, REG, Session

SETS = ("usps", "fashion_mnist_13k", "20news_use512", "caltech101_top30_bovw")
MARKS = (10, 20, 30, 40, 50, 60, 80, 100, 120, 150, 200)
SEEDS = range(5)
CHOOSING = ("digits", "isolet1", "banking77", "rcv1_7class", "tdt30")
SETTINGS = {  # λ, margin, comparisons and queries that the prior is worth
    "chosen": (REG, MARGIN, PRIOR_COUNTS, PRIOR_QUERIES),
    "prior half": (REG, MARGIN, PRIOR_COUNTS // 2, PRIOR_QUERIES),
    "prior by comparisons alone": (REG, MARGIN, PRIOR_COUNTS, 0),
    "half of it": (REG, MARGIN, PRIOR_COUNTS // 2, 0),
    "reg 0.1": (0.1, MARGIN, PRIOR_COUNTS, 0),
}


def question(session: Session, name: str) -> Question:
    """The next question by the policy of this name."""
    if name == "next":
        return session.ask()
    if name == "random":
        return policy.ask_random(session.live, session.n_rows, session.groups, session.rng)
    query = int(session.rng.integers(session.n_rows))
    return Question(query, session.nearest(query, N_ASKED)[0], "own")


def teach(rows: tuple, policy_name: str, seed: int, **settings: float) -> dict:
    """One simulated person: the scores after each number of judgements."""
    X, y, test, test_y = rows
    session = Session(X, seed=seed, **settings)
    first = session.base.first
    plain = mean_average_precision(first.transform(test), test_y)
    test = first.apply(test)
    scores, n = {}, 0
    while n < max(MARKS):
        asked = question(session, policy_name)
        for row in asked.rows:
            session.judge(asked.query, int(row), bool(y[asked.query] == y[row]), asked.asked)
            n += 1
            if n in MARKS:
                values, vectors = np.linalg.eigh(session.live.M)
                factor = vectors * np.sqrt(np.maximum(values, 0.0))
                mapped = (test @ factor).astype(test.dtype)
                gain = mean_average_precision(mapped, test_y) - plain
                scores[n] = round(100 * gain, 2)
    reading = session.reading()
    return {
        "plain": round(100 * plain, 2),
        "gain": scores,
        "comparisons": len(session.kept),
        "meter": [reading.verdict, reading.gain_interval],
    }


def one_set(name: str) -> dict:
    rows = load_split(name)
    persons = {"nearest": SEEDS[:2], "random": SEEDS, "next": SEEDS}
    found = {kind: [teach(rows, kind, seed) for seed in seeds] for kind, seeds in persons.items()}
    for kind, runs in found.items():
        print(
            kind, {n: round(np.mean([run["gain"][n] for run in runs]), 1) for n in MARKS}, end=" "
        )
        print("lowest", min(min(run["gain"].values()) for run in runs), flush=True)
    return found


def load_reduced(name: str) -> tuple:
    """At most 2,500 training and 1,000 test rows, 64 leading components of rows of length one."""
    if name == "banking77":
        file = np.load(data_folder() / "banking77_minilm.npz")
        X, y = file["X"].astype(np.float32), file["y"]
        X, test, y, test_y = train_test_split(X, y, test_size=0.3, random_state=0)
    else:
        X, y, test, test_y = load_dataset(name)[1:5]
    X, test = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (X, test))
    X, y, test, test_y = X[:2500], y[:2500], test[:1000], test_y[:1000]
    mean = X.mean(axis=0)
    directions = np.linalg.svd(X[:1500] - mean, full_matrices=False)[2][:64].T
    return (X - mean) @ directions, y, (test - mean) @ directions, test_y


def choose() -> dict:
    """Gains of each setting on other sets, and of random questions with those chosen."""
    from dualmetric.teach import session

    found: dict = {}
    for name in CHOOSING:
        rows = load_reduced(name)
        for label, (reg, margin, counts, queries) in SETTINGS.items():
            session.PRIOR_COUNTS, session.PRIOR_QUERIES = counts, queries
            runs = [teach(rows, "next", s, reg=reg, margin=margin)["gain"] for s in SEEDS]
            found.setdefault(label, {})[name] = runs
        session.PRIOR_COUNTS, session.PRIOR_QUERIES = PRIOR_COUNTS, PRIOR_QUERIES
        runs = [teach(rows, "random", seed)["gain"] for seed in SEEDS]
        found.setdefault("random", {})[name] = runs
    for label, sets in found.items():
        gains = np.array([[[run[n] for n in MARKS] for run in runs] for runs in sets.values()])
        means = dict(zip(MARKS, gains.mean(axis=(0, 1)).round(1).tolist(), strict=True))
        print(f"{label}: {means}, lowest {gains.min():.1f}, mean {gains.mean():.2f}", flush=True)
    return found


def large_session(n: int, d: int, n_judgements: int) -> tuple[Session, np.ndarray]:
    """Rows of 20 classes, and a session with so many judgements; and the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(20, size=n)
    noise = rng.standard_normal((n, d), dtype=np.float32)
    X = rng.standard_normal((20, d), dtype=np.float32)[y] + 2.5 * noise
    session = Session(X)
    made = []
    while len(made) < n_judgements:
        query = int(rng.integers(n))
        rows = np.append(rng.choice(np.flatnonzero(y == y[query]), 5), rng.choice(n, 5))
        made += [Judgement(query, int(r), bool(y[query] == y[r])) for r in rows if r != query]
    session._add(made)
    return session, y


def middle_and_p95(times: np.ndarray) -> list[float]:
    return [round(float(np.quantile(times, q)), 1) for q in (0.5, 0.95)]


def speed() -> dict:
    """Time of one more judgement, and of ranking all rows, beside one pass over them."""
    n, d, n_judgements = 100_000, 768, 1000
    session, y = large_session(n, d, n_judgements)
    rng = np.random.default_rng(1)
    vector = np.ones(d, dtype=np.float32)
    times: dict[str, list[float]] = {"pass": [], "metric": [], "rank": [], "ask": []}
    processor: dict[str, list[float]] = {name: [] for name in times}  # of all threads
    for _ in range(30):
        query, row = (int(number) for number in rng.choice(n, 2, replace=False))
        steps = {
            "pass": lambda: session.live.Z @ vector,
            "metric": lambda q=query, r=row: session.judge(q, r, bool(y[q] == y[r])),
            "rank": lambda q=query: session.live.nearest(q, 10),
            "ask": session.ask,
        }
        for name, step in steps.items():
            start, used = perf_counter(), process_time()
            step()
            times[name].append(1e3 * (perf_counter() - start))
            processor[name].append(1e3 * (process_time() - used))
    found = {name: middle_and_p95(np.array(t)) for name, t in times.items()}
    used = {name: middle_and_p95(np.array(t)) for name, t in processor.items()}
    print(f"milliseconds, median and p95: {found}; {len(session.kept)} comparisons")
    print(f"of the processor: {used}")
    passes = {name: round(found[name][0] / found["pass"][0], 2) for name in ("metric", "rank")}
    shape = {"rows": n, "features": d, "judgements": n_judgements, "comparisons": len(session.kept)}
    return {**shape, "milliseconds": found, "processor": used, "passes": passes}


def browser() -> dict:
    """Time from a click to the new order in Chromium, on the same rows, beside one pass."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import chromium
    from dualmetric.teach.content import Table
    from dualmetric.teach.notebook import Page
    from dualmetric.teach.server import Teaching

    session, y = large_session(100_000, 768, 1000)
    page = Page(Teaching(session, Table(session.X, None)))
    took, passes = [], []
    count = "Number(document.documentElement.dataset.acts ?? 0)"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        window = chromium.Browser(Path(profile))
        try:
            window.open(page.address)
            while len(took) < 60:
                n = window.run(count)
                window.press("n")
                window.wait(f"{count} > {n}")
                query = page.teaching.query
                for _ in page.teaching.asked.rows:
                    row = int(window.run("document.querySelector('.row.selected').dataset.row"))
                    n = window.run(count)
                    window.press("c" if y[row] == y[query] else "f")
                    window.wait(f"{count} > {n}")
                    took.append(float(window.run("document.documentElement.dataset.took")))
                    start = perf_counter()
                    session.live.Z @ np.ones(768, dtype=np.float32)
                    passes.append(1e3 * (perf_counter() - start))
        finally:
            window.close()
            page.stop()
    times = {"click": took, "pass": passes}
    found = {name: middle_and_p95(np.array(t)) for name, t in times.items()}
    print(f"milliseconds, median and p95: {found}")
    return {"milliseconds": found, "passes": round(found["click"][0] / found["pass"][0], 2)}


def part(name: str):
    def run() -> dict:
        return one_set(name)

    run.__doc__ = "mAP on the test part, by the number of judgements"
    return run


if __name__ == "__main__":
    run_parts(
        "teaching",
        {
            "choose": choose,
            **{name: part(name) for name in SETS},
            "speed": speed,
            "browser": browser,
        },
    )
