"""A linear adapter trained with torch on in-batch negatives, as people do for embeddings.

Pairs of one class are drawn; each anchor is to find its positive among those of the batch by the
cosine (InfoNCE, also called the multiple negatives loss). Positives of the anchor's own class are
not counted as negatives. Rows are centred; sparse or wide ones go to 300 components first.
"""

from typing import Any

import numpy as np

from ._solver import Solver, Transformation, after, reduced

WIDTH = 256
BATCH = 256
EPOCHS = 30
RATE = 1e-3
SHARPNESS = 20.0  # the cosine is multiplied by it, as in sentence-transformers


def learn(X: Any, y: np.ndarray, seed: int) -> Transformation:
    import torch
    from torch.nn.functional import normalize

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    rows, reduce = reduced(X, seed, n_components=300, above=1000)
    centre = rows.mean(axis=0)
    unit = float(np.sqrt(((rows - centre) ** 2).sum(axis=1).mean()))
    Z = torch.from_numpy(np.asarray((rows - centre) / unit, dtype=np.float32))

    labels = np.unique(y, return_inverse=True)[1]
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(labels.max() + 2))
    sizes = np.diff(starts)
    codes = torch.from_numpy(labels)

    width = min(WIDTH, Z.shape[1])
    adapter = torch.nn.Linear(Z.shape[1], width, bias=False)
    torch.nn.init.orthogonal_(adapter.weight)
    optimizer = torch.optim.Adam(adapter.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for anchors in np.array_split(rng.permutation(len(Z)), max(1, len(Z) // BATCH)):
            partners = rng.integers(sizes[labels[anchors]])
            positives = order[starts[labels[anchors]] + partners]
            a = normalize(adapter(Z[anchors]), dim=1)
            b = normalize(adapter(Z[positives]), dim=1)
            similarity = SHARPNESS * a @ b.T
            same = codes[anchors][:, None] == codes[anchors][None, :]
            same.fill_diagonal_(False)
            similarity = similarity.masked_fill(same, -torch.inf)
            loss = torch.nn.functional.cross_entropy(similarity, torch.arange(len(anchors)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    weights = adapter.weight.detach().numpy().T / unit
    return after(reduce, lambda rows: (rows - centre) @ weights)


SOLVERS = (Solver("torch adapter", learn, ("torch", "scikit-learn"), environment="torch"),)
