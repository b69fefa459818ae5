"""Metric: what happens to a row, and what people do with it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import numpy as np

from . import _device_metric, _explain, _metric_file, products, sources, weighting
from . import _metric_checks as checks
from ._dask import lazy
from ._dask.rows import is_dask
from ._explain import Explanation
from ._namespace import check_device_rows, check_same_device, is_device_array, to_numpy
from ._system import require_memory
from ._types import Array, Rows
from ._validation import refuse_mask
from ._version import __version__
from .lift import Lift

DISTANCES = ("euclidean", "cosine")


@dataclass(frozen=True, eq=False, init=False)
class Metric:
    """A Mahalanobis distance ‖Lᵀa − Lᵀb‖ in factored form: M = LLᵀ is never needed.

    The square of this distance is the paper's d_M(a, b) = (a − b)ᵀM(a − b).

    With ``distance="cosine"``, a row x becomes (Lᵀx − c)/‖Lᵀx − c‖, and the distance is the
    Euclidean one between such rows of length one: its square is 2 − 2 cos, so that it ranks as the
    cosine does. A row with Lᵀx = c has no direction; it stays zero, at distance one from all that
    have.

    With ``idf``, rows are counts, and x above is what `weighting.tfidf` makes of them. With
    ``lift``, x above is the kernel values of a row with landmarks, and the distance is not linear
    in the features.

    Parameters
    ----------
    factor : array-like of shape (n_features, rank) or None
        L. None stands for the identity, the plain Euclidean distance. With a lift, it is needed,
        and has a row for each landmark.
    n_features : int, optional
        Width of the rows that the metric applies to; needed only where ``factor`` is None.
    feature_names : sequence of str, optional
        Their names.
    info : dict, optional
        How the metric was made; anything that JSON can hold.
    centre : array-like of shape (rank,), optional
        c, the mean of the transformed training rows; None is zero. For the cosine only: it would
        change no Euclidean distance.
    distance : {"euclidean", "cosine"}, default="euclidean"
        How transformed rows are compared. Kept as the attribute ``kind``, since ``distance`` is
        the method.
    idf : array-like of shape (n_features,), optional
        Weights of the features in tf-idf, as `weighting.fit_idf` gives them; None leaves rows as
        they are.
    lift : dualmetric.lift.Lift, optional
        Landmarks and the width of the kernel; for dense rows, and so not together with ``idf``.

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
    ) -> None:
        factor = None if factor is None else checks.as_floats(factor, "factor")
        lift = None if lift is None else checks.as_lift(lift)
        n_features = checks.as_width(n_features, factor, lift)
        checks.check_factor(factor, n_features, lift)
        _explain.check_number_of_names(feature_names, n_features)
        if distance not in DISTANCES:
            raise ValueError(f"distance must be 'euclidean' or 'cosine'; got {brief(distance)}")
        rank = n_features if factor is None else factor.shape[1]
        centre = None if centre is None else checks.as_centre(centre, rank, distance)
        idf = None if idf is None else checks.as_idf(idf, n_features, lift)
        names = None if feature_names is None else tuple(map(str, feature_names))
        info = {} if info is None else info
        # past the guard of a frozen class
        self.__dict__.update(factor=factor, n_features=n_features, feature_names=names, info=info)
        self.__dict__.update(centre=centre, kind=distance, idf=idf, lift=lift)

    def __repr__(self) -> str:
        name = "Metric" if self.kind == "euclidean" else "Cosine metric"
        first = "" if self.idf is None else ", weighted by tf-idf"
        if self.lift is not None:
            first = f", lifted by {len(self.lift.landmarks):,} landmarks"
        return f"<{name} of rank {self.rank} over {self.n_features:,} features{first}>"

    @property
    def rank(self) -> int:
        """Number of directions the distance looks at."""
        return self.n_features if self.factor is None else self.factor.shape[1]

    def transform(self, X: Any) -> Rows:
        """Map rows to where the Euclidean distance is this metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Rows in the original features: counts, where the metric has ``idf``; dense, where it has
            a lift. A memory map, or an object with ``shape``, ``dtype`` and row slicing (HDF5,
            Zarr, `open_parquet`), is read in blocks. An array on a device (PyTorch, CuPy) stays
            there. So does a Dask array, or a Dask DataFrame, of which the columns with the names of
            the features are taken, or the one of vectors.

        Returns
        -------
        array of shape (n_samples, rank)
            XL, or k(X)L with a lift, in the precision of X; for the cosine, centred and scaled to
            rows of length one. Where the factor is the identity, X itself or a weighted or scaled
            copy: sparse if X is. Of a Dask X, a Dask array with the same chunks of rows, of which
            nothing is computed.
        """
        if is_dask(X):
            return lazy.transform(X, self)
        if not sources.is_source(X):
            return self.apply(self._check_rows(X))
        result = None
        for start, block in sources.blocks(X):
            rows = self.apply(self._check_rows(block))
            if result is None:
                require_memory(
                    X.shape[0] * self.rank * rows.dtype.itemsize,
                    f"the transformed {X.shape[0]:,} rows of {self.rank:,} numbers",
                    "Transform parts of X, write them with the command line (dualmetric "
                    "transform), or pass a Dask array, which stays lazy.",
                )
                result = np.empty((X.shape[0], self.rank), dtype=rows.dtype)
            result[start : start + len(rows)] = rows
        if result is None:
            raise ValueError("X has no rows")
        return result

    def apply(self, X: Rows) -> Rows:
        """Do what `transform` does to rows that have been checked: finite floats of this width."""
        if is_device_array(X):
            return _device_metric.apply(self, X)
        rows = self._factor_inputs(X)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.factor is not None:
                factor = self.factor.astype(X.dtype, copy=False)
                step = products.dot if self.lift is None else self.lift.apply
                rows = step(rows, factor)
            if self.centre is not None:
                if products.is_sparse(rows):
                    raise ValueError(
                        "this metric subtracts a centre, which would fill a sparse X with numbers: "
                        "pass X.toarray(), or use a metric with centre=None"
                    )
                centre = self.centre.astype(X.dtype, copy=False)
                rows = np.subtract(rows, centre, out=None if rows is X else rows)
            computed = self.factor is not None or self.centre is not None
            if computed and not np.isfinite(rows).all():
                raise checks.too_large(X.dtype)
        if self.kind == "euclidean":
            return rows
        return products.unit_rows(rows, in_place=rows is not X)

    def _factor_inputs(self, X: Rows) -> Rows:
        """Rows as the lift or L takes them: a new array or X itself, which is left as it is."""
        if self.lift is not None and products.is_sparse(X):
            raise ValueError("this metric is lifted, which takes dense rows: pass X.toarray()")
        return X if self.idf is None else weighting.weigh(X, self.idf)

    def distance(self, A: Any, B: Any) -> Array:
        """Distance between each row of A and the same row of B; lazy where one is a Dask array."""
        check_same_device(A, B)
        a, b = self.transform(A), self.transform(B)
        if is_dask(a) or is_dask(b):
            return lazy.row_distances(a, b)
        if a.shape != b.shape:
            raise ValueError(
                f"A has {a.shape[0]} rows and B has {b.shape[0]}: distance compares them row by "
                "row; pairwise gives the distances of every row to every other"
            )
        return products.row_lengths(a - b)

    def pairwise(self, A: Any, B: Any = None) -> Array:
        """Distances between all rows of A and all rows of B, or among the rows of A."""
        from sklearn.metrics import euclidean_distances

        check_same_device(A, A if B is None else B)
        if is_device_array(A):
            return _device_metric.pairwise(self, A, B)
        a = self.transform(A)
        return euclidean_distances(a, None if B is None else self.transform(B))

    def matrix(self) -> Array:
        """M = LLᵀ, written out (n_features × n_features).

        It applies after rows are weighted by tf-idf, and before they are scaled to length one for
        the cosine, where the metric does so. A lifted metric has none.
        """
        checks.refuse_lift(self.lift, "it has no matrix over them; use transform or pairwise")
        d = self.n_features
        dtype = np.dtype(np.float64) if self.factor is None else self.factor.dtype
        require_memory(
            d * d * dtype.itemsize,
            f"the explicit {d:,} × {d:,} matrix",
            "Use the factor (metric.factor): M = L Lᵀ, and transform applies it.",
        )
        return np.eye(d) if self.factor is None else self.factor @ self.factor.T

    def explain(
        self, a: Any, b: Any, feature_names: Sequence[str] | None = None, top: int = 10
    ) -> Explanation:
        """Split the distance between two rows into what each feature contributes.

        The parts are linear in the difference of the rows and add up to the distance:

        - Euclidean: with δ = a − b and z = Lᵀδ, feature f contributes δ_f (Lz)_f / ‖z‖, and
          Σ_f δ_f (Lz)_f / ‖z‖ = zᵀz / ‖z‖ = ‖z‖.
        - cosine: with α = ‖Lᵀa − c‖ and β = ‖Lᵀb − c‖ the rows are compared at length one, so that
          δ = a/α − b/β and z = Lᵀδ − (1/α − 1/β)c. Features contribute as above, and what the
          centre itself adds, −(1/α − 1/β) cᵀz / ‖z‖, is a part of its own named "(centre)". A row
          without direction (α = 0) counts as zero, 1/α = 0.

        With tf-idf, a and b here are the weighted rows. The distances of a lifted metric do not
        split like this: they are refused.

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
        checks.refuse_lift(self.lift, "distances do not split into them; explain one without lift")
        name_of = _explain.namer(feature_names, self.feature_names, self.n_features)
        _explain.check_top(top)
        row_a, row_b = self._explained_row(a, "a"), self._explained_row(b, "b")
        distance, parts = _explain.split(self.factor, self.centre, self.kind, row_a, row_b)
        if not np.isfinite(distance):
            raise checks.too_large(np.dtype(np.float64))
        return _explain.summarise(distance, parts, name_of, top)

    def top_features(
        self, component: int, feature_names: Sequence[str] | None = None, top: int = 10
    ) -> list[tuple[str, float]]:
        """Features with the largest weights in one direction of the metric.

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
            sign pull rows to opposite ends; which end is positive has no meaning.
        """
        checks.refuse_lift(self.lift, "it has no weights for them; use one without lift")
        name_of = _explain.namer(feature_names, self.feature_names, self.n_features)
        _explain.check_top(top)
        if self.factor is None:
            raise ValueError(
                "the identity has no directions of its own: every feature counts alike"
            )
        if not isinstance(component, Integral) or not 0 <= component < self.rank:
            raise ValueError(
                f"there is no component {component!r}: this metric has {self.rank}, numbered from "
                f"0 to {self.rank - 1}"
            )
        weights = self.factor[:, component]
        return [(name_of(f), float(weights[f])) for f in _explain.largest_first(weights)[:top]]

    def truncate(self, rank: int) -> "Metric":
        """Return the nearest metric of at most the given rank.

        L is first rotated so that its columns are orthogonal, which changes no distance; the
        longest are kept. With a lift, that is as columns are in the space of the kernel. For the
        cosine, the centre goes with them, and it is the distance before the scaling that is
        nearest.
        """
        if not isinstance(rank, Integral) or rank < 1:
            raise ValueError(f"rank must be a whole number, at least 1; got {rank!r}")
        if self.factor is None:
            if rank >= self.n_features:
                return self
            raise ValueError(
                "the Euclidean metric weighs every direction alike and has no leading ones to "
                "keep: reduce the data instead, for example by PCA"
            )
        if rank >= self.rank:
            return self
        wide = self.factor.astype(np.float64)
        gram = wide.T @ wide
        if self.lift is not None:  # columns weigh images of landmarks: their products are LᵀKL
            gram = wide.T @ self.lift.apply(self.lift.landmarks.astype(np.float64), wide)
        _, rotation = np.linalg.eigh(gram)
        rotation = rotation[:, ::-1][:, :rank]
        factor = (wide @ rotation).astype(self.factor.dtype)
        centre = self.centre
        if centre is not None:
            centre = (centre.astype(np.float64) @ rotation).astype(centre.dtype)
        return self.replaced(factor=factor, centre=centre)

    def with_idf(self, idf: Any) -> "Metric":
        """Put tf-idf in front of a metric that was learned on rows weighted with this idf.

        The metric returned takes raw counts.
        """
        if self.idf is not None:
            raise ValueError("this metric weighs counts by tf-idf already")
        return self.replaced(idf=idf)

    def with_info(self, **more: Any) -> "Metric":
        """Return the same metric with more entries in ``info``, which replace those of old."""
        return self.replaced(info={**self.info, **more})

    def replaced(self, **changes: Any) -> "Metric":
        """Return the same metric with other arguments, named as the constructor names them."""
        same = {field.name: getattr(self, field.name) for field in fields(self)}
        same["distance"] = same.pop("kind")
        return Metric(**{**same, **changes})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a safetensors file, replacing it in one step.

        ``info`` is kept with it, and the version of dualmetric where it does not name one.
        """
        header: dict[str, Any] = {
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            "info": {"version": __version__, **self.info},
            "distance": self.kind,
        }
        tensors = {"factor": self.factor, "centre": self.centre, "idf": self.idf}
        if self.lift is not None:
            header["gamma"] = self.lift.gamma
            tensors["landmarks"] = self.lift.landmarks
        _metric_file.write(path, header, {k: v for k, v in tensors.items() if v is not None})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Metric":
        """Read a metric from a file that `save` wrote. Nothing in the file is executed."""
        header, tensors = _metric_file.read(Path(path))
        landmarks = tensors.pop("landmarks", None)
        lift = None if landmarks is None else Lift(landmarks, header["gamma"])
        try:
            return cls(
                n_features=header["n_features"],
                feature_names=header.get("feature_names"),
                info=header["info"],
                distance=header.get("distance", "euclidean"),
                lift=lift,
                **{"factor": None, **tensors},
            )
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from None

    def _check_rows(self, X: Any, name: str = "X") -> Rows:
        X = (check_device_rows if is_device_array(X) else weighting.check_rows)(X, name)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but this metric is over {self.n_features}"
            )
        return X

    def _explained_row(self, row: Any, name: str) -> Array:
        """One row as L takes it, written out in float64."""
        refuse_mask(row, name)
        row = to_numpy(row)
        if np.ndim(row) == 1:
            row = (row if products.is_sparse(row) else np.asarray(row)).reshape(1, -1)
        rows = self._check_rows(row, name)
        if rows.shape[0] != 1:
            raise ValueError(f"{name} must be a single row; got {rows.shape[0]}")
        return products.to_dense(self._factor_inputs(rows.astype(np.float64)))[0]
