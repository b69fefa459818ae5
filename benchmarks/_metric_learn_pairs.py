"""metric-learn's ITML and MMC on pairs, for supervision.py, in an environment of their own.

    python benchmarks/_metric_learn_pairs.py FILE METHOD

FILE holds rows and pairs for training, validation and test. One JSON line is printed for each
setting as soon as it is done: cheap settings come first, since the time is limited.
"""

import json
import sys
import warnings
from time import process_time

import numpy as np
from metric_learn import ITML, MMC
from sklearn.decomposition import PCA
from sklearn.metrics import average_precision_score, roc_auc_score

WIDTHS = (10, 30, 100)
"""Principal components that are learned on: both methods are slow on all features."""


def settings(method: str) -> list[tuple[int, dict]]:
    """Components and options, in the order in which they are tried."""
    if method == "ITML":
        gammas = (1.0, 0.1, 10.0)
        return [(width, {"gamma": gamma, "max_iter": 100}) for width in WIDTHS for gamma in gammas]
    diagonal = [
        (width, {"diagonal": True, "diagonal_c": c})
        for width in (*WIDTHS, 1000)
        for c in (1.0, 0.1, 10.0)
    ]
    return diagonal + [(width, {"max_iter": 50, "max_proj": 1000}) for width in WIDTHS]


def main(path: str, method: str) -> None:
    """Try every setting."""
    warnings.simplefilter("ignore")
    data = np.load(path, allow_pickle=False)
    X = data["X"].astype(np.float64)
    for width, options in settings(method):
        begin = process_time()
        rows = PCA(min(width, X.shape[1]), random_state=0).fit_transform(X)
        model = {"ITML": ITML, "MMC": MMC}[method](**options, random_state=0)
        try:
            model.fit(rows[data["train_pairs"]], np.where(data["train_same"], 1, -1))
        except (ValueError, RuntimeError, np.linalg.LinAlgError) as error:
            print(json.dumps({"failed": str(error)[:200], "components": width, **options}))
            continue
        found = {"components": rows.shape[1], **options, "cpu_seconds": process_time() - begin}
        for part in ("valid", "test"):
            close = model.pair_score(rows[data[f"{part}_pairs"]])
            same = data[f"{part}_same"]
            found[f"{part}_ap"] = average_precision_score(same, close)
            found[f"{part}_auc"] = roc_auc_score(same, close)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
