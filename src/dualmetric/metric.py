"""Metric: how rows are transformed and compared."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from reprlib import repr as brief
from typing import Any

import numpy as np

from . import _explain, tfidf
from . import _metric_checks as checks
from ._arrays import ops, ranking
from ._arrays.embedded import Embedded
from ._arrays.namespace import (
    check_same_device,
    full_precision,
    is_finite,
    like,
    precision,
    require_memory_beside,
    to_numpy,
)
from ._arrays.system import require_memory
from ._explain import Explanation
from ._rows import Rows, open_rows
from ._types import Array, Matrix
from ._validation import check_whole
from .adapter import QueryAdapter, make_adapter
from .blocks import Blocks
from .io import metric_file
from .lift import Lift

DISTANCES = ("euclidean", "cosine")


@dataclass(frozen=True, eq=False, init=False)
class Metric:
    """A Mahalanobis distance ‖Lᵀa − Lᵀb‖ in factored form: M = LLᵀ is never needed.

    The square of this distance is the paper's d_M(a, b) = (a − b)ᵀM(a − b).

    With ``distance="cosine"``, a row x becomes (Lᵀx − c)/‖Lᵀx − c‖, and the distance is the
    Euclidean one between such rows of length one: its square is 2 − 2 cos, so that it ranks as the
    cosine does. A row with Lᵀx = c has no direction. It stays zero, and its distance to every
    non-zero row is 1.

    With ``idf``, rows are counts, and x is the row after tf-idf (`tfidf.weigh`). With ``lift``, x
    holds the kernel values of the row with the landmarks, and the distance is not linear in the
    features.

    With ``outside``, the plain distance, scaled by ω, applies in all directions orthogonal to the
    columns of L: M = LLᵀ + ω²(I − UUᵀ), where U has the same columns at length one. In this way a
    metric over many features keeps the plain distance and corrects it in a few directions.

    With ``blocks``, x is the row with its columns multiplied by √w, where w is the weight of their
    block. For the cosine, the part of the row in each block is scaled to length one first, unless
    each column is a block of its own.

    With ``before``, x is the row transformed by another metric: a whitened row of length one, for
    example.

    Parameters
    ----------
    factor : array-like of shape (n_features, rank) or None
        L. None stands for the identity, the plain Euclidean distance. With a lift, it is required
        and has one row for each landmark.
    n_features : int, optional
        Number of features of the rows; needed only if ``factor`` is None.
    feature_names : sequence of str, optional
        Their names.
    info : dict, optional
        How the metric was made; anything that JSON can hold.
    centre : array-like of shape (rank,), optional
        c, the mean of the transformed training rows; None stands for zero. For the cosine only,
        because it does not change Euclidean distances.
    distance : {"euclidean", "cosine"}, default="euclidean"
        How transformed rows are compared. Kept as the attribute ``kind``, since ``distance`` is
        the method.
    idf : array-like of shape (n_features,), optional
        Weights of the features in tf-idf, as `tfidf.fit_idf` gives them; None leaves rows as
        they are.
    lift : dualmetric.lift.Lift, optional
        Landmarks z and γ of the kernel exp(−γ‖x − z‖²).
    outside : float, default=0.0
        ω. Above 0, the columns of ``factor`` must be orthogonal, and there is no lift.
    before : Metric, optional
        Applied to rows first; tf-idf, lift and blocks then belong to it.
    blocks : dualmetric.blocks.Blocks, optional
        The block of each feature and the weight of each block. With a lift, each feature must be
        a block of its own.

    Examples
    --------
    >>> from dualmetric import Metric
    >>> metric = Metric([[3.0], [4.0]])
    >>> metric.distance([[1.0, 0.0]], [[0.0, 0.0]])
    array([3.])
    >>> print(metric.explain([1.0, 1.0], [0.0, 0.0], feature_names=["width", "height"]))
     7.000  distance
    +4.000  height
    +3.000  width
    """

    factor: Array | None
    n_features: int
    feature_names: tuple[str, ...] | None
    info: dict[str, Any]
    centre: Array | None = None  # the defaults serve metrics pickled before there was a cosine
    kind: str = "euclidean"
    idf: Array | None = None
    lift: Lift | None = None
    outside: float = 0.0
    before: "Metric | None" = None
    blocks: Blocks | None = None

    def __init__(
        self,
        factor: Any,
        n_features: int | None = None,
        feature_names: Sequence[str] | None = None,
        info: dict[str, Any] | None = None,
        centre: Any = None,
        distance: str = "euclidean",
        idf: Any = None,
        lift: Any = None,
        outside: float = 0.0,
        before: "Metric | None" = None,
        blocks: Any = None,
    ) -> None:
        factor = None if factor is None else checks.as_floats(factor, "factor")
        lift = None if lift is None else checks.as_lift(lift)
        n_features = checks.as_width(n_features, factor, idf, lift, before, blocks)
        checks.check_factor(factor, n_features, lift, before)
        _explain.check_number_of_names(feature_names, n_features)
        if distance not in DISTANCES:
            raise ValueError(f"distance must be 'euclidean' or 'cosine'; got {brief(distance)}")
        outside = checks.as_outside(outside, factor, lift)
        idf = None if idf is None else checks.as_idf(idf, n_features)
        blocks = None if blocks is None else checks.as_blocks(blocks, n_features, lift)
        names = None if feature_names is None else tuple(map(str, feature_names))
        info = {} if info is None else info
        # past the guard of a frozen class
        self.__dict__.update(factor=factor, n_features=n_features, feature_names=names, info=info)
        self.__dict__.update(kind=distance, idf=idf, lift=lift, outside=outside, before=before)
        self.__dict__.update(blocks=blocks)
        centre = None if centre is None else checks.as_centre(centre, self.rank, distance)
        self.__dict__.update(centre=centre)

    def __repr__(self) -> str:
        name = "Cosine metric" if "cosine" in (self.kind, self.first.kind) else "Metric"
        first = "" if self.idf is None else ", weighted by tf-idf"
        if self.lift is not None:
            first += f", lifted by {len(self.lift.landmarks):,} landmarks"
        if (blocks := self.first.blocks) is not None:
            scaled = ", with scaled columns"
            first += scaled if blocks.are_columns else f", in {len(blocks.weights):,} blocks"
        if self.outside and self.factor is not None:
            first += f", corrected in {self.factor.shape[1]:,} directions"
        return f"<{name} of rank {self.rank:,} over {self.n_features:,} features{first}>"

    @property
    def rank(self) -> int:
        """Number of directions that the distance depends on."""
        if self.factor is not None and not self.outside:
            return self.factor.shape[1]
        return self.n_features if self.before is None else self.before.rank

    @property
    def first(self) -> "Metric":
        """The first step that is applied to rows: ``before``, or the metric itself."""
        return self if self.before is None else self.before

    def transform(self, X: Any) -> Matrix:
        """Map rows to a space in which the Euclidean distance equals this metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Rows in the original features: counts, where the metric has ``idf``. From a data frame
            (pandas, Polars, PyArrow, Dask), the columns with the names of the features are taken,
            in any order. A memory map, or an object with ``shape``, ``dtype`` and row slicing
            (HDF5, Zarr, `open_parquet`), is read in blocks. An array on a device (PyTorch, CuPy)
            stays there.

        Returns
        -------
        array of shape (n_samples, rank)
            XL, or k(X)L with a lift, in the precision of X; for the cosine, centred and scaled to
            rows of length one. If the factor is the identity, this is X itself or a weighted or
            scaled copy, sparse if X is. With ``outside``, these are dense rows of n_features
            numbers; `distance` and `pairwise` do not need them. For a Dask X, this is a Dask array
            with the same chunks of rows, not computed yet.
        """
        return self.open_rows(X).map(self.apply, self.rank)

    def open_rows(self, X: Any, name: str = "X") -> Rows:
        """Open anything that `transform` takes, and check the number of features.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Rows in the original features.
        name : str, default="X"
            The name of the argument, for error messages.

        Returns
        -------
        Rows
            The rows, not read yet if they are stored in a file.
        """
        rows, _ = open_rows(X, names=self.feature_names, width=self.n_features, name=name)
        rows.check_width(self.n_features, "this metric")
        return rows

    def apply(self, X: Matrix) -> Matrix:
        """Transform rows that were checked before: finite floats with the features of this metric.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            Checked rows; for others, use `transform`.

        Returns
        -------
        array of shape (n_samples, rank)
            As `transform` returns it.
        """
        rows = self._factor_inputs(X)
        if self.factor is not None:
            copies = 1 if self.kind == "euclidean" else 3
            require_memory_beside(
                X,
                copies * X.shape[0] * self.rank * precision(X).itemsize,
                f"{X.shape[0]:,} transformed rows of {self.rank:,} numbers",
                "Transform fewer rows at a time.",
            )
        with np.errstate(over="ignore", invalid="ignore"), full_precision(X):
            if self.lift is not None:
                rows = self.lift.apply(rows, self.factor)
            elif self.outside:
                rows = self._apply_outside(rows)
            elif self.factor is not None:
                rows = ops.dot(rows, like(self.factor, rows))
            rows = ops.minus_centre(rows, self.centre)
            if rows is not X and not is_finite(ops.stored_values(rows)):
                raise checks.too_large(rows)
        return rows if self.kind == "euclidean" else ops.unit_rows(rows)

    def _factor_inputs(self, X: Matrix) -> Matrix:
        """Rows as the lift or L takes them: a new array or X itself, which is left as it is."""
        if self.before is not None:
            return self.before.apply(X)
        X = self.weighted(X)
        return X if self.blocks is None else self.blocks.apply(X, self.kind == "cosine")

    def low_rank_form(self) -> tuple[float, Array | None, Array]:
        """ω, L and g of M = ω²I + L·diag(g)·Lᵀ, for a metric without a lift."""
        if self.factor is None:
            return 1.0, None, np.ones(0)
        if not self.outside:
            return 0.0, self.factor, np.ones(self.factor.shape[1])
        squares = ops.column_dots(self.factor, self.factor)
        return self.outside, self.factor, 1.0 - self.outside**2 / squares

    def _apply_outside(self, rows: Matrix) -> Matrix:
        """M^½x = ωx + U(s − ω)Uᵀx, with L = U·diag(s)."""
        require_memory(
            3 * rows.shape[0] * self.rank * rows.dtype.itemsize,
            f"{rows.shape[0]:,} transformed rows of {self.rank:,} numbers",
            "Transform fewer rows at a time, or use distance or pairwise, which need no such rows.",
        )
        factor = like(self.factor, rows)
        squares = ops.column_dots(factor, factor)
        turned = ops.dot(rows, factor) * like((np.sqrt(squares) - self.outside) / squares, factor)
        return turned @ factor.T + self.outside * ops.to_dense(rows)

    def steps(self) -> list["Metric"]:
        """The steps that are applied to a row, as metrics with a factor that is written out."""
        first = [] if self.before is None else self.before.steps()
        if not self.outside or self.factor is None:
            return [*first, self]
        size = self.factor.shape[0]
        require_memory(
            3 * size * size * self.factor.dtype.itemsize,
            f"the {size:,} × {size:,} matrix of this metric, which keeps the plain distance,",
            "Learn it without a prior, on fewer features, or use metric.transform(X).",
        )
        written = self._apply_outside(np.eye(size, dtype=self.factor.dtype))
        return [*first, self.replaced(factor=written, outside=0.0)]

    def distance(self, A: Any, B: Any) -> Array:
        """Distance between each row of A and the corresponding row of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Rows in the original features.

        Returns
        -------
        array of shape (n_rows,)
            Distances; a Dask array, not computed yet, if A or B is one.
        """
        check_same_device(A, B)
        (a, image_a), (b, image_b) = self._two_parts(A, "A"), self._two_parts(B, "B")
        known = [part.shape[0] for part in (a, b) if part.shape[0] == part.shape[0]]
        if len(set(known)) == 2:  # the number of rows of a Dask array may be unknown, which is NaN
            raise ValueError(
                f"A has {a.shape[0]} rows and B has {b.shape[0]}, but they are compared row by "
                "row: give the same number. Metric.pairwise compares all rows of A with all of B"
            )
        apart = a - b
        if hasattr(apart, "map_blocks"):
            return apart.map_blocks(ops.row_lengths, drop_axis=1, meta=np.empty(0, apart.dtype))
        lengths = ops.row_lengths(apart)
        if image_a is None:
            return lengths
        return self._corrected(lengths, np.square(image_a - image_b) @ self.low_rank_form()[2])

    def pairwise(self, A: Any, B: Any = None) -> Array:
        """Distances between all rows of A and all rows of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix, data frame} of shape (n_rows, n_features)
            Rows in the original features. If B is None, it is A.

        Returns
        -------
        array of shape (n_rows_A, n_rows_B)
            Distances.
        """
        check_same_device(A, A if B is None else B)
        a, image_a = self._two_parts(A, "A")
        b, image_b = (None, image_a) if B is None else self._two_parts(B, "B")
        lengths = ranking.pairwise(a, b)
        if image_a is None:
            return lengths
        gains = self.low_rank_form()[2]
        own, other = (np.square(image) @ gains for image in (image_a, image_b))
        more = own[:, None] + other[None, :] - 2.0 * ((image_a * gains) @ image_b.T)
        if B is None:
            np.fill_diagonal(more, 0.0)
        return self._corrected(lengths, more)

    def margins(self, X: Any, index: Array) -> Array:
        """d²(c, d) − d²(a, b) for each comparison (a, b, c, d): positive if it is satisfied.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Rows in the original features.
        index : ndarray of shape (n_comparisons, 4)
            Row numbers of X.

        Returns
        -------
        ndarray of shape (n_comparisons,)
            Differences of squared distances.
        """
        rows, image = self._two_parts(X)
        found = ops.margins(ops.canonical(rows), index).astype(np.float64)
        if image is None:
            return found
        gains = np.diag(self.low_rank_form()[2])
        return self.outside**2 * found + ops.margins(image, index, gains)

    def embedding(self, X: Any) -> Embedded:
        """Rows P and N with d² = ‖p − p′‖² − ‖n − n′‖²; N is None without ``outside``.

        Unlike `transform`, this keeps sparse rows sparse where the plain distance counts outside
        the directions of the metric.
        """
        rows, image = self._two_parts(X)
        if image is None:
            return Embedded(rows, None)
        gains = self.low_rank_form()[2]
        image = (image * np.sqrt(np.abs(gains))).astype(rows.dtype)
        return Embedded(ops.beside(self.outside * rows, image[:, gains >= 0]), image[:, gains < 0])

    def _two_parts(self, X: Any, name: str = "X") -> tuple[Matrix, Any]:
        """Rows whose Euclidean distance is this metric, and None; with ``outside``, rows x and Lᵀx.

        Then d² = ω²‖a − b‖² + Σ g_k(Lᵀ(a − b))_k², and sparse rows stay sparse. For the cosine,
        both are divided by the length √(xᵀMx).
        """
        if not self.outside or self.centre is not None:
            return self.open_rows(X, name).map(self.apply, self.rank), None
        plain = self._factor_inputs(to_numpy(self.open_rows(X, name).take()))
        image = ops.dot(plain, like(self.factor, plain)).astype(np.float64)
        if self.kind == "euclidean":
            return plain, image
        squares = (self.outside * ops.row_lengths(plain).astype(np.float64)) ** 2
        lengths = np.sqrt(np.maximum(squares + np.square(image) @ self.low_rank_form()[2], 0.0))
        return ops.divided_rows(plain, like(lengths, plain)), ops.divided_rows(image, lengths)

    def _corrected(self, lengths: Array, more: Array) -> Array:
        squares = (self.outside * lengths.astype(np.float64)) ** 2 + more
        return np.sqrt(np.maximum(squares, 0.0)).astype(lengths.dtype)

    def matrix(self) -> Array:
        """M, written out: LLᵀ, with the plain distance ``outside`` and the weights of ``blocks``.

        M applies to rows after weighting by tf-idf (and, for the cosine, after scaling their blocks
        to length one), and before the rows are scaled to length one for the cosine. A metric with a
        lift has no such matrix.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            M, which is symmetric and positive semi-definite.
        """
        checks.refuse_lift(
            self.first.lift, "it has no matrix over the features: use transform or pairwise"
        )
        d = self.n_features
        linear = self.linear_part()
        dtype = np.dtype(np.float64) if linear.factor is None else linear.factor.dtype
        require_memory(
            d * d * dtype.itemsize,
            f"the explicit {d:,} × {d:,} matrix",
            "Use the factor (metric.factor): M = L Lᵀ, and transform applies it.",
        )
        omega, factor, gains = linear.low_rank_form()
        plain = omega**2 * np.eye(d, dtype=dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            M = plain if factor is None else plain + (factor * gains.astype(dtype)) @ factor.T
        if not np.isfinite(M).all():
            raise ValueError(
                f"the matrix of this metric is out of the range of {dtype}: use the factor "
                "(metric.factor), M = L Lᵀ"
            )
        if self.first.blocks is None:
            return M
        weights = self.first.blocks.column_weights().astype(dtype)
        return weights[:, None] * M * weights

    def linear_part(self) -> "Metric":
        """The linear part of the metric as one factor, without tf-idf, centring and scaling."""
        before = self.before
        if before is None or before.factor is None:
            return Metric(self.factor, self.n_features, outside=self.outside)
        if self.factor is None:
            return Metric(before.factor, outside=before.outside)
        first, second = (step.factor for step in self.steps() if step.factor is not None)
        return Metric(first @ second)

    def explain(
        self, a: Any, b: Any, feature_names: Sequence[str] | None = None, top: int = 10
    ) -> Explanation:
        """Split the distance between two rows into what each feature contributes.

        The parts are linear in the difference of the rows and add up to the distance:

        - Euclidean: with δ = a − b and z = Lᵀδ, feature f contributes δ_f (Lz)_f / ‖z‖, and
          Σ_f δ_f (Lz)_f / ‖z‖ = zᵀz / ‖z‖ = ‖z‖.
        - cosine: with α = ‖Lᵀa − c‖ and β = ‖Lᵀb − c‖ the rows are compared at length one, so that
          δ = a/α − b/β and z = Lᵀδ − (1/α − 1/β)c. Features contribute as above, and what the
          centre itself adds, −(1/α − 1/β) cᵀz / ‖z‖, is a part of its own named "(centre)". For a
          row without direction (α = 0), 1/α is taken to be 0.

        With tf-idf or blocks, a and b here are the weighted rows. The distances of a metric with a
        lift cannot be split like this and are refused.

        Parameters
        ----------
        a, b : {array-like, sparse matrix} of shape (n_features,) or (1, n_features)
            Two rows in the original features: counts, where the metric has ``idf``.
        feature_names : sequence of str, optional
            Names of the features; those of the metric if None, or "feature 17", counted from 0.
        top : int, default=10
            How many parts to name. Parts that are zero are left out.

        Returns
        -------
        Explanation
            The distance, its largest parts and the sum of the rest.
        """
        checks.refuse_lift(
            self.first.lift,
            "its distances cannot be split by feature: use a metric without a lift",
        )
        return _explain.explained(self, a, b, feature_names, top)

    def top_features(
        self, component: int, feature_names: Sequence[str] | None = None, top: int = 10
    ) -> list[tuple[str, float]]:
        """List the features with the largest weights in one direction of the metric.

        Parameters
        ----------
        component : int
            Number of the direction, from 0: a column of L.
        feature_names : sequence of str, optional
            Names of the features; those of the metric if None, or "feature 17", counted from 0.
        top : int, default=10
            How many to name. Weights that are zero are left out.

        Returns
        -------
        list of (str, float)
            Names and weights, the largest absolute weight first. Features whose weights differ in
            sign move rows in opposite directions; which sign is positive has no meaning.
        """
        checks.refuse_lift(
            self.first.lift, "it has no weights of features: use a metric without a lift"
        )
        return _explain.top_features(self, component, feature_names, top)

    def truncate(self, rank: int) -> "Metric":
        """Return the nearest metric with at most the given number of directions.

        L is first rotated so that its columns are orthogonal, which does not change distances; the
        longest columns are kept. With a lift, columns are orthogonal in the space of the kernel.
        For the cosine, the centre is rotated too, and "nearest" refers to the distance before the
        scaling. With ``outside``, the directions that differ most from the plain distance are kept,
        the plain distance applies in all others, and the rank does not change.

        Parameters
        ----------
        rank : int
            Number of directions to keep.

        Returns
        -------
        Metric
            A metric with at most this many directions; this metric itself if it has no more.
        """
        check_whole(rank, "rank")
        factor, centre, lift = self.factor, self.centre, self.lift
        if factor is None and rank < self.n_features:
            raise ValueError(
                "the Euclidean metric gives every direction the same weight, so there are no "
                "leading ones to keep: reduce the data instead, for example by PCA"
            )
        if factor is None or rank >= factor.shape[1]:
            return self
        if self.outside:  # the directions that differ least from the plain distance go
            lengths = np.sqrt(ops.column_dots(factor, factor))
            keep = np.sort(np.argsort(-np.abs(lengths - self.outside), kind="stable")[:rank])
            return self.replaced(factor=np.ascontiguousarray(factor[:, keep]))
        columns = factor.astype(np.float64)
        gram = columns.T @ columns
        if lift is not None:  # columns weigh images of landmarks: their products are LᵀKL
            gram = columns.T @ lift.apply(lift.landmarks.astype(np.float64), columns)
        _, rotation = np.linalg.eigh(gram)
        rotation = rotation[:, ::-1][:, :rank]
        if centre is not None:
            centre = (centre.astype(np.float64) @ rotation).astype(centre.dtype)
        return self.replaced(factor=(columns @ rotation).astype(factor.dtype), centre=centre)

    def with_idf(self, idf: Any) -> "Metric":
        """Make tf-idf a part of a metric that was learned on rows weighted with this idf.

        Parameters
        ----------
        idf : array-like of shape (n_features,)
            Weights of the features, as `tfidf.fit_idf` gives them.

        Returns
        -------
        Metric
            A metric that takes raw counts.
        """
        if self.first.idf is not None:
            raise ValueError("this metric already weights counts by tf-idf: leave with_idf out")
        if self.before is not None:
            return self.replaced(before=self.before.with_idf(idf))
        return self.replaced(idf=idf)

    def with_scale(self, scale: Any) -> "Metric":
        """Make the scaling of features a part of a metric that was learned on scaled rows.

        The scale is stored in the first factor, or as one weight per column (``blocks``) if the
        metric has no factor, a lift or ``outside``.

        Parameters
        ----------
        scale : array-like of shape (n_features,)
            What each feature was multiplied by before learning, above 0: one divided by its
            standard deviation, for example.

        Returns
        -------
        Metric
            A metric that takes rows in their original units.

        Examples
        --------
        >>> from dualmetric import Metric
        >>> metric = Metric([[3.0], [4.0]]).with_scale([0.5, 1.0])
        >>> metric.distance([[2.0, 0.0]], [[0.0, 0.0]])
        array([3.])
        """
        first = self.first
        scale = checks.as_scale(scale, first)
        if first.factor is None or first.lift is not None or first.outside:
            first = first.replaced(blocks=Blocks(np.arange(self.n_features), np.square(scale)))
        else:
            first = first.replaced(factor=first.factor * scale[:, None].astype(first.factor.dtype))
        return first if self.before is None else self.replaced(before=first)

    def with_info(self, **more: Any) -> "Metric":
        """Return the same metric with more entries in ``info``.

        Parameters
        ----------
        **more
            Entries by name; those with the name of an existing entry replace it.

        Returns
        -------
        Metric
            A copy; this metric does not change.
        """
        return self.replaced(info={**self.info, **more})

    def replaced(self, **changes: Any) -> "Metric":
        """Return the same metric with some arguments of the constructor replaced.

        Parameters
        ----------
        **changes
            New values, named as the arguments of the constructor.

        Returns
        -------
        Metric
            A new metric; this one does not change.
        """
        same = {field.name: getattr(self, field.name) for field in fields(self)}
        same["distance"] = same.pop("kind")
        return Metric(**{**same, **changes})

    def query_adapter(self, documents: Any = None) -> QueryAdapter:
        """Return a transformation of queries that makes an existing index rank by this metric.

        The documents in the index do not change. The index must rank by the inner product. Its
        ranking is nearly that of the metric: see `QueryAdapter.agreement`. To learn such a
        transformation from judgements, use `QueryMetric`.

        Parameters
        ----------
        documents : {array-like, sparse matrix, data frame, row source}, optional
            Documents of the index, or a random sample of them, of shape (n_documents, n_features).
            With them, the non-linear part of the metric is approximated, and the ranking is closer
            to that of the metric. Without them, this part is left out.

        Returns
        -------
        QueryAdapter
            ``transform(Q)`` gives the vectors to search the index with.

        Raises
        ------
        ValueError
            If the metric has a lift, tf-idf or blocks.

        Examples
        --------
        >>> from dualmetric import Metric
        >>> Metric([[3.0], [4.0]]).query_adapter().transform([[1.0, 0.0]])
        array([[ 9., 12.]])
        """
        return make_adapter(self, documents)

    def teach(self, X: Any, texts: Sequence[str] | None = None, **options: Any) -> Any:
        """Show a page in a notebook on which the distance is taught by clicking.

        This needs ``dualmetric[teach]``. The plain distance is corrected, and the nearest rows by
        this metric are shown beside it. The command ``dualmetric teach`` shows the same page.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Rows in the original features.
        texts : sequence of str, optional
            The text to show for each row; if None, its largest features are shown.
        **options
            ``judgements`` and ``out``, files for the judgements and the metric; ``images``, a
            folder, or ``image_shape`` in place of texts; ``port``.

        Returns
        -------
        dualmetric.teach.notebook.Page
            A notebook shows it. ``page.metric()`` is the metric taught so far, and ``page.stop()``
            stops the page (and saves the metric if ``out`` was given).
        """
        # by name: the page is made of metrics, and a metric must not need the page
        return import_module("dualmetric.teach.notebook").show(self, X, texts, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a safetensors file. An existing file is replaced atomically.

        ``info`` is saved too, and the version of dualmetric is added if ``info`` has none.

        Parameters
        ----------
        path : str or path
            File to write; its folder must exist.
        """
        metric_file.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Metric":
        """Read a metric from a file that `save` wrote. Nothing in the file is executed.

        Parameters
        ----------
        path : str or path
            A metric file.

        Returns
        -------
        Metric
            The metric, with its ``info``.

        Raises
        ------
        ValueError
            If the file is damaged, is not a metric file, or was written by a newer version.
        """
        return metric_file.load(path, cls)

    def weighted(self, X: Matrix) -> Matrix:
        """Rows after tf-idf, where the metric has it."""
        return X if self.idf is None else tfidf.weigh(X, self.idf)
