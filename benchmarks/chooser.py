"""`MetricCV` beside ridge regression and LDA, each tuned: mAP, 5-NN and time.

    DUALMETRIC_DATA=... python benchmarks/chooser.py [--seeds N] [--sets NAME …] [PART …]

Parts: ``scores`` (mAP and 5-NN accuracy on test rows, each with its own ``scoring``) and ``times``
(wall-clock seconds of a fit beside that of a tuned ridge regression on the same lifted rows, or
beside one whitened fit for text). Each set is one line of results/chooser.jsonl.

The peers themselves are measured by peers.py, on the same splits. Sets without a split of their
own are split at random, once per seed.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from _common import load_split, side_by_side, store
from dualmetric import DuRP, Euclidean, MetricCV, mean_average_precision
from dualmetric.lift import rbf_lift

DENSE = (
    "digits",
    "usps",
    "isolet1",
    "20news_use512",
    "fashion_mnist_13k",
    "caltech101_top30_bovw",
    "golub",
    "su",
)
TEXT = ("protein_val", "rcv1_7class", "tdt30", "20news_libsvm", "20news_bydate")
"""Sparse sets; neighbouring rows of protein_val overlap, so that it has one split."""

SPLIT = (
    "usps",
    "20news_use512",
    "fashion_mnist_13k",
    "caltech101_top30_bovw",
    "20news_bydate",
    "20news_libsvm",
    "protein_val",
)


def parts(name: str, seeds: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Training and test rows with labels, once per seed where the set has no split of its own."""
    from sklearn.model_selection import train_test_split

    X, y, X_test, y_test = load_split(name)
    yield 0, (X, y, X_test, y_test)
    if name in SPLIT:
        return
    import scipy.sparse as sp

    rows = sp.vstack([X, X_test], format="csr") if sp.issparse(X) else np.concatenate([X, X_test])
    labels = np.concatenate([y, y_test])
    for seed in range(1, seeds):
        train, test = train_test_split(
            np.arange(len(labels)), test_size=0.3, random_state=seed, stratify=labels
        )
        yield seed, (rows[train], labels[train], rows[test], labels[test])


def unit(X: Any) -> Any:
    """Rows of length one."""
    from sklearn.preprocessing import normalize

    return normalize(X)


def penalties(X: Any) -> np.ndarray:
    """15 penalties, in the unit of the rows."""
    import scipy.sparse as sp

    size = X.multiply(X).sum() if sp.issparse(X) else np.square(X - X.mean(axis=0)).sum()
    return float(size) / min(X.shape) * np.logspace(-5, 2, 15)


def ridge(X: Any, y: np.ndarray) -> Callable[[Any], Any]:
    """Outputs of a tuned ridge regression."""
    from sklearn.linear_model import RidgeClassifierCV

    return RidgeClassifierCV(penalties(X)).fit(X, y).decision_function


def lifted_ridge(X: Any, y: np.ndarray) -> Callable[[Any], Any]:
    """The same over kernel features."""
    lift, nystroem = rbf_lift(X, np.random.default_rng(0))
    outputs = ridge(lift.apply(X, nystroem), y)
    return lambda rows: outputs(lift.apply(rows, nystroem))


def lda(X: Any, y: np.ndarray, shrinkage: Any) -> Callable[[Any], Any]:
    """Discriminant directions."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit(X, y).transform


def judge(train: Any, y: np.ndarray, test: Any, y_test: np.ndarray) -> dict[str, float]:
    """MAP and 5-NN accuracy of mapped rows, in percent."""
    from sklearn.neighbors import KNeighborsClassifier

    votes = KNeighborsClassifier(5, algorithm="brute").fit(train, y)
    return {
        "map": 100 * mean_average_precision(test, y_test),
        "knn": 100 * float(np.mean(votes.predict(test) == y_test)),
    }


def views(train: Any, y: np.ndarray, test: Any, y_test: np.ndarray) -> dict[str, float]:
    """The best of each score by the Euclidean distance, the cosine, and the centred cosine."""
    found = [judge(train, y, test, y_test)]
    if train.shape[1] > 1:  # of one direction, the cosine is a sign
        mean = np.mean(train, axis=0)
        found.append(judge(unit(train), y, unit(test), y_test))
        found.append(judge(unit(train - mean), y, unit(test - mean), y_test))
    return {key: max(each[key] for each in found) for key in found[0]}


def outputs(transform: Callable[[Any], Any], X: Any, X_test: Any) -> tuple[Any, Any]:
    """Mapped rows, one column per direction."""
    mapped = transform(X), transform(X_test)
    if mapped[0].ndim == 1:  # two classes
        return mapped[0][:, None], mapped[1][:, None]
    return mapped


def scores(name: str, seeds: int) -> dict[str, Any]:
    """Quality on test rows, one number per seed."""
    found: dict[str, dict[str, list[float]]] = {}
    chosen: list[Any] = []

    def add(label: str, score: dict[str, float]) -> None:
        for key, value in score.items():
            found.setdefault(label, {}).setdefault(key, []).append(value)

    for seed, (X, y, X_test, y_test) in parts(name, seeds):
        for kind in ("euclidean", "cosine"):
            plain = Euclidean(kind).fit(X).transform
            add(f"plain {kind}", judge(plain(X), y, plain(X_test), y_test))
        for scoring in ("map", "knn", "both"):
            search = MetricCV(scoring=scoring, random_state=seed).fit(X, y)
            mapped = search.transform(X), search.transform(X_test)
            add(f"MetricCV {scoring}", judge(mapped[0], y, mapped[1], y_test))
            kept = search.best_estimator_
            chosen.append(
                {
                    "seed": seed,
                    "scoring": scoring,
                    "estimator": type(kept).__name__,
                    **search.cv_results_["params"][search.best_index_],
                    "expected": 100 * search.expected_score_,
                }
            )
    return {"scores": found, "chosen": chosen}


def times(name: str, seeds: int) -> dict[str, Any]:
    """Seconds of MetricCV, and of what it is measured by, in turns."""
    X, y, *_ = load_split(name)
    other = (
        (lambda: DuRP(shrinkage=0.84, random_state=0).fit(X, y))
        if name in TEXT and name != "protein_val"  # it is sparse, but no text
        else (lambda: lifted_ridge(X, y))
    )
    MetricCV(random_state=0).fit(X, y)  # compiled before the clock starts
    median = side_by_side(
        max(seeds, 1), MetricCV=lambda: MetricCV(random_state=0).fit(X, y), other=other
    )
    return {"seconds": median, "ratio": median["MetricCV"] / median["other"]}


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="all if none")
    parser.add_argument("--seeds", type=int, default=5, help="splits, or repetitions of times")
    parser.add_argument("--sets", nargs="+", default=[*DENSE, *TEXT])
    parser.add_argument("--trial", action="store_true", help="print, and store nothing")
    given = parser.parse_args()
    for part in given.parts or ["scores", "times"]:
        for name in given.sets:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = {"scores": scores, "times": times}[part](name, given.seeds)
            except FileNotFoundError as error:
                print(f"{part} {name}: not run: {error}")
                continue
            print(part, name, flush=True)
            if part == "scores":
                for label, each in found["scores"].items():
                    means = {key: round(float(np.mean(value)), 1) for key, value in each.items()}
                    print(f"  {label:20}", means)
                print("  ", json.dumps(found["chosen"], default=str), flush=True)
            else:
                print("  ", found, flush=True)
            if not given.trial:
                store("chooser", f"{part} {name}", found)


if __name__ == "__main__":
    main()
