"""QueryMetric: a similarity of queries and documents that may have different features."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import measures
from .._arrays import judged, ops
from .._arrays.namespace import in_full_precision, like, precision, to_numpy
from .._arrays.ranking import check_float64
from .._arrays.system import require_memory
from .._options import (
    check_options,
    max_rows_option,
    option,
    random_state_option,
    tol_option,
    verbose_option,
    with_options,
)
from .._rows import Rows, open_rows
from .._types import Array, Matrix
from .._validation import refuse_mask
from ..losses import get_loss, loss_option
from ..solver import Bilinear, DualSolution, Epoch, solve_dual
from ..supervision import Comparisons, as_supervision
from ..supervision._judged import Judged
from ..supervision.mining import mined
from .base import check_two_rows, generator, store_fitted


@with_options
class QueryMetric(BaseEstimator):
    r"""A similarity :math:`q^\top W d` of queries and documents, which may have different features.

    Documents that are relevant to a query should be more similar to it than others, by a margin.
    With :math:`A_t = q_t (d_t^+ - d_t^-)^\top` for each comparison of two documents,

    .. math:: \min_W\; \frac\lambda2\|W - W_0\|_F^2
              + \frac1N\sum_t w_t\, \ell(\langle W, A_t\rangle + 1 - \text{margin})

    is solved by the same dual coordinate ascent as the metrics. Documents stay as they are: an
    existing inner-product index of them ranks by this similarity when it is searched with
    ``transform_queries(Q)``.

    Where :math:`W_0` is zero, there is no initial ranking from which to take negatives. They are
    then drawn at random to learn a first W. The final W is learned from these and from the
    documents that rank highest by the first W. This needs many more judgements than correcting a
    similarity that works. For queries from another encoder, encode some texts with both encoders
    and pass the least-squares map between the two as ``prior``.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    weights_ : ndarray of shape (n_query_features_in_, n_features_in_)
        W.
    comparisons_ : Comparisons
        The comparisons learned from. ``index`` has three columns: row numbers of the query, of the
        document that should be near, and of the one that should be far.
    dual_coef_ : ndarray of shape (n_comparisons,)
        Their dual variables β.
    duality_gap_ : float
        Gap between the primal and the dual objective.
    history_ : list of Epoch
        Objectives and gap after each epoch, of the second fit where there are two.
    n_iter_ : int
        Epochs run.
    n_rows_used_, n_rows_in_ : int
        How many documents were learned from, and how many were given.
    n_features_in_, n_query_features_in_ : int
        Number of features of documents and of queries.

    See Also
    --------
    Metric.query_adapter : Searches an existing index by a learned metric.

    Examples
    --------
    >>> from dualmetric import QueryMetric
    >>> from dualmetric.supervision import Positives
    >>> documents = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    >>> queries = [[1.0, 0.0], [0.0, 1.0]]
    >>> clicks = Positives([[0, 2], [1, 0]], queries=queries)
    >>> model = QueryMetric(random_state=0).fit(documents, clicks)
    >>> model.similarity(queries, documents).argmax(axis=1)
    array([2, 0])
    """

    prior: Any = option(
        "object",
        default=None,
        help='W₀, which is kept unless the judgements contradict it: "identity", the plain inner '
        'product, for queries and documents of one encoder; "zero"; or an array. None: the '
        "identity if queries and documents have the same number of features, otherwise zero.",
        type='{None, "identity", "zero"} or array of shape (n_query_features, n_features)',
    )
    reg: float = option(
        "float",
        default=1e-3,
        help="λ, the weight of ‖W − W₀‖². Smaller values are better for queries about documents "
        "that were judged, and larger ones are safer for queries about others.",
        low=0,
        above=True,
    )
    margin: float = option(
        "float",
        default=0.1,
        help="How much more similar a relevant document should be than another, in the unit of "
        "``scale``.",
        low=0,
        above=True,
    )
    n_triplets: int = option(
        "int", default=100_000, help="How many comparisons to draw at most.", low=1
    )
    max_rows: int | None = max_rows_option()
    loss: str = loss_option()
    max_epochs: int = option("int", default=5, help="Passes over the comparisons.", low=1)
    tol: float | None = tol_option()
    scale: bool = option(
        "bool",
        default=True,
        help="Measure queries by the root mean square of their lengths and documents by that of "
        "their distances, so that the result does not depend on the units.",
    )
    random_state: Any = random_state_option("Seed of drawing, and of the order of comparisons.")
    verbose: int = verbose_option("Above 0, print the objectives and the gap after each epoch.")

    @in_full_precision
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the similarity.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_documents, n_features)
            Documents. At most ``max_rows`` of them are chosen to learn from; those that are judged
            are always used. Arrays on a device are copied to the host.
        y : Positives or Relevance
            Judgements with their queries, such as ``Positives(index, queries=Q)``. Queries may have
            other features than X. ``relative_margin`` applies to distances after one more feature
            has given all documents the same length, so that these distances rank as the inner
            product does.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_options(self)
        rng = generator(self.random_state)
        rows, y = open_rows(X, y)
        n = check_two_rows(rows, "QueryMetric")
        whole = _check_judged(y, n)
        numbers = whole.choose(n, self.max_rows, rng)
        chosen, asked = numbers[numbers < n], numbers[numbers >= n] - n
        known = whole.take(numbers)
        documents, queries = to_numpy(rows.take(chosen)), to_numpy(whole.queries.take(asked))
        W = self._prior_of(queries.shape[1], rows.n_features)
        _require_room(documents, queries)
        dtype = np.result_type(precision(documents), precision(queries))
        documents, queries = (part.astype(dtype, copy=False) for part in (documents, queries))
        comparisons, solution, W = self._learn(documents, queries, known, W, rng)
        index = np.column_stack([asked[comparisons.index[:, 0]], chosen[comparisons.index[:, 1:]]])
        fitted = {
            "weights_": W,
            "n_query_features_in_": W.shape[0],
            "comparisons_": Comparisons(index, comparisons.margin, comparisons.weight),
            "dual_coef_": solution.beta,
            "history_": solution.history,
            "duality_gap_": solution.gap,
            "n_iter_": solution.history[-1].epoch,
        }
        store_fitted(self, rows, {"used": len(chosen), "given": n}, fitted)
        return self

    def _prior_of(self, width: int, n_features: int) -> Array | None:
        """W₀; None stands for zero."""
        prior = self.prior
        if prior is None:
            return np.eye(width) if width == n_features else None
        if not isinstance(prior, str):
            refuse_mask(prior, "prior")
            matrix = np.asarray(to_numpy(prior))
            if matrix.shape != (width, n_features) or matrix.dtype.kind not in "fiu":
                raise ValueError(
                    f"prior must be an array of numbers of shape ({width}, {n_features}), the "
                    f"features of queries and of documents; got shape {matrix.shape} of "
                    f"{matrix.dtype}"
                )
            if not np.isfinite(matrix).all():
                raise ValueError("prior holds NaN or infinity: give finite numbers")
            return matrix if matrix.any() else None
        if prior not in ("identity", "zero"):
            raise ValueError(f"prior must be None, 'identity', 'zero' or an array; got {prior!r}")
        if prior == "identity" and width != n_features:
            raise ValueError(
                "prior='identity' needs queries and documents with the same number of features; "
                f"they have {width} and {n_features}: use prior='zero', or an array of shape "
                f"({width}, {n_features})"
            )
        return np.eye(width) if prior == "identity" else None

    def _learn(
        self,
        documents: Matrix,
        queries: Matrix,
        known: Judged,
        prior: Array | None,
        rng: np.random.Generator,
    ) -> tuple[Comparisons, DualSolution, Array]:
        """Comparisons (query, near, far) with their targets, the duals and W."""
        units = _units(documents, queries)  # refuses rows that nothing can be learned from
        units = units if self.scale else (1.0, 1.0)
        rows = Bilinear(queries / units[0], documents / units[1])
        prior = W = None if prior is None else prior.astype(documents.dtype)
        drawn = np.empty((0, 2), dtype=np.int64) if prior is not None else _at_random(known, rng)
        for last in (False, True) if prior is None else (True,):
            comparisons = _compare(documents, queries, known, W, drawn, self.n_triplets, rng)
            target = np.full(len(comparisons), float(self.margin))
            if prior is not None:
                target -= rows.margins(comparisons.index, prior)
            comparisons = comparisons.with_margin(target)
            solution = solve_dual(
                rows,
                comparisons,
                get_loss(self.loss),
                reg=self.reg,
                max_epochs=self.max_epochs,
                tol=self.tol,
                rng=rng,
                callback=self._report if last else None,
            )
            V = rows.weighted_sum(comparisons.index, solution.beta)
            W = V / (self.reg * len(comparisons))
            W = W if prior is None else prior + W
            if not np.isfinite(W).all():
                raise ValueError(ops.OUT_OF_RANGE)
        assert W is not None
        return comparisons, solution, W

    def _report(self, epoch: Epoch) -> None:
        if self.verbose:
            print(f"[QueryMetric] {epoch}")

    def transform_queries(self, Q: Any) -> Matrix:
        """QW: the inner product of its rows with documents is the similarity.

        Parameters
        ----------
        Q : {array-like, sparse matrix, data frame, row source} of shape (n_queries, width)
            Queries.

        Returns
        -------
        array of shape (n_queries, n_features_in_)
            Vectors to search an inner-product index of the documents with, in the precision of Q.
        """
        check_is_fitted(self)
        rows, _ = open_rows(Q, width=self.n_query_features_in_, name="Q")
        rows.check_width(self.n_query_features_in_, "QueryMetric")
        return rows.map(self._mapped, self.n_features_in_)

    def _mapped(self, queries: Matrix) -> Matrix:
        return ops.dot(queries, like(self.weights_, queries))

    def similarity(self, Q: Any, D: Any) -> Matrix:
        """Similarities of all queries with all documents.

        Parameters
        ----------
        Q : {array-like, sparse matrix, data frame} of shape (n_queries, width)
            Queries.
        D : {array-like, sparse matrix, data frame} of shape (n_documents, n_features_in_)
            Documents.

        Returns
        -------
        array of shape (n_queries, n_documents)
            Similarities qᵀWd.
        """
        documents = self._open(D, "D").take()
        asked = like(self.transform_queries(Q), documents)
        size = asked.shape[0] * documents.shape[0] * precision(documents).itemsize
        require_memory(
            size,
            f"similarities of {asked.shape[0]:,} queries with {documents.shape[0]:,} documents",
            "Pass fewer queries at a time.",
        )
        return ops.products(asked, documents)

    def _open(self, X: Any, name: str = "X") -> Rows:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        rows, _ = open_rows(X, names=names, width=self.n_features_in_, name=name)
        rows.check_width(self.n_features_in_, "QueryMetric")
        return rows

    def score(self, X: Any, y: Any) -> float:
        """nDCG@10 of ranking the documents X for each query.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_documents, n_features)
            Documents.
        y : Positives or Relevance
            Judgements, with the queries.

        Returns
        -------
        float
            Between 0 and 1.
        """
        rows = self._open(X)
        known = _check_judged(y, rows.shape[0])
        documents = check_float64(to_numpy(rows.take()))
        asked = check_float64(to_numpy(self.transform_queries(known.queries)))
        right = known.grade > 0
        index, grade = known.index[right], known.grade[right]
        query = np.unique(index[:, 0], return_inverse=True)[1]
        rank = judged.product_ranks(documents, asked, index)
        return float(np.mean(measures.ndcg(query, rank, grade)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")


def _check_judged(y: Any, n_documents: int) -> Judged:
    """Judgements with queries of their own, checked."""
    known = y if y is None else as_supervision(y, n_documents, "QueryMetric")
    if not isinstance(known, Judged):
        raise ValueError(
            "QueryMetric needs judgements of documents for queries, Positives(index, queries=Q) or "
            f"Relevance(grades, queries=Q); got {type(y).__name__}"
        )
    if known.queries is None:
        raise ValueError(
            "y has no queries: pass them, Positives(index, queries=Q); for rows of X that are "
            "compared with each other, use DuRP or DuOri"
        )
    return known


def _require_room(documents: Matrix, queries: Matrix) -> None:
    d, width = documents.shape[1], queries.shape[1]
    size = max(precision(documents).itemsize, precision(queries).itemsize)
    # W, V, their sum and its parts; the queries and the documents again, in the other's features
    numbers = 4 * d * width + 3 * queries.shape[0] * d
    if ops.is_dense(documents):
        numbers += 3 * documents.shape[0] * d
    require_memory(
        numbers * size,
        f"the {width:,} × {d:,} similarity of QueryMetric, and its rows",
        "Reduce the features first, for example by TruncatedSVD, or set max_rows.",
    )


def _units(documents: Matrix, queries: Matrix) -> tuple[float, float]:
    """Root mean square of the lengths of queries, and of the distances of documents."""
    if ops.all_rows_equal(documents):
        raise ValueError("all documents in X are the same: check that X holds the right features")
    if not ops.stored_values(queries).any():
        raise ValueError("all queries are zero: check that they hold the right features")
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (
            float(np.mean(np.float64(ops.row_lengths(queries)) ** 2)),
            ops.mean_sq_distance(documents),
        )
    for mean, rows in zip(squares, (queries, documents), strict=True):
        ops.check_range(mean, rows)
    return float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))


def _at_random(known: Judged, rng: np.random.Generator) -> Array:
    """Pairs (query, document) drawn at random, without those that are known to be relevant."""
    n = known._documents_known()
    asked = np.unique(known.index[known.grade > 0, 0]).astype(np.int64)
    pairs = np.column_stack(
        [np.repeat(asked, known.depth), rng.integers(n, size=len(asked) * known.depth)]
    )
    pairs = np.unique(pairs, axis=0)
    judged_pairs = known.index[:, 0].astype(np.int64) * n + known.index[:, 1]
    return pairs[~np.isin(pairs[:, 0] * n + pairs[:, 1], judged_pairs)]


def _compare(
    documents: Matrix,
    queries: Matrix,
    known: Judged,
    W: Array | None,
    negatives: Array,
    n: int,
    rng: np.random.Generator,
) -> Comparisons:
    """Comparisons (query, near, far) with the given wrong documents and those that W ranks high."""
    n_documents = documents.shape[0]
    if W is not None:
        X = judged.by_inner_product(documents, ops.dot(queries, W))
        right = known.index[known.grade > 0]
        found = mined(X, n_documents, right, known.depth, known.relative_margin)
        negatives = np.concatenate([found.pairs, negatives])
    query, near, far, above = known._drawn(negatives, n, rng)
    weight = np.ones(len(query)) if W is None else known._weights(X, query, near, far, above)
    index = np.column_stack([query - n_documents, near, far])
    return Comparisons(index, np.ones(len(index)), weight)
