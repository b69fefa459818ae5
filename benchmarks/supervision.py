"""Learning from pairs, clicks, judgements, few labels, and for new classes: quality and time.

    DUALMETRIC_DATA=... python benchmarks/supervision.py [--seeds N] [PART …]

Without names every part runs. All settings are chosen without the test part: those of this library
by `MetricCV`, those of others on validation pairs or held-out queries. The results of each part are
stored in results/supervision.jsonl.

metric-learn runs in an environment of its own (``python benchmarks/peers.py install``).
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp

from _common import class_halves, data_folder, interpreter, load_split, side_by_side, store
from dualmetric import DuRP, Euclidean, Metric, MetricCV, mean_average_precision
from dualmetric._arrays.namespace import blocks_of
from dualmetric.evaluation import hit_rate, map_at_r, ndcg
from dualmetric.supervision import Pairs, Positives, Relevance, Triplets, mine_negatives

RECORDS = ("abt_buy", "amazon_google")
SEARCHED = ("scifact", "cranfield", "stackfaq")
DENSE = ("digits", "usps", "isolet1", "20news_use512", "fashion_mnist_13k", "caltech101_top30_bovw")
NEW_CLASSES = ("usps", "isolet1", "20news_use512", "fashion_mnist_13k", "caltech101_top30_bovw")
LIMIT = 300  # CPU seconds of each of metric-learn's methods on a set


def on_clock(work: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    """What the work returns, and the CPU seconds of all threads."""
    begin = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few active triplets, and no convergence
        found = work(*given)
    return found, process_time() - begin


def unit(X: Any) -> Any:
    """Rows of length one, in float32."""
    from sklearn.preprocessing import normalize

    return normalize(X.astype(np.float32))


def load(name: str) -> dict[str, Any]:
    """Arrays of a set; vectors are rows of length one."""
    with np.load(data_folder() / f"{name}_minilm.npz", allow_pickle=False) as file:
        data = {key: file[key] for key in file}
    return data | {key: unit(data[key]) for key in ("X", "Q", "D") if key in data}


def texts(name: str, kind: str | None = None) -> list[str]:
    """Texts of a set in the order of its rows; ``kind`` is "query" or "doc"."""
    with lzma.open(data_folder() / f"{name}.texts.jsonl.xz", "rt", encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if line.get("kind") == kind]
    return [line["text"] for line in sorted(lines, key=lambda line: line["row"])]


def rounded(value: Any) -> Any:
    """Numbers with four digits after the point."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return round(float(value), 4) if isinstance(value, float | np.floating) else value


def choice(model: MetricCV) -> dict[str, Any]:
    """What MetricCV chose, and what it says about it."""
    params = {k: v for k, v in model.best_params_.items() if k not in ("random_state", "max_rows")}
    return {
        "chosen": {"estimator": type(model.best_estimator_).__name__, **params},
        "held_out": model.best_score_,
        "gain_interval": model.gain_interval_,
        "refit_seconds": model.refit_time_,
    }


def warm_up() -> None:
    """Compile, or read from the cache, what fits need."""
    X = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    y = np.arange(60) % 3
    pairs = np.random.default_rng(1).permutation(60).reshape(-1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for rows in (X, sp.csr_matrix(X)):
            MetricCV(n_triplets=500).fit(rows, y)
            MetricCV(n_triplets=500).fit(rows, Pairs(pairs, np.arange(30) % 2))
            MetricCV(n_triplets=500).fit(rows, Positives(pairs % 30, queries=rows[30:]))


# pairs


def pair_scores(metric: Metric, X: Any, index: np.ndarray, same: np.ndarray) -> dict[str, float]:
    """Average precision and area under the curve, by scikit-learn."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    close = -metric.distance(X[index[:, 0]], X[index[:, 1]])
    return {"ap": average_precision_score(same, close), "auc": roc_auc_score(same, close)}


def plain_pairs(X: Any, index: np.ndarray, same: np.ndarray) -> dict[str, Any]:
    """Scores of the plain distances; sparse rows are not centred."""
    names = {"plain": "euclidean", "plain, cosine": "cosine"}
    return {
        name: pair_scores(Euclidean(distance=distance).fit(X).metric_, X, index, same)
        for name, distance in names.items()
    }


def logistic(data: dict[str, Any], scaled: bool) -> dict[str, Any]:
    """Logistic regression on |a − b| and a·b of each feature; C by the validation pairs."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score
    from sklearn.preprocessing import StandardScaler

    def features(part: str) -> np.ndarray:
        left, right = data["X"][data[f"{part}_pairs"].T]
        return np.hstack([np.abs(left - right), left * right])

    def tuned() -> tuple[float, float, np.ndarray]:
        train, valid, test = map(features, ("train", "valid", "test"))
        if scaled:
            scale = StandardScaler().fit(train).transform
            train, valid, test = map(scale, (train, valid, test))
        tried = []
        for C in np.logspace(-4, 2, 7) if scaled else np.logspace(-1, 5, 7):
            model = LogisticRegression(C=C, max_iter=500).fit(train, data["train_same"])
            held_out = average_precision_score(data["valid_same"], model.decision_function(valid))
            tried.append((held_out, float(C), model.decision_function(test)))
        return max(tried, key=lambda one: one[0])

    (held_out, C, values), seconds = on_clock(tuned)
    score = average_precision_score(data["test_same"], values)
    return {"ap": score, "C": C, "held_out": held_out, "cpu_seconds": seconds}


def pairs_of_digits() -> dict[str, Any]:
    """Random pairs of digits: 5,000, 1,500 and 3,000 pairs of three parts of the rows."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    parts = np.split(rng.permutation(len(X)), [900, 1200])
    data: dict[str, Any] = {"X": X.astype(np.float32)}
    for name, rows, n in zip(("train", "valid", "test"), parts, (5000, 1500, 3000), strict=True):
        drawn = np.unique(np.sort(rng.choice(rows, (2 * n, 2)), axis=1), axis=0)
        index = rng.permutation(drawn[drawn[:, 0] != drawn[:, 1]])[:n]
        data[f"{name}_pairs"] = index
        data[f"{name}_same"] = y[index[:, 0]] == y[index[:, 1]]
    return data


def pairs_of(name: str) -> dict[str, Any]:
    """Pairs of a set, with the valid and test part."""
    return pairs_of_digits() if name == "digits" else load(name)


def pairs(seeds: int) -> dict[str, Any]:
    """Average precision on test pairs: MetricCV, the plain distance and logistic regression."""
    found: dict[str, Any] = {}
    for name in (*RECORDS, "digits"):
        data = pairs_of(name)
        X, test = data["X"], (data["test_pairs"], data["test_same"] > 0)
        known = Pairs(data["train_pairs"], data["train_same"])
        result = plain_pairs(X, *test)
        result["logistic"] = logistic(data, scaled=False)
        result["logistic, standardised"] = logistic(data, scaled=True)
        searches = {"MetricCV": {}}
        if name == "digits":
            lifted = {"priors": (None, "identity"), "shrinkages": (1.0, 0.5)}
            searches["MetricCV, lifted as well"] = lifted
        for label, options in searches.items():
            result[label] = []
            for seed in range(seeds):
                search = MetricCV(random_state=seed, **options)
                _, seconds = on_clock(search.fit, X, known)
                scores = pair_scores(search.metric_, X, *test)
                result[label].append({**scores, "cpu_seconds": seconds, **choice(search)})
        found[name] = result
        print(name, json.dumps(rounded(result)), flush=True)
    return found


def metric_learn(seeds: int) -> dict[str, Any]:
    """ITML and MMC of metric-learn on the same pairs, tuned on the validation pairs."""
    python = interpreter("metric-learn")
    if python is None:
        raise FileNotFoundError("install metric-learn: python benchmarks/peers.py install")
    script = Path(__file__).with_name("_metric_learn_pairs.py")
    found: dict[str, Any] = {}
    for name in (*RECORDS, "digits"):
        data = pairs_of(name)
        arrays = {key: data[key] for key in data if key == "X" or key.endswith(("_pairs", "_same"))}
        with tempfile.TemporaryDirectory() as folder:
            np.savez(f"{folder}/pairs.npz", **arrays)
            for method in ("ITML", "MMC"):
                lines, finished = limited([python, script, f"{folder}/pairs.npz", method])
                by = "valid_auc" if name == "digits" else "valid_ap"
                done = [line for line in lines if by in line]
                best = max(done, key=lambda line: line[by]) if done else {}
                best["cpu_seconds_of_all"] = sum(line["cpu_seconds"] for line in done)
                best |= {"settings": len(done), "finished": finished, "limit": LIMIT}
                found.setdefault(name, {})[method] = best
                print(name, method, json.dumps(rounded(best)), flush=True)
    return found


def limited(command: list[Any]) -> tuple[list[dict[str, Any]], bool]:
    """JSON lines that a command prints until its CPU time is over, and whether it finished."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        ["prlimit", f"--cpu={LIMIT}", *command],
        env=os.environ | one_thread,
        stdout=subprocess.PIPE,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return lines, done.returncode == 0


# queries and documents


def judgements(data: dict[str, Any], part: str) -> np.ndarray:
    """Rows of query, document and grade."""
    columns = [data[f"{part}_{key}"].astype(np.int64) for key in ("q", "d", "grade")]
    return np.column_stack(columns)


def parts_of_test(data: dict[str, Any]) -> dict[str, np.ndarray]:
    """Test judgements: all, and by whether a query has a document that was judged in training."""
    test, train = judgements(data, "test"), judgements(data, "train")
    met = np.unique(test[np.isin(test[:, 1], train[:, 1]) & (test[:, 2] > 0), 0])
    seen = np.isin(test[:, 0], met)
    parts = {"all": test, "seen documents": test[seen], "new documents": test[~seen]}
    return {name: rows for name, rows in parts.items() if len(rows)}


def known_in_training(data: dict[str, Any], Q: Any) -> Positives | Relevance:
    """Judgements to learn from: graded where there are several grades."""
    train = judgements(data, "train")
    if len(np.unique(train[:, 2])) > 1:
        return Relevance(train, queries=Q)
    return Positives(train[:, :2], queries=Q)


def search_scores(data: dict[str, Any], metric: Metric, Q: Any, D: Any) -> dict[str, float]:
    """nDCG@10 of a metric on each part of the test queries."""
    parts = parts_of_test(data).items()
    return {name: Relevance(rows, queries=Q).score(metric, D) for name, rows in parts}


def vector_scores(data: dict[str, Any], Q: Any, D: Any) -> dict[str, float]:
    """nDCG@10 of transformed queries and documents."""
    return {name: ndcg(D, rows, Q) for name, rows in parts_of_test(data).items()}


def learned_search(data: dict[str, Any], Q: Any, D: Any, seed: int, **options: Any) -> Any:
    """A fitted MetricCV, and its scores and CPU seconds."""
    search = MetricCV(random_state=seed, **options)
    _, seconds = on_clock(search.fit, D, known_in_training(data, Q))
    result = search_scores(data, search.metric_, Q, D) | {"cpu_seconds": seconds} | choice(search)
    return search, result | {"held_out_new_documents": search.new_documents_}


def retrieval(seeds: int) -> dict[str, Any]:
    """nDCG@10 on test queries: MetricCV, held out in two ways, and its map of queries alone."""
    found: dict[str, Any] = {}
    for name in SEARCHED:
        data = load(name)
        Q, D = data["Q"], data["D"]
        counts = {part: len(np.unique(rows[:, 0])) for part, rows in parts_of_test(data).items()}
        plain = vector_scores(data, Q, D)
        centred = Euclidean(distance="cosine").fit(D).metric_
        result: dict[str, Any] = {"queries": counts, "plain": plain}
        result["plain, centred cosine"] = search_scores(data, centred, Q, D)
        for label, cv in (("default", None), ('cv="queries"', "queries")):
            result[label] = []
            for seed in range(seeds):
                search, scores = learned_search(data, Q, D, seed, cv=cv)
                if name == "scifact":
                    asked = search.metric_.query_adapter(D).transform(Q)
                    # documents have length one: distances rank as inner products do
                    adapted = vector_scores(data, asked, D)
                    gain = scores["all"] - plain["all"]
                    share = (adapted["all"] - plain["all"]) / gain if gain else None
                    scores["query_adapter"] = adapted | {"share_of_gain": share}
                result[label].append(scores)
        found[name] = result
        print(name, json.dumps(rounded(result)), flush=True)
    return found


def torch_adapter(seeds: int) -> dict[str, Any]:
    """nDCG@10 of a linear adapter by torch, tuned on a quarter of the training queries."""
    try:
        import torch
    except ImportError as error:
        return {"skipped": str(error)}
    torch.set_num_threads(1)  # fastest for matrices of this size
    found: dict[str, Any] = {"torch": torch.__version__}
    for name in SEARCHED:
        data = load(name)
        found[name] = []
        for seed in range(seeds):
            (W, both, setting), seconds = on_clock(tuned_adapter, data, seed)
            documents = data["D"] @ W if both else data["D"]
            scores = vector_scores(data, unit(data["Q"] @ W), unit(documents))
            found[name].append(scores | {"cpu_seconds": seconds, "chosen": setting})
        print(name, json.dumps(rounded(found[name])), flush=True)
    return found


def tuned_adapter(data: dict[str, Any], seed: int) -> tuple[np.ndarray, bool, dict[str, Any]]:
    """The matrix, whether it is for documents, too, and the setting that was chosen."""
    train = judgements(data, "train")
    queries = np.random.default_rng(seed).permutation(np.unique(train[:, 0]))
    held_out = np.isin(train[:, 0], queries[: len(queries) // 4])
    tried = []
    for both in (True, False):
        for rate in (3e-5, 1e-4, 3e-4, 1e-3):
            for temperature in (0.02, 0.05, 0.1):
                setting = {"rate": rate, "temperature": temperature}
                epochs = trained(data, train[~held_out], both, seed, **setting)
                for epoch, W in enumerate(epochs, start=1):
                    if epoch % 5 == 0:
                        Q, D = (unit(data["Q"] @ W), unit(data["D"] @ W if both else data["D"]))
                        score = ndcg(D, train[held_out], Q)
                        tried.append((score, both, {**setting, "epochs": epoch}))
    score, both, setting = max(tried, key=lambda one: one[0])
    n_epochs = setting["epochs"]
    rest = {key: setting[key] for key in ("rate", "temperature")}
    *_, W = trained(data, train, both, seed, n_epochs=n_epochs, **rest)
    return W, both, {**setting, "documents": both, "held_out": score, "tried": len(tried)}


def trained(
    data: dict[str, Any],
    known: np.ndarray,
    both: bool,
    seed: int,
    rate: float,
    temperature: float,
    n_epochs: int = 40,
) -> Any:
    """The matrix after each epoch: InfoNCE with the batch's and four hard negatives, AdamW."""
    import torch
    from torch.nn.functional import cross_entropy, normalize

    rng = np.random.default_rng(seed)
    Q, D = torch.from_numpy(data["Q"]), torch.from_numpy(data["D"])
    index = known[known[:, 2] > 0, :2]
    relevant = sp.coo_array((np.ones(len(index), bool), index.T), (len(Q), len(D))).toarray()
    mined = mine_negatives(data["D"], index, data["Q"], depth=50).pairs
    hard = np.zeros((len(Q), 50), np.int64)
    hard[np.unique(mined[:, 0])] = mined[:, 1].reshape(-1, 50)
    W = torch.nn.Parameter(torch.eye(D.shape[1]))
    optimizer = torch.optim.AdamW([W], lr=rate)
    for _ in range(n_epochs):
        for batch in np.array_split(rng.permutation(index), -(-len(index) // 64)):
            asked, right = batch.T
            wrong = hard[asked[:, None], rng.integers(50, size=(len(asked), 4))].ravel()
            documents = np.concatenate([right, wrong])
            q = normalize(Q[asked] @ W, dim=1)
            d = normalize(D[documents] @ W, dim=1) if both else D[documents]
            also = relevant[asked[:, None], documents]
            np.fill_diagonal(also, False)
            values = (q @ d.T / temperature).masked_fill(torch.from_numpy(also), -torch.inf)
            loss = cross_entropy(values, torch.arange(len(asked)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield W.detach().numpy().copy()


# texts: wide rows, and blocks


def wide(seeds: int) -> dict[str, Any]:
    """Average precision on test pairs of n-grams of texts; CPU time over TruncatedSVD(50)."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    found: dict[str, Any] = {}
    for name in RECORDS:
        data, lines = load(name), texts(name)
        letters = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(3, 5), min_df=2, sublinear_tf=True
        )
        words = TfidfVectorizer(min_df=2, sublinear_tf=True)
        parts = [letters.fit_transform(lines), words.fit_transform(lines)]
        X = unit(sp.hstack(parts, format="csr"))
        test = data["test_pairs"], data["test_same"] > 0
        known = Pairs(data["train_pairs"], data["train_same"])
        result: dict[str, Any] = {"features": X.shape[1]}
        result |= plain_pairs(X, *test)
        result["MetricCV"] = []
        for seed in range(seeds):
            search = MetricCV(random_state=seed)
            _, seconds = on_clock(search.fit, X, known)
            scores = pair_scores(search.metric_, X, *test)
            result["MetricCV"].append({**scores, "cpu_seconds": seconds, **choice(search)})
        # a fit with the settings that were chosen; the shortest of three, because cores are shared
        model, svd = search.best_estimator_, TruncatedSVD(50, random_state=0)
        turns = [(on_clock(model.fit, X, known)[1], on_clock(svd.fit, X)[1]) for _ in range(3)]
        fit, least = np.min(turns, axis=0)
        result["cpu_seconds"] = {"fit": fit, "svd": least, "ratio": fit / least}
        found[name] = result
        print(name, json.dumps(rounded(result)), flush=True)
    return found


def blocks(seeds: int) -> dict[str, Any]:
    """nDCG@10 of words (tf-idf) beside MiniLM as two blocks, default settings."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    found: dict[str, Any] = {}
    for name in ("scifact", "cranfield"):
        data = load(name)
        weigh = TfidfVectorizer(stop_words="english", sublinear_tf=True)
        words_of_documents = weigh.fit_transform(texts(name, "doc"))
        words_of_queries = weigh.transform(texts(name, "query"))
        parts = ((words_of_queries, data["Q"]), (words_of_documents, data["D"]))
        Q, D = (sp.hstack(part, format="csr", dtype=np.float32) for part in parts)
        widths = [words_of_documents.shape[1], data["D"].shape[1]]
        result: dict[str, Any] = {
            "features": widths,
            "MiniLM": vector_scores(data, data["Q"], data["D"]),
            # long queries rank by the inner product, in which empty documents are last
            "words": vector_scores(data, 1e3 * words_of_queries, words_of_documents),
            "DuRP": [],
        }
        for seed in range(seeds):
            model = DuRP(blocks=widths, random_state=seed)
            _, seconds = on_clock(model.fit, D, known_in_training(data, Q))
            scores = search_scores(data, model.metric_, Q, D)
            result["DuRP"].append(scores | {"cpu_seconds": seconds, "weights": weights(model)})
        if "blocks" in MetricCV().get_params():
            result["MetricCV"] = []
            for seed in range(seeds):
                search, scores = learned_search(data, Q, D, seed, blocks=widths)
                result["MetricCV"].append(scores | {"weights": weights(search)})
        found[name] = result
        print(name, json.dumps(rounded(result)), flush=True)
    return found


def weights(model: Any) -> Any:
    """The weight of each block."""
    return getattr(getattr(model, "best_estimator_", model), "block_weights_", None)


# time


def mining(seeds: int) -> dict[str, Any]:
    """Seconds of mining 10,000 queries × 100,000 documents × 512, over a product and top-k."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(100_000, 512)).astype(np.float32)
    Q = rng.normal(size=(10_000, 512)).astype(np.float32)
    positives = np.column_stack([np.arange(10_000), rng.integers(100_000, size=10_000)])
    k = 102  # as mining has it: the depth, the one that is known, and the query itself
    blocks = list(blocks_of(D, len(Q), 2 * D.itemsize * len(D)))  # as mining has them

    def plain() -> None:
        for block in blocks:
            np.argpartition(-(Q[block] @ D.T), k, axis=1)[:, :k]

    seconds = side_by_side(
        seeds, plain=plain, mining=lambda: mine_negatives(D, positives, queries=Q)
    )
    return {
        "seconds": seconds,
        "ratio": seconds["mining"] / seconds["plain"],
        "blocks": len(blocks),
    }


def fits(seeds: int) -> dict[str, Any]:
    """Seconds of a fit from 100,000 pairs or clicks, and from 100,000 triplets."""
    rng = np.random.default_rng(0)
    n, d, N = 20_000, 256, 100_000
    y = rng.integers(500, size=n)
    X = unit(rng.normal(size=(500, d))[y] + 1.5 * rng.normal(size=(n, d)))
    order = np.argsort(y, kind="stable")
    starts, sizes = np.searchsorted(y[order], np.arange(500)), np.bincount(y)

    def partner(rows: np.ndarray) -> np.ndarray:
        """Another row of the class of each."""
        found = order[starts[y[rows]] + rng.integers(sizes[y[rows]])]
        return np.where(found == rows, order[starts[y[rows]]], found)

    rows, far = rng.integers(n, size=(2, 2 * N))
    near = partner(rows)
    fine = np.flatnonzero((near != rows) & (y[far] != y[rows]))[:N]
    rows, near, far = rows[fine], near[fine], far[fine]
    same = np.arange(N) % 2 == 0
    asked = np.repeat(np.arange(10_000), 10)
    clicked = partner(asked)
    clicks = np.column_stack([asked, clicked])[clicked != asked]
    known = {
        "triplets": Triplets(np.column_stack([rows, near, far])),
        "pairs": Pairs(np.column_stack([rows, np.where(same, near, far)]), same),
        "clicks": Positives(clicks),
    }
    options = {"prior": "identity", "distance": "cosine", "n_triplets": N, "random_state": 0}
    work = {
        kind: lambda given=given: DuRP(**options).fit(X, given) for kind, given in known.items()
    }
    work["mining"] = lambda: mine_negatives(X, clicks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        seconds = side_by_side(seeds, **work)
    return {
        "rows": n,
        "features": d,
        "clicks": len(clicks),
        "seconds": seconds,
        "pairs / triplets": seconds["pairs"] / seconds["triplets"],
        "clicks / (triplets + mining)": seconds["clicks"]
        / (seconds["triplets"] + seconds["mining"]),
    }


# labels


def new_classes(seeds: int) -> dict[str, Any]:
    """mAP on test rows of classes that were not learned from: MetricCV(cv="classes")."""
    found: dict[str, Any] = {}
    for name in NEW_CLASSES:
        rows: dict[str, list[Any]] = {"plain cosine": [], "MetricCV": [], "chosen": []}
        for seed, (X, y, X_test, y_test) in class_halves(name, seeds):
            search = MetricCV(cv="classes", random_state=seed)
            _, seconds = on_clock(search.fit, X, y)
            plain = Euclidean("cosine").fit(X)
            for label, model in (("plain cosine", plain), ("MetricCV", search)):
                score = mean_average_precision(model.transform(X_test), y_test)
                rows[label].append(100 * score)
            rows["chosen"].append(choice(search) | {"cpu_seconds": seconds})
        found[name] = rows
        print(name, json.dumps(rounded(rows)), flush=True)
    found["banking77"] = banking(seeds)
    print("banking77", json.dumps(rounded(found["banking77"])), flush=True)
    return found


def banking(seeds: int) -> dict[str, Any]:
    """Recall@1 (hit rate) and MAP@R on classes of banking77 that were not learned from."""
    X, y, X_test, y_test = load_split("banking77_minilm")

    def scores(rows: Any) -> dict[str, float]:
        return {"recall@1": hit_rate(rows, y_test, k=1), "MAP@R": map_at_r(rows, y_test)}

    result: dict[str, Any] = {"plain cosine": scores(X_test), "MetricCV": []}
    for seed in range(seeds):
        search = MetricCV(cv="classes", random_state=seed)
        _, seconds = on_clock(search.fit, X, y)
        found = scores(search.transform(X_test)) | {"cpu_seconds": seconds}
        result["MetricCV"].append(found | choice(search))
    return result


def few_labels(seeds: int) -> dict[str, Any]:
    """mAP on test rows from 5, 10 and 50 labels per class, beside a tuned ridge and LDA."""
    found: dict[str, Any] = {}
    for name in DENSE:
        X_train, y_train, X_test, y_test = load_split(name)
        fewest = np.unique(y_train, return_counts=True)[1].min()
        for per_class in (each for each in (5, 10, 50) if each < fewest):
            result: dict[str, list[float]] = {}
            for seed in range(seeds):
                order = np.random.default_rng(seed).permutation(len(y_train))
                chosen = [order[y_train[order] == k][:per_class] for k in np.unique(y_train)]
                rows = np.sort(np.concatenate(chosen))
                X, y = X_train[rows], y_train[rows]
                for label, transform in few_label_methods(X, y, seed).items():
                    score = mean_average_precision(transform(X_test), y_test)
                    result.setdefault(label, []).append(100 * score)
            found[f"{name}, {per_class}"] = result
            means = {label: round(float(np.mean(values)), 1) for label, values in result.items()}
            print(name, per_class, means, flush=True)
    methods = list(result)
    found["mean"] = {
        label: np.mean([np.mean(one[label]) for one in found.values()]) for label in methods
    }
    print("mean", rounded(found["mean"]), flush=True)
    return found


def few_label_methods(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Callable]:
    """Transformations to be compared; those of others also at length one, centred or not."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import RidgeClassifierCV

    size = float(np.square(X - X.mean(axis=0)).sum(axis=1).mean())
    penalties = size * np.logspace(-4, 3, 15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        search = MetricCV(random_state=seed).fit(X, y)
        peers = {"ridge": RidgeClassifierCV(penalties).fit(X, y).decision_function}
        for shrinkage in ("auto", 0.1):
            lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage)
            peers[f"LDA {shrinkage}"] = lda.fit(X, y).transform
    found = {"plain cosine": Euclidean("cosine").fit(X).transform, "MetricCV": search.transform}
    for label, transform in peers.items():
        mean = transform(X).mean(axis=0)
        found[label] = transform
        found[f"{label}, cosine"] = lambda rows, of=transform: unit(of(rows))
        found[f"{label}, centred cosine"] = lambda rows, of=transform, at=mean: unit(of(rows) - at)
    return found


PARTS: dict[str, tuple[Callable[[int], Any], int]] = {
    "pairs": (pairs, 3),
    "metric_learn": (metric_learn, 1),
    "retrieval": (retrieval, 3),
    "torch_adapter": (torch_adapter, 1),
    "wide": (wide, 3),
    "blocks": (blocks, 3),
    "mining": (mining, 3),
    "fits": (fits, 3),
    "new_classes": (new_classes, 5),
    "few_labels": (few_labels, 5),
}
"""What can be run, and how many seeds (or repeats, of what is timed) it has."""


def main() -> None:
    """Run the parts that are named, and store each as soon as it is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, help="how often; else the number of each part")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(unknown)}; known: {', '.join(PARTS)}")
    warm_up()
    for name in given.parts or PARTS:
        work, seeds = PARTS[name]
        seeds = given.seeds or seeds
        print(f"{name}: {work.__doc__}", flush=True)
        try:
            found = work(seeds)
        except FileNotFoundError as error:
            sys.exit(str(error))
        store("supervision", name, rounded(found), seeds=seeds)


if __name__ == "__main__":
    main()
