"""Search: learn from clicks which documents are right for a query.

The data are the claims and abstracts of SciFact through a frozen sentence encoder (384 numbers per
text) if they are in DUALMETRIC_DATA. Otherwise they are scikit-learn's digits: the queries are
images, and those of the same digit are clicked on. Nobody has clicked on 7, 8 and 9 yet.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from dualmetric import MetricCV, Positives, ndcg


def clicked_digits():
    """500 documents and 1,297 queries, of which the first 600 are learned from."""
    X, y = load_digits(return_X_y=True)
    pairs = np.argwhere(y[500:, None] == y[:500])  # a query, and a document of its digit
    learned = (pairs[:, 0] < 600) & (y[500 + pairs[:, 0]] < 7)
    return normalize(X[:500]), normalize(X[500:]), pairs[learned], pairs[pairs[:, 0] >= 600]


def claims(file):
    """SciFact: claims are queries, and the abstracts that decide them are documents."""
    data = np.load(file)
    D, Q = (normalize(data[name].astype(np.float32)) for name in "DQ")
    clicks, test = (
        np.column_stack([data[f"{part}_q"], data[f"{part}_d"]]).astype(int)
        for part in ("train", "test")
    )
    return D, Q, clicks, test


file = Path(os.environ.get("DUALMETRIC_DATA", "")) / "scifact_minilm.npz"
D, Q, clicks, test = claims(file) if file.exists() else clicked_digits()
name = "scifact" if file.exists() else "digits"
print(f"{name}: {len(np.unique(clicks[:, 0]))} queries with clicks, {len(D):,} documents")

# queries that are only about documents that nobody clicked on
met = np.isin(test[:, 1], clicks[:, 1])
new = ~np.isin(test[:, 0], test[met, 0])
print(f"nDCG@10 of {len(np.unique(test[:, 0]))} test queries, and of those about")
print(f"{'':>22}     all  known documents  new documents")


def show(method, documents, queries):
    """Print the scores of all test queries, and of both kinds."""
    parts = (test, test[~new], test[new])
    total, known, others = (ndcg(documents, part, queries) for part in parts)
    print(f"{method:>22}: {total:6.3f} {known:16.3f} {others:14.3f}")


show("plain distance", D, Q)
supervision = Positives(clicks, queries=Q, n_negatives=5)  # 30 by default; 5 are quicker
for cv in (None, "queries"):
    search = MetricCV(cv=cv, random_state=0).fit(D, supervision)
    show(f"MetricCV(cv={cv!r})", search.transform(D), search.transform(Q))

# An inner-product index of untouched documents: only the queries change. The documents are of
# length one, so that the distance to them ranks as the inner product does.
adapter = search.metric_.query_adapter(D)
show("its query_adapter", D, adapter.transform(Q))
print(adapter.agreement(Q[np.unique(test[:, 0])], D))
