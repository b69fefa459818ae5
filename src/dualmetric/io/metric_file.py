"""Files that hold a metric: safetensors, with a description in JSON. Nothing is executed.

The format is documented in ``docs/file-format.md``. Parsed JSON can take thirty times its size in
memory, so a header is measured first and refused if it holds too much.
"""

import json
import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .._types import Array
from .._version import __version__
from ..lift import Lift
from ._forms import FileError
from .atomic import write_atomically

_T = TypeVar("_T")

FORMAT_VERSION = 4
MOST_FEATURES = 2**31 - 1
_KEY = "dualmetric"
_TENSORS = {  # by version; none is required
    1: {"factor", "centre"},
    2: {"factor", "centre", "idf"},
    3: {"factor", "centre", "idf", "landmarks"},
}
_TENSORS[4] = _TENSORS[3] | {f"before.{name}" for name in _TENSORS[3]}
_LONGEST_HEADER = 100_000_000  # bytes: the limit of safetensors itself
_FREE_HEADER = 32_000_000  # bytes; a longer one may be this much longer than the numbers
_HEADER_TOKENS = 1_000
_FREE_TOKENS = 2_000_000  # of a description, and two, a name and a comma, for each row of a tensor
_TOKEN = re.compile(r'[,\[{]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # never looks back


def save(path: str | os.PathLike[str], metric: Any) -> None:
    """Write a metric, its ``info`` and, where that does not name one, the version of dualmetric."""
    header: dict[str, Any] = {
        "n_features": metric.n_features,
        "feature_names": metric.feature_names,
        "info": {"version": __version__, **metric.info},
        **_described(metric),
    }
    tensors = _tensors(metric)
    if metric.before is not None:
        header["before"] = _described(metric.before)
        tensors |= {f"before.{name}": part for name, part in _tensors(metric.before).items()}
    write(path, header, tensors)


def load(path: str | os.PathLike[str], make: Callable[..., _T]) -> _T:
    """Read a metric; ``make`` is its class."""
    header, tensors = read(Path(path))
    n_features, names, info = (header.get(key) for key in ("n_features", "feature_names", "info"))
    inner = {
        name.removeprefix("before."): tensors.pop(name)
        for name in list(tensors)
        if name.startswith("before.")
    }
    try:
        before = None
        if "before" in header:
            before = make(n_features=n_features, **_arguments(header["before"], inner))
        more = {"feature_names": names, "info": info, "before": before}
        return make(n_features=n_features, **_arguments(header, tensors), **more)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def _described(metric: Any) -> dict[str, Any]:
    """What a file says about one step."""
    outside = {"outside": metric.outside} if metric.outside else {}
    lift = {} if metric.lift is None else {"gamma": metric.lift.gamma}
    return {"distance": metric.kind, **outside, **lift}


def _tensors(metric: Any) -> dict[str, Array]:
    """Arrays of one step."""
    landmarks = None if metric.lift is None else metric.lift.landmarks
    parts = {"factor": metric.factor, "centre": metric.centre, "idf": metric.idf}
    parts["landmarks"] = landmarks
    return {name: part for name, part in parts.items() if part is not None}


def _arguments(described: dict[str, Any], tensors: dict[str, Array]) -> dict[str, Any]:
    """Arguments that make one step again."""
    landmarks = tensors.pop("landmarks", None)
    return {
        "distance": described.get("distance", "euclidean"),
        "outside": described.get("outside", 0.0),
        "lift": None if landmarks is None else Lift(landmarks, described["gamma"]),
        "factor": None,
        **tensors,
    }


def write(path: str | os.PathLike[str], header: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Write a description and arrays, replacing the file in one step."""
    from safetensors.numpy import save

    # a reader that does not know a step must not skip it, so each step has its own version
    version = 3 if "landmarks" in tensors else 2 if "idf" in tensors else 1
    version = 4 if "before" in header or "outside" in header else version
    text = json.dumps({"version": version, **_without_nan(header)}, allow_nan=False)
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    content = save(contiguous, {_KEY: text})
    length = int.from_bytes(content[:8], "little")
    if (
        header["n_features"] > MOST_FEATURES
        or length > _longest_header(len(content))
        or _holds_more_tokens(text, _most_tokens(tensor.shape for tensor in tensors.values()))
    ):
        raise ValueError(
            f"feature names and info of {length:,} bytes over {header['n_features']:,} features do "
            "not fit in a metric file: save it without feature names, and with less in info"
        )
    write_atomically(path, content)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and arrays of a metric file, or a ValueError that says what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a metric file")
    _check_outline(path)
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
            if text is None:
                raise ValueError(
                    f"{path} is a safetensors file but not a metric: it was not written by "
                    "Metric.save"
                )
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            limit = _most_tokens(part.get_shape() for part in parts.values())
            header = _parse(path, text, limit)
            allowed = _TENSORS[header["version"]]
            if not allowed.issuperset(parts):
                raise FileError(
                    f"it holds tensors named {reprlib.repr(sorted(parts))}, and a metric of its "
                    f"version has only {', '.join(sorted(allowed))}"
                )
            _check_steps(header, set(parts))
            for name, part in parts.items():
                _check_tensor(name, part.get_dtype(), part.get_shape())
            return header, {name: file.get_tensor(name) for name in parts}
    except FileError as problem:
        raise ValueError(f"{path} is damaged: {problem}; save it again") from None
    except SafetensorError as error:
        detail = repr(str(error)[:150])[1:-1]  # it may quote the file, control characters and all
        raise ValueError(
            f"{path} is not a metric file, or is damaged or cut short ({detail}); save it again"
        ) from None


def _check_steps(header: dict[str, Any], tensors: set[str]) -> None:
    """Refuse a description of steps that does not fit the tensors."""
    before = header.get("before", {})
    if not isinstance(before, dict):
        raise FileError("its first step is not described")
    if "before" not in header and any(name.startswith("before.") for name in tensors):
        raise FileError("it has tensors of a step that it does not describe")
    for described, landmarks in ((header, "landmarks"), (before, "before.landmarks")):
        if ("gamma" in described) != (landmarks in tensors):
            raise FileError("of landmarks and gamma, one is missing")


def _check_outline(path: Path) -> None:
    """Refuse a header that is too long or has too many entries; safetensors checks the rest."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        fits = length <= _longest_header(size)
        # in Latin-1, brackets, commas and quotes stay themselves
        if fits and not _holds_more_tokens(file.read(length).decode("latin-1"), _HEADER_TOKENS):
            return
    raise ValueError(
        f"{path} is not a metric file, or is damaged: its header "
        + ("has too many entries" if fits else f"cannot be {length:,} bytes long")
    )


def _longest_header(file_size: int) -> int:
    """Bytes that the header of a file may take, given what is left for the tensors."""
    return min(_LONGEST_HEADER, file_size - 8, (file_size + _FREE_HEADER) // 2)


def _check_tensor(name: str, dtype: str, shape: list[int]) -> None:
    """Refuse what NumPy would not read; `Metric` checks whether shapes fit."""
    if dtype not in ("F32", "F64") or len(shape) not in (1, 2) or 0 in shape:
        raise FileError(
            f"expected floats (F32 or F64) in one or two dimensions as its {name}, got {dtype} of "
            f"shape {reprlib.repr(tuple(shape))}"
        )


def _parse(path: Path, text: str, limit: int) -> dict[str, Any]:
    try:
        header = None if _holds_more_tokens(text, limit) else json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or JSON made to break the reader
        header = None
    version = header.get("version") if isinstance(header, dict) else None
    if header is None or type(version) is not int or version < 1:
        raise FileError("its description cannot be read")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} was written by a newer dualmetric (format {reprlib.repr(version)}, this one "
            f"reads up to {FORMAT_VERSION}): upgrade with pip install -U dualmetric"
        )
    n_features, names, info = (header.get(key) for key in ("n_features", "feature_names", "info"))
    if type(n_features) is not int or n_features < 1 or not isinstance(info, dict):
        raise FileError("its description is incomplete")
    if n_features > MOST_FEATURES:
        raise FileError(
            f"it claims {reprlib.repr(n_features)} features, and a metric file has at most "
            f"{MOST_FEATURES:,}"
        )
    are_texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if names is not None and not are_texts:
        raise FileError("its feature names are not text")
    return header


def _most_tokens(shapes: Iterable[Iterable[int]]) -> int:
    """Tokens that a description may have beside tensors of these shapes."""
    sides = [list(shape) for shape in shapes]
    rows = max((max(sizes) for sizes in sides if sizes and 0 not in sizes), default=0)
    return _FREE_TOKENS + 2 * rows


def _holds_more_tokens(text: str, limit: int) -> bool:
    """Whether JSON has more strings, commas and opening brackets than ``limit``; not parsed."""
    if sum(map(text.count, '",[{')) <= limit:
        return False
    return next(islice(_TOKEN.finditer(text), limit, None), None) is not None


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
