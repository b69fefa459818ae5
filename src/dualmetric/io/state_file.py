"""Files with the state that an update continues from: safetensors, with a description in JSON.

They are written beside a metric by ``save_state``, and checked on reading: every number that the
solver relies on is checked. Nothing is executed. The format is documented in
``docs/file-format.md``.
"""

import json
import os
import reprlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import ops
from .._types import Array, Matrix
from .._version import __version__
from ..losses import get_loss
from ..metric import Metric
from ..problem import Prior
from ..updating import Base, Kept, seen_in, with_gram
from . import metric_file
from ._forms import FileError
from .atomic import write_atomically

VERSION = 1
_KEY = "dualmetric-state"
_PER_COMPARISON = ("margin", "told", "given", "weight", "beta")
_SPARSE = ("rows.data", "rows.indices", "rows.indptr")
_METRICS = ("first", "prior")
_TENSORS = {
    "index", "born", *_PER_COMPARISON, "rows", *_SPARSE, "mean", "basis",
    *(f"{metric}.{name}" for metric in _METRICS for name in ("factor", "centre")),
}  # fmt: skip
_WHOLE = {"index", "born", "rows.indices", "rows.indptr"}


def save(path: str | os.PathLike[str], method: str, parameters: dict[str, Any], state: Any) -> None:
    """Write the state of an estimator."""
    from safetensors.numpy import save as as_bytes

    base: Base = state.base
    kept: Kept = state.kept
    tensors = {name: getattr(kept, name) for name in (*_PER_COMPARISON, "index", "born")}
    if ops.is_dense(kept.raw):
        tensors["rows"] = kept.raw
    else:
        rows = sp.csr_matrix(kept.raw)
        parts = rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
        tensors |= dict(zip(_SPARSE, parts, strict=True))
    tensors |= {"mean": base.mean, "basis": base.basis}
    header: dict[str, Any] = {
        "version": VERSION,
        "info": {"version": __version__},
        "method": method,
        "parameters": {key: _plain(key, value) for key, value in parameters.items()},
        "n_features": base.first.n_features,
        "feature_names": base.first.feature_names,
        "n_rows": int(kept.raw.shape[0]),
        "n_updates": kept.n_updates,
        "unit": base.unit,
        "scale": None if base.prior is None else base.prior.scale,
        "ids": list(kept.ids),
    }
    metrics = {"first": base.first}
    if isinstance(parameters.get("prior"), Metric):
        metrics["prior"] = parameters["prior"]
    for name, metric in metrics.items():
        header[name], arrays = metric_file.parts(metric)
        tensors |= {f"{name}.{key}": array for key, array in arrays.items()}
    held = {
        name: np.ascontiguousarray(array) for name, array in tensors.items() if array is not None
    }
    text = metric_file.with_checksum(json.dumps(header, allow_nan=False), held)
    content = as_bytes(held, {_KEY: text})
    write_atomically(path, content)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Metric):
        return None  # written as arrays
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, np.integer | np.floating):
        return value.item()
    raise ValueError(
        f"{name}={reprlib.repr(value)} cannot be written to a file: use a number, a name or None"
    )


def load(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Base, Kept]:
    """Name of the estimator, its parameters, and its state."""
    path = Path(path)
    header, tensors = metric_file.read_file(path, _KEY, "a state: it was not written by save_state")
    version = header.get("version")
    if type(version) is int and version > VERSION:
        raise ValueError(
            f"{path} was written by a newer dualmetric (format {reprlib.repr(version)}, this one "
            f"reads {VERSION}): install a newer version"
        )
    try:
        return _made(header, tensors)
    except (FileError, KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is damaged: {what}; save it again") from None


def _made(
    header: dict[str, Any], tensors: dict[str, Array]
) -> tuple[str, dict[str, Any], Base, Kept]:
    if not _TENSORS.issuperset(tensors):
        raise FileError(f"it holds tensors named {reprlib.repr(sorted(set(tensors) - _TENSORS))}")
    for name, array in tensors.items():
        kinds = "i" if name in _WHOLE else "f"
        if array.dtype.kind not in kinds or (kinds == "f" and not np.isfinite(array).all()):
            raise FileError(f"{name} must hold {'whole' if kinds == 'i' else 'finite'} numbers")
    version, method, parameters = header["version"], header["method"], dict(header["parameters"])
    if version != VERSION:
        raise FileError(
            f"it has version {reprlib.repr(version)}, but this dualmetric reads version {VERSION}"
        )
    d, n_rows, ids = header["n_features"], header["n_rows"], header["ids"]
    metrics = {
        name: Metric(
            n_features=d,
            feature_names=header["feature_names"] if name == "first" else None,
            **metric_file.arguments(header[name], tensors, f"{name}."),
        )
        for name in _METRICS
        if name in header
    }
    raw = _rows(tensors, n_rows, d)
    index, n = tensors["index"], len(ids)
    if index.shape != (n, 4) or (n and not 0 <= index.min() <= index.max() < n_rows):
        raise FileError("its comparisons name rows that it does not hold")
    if not all(isinstance(name, str | int) and not isinstance(name, bool) for name in ids):
        raise FileError("ids are not text or whole numbers")
    columns = {name: tensors[name] for name in (*_PER_COMPARISON, "born")}
    if any(column.shape != (n,) for column in columns.values()):
        raise FileError("it does not hold one number per comparison")
    upper = get_loss(parameters["loss"]).upper
    beta, weight, given = columns["beta"], columns["weight"], columns["given"]
    if n and not ((weight > 0) & (given > 0) & (beta >= 0) & (beta <= upper * weight)).all():
        raise FileError("its dual variables are not between 0 and their weights")
    first, mean, basis = metrics["first"], tensors.get("mean"), tensors.get("basis")
    width = first.rank
    if mean is not None and mean.shape != (width,):
        raise FileError(f"its mean has shape {mean.shape}")
    if (basis is None) == (method == "DuRP") or (basis is not None and len(basis) != width):
        raise FileError("its projection does not fit")
    unit, scale = float(header["unit"]), header["scale"]
    if not unit > 0 or not (scale is None or float(scale) > 0):
        raise FileError("its unit is not positive")
    prior = None if scale is None else Prior(scale=float(scale))
    if "prior" in metrics:
        parameters["prior"] = metrics["prior"]
        omega, factor, gains = metrics["prior"].low_rank_form()
        prior = Prior(omega, factor, gains if factor is not None else None, None, float(scale))
    if (prior is None) != (parameters.get("prior") is None):
        raise FileError("its prior is incomplete")
    base = Base(first, mean, unit, prior, basis)
    rows = first.apply(raw) if n_rows else raw
    kept = Kept(
        raw,
        rows,
        index.astype(np.int64),
        ids=tuple(ids),
        born=columns.pop("born"),
        n_updates=int(header["n_updates"]),
        seen=seen_in(raw),
        gram=None,
        **columns,
    )
    return method, parameters, base, with_gram(kept, base)


def _rows(tensors: dict[str, Array], n_rows: int, d: int) -> Matrix:
    if "rows" in tensors:
        rows = tensors["rows"]
        if rows.shape != (n_rows, d):
            raise FileError(f"its rows have shape {rows.shape}")
        return rows
    data, indices, indptr = (tensors[name] for name in _SPARSE)
    found = sp.csr_matrix((n_rows, d), dtype=data.dtype)
    found.data, found.indices, found.indptr = data, indices, indptr
    found.check_format(full_check=True)
    return found
