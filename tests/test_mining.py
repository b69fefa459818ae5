"""Mined negatives against a sort of all distances, one query after the other."""

import numpy as np
import pytest
import scipy.sparse as sp

from dualmetric._arrays import judged
from dualmetric.supervision import Positives, Relevance, mine_negatives


def by_sorting(documents, positives, queries, depth, relative_margin):
    """Pairs, known and too close ones, from a full sort for each query."""
    pairs, n_known, n_close = [], 0, 0
    positives = np.asarray(positives)
    for query in np.unique(positives[:, 0]):
        row = documents[query] if queries is None else queries[query]
        known = set(positives[positives[:, 0] == query, 1].tolist())
        distance = np.sqrt(((documents - row) ** 2).sum(axis=1))
        limit = -np.inf
        if relative_margin is not None:
            limit = (1 + relative_margin) * min(distance[document] for document in known)
        looked_at = 0
        for document in np.argsort(distance, kind="stable").tolist():
            if queries is None and document == query:
                continue
            if document in known:
                n_known += looked_at < depth
                continue
            if looked_at == depth:
                break
            looked_at += 1
            if distance[document] < limit:
                n_close += 1
            else:
                pairs.append([query, document])
    return np.array(pairs).reshape(-1, 2), n_known, n_close


def clicks(rng, n_queries, n_documents, apart=False):
    """Several documents for most queries, none for some; ``apart`` from the query's own row."""
    index = np.column_stack([rng.integers(n_queries, size=60), rng.integers(n_documents, size=60)])
    return index[index[:, 0] != index[:, 1]] if apart else index


@pytest.mark.parametrize("relative_margin", [None, -0.2, 0.0, 0.1])
@pytest.mark.parametrize("depth", [1, 5, 200])
@pytest.mark.parametrize("own", [False, True])
def test_equals_brute_force(rng, depth, relative_margin, own):
    D, Q = rng.normal(size=(80, 3)), rng.normal(size=(20, 3))
    index = clicks(rng, 80 if own else 20, 80, apart=own)
    queries = None if own else Q
    found = mine_negatives(D, index, queries, depth=depth, relative_margin=relative_margin)
    pairs, n_known, n_close = by_sorting(D, index, queries, depth, relative_margin)
    np.testing.assert_array_equal(found.pairs, pairs)
    assert found.too_close == n_close
    assert found.known == n_known
    if relative_margin is not None and relative_margin >= 0 and depth > 1:
        assert n_close > 0
    assert f"{n_close:,} that are too close" in str(found)


def test_one_query_with_many_positives_and_blocks(rng, monkeypatch):
    D, Q = rng.normal(size=(90, 3)), rng.normal(size=(30, 3))
    index = np.vstack([[[3, d] for d in range(70)], [[q, q] for q in range(30) if q != 3]])
    expected, known, _ = by_sorting(D, index, Q, 8, None)
    original = judged.blocks_of
    monkeypatch.setattr(judged, "blocks_of", lambda X, n, size: original(X, n, size, most=4))
    found = mine_negatives(D, index, Q, depth=8)
    np.testing.assert_array_equal(found.pairs, expected)
    assert found.known == known


@pytest.mark.parametrize("kind", ["sparse", "sparse documents", "torch", "float32", "frames"])
def test_any_kind_of_rows(rng, kind):
    D = rng.normal(size=(50, 4)) * (rng.random((50, 4)) < 0.8)
    Q = rng.normal(size=(10, 4))
    index = clicks(rng, 10, 50)
    expected = mine_negatives(D, index, Q, depth=7).pairs
    if kind == "torch":
        torch = pytest.importorskip("torch")
        D, Q = torch.asarray(D), torch.asarray(Q)
    elif kind == "frames":
        pandas = pytest.importorskip("pandas")
        D, Q = pandas.DataFrame(D), pandas.DataFrame(Q)
    elif kind == "float32":
        D, Q = D.astype(np.float32), Q.astype(np.float32)
    else:
        D = sp.csr_array(D)
        Q = sp.csr_matrix(Q) if kind == "sparse" else Q
    np.testing.assert_array_equal(mine_negatives(D, index, Q, depth=7).pairs, expected)


def test_queries_follow_the_precision_of_documents(rng):
    D, Q = rng.normal(size=(5, 2)).astype(np.float32), rng.normal(size=(3, 2))
    for documents in (D, sp.csr_matrix(D)):
        for queries in (Q, sp.csr_matrix(Q)):
            joined = judged.below(documents, queries)
            assert joined.dtype == np.float32
            dense = joined.toarray() if sp.issparse(joined) else joined
            np.testing.assert_array_equal(dense, np.vstack([D, Q.astype(np.float32)]))


def test_documents_and_queries_on_different_devices(rng):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="X and queries are on different devices"):
        mine_negatives(torch.zeros((4, 2)), [[0, 1]], np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"depth": 0}, ValueError, "depth must be a whole number of at least 1; got 0"),
        ({"depth": 2.5}, TypeError, "depth must be a whole number"),
        ({"relative_margin": np.nan}, ValueError, "relative_margin must be a finite number"),
        ({"relative_margin": -2}, ValueError, "relative_margin must be .* of at least -1, or None"),
    ],
)
def test_options(more, error, message):
    with pytest.raises(error, match=message):
        mine_negatives(np.eye(4), [[0, 1]], **more)
    for kind in (Positives([[0, 1]], **more), Relevance([[0, 1, 1]], **more)):
        with pytest.raises(error, match=message):
            kind.check(4)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([[0, 1], [2, 0]], r"positives\[1\] = \[2, 0\] names query 2.*from 0 to 1"),
        ([[0, 9]], r"positives\[0\] = \[0, 9\] names document 9.*from 0 to 3"),
        ([[0, -1]], r"names document -1, which does not exist"),
        ([[0, 1, 1]], r"positives must be an \(N, 2\) array of row numbers \(query, document\)"),
    ],
)
def test_bad_positives(index, message):
    with pytest.raises(ValueError, match=message):
        mine_negatives(np.eye(4), index, np.zeros((2, 4)))


def test_other_widths():
    with pytest.raises(ValueError, match="queries have 3 features and documents have 4"):
        mine_negatives(np.eye(4), [[0, 1]], np.zeros((1, 3)))
