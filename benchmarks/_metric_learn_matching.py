"""metric-learn's ITML with calibrate_threshold, for matching.py, in an environment of its own.

    python benchmarks/_metric_learn_matching.py FILE OUT PRECISION …

FILE holds rows and pairs for training, validation and test; OUT gets the distances of validation
and test pairs and, for each precision, the threshold that calibrate_threshold finds.
"""

import sys
import warnings

import numpy as np
from metric_learn import ITML
from sklearn.decomposition import PCA
from sklearn.metrics import average_precision_score


def calibrated(model: ITML, pairs: np.ndarray, same: np.ndarray, precision: float) -> float:
    """Threshold with this precision on the validation pairs.

    calibrate_threshold knows no precision, so it is asked for the true negative rate that gives it,
    which depends on the recall: both are found in turn.
    """
    recall, odds = 1.0, same.mean() / (1 - same.mean())
    for _ in range(20):
        rate = 1.0 - recall * odds * (1 - precision) / precision
        model.calibrate_threshold(pairs, np.where(same, 1, -1), strategy="max_tpr", min_rate=rate)
        recall = np.mean(model.predict(pairs[same]) == 1)
    return float(model.threshold_)


def main(path: str, out: str, *precisions: str) -> None:
    """Tune ITML on the validation pairs, and write its distances."""
    warnings.simplefilter("ignore")
    data = np.load(path, allow_pickle=False)
    X = data["X"].astype(np.float64)
    valid = data["valid_same"] > 0
    best = (-1.0, None, None, None)
    for width in (10, 30, 100):
        rows = PCA(min(width, X.shape[1]), random_state=0).fit_transform(X)
        for gamma in (0.1, 1.0, 10.0):
            model = ITML(gamma=gamma, max_iter=100, random_state=0)
            try:
                model.fit(rows[data["train_pairs"]], np.where(data["train_same"] > 0, 1, -1))
            except (ValueError, RuntimeError, np.linalg.LinAlgError):
                continue
            score = average_precision_score(valid, model.pair_score(rows[data["valid_pairs"]]))
            if score > best[0]:
                best = (score, model, rows, (width, gamma))
    _, model, rows, setting = best
    found = {name: -model.pair_score(rows[data[f"{name}_pairs"]]) for name in ("valid", "test")}
    limits = [calibrated(model, rows[data["valid_pairs"]], valid, float(p)) for p in precisions]
    np.savez(out, **found, limits=limits, setting=setting)


if __name__ == "__main__":
    main(*sys.argv[1:])
