"""Matching records: probabilities, a threshold with a guarantee, and duplicates.

The data are product records of two shops (abt_buy) through a frozen sentence encoder if they are in
DUALMETRIC_DATA. Otherwise they are synthetic: 6,000 things, each recorded twice, and candidate
pairs as a search by the plain distance would propose them.
"""

import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from dualmetric import DuRP, Euclidean, Matcher, Pairs
from dualmetric.matching import NotEnoughPairsError

PARTS = ("train", "valid", "test")


def synthetic_records(n=6000, seed=0):
    """Things with 12 features that tell them apart and 8 that vary with every record."""
    rng = np.random.default_rng(seed)
    things = rng.normal(size=(n, 12))
    records = [
        np.hstack([things + 0.2 * rng.normal(size=things.shape), 1.2 * rng.normal(size=(n, 8))])
        for _ in range(2)
    ]
    X, thing = np.vstack(records).astype(np.float32), np.tile(np.arange(n), 2)
    pairs = {}
    for part, chunks in zip(PARTS, ([0], [1, 2, 3, 4], [5]), strict=True):
        # pairs are proposed among 1,000 things at a time, and no thing is in two parts
        found = [candidates(X, np.flatnonzero(thing // 1000 == chunk)) for chunk in chunks]
        index = np.concatenate(found)
        pairs[part] = Pairs(index, thing[index[:, 0]] == thing[index[:, 1]])
    return X, pairs


def candidates(X, rows):
    """Each of the rows and the four nearest to it, by the plain distance."""
    near = NearestNeighbors(n_neighbors=4).fit(X[rows]).kneighbors(return_distance=False)
    index = np.column_stack([np.repeat(rows, 4), rows[near.ravel()]])
    return np.unique(np.sort(index, axis=1), axis=0)


def product_records(file):
    """Records of products, and the official pairs."""
    data = np.load(file)
    pairs = {part: Pairs(data[f"{part}_pairs"], data[f"{part}_same"]) for part in PARTS}
    return normalize(data["X"].astype(np.float32)), pairs


file = Path(os.environ.get("DUALMETRIC_DATA", "")) / "abt_buy_minilm.npz"
X, pairs = product_records(file) if file.exists() else synthetic_records()
name = "abt_buy" if file.exists() else "synthetic records"
print(f"{name}: {len(X):,} records; " + ", ".join(f"{len(pairs[p]):,} {p} pairs" for p in PARTS))

# some records are listed twice, so that a few pairs are given as both: they are left out
warnings.filterwarnings("ignore", ".*both as the same and as different")

# the metric is learned on some pairs, and the matcher fitted to others
learned = DuRP(prior="identity", distance="cosine", random_state=0).fit(X, pairs["train"])
for method, model in (("plain cosine", Euclidean("cosine").fit(X)), ("learned", learned)):
    matcher = Matcher(model).fit(X, pairs["valid"])
    scores = matcher.evaluate(X, pairs["test"])
    print(
        f"{method}: {scores.average_precision:.3f} average precision, calibration error "
        f"{scores.calibration_error:.3f}, log loss {scores.log_loss:.3f}"
    )
    for precision in (0.99, 0.9):
        try:
            threshold = matcher.threshold(precision=precision)
        except NotEnoughPairsError as error:
            print(f"  precision {precision}: {error}")
            continue
        index, same = pairs["test"].index, np.asarray(pairs["test"].same) > 0
        accepted = matcher.predict(X[index[:, 0]], X[index[:, 1]], threshold)
        print(
            f"  precision {precision}: up to {threshold.distance:.3f}; on test pairs, precision "
            f"{same[accepted].mean():.3f} and recall {accepted[same].mean():.3f}"
        )

# what a person should look at: pairs that are neither surely the same nor surely different
try:
    band = matcher.review_band()  # precision 0.99, recall 0.99
    places = matcher.worth_labelling(X, pairs["test"].index, band, n=3)
    first = pairs["test"].index[places].tolist()
    print(f"to review: {100 * band.share:.1f} % of pairs; first, {first}")
except NotEnoughPairsError as error:
    print(f"to review: everything, since {error}")

rows = np.unique(pairs["test"].index)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # where all pairs of rows are less alike
    found = matcher.duplicates(X[rows], matcher.threshold(recall=0.5), clusters="complete")
print(f"duplicates among {len(rows):,} records: {found}")
