"""Metric: what happens to a row, and what people do with it."""

import json
import os
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from . import products
from ._files import write_atomically
from ._system import require_memory
from ._types import Array, Rows
from ._validation import refuse_mask

FORMAT_VERSION = 1
_KEY = "dualmetric"


@dataclass(frozen=True, eq=False)
class Metric:
    """A Mahalanobis distance ‖Lᵀa − Lᵀb‖ in factored form: M = LLᵀ is never needed.

    The square of this distance is the paper's d_M(a, b) = (a − b)ᵀM(a − b).

    Parameters
    ----------
    factor : ndarray of shape (n_features, rank) or None
        L. None stands for the identity, the plain Euclidean distance.
    n_features : int
        Width of the rows that the metric applies to.
    feature_names : tuple of str, optional
        Their names.
    info : dict, optional
        How the metric was made; anything that JSON can hold.

    Examples
    --------
    >>> import numpy as np
    >>> from dualmetric import Metric
    >>> metric = Metric(np.array([[3.0], [4.0]]), n_features=2)
    >>> metric.distance([[1.0, 0.0]], [[0.0, 0.0]])
    array([3.])
    """

    factor: Array | None
    n_features: int
    feature_names: tuple[str, ...] | None = None
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_features < 1:
            raise ValueError(f"n_features must be at least 1; got {self.n_features}")
        if self.factor is not None:
            if (
                self.factor.ndim != 2
                or self.factor.shape[0] != self.n_features
                or self.factor.shape[1] == 0
            ):
                raise ValueError(
                    f"the factor of a metric over {self.n_features} features must have shape "
                    f"({self.n_features}, rank), rank at least 1; got {self.factor.shape}"
                )
            if self.factor.dtype not in (np.float32, np.float64):
                raise ValueError(
                    "the factor of a metric must be float32 or float64; got "
                    f"{self.factor.dtype}: convert it with astype"
                )
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ValueError(
                f"{len(self.feature_names)} feature names were given for {self.n_features} features"
            )

    def __repr__(self) -> str:
        return f"<Metric of rank {self.rank} over {self.n_features:,} features>"

    @property
    def rank(self) -> int:
        """Number of directions the distance looks at."""
        return self.n_features if self.factor is None else self.factor.shape[1]

    def transform(self, X: Any) -> Rows:
        """Map rows to where the Euclidean distance is this metric.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows in the original features.

        Returns
        -------
        ndarray of shape (n_samples, rank)
            XL, in the precision of X; X itself where the metric is the identity.
        """
        return self.apply(self._check_rows(X))

    def apply(self, X: Rows) -> Rows:
        """Do what `transform` does to rows that have been checked: finite floats of this width."""
        if self.factor is None:
            return X
        with np.errstate(over="ignore", invalid="ignore"):
            result = products.dot(X, self.factor.astype(X.dtype, copy=False))
        if not np.isfinite(result).all():
            raise ValueError(
                f"the numbers in X are too large for this metric in {X.dtype}: check their unit"
                + (", or pass float64" if X.dtype == np.float32 else "")
            )
        return result

    def distance(self, A: Any, B: Any) -> Array:
        """Distance between each row of A and the same row of B."""
        a, b = self.transform(A), self.transform(B)
        if a.shape != b.shape:
            raise ValueError(
                f"A has {a.shape[0]} rows and B has {b.shape[0]}: distance compares them row by "
                "row; pairwise gives the distances of every row to every other"
            )
        return products.row_lengths(a - b)

    def pairwise(self, A: Any, B: Any = None) -> Array:
        """Distances between all rows of A and all rows of B, or among the rows of A."""
        from sklearn.metrics import euclidean_distances

        a = self.transform(A)
        return euclidean_distances(a, None if B is None else self.transform(B))

    def matrix(self) -> Array:
        """M = LLᵀ, written out (n_features × n_features)."""
        d = self.n_features
        dtype = np.dtype(np.float64) if self.factor is None else self.factor.dtype
        require_memory(
            d * d * dtype.itemsize,
            f"the explicit {d:,} × {d:,} matrix",
            "Use the factor (metric.factor): M = L Lᵀ, and transform applies it.",
        )
        return np.eye(d) if self.factor is None else self.factor @ self.factor.T

    def truncate(self, rank: int) -> "Metric":
        """Return the nearest metric of at most the given rank.

        L is first rotated so that its columns are orthogonal, which changes no distance; the
        longest are kept.
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
        _, rotation = np.linalg.eigh(wide.T @ wide)
        factor = (wide @ rotation[:, ::-1][:, :rank]).astype(self.factor.dtype)
        return Metric(factor, self.n_features, self.feature_names, self.info)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a safetensors file, replacing it in one step."""
        from safetensors.numpy import save

        header = {
            "version": FORMAT_VERSION,
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            "info": self.info,
        }
        tensors = {} if self.factor is None else {"factor": np.ascontiguousarray(self.factor)}
        write_atomically(path, save(tensors, {_KEY: json.dumps(header)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Metric":
        """Read a metric from a file that `save` wrote. Nothing in the file is executed."""
        path = Path(path)
        if path.is_dir():
            raise ValueError(f"{path} is a folder, not a metric file")
        header, factor = _read(path)
        n_features, names, info = (header.get(k) for k in ("n_features", "feature_names", "info"))
        if not isinstance(n_features, int) or n_features < 1 or not isinstance(info, dict):
            raise ValueError(f"{path} is damaged: its description is incomplete; save it again")
        if names is not None and not (
            isinstance(names, list) and all(isinstance(name, str) for name in names)
        ):
            raise ValueError(f"{path} is damaged: its feature names are not text; save it again")
        try:
            return cls(factor, n_features, None if names is None else tuple(names), info)
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from None

    def _check_rows(self, X: Any) -> Rows:
        from sklearn.utils import check_array

        refuse_mask(X, "X")
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but this metric is over {self.n_features}"
            )
        return X


def _read(path: Path) -> tuple[dict[str, Any], Array | None]:
    """Header and factor of a metric file, or a ValueError that says what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
            if text is None:
                raise ValueError(
                    f"{path} is a safetensors file but not a metric: it was not written by "
                    "Metric.save"
                )
            header = _parse(path, text)
            names = list(file.keys())
            if not names:
                return header, None
            if names != ["factor"] or file.get_slice("factor").get_dtype() not in ("F32", "F64"):
                raise ValueError(f"{path} is damaged: expected one float tensor, 'factor'")
            factor = file.get_tensor("factor")
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a metric file, or is damaged or cut short ({error}); save it again"
        ) from None
    if not np.isfinite(factor).all():
        raise ValueError(f"{path} is damaged: its factor holds NaN or infinity; save it again")
    return header, factor


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or JSON made to break the reader
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("version"), int):
        raise ValueError(f"{path} is damaged: its description cannot be read; save it again")
    if header["version"] > FORMAT_VERSION:
        raise ValueError(
            f"{path} was written by a newer dualmetric (format {header['version']}, this one reads "
            f"up to {FORMAT_VERSION}): upgrade with pip install -U dualmetric"
        )
    return header
