"""Positives: documents that were chosen for queries, such as clicks."""

from ._judged import Judged


class Positives(Judged):
    """Pairs (query, document): "this document is right for this query", such as clicks.

    Chosen documents are compared with documents that nobody chose, but that rank high for the
    query by the plain distance (or by the prior).

    Parameters
    ----------
    index : array-like of shape (N, 2)
        Query and document of each pair: row numbers of ``queries`` and of X, counted from 0. For
        data frames these are positions, not labels of an index. A query may have several
        documents.
    queries : {array-like, sparse matrix, data frame} of shape (n_queries, n_features), optional
        The queries, with the same features as X; None if they are rows of X themselves.
    depth : int, default=100
        Wrong documents are drawn from this many of the highest-ranked documents of a query.
    n_negatives : int, default=30
        How many comparisons are drawn for each chosen document of a query.
    relative_margin : float, optional
        Leave out documents that are closer than (1 + ``relative_margin``) times the distance of
        the nearest chosen one: see `mine_negatives`.
    groups : array-like of shape (n_queries,), optional
        A group for each query (a user, a thread): `MetricCV` holds out whole groups.

    Examples
    --------
    >>> from dualmetric import DuRP
    >>> from dualmetric.supervision import Positives
    >>> documents = [[0.0, 0.0], [1.0, 4.0], [2.0, 0.0]]
    >>> clicks = Positives([[0, 1]], queries=[[1.0, 0.0]])
    >>> model = DuRP(2, prior="identity", random_state=0).fit(documents, clicks)
    >>> model.metric_.pairwise([[1.0, 0.0]], documents).argmin()
    np.int64(1)
    """

    _what = "positives"
