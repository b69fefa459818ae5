"""Matching: whether guarantees hold, probabilities are right, and how many matches are found.

    DUALMETRIC_DATA=... python benchmarks/matching.py [PART …]

Parts: guarantee (simulated pairs), records (product records), duplicates (time and memory). The
results are stored in results/matching.jsonl. metric-learn runs in an environment of its own
(``python benchmarks/peers.py install``).
"""

import json
import os
import resource
import subprocess
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

from _common import interpreter, run_parts
from dualmetric import Euclidean, Matcher, MetricCV, Pairs
from dualmetric.evaluation import verification_by_entity
from dualmetric.matching import Evidence, NotEnoughPairsError
from dualmetric.matching._calibration import calibration_error, fit_calibration, log_loss
from dualmetric.matching._search import close_pairs
from dualmetric.matching._thresholds import find_threshold
from supervision import RECORDS, load, rounded, texts, unit

DRAWS = 500
PRECISIONS = (0.99, 0.95, 0.9, 0.8)


# guarantee


def normal_pairs(rng: Any, n: int, share: float, per: int, weight: float) -> Evidence:
    """Distances of normal law around 0 and 3.5; entities in ``per`` pairs each have an effect.

    ``weight`` is the share of the variance that is due to the two entities of a pair.
    """
    same = rng.random(n) < share
    noise, entity = rng.normal(size=n), np.arange(2 * n).reshape(n, 2)
    if per:
        m = 2 * n // per
        entity = rng.integers(m, size=(n, 2))
        entity[:, 1] = np.where(entity[:, 0] == entity[:, 1], (entity[:, 1] + 1) % m, entity[:, 1])
        effect = rng.normal(size=m)[entity].sum(axis=1) / np.sqrt(2)
        noise = np.sqrt(weight) * effect + np.sqrt(1 - weight) * noise
    return Evidence.of(np.where(same, 0.0, 3.5) + noise, same, entity)


def normal_rates(t: float, share: float) -> dict[str, float]:
    """True rates of a threshold for such pairs."""
    recall, fpr = norm.cdf(t), norm.cdf(t - 3.5)
    precision = share * recall / (share * recall + (1 - share) * fpr)
    return {"precision": precision, "recall": recall, "fpr": fpr}


def hub_pairs(rng: Any, n: int, share: float, per: int, generic: float) -> Evidence:
    """Pairs of records on two sides; to a generic record on the left, all others are close."""
    same = rng.random(n) < share
    m = n // per
    left, right = rng.integers(m, size=n), m + rng.integers(m, size=n)
    is_generic = rng.random(m) < generic
    distance = rng.normal(size=n) + np.where(same | is_generic[left], 0.0, 5.0)
    return Evidence.of(distance, same, np.column_stack([left, right]))


def hub_rates(t: float, share: float, generic: float) -> dict[str, float]:
    """True rates of a threshold for such pairs."""
    recall = norm.cdf(t)
    fpr = generic * norm.cdf(t) + (1 - generic) * norm.cdf(t - 5)
    precision = share * recall / (share * recall + (1 - share) * fpr)
    return {"precision": precision, "recall": recall, "fpr": fpr}


ASKED = (
    ("precision", 0.95, None),
    ("precision", 0.99, None),
    ("precision", 0.9, 0.1),
    ("recall", 0.95, None),
    ("fpr", 0.01, None),
    ("fpr", 0.03, None),
)


def described(n: int, asked: tuple[str, float, float | None], hubs: bool) -> str:
    """Name of a result."""
    target, value, prevalence = asked
    text = f"{n} pairs, {target} {value}" + (f", prevalence {prevalence}" if prevalence else "")
    return text + (", hubs" if hubs else "")


def broken_share(
    drawn: Any, asked: tuple[str, float, float | None], hubs: bool, rates: Any, in_use: Any
) -> dict[str, float | None]:
    """Shares of draws whose threshold breaks its promise, and is found at all, and its recall."""
    target, value, prevalence = asked
    sign = -1.0 if target == "fpr" else 1.0
    broken = unnoted = 0
    recalls = []
    for pairs in drawn:
        try:
            found = find_threshold(pairs, target, value, 0.95, prevalence, hubs)
        except NotEnoughPairsError:
            continue
        truth = rates(found.distance, *in_use)
        recalls.append(truth["recall"])
        wrong = sign * (truth[target] - value) < 0
        broken += int(wrong)
        unnoted += int(wrong and sign * (found.bound_with_hubs - value) >= 0)
    return {
        "broken": broken / DRAWS,
        "broken_without_a_note": unnoted / DRAWS,
        "supported": len(recalls) / DRAWS,
        "recall": float(np.mean(recalls)) if recalls else None,
    }


def guarantee() -> dict[str, Any]:
    """Share of 500 draws of labelled pairs whose threshold breaks its promise; at most 5 %.

    By default and, for 2,000 pairs that share entities, also with ``hubs=True``. A threshold whose
    ``bound_with_hubs`` misses the target says so: this is the note.
    """
    designs: dict[str, Any] = {"independent": (normal_pairs, (0, 0.0), normal_rates, ())}
    for per, weight in ((4, 0.5), (10, 0.5), (20, 0.5), (20, 0.9)):
        name = f"each entity in {per} pairs, {100 * weight:.0f} % of the variance"
        designs[name] = (normal_pairs, (per, weight), normal_rates, ())
    for per, generic in ((2, 0.05), (10, 0.05), (10, 0.01), (10, 0.015)):
        name = f"{100 * generic:g} % generic records, each in {per} pairs"
        designs[name] = (hub_pairs, (per, generic), hub_rates, (generic,))
    with ProcessPoolExecutor() as pool:
        found = dict(zip(designs, pool.map(of_design, designs.values()), strict=True))
    for name, results in found.items():
        print(name, json.dumps(rounded(results)), flush=True)
    return found


def of_design(design: tuple[Any, ...]) -> dict[str, Any]:
    """Broken shares of all that is asked for, with pairs of one design."""
    draw, options, rates, more = design
    found = {}
    for n, share in ((2000, 0.4), (6000, 0.2)):
        for asked in ASKED[: 5 if n == 6000 else None]:
            plain = n == 6000 or not options[0] or asked[0] == "recall" or asked[2]
            for hubs in (False,) if plain else (False, True):
                rng = np.random.default_rng(0)
                drawn = (draw(rng, n, share, *options) for _ in range(DRAWS))
                in_use = (asked[2] or share, *more)
                results = broken_share(drawn, asked, hubs, rates, in_use)
                found[described(n, asked, hubs)] = results
    return found


# records


def rows_of(name: str, data: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Rows of each kind, and the widths of their blocks."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    lines = texts(name)
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=2, sublinear_tf=True)
    words = TfidfVectorizer(min_df=2, sublinear_tf=True)
    grams = unit(sp.hstack([letters.fit_transform(lines), words.fit_transform(lines)], "csr"))
    both = sp.hstack([grams, sp.csr_matrix(data["X"])], "csr", dtype=np.float32)
    widths = [grams.shape[1], data["X"].shape[1]]
    return {"MiniLM": (data["X"], None), "n-grams": (grams, None), "both": (both, widths)}


def at_precision(valid: Evidence, distance: np.ndarray, same: np.ndarray) -> dict[str, Any]:
    """Test precision and recall of guaranteed thresholds, or how many pairs are missing."""
    found: dict[str, Any] = {}
    for precision in PRECISIONS:
        try:
            t = find_threshold(valid, "precision", precision, 0.95).distance
        except NotEnoughPairsError as error:
            found[str(precision)] = {"supported": False, "needed": error.needed, "recall": 0.0}
            continue
        found[str(precision)] = {"supported": True, **test_rates(distance <= t, same)}
    return found


def ranking(distance: np.ndarray, same: np.ndarray) -> dict[str, float]:
    """Largest recall at each precision, with the best threshold for the test pairs themselves.

    It promises nothing, and compares rankings where guarantees are out of reach.
    """
    order = np.argsort(distance, kind="stable")
    hits = np.cumsum(same[order])
    share = hits / np.arange(1, len(hits) + 1)
    return {
        str(precision): float(np.max(hits, where=share >= precision, initial=0) / hits[-1])
        for precision in PRECISIONS
    }


def test_rates(accepted: np.ndarray, same: np.ndarray) -> dict[str, Any]:
    """Precision and recall of a decision."""
    hits = int(np.count_nonzero(accepted & same))
    precision = hits / accepted.sum() if accepted.any() else None
    return {"precision": precision, "recall": hits / int(same.sum())}


def measured(matcher: Matcher, X: Any, test: Pairs) -> dict[str, Any]:
    """Scores of a matcher on test pairs."""
    left, right = (X[column] for column in np.asarray(test.index).T)
    distance, same = matcher.distance(left, right), np.asarray(test.same)
    scores = matcher.evaluate(X, test)
    probability = matcher.predict_proba(left, right)[:, 1]
    return {
        "form": matcher.calibration_.form,
        "average_precision": scores.average_precision,
        "log_loss": scores.log_loss,
        "calibration_error": scores.calibration_error,
        "calibration_error_by_chance": error_by_chance(probability),
        "at": at_precision(matcher.pairs_, distance, same),
        "ranking": ranking(distance, same),
    }


def error_by_chance(probability: np.ndarray) -> float:
    """Mean calibration error of labels that are drawn from the probabilities: of perfect ones."""
    drawn = np.random.default_rng(0).random((200, len(probability))) < probability
    return float(np.mean([calibration_error(probability, same) for same in drawn]))


def plain_logistic(X: Any, parts: dict[str, Pairs]) -> dict[str, float]:
    """Logistic regression on the plain cosine, fitted to training and validation pairs."""
    metric = Euclidean("cosine").fit(X).metric_

    def of(name: str) -> tuple[np.ndarray, np.ndarray]:
        left, right = (X[column] for column in np.asarray(parts[name].index).T)
        return np.asarray(metric.distance(left, right), float) ** 2 / 2, parts[name].same

    (a, b), (c, d) = of("train"), of("valid")
    fitted = fit_calibration("logistic", np.r_[a, c], np.r_[b, d])
    value, same = of("test")
    odds = fitted.log_odds(value)
    probability = 1 / (1 + np.exp(-odds))
    error = calibration_error(probability, same)
    return {"log_loss": log_loss(odds, same), "calibration_error": error}


def itml(data: dict[str, Any], parts: dict[str, Pairs]) -> dict[str, Any]:
    """metric-learn's ITML: its own thresholds, and the same procedure as here."""
    python = interpreter("metric-learn")
    if python is None:
        raise FileNotFoundError("install metric-learn: python benchmarks/peers.py install")
    arrays = {"X": data["X"]}
    for name, pairs in parts.items():
        arrays |= {f"{name}_pairs": pairs.index, f"{name}_same": pairs.same}
    script = Path(__file__).with_name("_metric_learn_matching.py")
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/in.npz", **arrays)
        command = [python, script, f"{folder}/in.npz", f"{folder}/out.npz", *map(str, PRECISIONS)]
        one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run(command, env=os.environ | one, check=True)
        with np.load(f"{folder}/out.npz") as file:
            out = dict(file)
    valid, test = parts["valid"], parts["test"]
    evidence = Evidence.of(out["valid"], valid.same, valid.index)
    found = {"setting": out["setting"].tolist()}
    found["same procedure"] = at_precision(evidence, out["test"], test.same)
    found["ranking"] = ranking(out["test"], test.same)
    found["calibrate_threshold"] = {
        str(precision): test_rates(out["test"] <= limit, test.same)
        for precision, limit in zip(PRECISIONS, out["limits"], strict=True)
    }
    return found


def records() -> dict[str, Any]:
    """Test pairs of product records: calibration, and recall at guaranteed precisions."""
    warnings.filterwarnings("ignore", ".*both as the same and as different")
    found: dict[str, Any] = {}
    for name in RECORDS:
        data = load(name)
        n = len(data["X"])
        parts = {
            part: Pairs(data[f"{part}_pairs"], data[f"{part}_same"]).check(n)
            for part in ("train", "valid", "test")
        }
        result: dict[str, Any] = {part: len(pairs) for part, pairs in parts.items()}
        for kind, (X, widths) in rows_of(name, data).items():
            plain = Matcher(Euclidean("cosine").fit(X)).fit(X, parts["valid"])
            begin = process_time()
            search = MetricCV(random_state=0, blocks=widths).fit(X, parts["train"])
            seconds = process_time() - begin
            learned = Matcher(search).fit(X, parts["valid"])
            result[kind] = {
                "logistic regression of the cosine": plain_logistic(X, parts),
                "cosine": measured(plain, X, parts["test"]),
                "learned": measured(learned, X, parts["test"]) | {"cpu_seconds": seconds},
            }
            vectors = X if sp.issparse(X) else search.transform(X)
            if not sp.issparse(X):
                protocol = verification_by_entity(vectors, parts["test"], n_folds=5)
                result[kind]["protocol"] = {
                    "tar": protocol.tar.tolist(), "far": protocol.far.tolist()
                }  # fmt: skip
            print(name, kind, json.dumps(rounded(result[kind])), flush=True)
        result["ITML on MiniLM"] = itml(data, parts)
        print(name, json.dumps(rounded(result["ITML on MiniLM"])), flush=True)
        found[name] = result
    return without_nan(rounded(found))


def without_nan(value: Any) -> Any:
    """NaN as null."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and value != value else value


# duplicates


def duplicates() -> dict[str, Any]:
    """Pairs within a distance among 100,000 × 256 rows, and FAISS's exact search for k = 10."""
    import faiss

    n, d, k = 100_000, 256, 10
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[n // 2 : n // 2 + 5000] = X[:5000] + 0.05 * rng.normal(size=(5000, d)).astype(np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def timed(work: Any) -> tuple[Any, dict[str, float]]:
        wall, cpu = perf_counter(), process_time()
        found = work()
        seconds = {"seconds": perf_counter() - wall, "cpu_seconds": process_time() - cpu}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        return found, {**seconds, "peak_megabytes": peak / 1024}

    def flat() -> Any:
        searched = faiss.IndexFlatL2(d)
        searched.add(X)
        return searched.search(X, k + 1)

    close_pairs(X[:2000], 2.0, k)  # load the libraries
    (index, _, _), ours = timed(lambda: close_pairs(X, 2.0, k))
    (squares, near), theirs = timed(flat)
    # nearly every row has more than k neighbours
    (loose, _, full), many = timed(lambda: close_pairs(X, 20.0, k))
    rows = np.repeat(np.arange(n), k + 1)
    close = (squares.ravel() <= 4.0) & (near.ravel() != rows)
    listed = np.sort(np.column_stack([rows, near.ravel()])[close], axis=1)
    return {
        "rows": n, "features": d, "k": k, "pairs": len(index),
        "same pairs as FAISS": bool(np.array_equal(np.unique(listed, axis=0), index)),
        "ours": ours, "IndexFlatL2": theirs,
        "ratio": ours["seconds"] / theirs["seconds"],
        "cpu_ratio": ours["cpu_seconds"] / theirs["cpu_seconds"],
        "rows_megabytes": X.nbytes / 2**20,
        "loose": many | {"pairs": len(loose), "full": full},
    }  # fmt: skip


if __name__ == "__main__":
    run_parts("matching", {"guarantee": guarantee, "records": records, "duplicates": duplicates})
