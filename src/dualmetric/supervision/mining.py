"""Hard negatives: the documents nearest to a query that are not known to be relevant to it."""

from typing import Any, NamedTuple

import numpy as np

from .._arrays import judged, ops
from .._options import Option
from .._rows import open_rows
from .._types import Array, Matrix
from ._checks import check_pairs

DEPTH = Option("int", "How many of the nearest documents to look at.", low=1)
MARGIN = Option("float", "How much farther than a relevant document.", low=-1, optional=True)


class Negatives(NamedTuple):
    """What `mine_negatives` found.

    Attributes
    ----------
    pairs : ndarray of shape (N, 2)
        Query and document of each pair; for each query, the nearest documents first.
    known : int
        How many documents were skipped because they are known to be relevant.
    too_close : int
        How many documents were skipped because of ``relative_margin``.
    """

    pairs: Array
    known: int
    too_close: int

    def __str__(self) -> str:
        return (
            f"{len(self.pairs):,} negatives; passed over: {self.known:,} documents that are known "
            f"to be relevant, {self.too_close:,} that are too close to tell from relevant ones"
        )


def mine_negatives(
    documents: Any,
    positives: Any,
    queries: Any = None,
    *,
    depth: int = 100,
    relative_margin: float | None = None,
) -> Negatives:
    """Find the documents nearest to each query that are not known to be relevant to it.

    Parameters
    ----------
    documents : array-like or sparse matrix of shape (n_documents, n_features)
        The rows that are searched.
    positives : array-like of shape (N, 2)
        Query and document of each pair that is known to be relevant.
    queries : array-like or sparse matrix of shape (n_queries, n_features), optional
        The queries; None if they are rows of ``documents``.
    depth : int, default=100
        How many of the nearest documents to look at, not counting relevant ones.
    relative_margin : float, optional
        Skip documents that are closer than (1 + ``relative_margin``) times the distance of the
        nearest relevant document: they may be relevant but not judged. None skips none. Check that
        it helps: the documents that it skips are also those from which most is learned.

    Returns
    -------
    Negatives
        The pairs, and how many were skipped for each reason.

    Examples
    --------
    >>> from dualmetric.supervision import mine_negatives
    >>> found = mine_negatives([[0.0], [1.0], [5.0]], [[0, 1]], queries=[[0.4]], depth=1)
    >>> found.pairs
    array([[0, 0]])
    """
    DEPTH.check("depth", depth)
    MARGIN.check("relative_margin", relative_margin)
    rows, _ = open_rows(documents, name="documents")
    n = rows.shape[0]
    if queries is None:
        index = check_pairs(positives, "positives", n, n)
        return mined(rows.take(), n, index, depth, relative_margin)
    asked, _ = open_rows(queries, name="queries")
    if asked.n_features != rows.n_features:
        raise ValueError(
            f"queries have {asked.n_features} features and documents have {rows.n_features}: "
            "give both with the same features"
        )
    index = check_pairs(positives, "positives", asked.shape[0], n)
    X = judged.below(rows.take(), asked.take())
    found = mined(X, n, index + np.array([n, 0]), depth, relative_margin)
    return found._replace(pairs=found.pairs - np.array([n, 0]))


def mined(
    X: Matrix, n_documents: int, positives: Array, depth: int, relative_margin: float | None
) -> Negatives:
    """Negatives for the rows of X that query; documents are the first rows of X."""
    asked, place, n_known = np.unique(positives[:, 0], return_inverse=True, return_counts=True)
    keys = np.unique(place * n_documents + positives[:, 1])
    nearest = np.zeros(len(asked))
    if relative_margin is not None:
        nearest[:] = np.inf
        np.minimum.at(nearest, place, ops.sq_distances(X, *np.ascontiguousarray(positives.T)))
    pairs, n_passed, n_close = [np.empty((0, 2), dtype=np.int64)], 0, 0
    # those that are known to be relevant, and the query itself, are found besides
    for block, near in judged.nearest_documents(X, n_documents, asked, depth + n_known + 1):
        queries = asked[block]
        codes = np.arange(len(asked))[block, None] * n_documents + near
        places = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
        known = keys[places] == codes
        free = ~known & (near != queries[:, None])
        n_free = np.cumsum(free, axis=1)
        n_passed += int((known & (n_free < depth)).sum())
        free &= n_free <= depth
        if relative_margin is not None:
            query = np.repeat(queries, near.shape[1])
            distance = ops.sq_distances(X, query, near.ravel()).reshape(near.shape)
            close = distance < ((1.0 + relative_margin) ** 2 * nearest[block])[:, None]
            n_close += int((free & close).sum())
            free &= ~close
        line, column = np.nonzero(free)
        pairs.append(np.column_stack([queries[line], near[line, column]]))
    return Negatives(np.concatenate(pairs), n_passed, n_close)
