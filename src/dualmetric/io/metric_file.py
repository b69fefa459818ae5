"""Files that hold a metric: safetensors, with a description in JSON. Nothing is executed.

The format is documented in ``docs/file-format.md``. Parsed JSON can take thirty times its size in
memory, so a header is measured first and refused if it holds too much.
"""

import hashlib
import json
import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .._types import Array
from .._validation import warn
from .._version import __version__
from ..blocks import Blocks
from ..lift import Lift
from ._forms import FileError
from .atomic import write_atomically

_T = TypeVar("_T")

FORMAT_VERSION = 8
MOST_FEATURES = 2**31 - 1
_KEY = "dualmetric"
_CHECKSUM = re.compile(r', "checksum": "([0-9a-f]{64})"\}\Z')  # the last field
_STEP_FIELDS = {"distance", "gamma", "outside", "before"}
_FIELDS = {"version", "n_features", "feature_names", "info"} | _STEP_FIELDS
_TENSORS = {  # by version; none is required
    1: {"factor", "centre"},
    2: {"factor", "centre", "idf"},
    3: {"factor", "centre", "idf", "landmarks"},
}
_TENSORS[4] = _TENSORS[3] | {f"before.{name}" for name in _TENSORS[3]}
_STEP = _TENSORS[3] | {"blocks", "block_weights"}  # tensors of one step
_TENSORS[5] = _STEP | {f"before.{name}" for name in _STEP}
_MATCH = {"table", "distances", "same", "entities"}  # tensors of a matcher, if there is one
_TENSORS[6] = _TENSORS[5] | {f"match.{name}" for name in _MATCH}
_TENSORS[7] = _TENSORS[6]  # the same tensors; blocks of one column each scale columns
_TENSORS[8] = _TENSORS[6]  # the same tensors; a lift after tf-idf
Matching = tuple[dict[str, Any], dict[str, Array]]  # description and arrays of a matcher
_LONGEST_HEADER = 100_000_000  # bytes: the limit of safetensors itself
_FREE_HEADER = 32_000_000  # bytes; a longer one may be this much longer than the numbers
_HEADER_TOKENS = 1_000
_FREE_TOKENS = 2_000_000  # of a description, and two, a name and a comma, for each row of a tensor
_TOKEN = re.compile(r'[,\[{]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # never looks back


def save(path: str | os.PathLike[str], metric: Any, matching: Matching | None = None) -> None:
    """Write a metric and its ``info``, to which the version of dualmetric is added if it has none.

    ``matching`` is what `dualmetric.matching.Matcher` keeps beside its metric.
    """
    from safetensors.numpy import save as as_bytes

    described, tensors = parts(metric)
    header: dict[str, Any] = {
        "n_features": metric.n_features,
        "feature_names": metric.feature_names,
        "info": {"version": __version__, **metric.info},
        **described,
    }
    if metric.before is not None:
        header["before"], inner = parts(metric.before)
        tensors |= {f"before.{name}": tensor for name, tensor in inner.items()}
    # a reader that does not know a step must not skip it, so each step has its own version
    version = 3 if "landmarks" in tensors else 2 if "idf" in tensors else 1
    version = 4 if "before" in header or "outside" in header else version
    version = version if metric.first.blocks is None else 5
    if matching is not None:
        version, header["match"] = 6, matching[0]
        tensors |= {
            f"match.{name}": np.ascontiguousarray(array, np.float64)
            for name, array in matching[1].items()
        }
    first = metric.first
    if first.blocks is not None and first.blocks.are_columns:
        # older readers scale them to length one for the cosine, and refuse them with a lift
        version = 7 if first.kind == "cosine" or first.lift is not None else version
    if first.idf is not None and first.lift is not None:
        version = 8  # older readers refuse it as damaged
    text = json.dumps({"version": version, **_without_nan(header)}, allow_nan=False)
    text = with_checksum(text, tensors)
    content = as_bytes(tensors, {_KEY: text})
    length = int.from_bytes(content[:8], "little")
    if (
        metric.n_features > MOST_FEATURES
        or length > _longest_header(len(content))
        or _holds_more_tokens(text, _most_tokens(tensor.shape for tensor in tensors.values()))
    ):
        raise ValueError(
            f"feature names and info of {length:,} bytes over {metric.n_features:,} features do "
            "not fit in a metric file: save it without feature names, and with less in info"
        )
    write_atomically(path, content)


def load(path: str | os.PathLike[str], make: Callable[..., _T]) -> _T:
    """Read a metric; ``make`` is its class."""
    return load_with_matching(path, make)[0]


def has_matching(path: str | os.PathLike[str]) -> bool:
    """Whether a metric file also holds a matcher."""
    return "match" in read(Path(path))[0]


def load_with_matching(
    path: str | os.PathLike[str], make: Callable[..., _T]
) -> tuple[_T, Matching | None]:
    """Read a metric and the data of its matcher, which are None if there is no matcher."""
    header, tensors = read(Path(path))
    matching = None
    if "match" in header:
        arrays = {name: tensors.pop(f"match.{name}") for name in sorted(_MATCH)}
        matching = header["match"], arrays
    n_features, names, info = (header.get(key) for key in ("n_features", "feature_names", "info"))
    try:
        before = None
        if "before" in header:
            inner = arguments(header["before"], tensors, "before.")
            before = make(n_features=n_features, **inner)
        more = {"feature_names": names, "info": info, "before": before}
        metric = make(n_features=n_features, **arguments(header, tensors), **more)
        if matching is not None:
            check_matching(*matching)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if "checksum" not in header:
        warn(
            f"{path} was written by dualmetric 0.1 and has no checksum, so damage to its numbers "
            "would not be noticed. Metric.load(path).save(path) adds one"
        )
    return metric, matching


def parts(step: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and arrays of one step."""
    described = {"distance": step.kind, **({"outside": step.outside} if step.outside else {})}
    arrays = {"factor": step.factor, "centre": step.centre, "idf": step.idf}
    if step.lift is not None:
        described["gamma"] = step.lift.gamma
        arrays["landmarks"] = step.lift.landmarks
    if step.blocks is not None:
        arrays["blocks"] = step.blocks.of.astype(np.float64)
        arrays["block_weights"] = step.blocks.weights
    held = {name: array for name, array in arrays.items() if array is not None}
    return described, {name: np.ascontiguousarray(array) for name, array in held.items()}


def arguments(
    described: dict[str, Any], tensors: dict[str, Array], prefix: str = ""
) -> dict[str, Any]:
    """Arguments that make one step again; its tensors have names with the prefix."""
    arrays: dict[str, Any] = {name: tensors.get(prefix + name) for name in _STEP}
    landmarks, of, weights = map(arrays.pop, ("landmarks", "blocks", "block_weights"))
    return {
        "distance": described.get("distance", "euclidean"),
        "outside": described.get("outside", 0.0),
        "lift": None if landmarks is None else Lift(landmarks, described["gamma"]),
        "blocks": None if of is None else Blocks(of, weights),
        **arrays,
    }


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and arrays of a metric file, or a ValueError that says what is wrong with it."""
    return read_file(path, _KEY, "a metric: it was not written by Metric.save")


def read_file(path: Path, key: str, what: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The same for any file of this package, whose description is called ``key``."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise ValueError(
            f"{path} is a folder, not a metric file: give the path of a .safetensors file"
        )
    _check_outline(path)
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(key)
            if text is None:
                raise ValueError(f"{path} is a safetensors file but not {what}")
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            limit = _most_tokens(part.get_shape() for part in slices.values())
            header = _parse(path, text, limit)
            if key == _KEY:
                _check_tensors(header, slices)
            tensors = {name: file.get_tensor(name) for name in slices}
            _verify(header, text, tensors)
            return header, tensors
    except FileError as problem:
        raise ValueError(f"{path} is damaged: {problem}; save it again") from None
    except SafetensorError as error:
        detail = repr(str(error)[:150])[1:-1]  # it may quote the file, control characters and all
        raise ValueError(
            f"{path} is not a metric file, or is damaged or cut short ({detail}); save it again"
        ) from None


def with_checksum(text: str, tensors: dict[str, Array]) -> str:
    """A description with the checksum of itself and the tensors as its last field."""
    return f'{text[:-1]}, "checksum": "{_checksum(text, tensors)}"}}'


def _checksum(text: str, tensors: dict[str, Array]) -> str:
    """SHA-256 of the description and of every tensor, with its name, type and shape."""
    found = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        little = np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("<"))
        found.update(f"\n{name} {little.dtype.str} {list(little.shape)}\n".encode())
        found.update(little.data)
    return found.hexdigest()


def _verify(header: dict[str, Any], text: str, tensors: dict[str, Array]) -> None:
    """Refuse a file that has changed since it was written; files of version 0.1 cannot tell."""
    found = _CHECKSUM.search(text)
    # with the name of the checksum damaged, a file would look like an old one
    same = found is None and _FIELDS.issuperset(header)
    if found is not None:
        same = found[1] == _checksum(text[: found.start()] + "}", tensors)
    if not same:
        raise FileError("its checksum is wrong: some of its bytes have changed")


def _check_tensors(header: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Refuse tensors that the description does not fit, or that NumPy would not read."""
    allowed = _TENSORS[header["version"]]
    if not allowed.issuperset(tensors):
        raise FileError(
            f"it holds tensors named {reprlib.repr(sorted(tensors))}, but a metric of its version "
            f"has only {', '.join(sorted(allowed))}"
        )
    before = header.get("before", {})
    if not isinstance(before, dict):
        raise FileError("its first step is not described")
    if "before" not in header and any(name.startswith("before.") for name in tensors):
        raise FileError("it has tensors of a step that it does not describe")
    for described, landmarks in ((header, "landmarks"), (before, "before.landmarks")):
        if ("gamma" in described) != (landmarks in tensors):
            raise FileError("it has landmarks without gamma, or gamma without landmarks")
    for prefix in ("", "before."):
        if (f"{prefix}blocks" in tensors) != (f"{prefix}block_weights" in tensors):
            raise FileError("it has blocks without block_weights, or block_weights without blocks")
    held = {name for name in tensors if name.startswith("match.")}
    if ("match" in header) != bool(held) or len(held) not in (0, len(_MATCH)):
        raise FileError("a part of its matcher is missing")
    for name, tensor in tensors.items():  # `Metric` checks whether shapes fit
        dtype, shape = tensor.get_dtype(), tensor.get_shape()
        if dtype not in ("F32", "F64") or len(shape) not in (1, 2) or 0 in shape:
            raise FileError(
                f"expected floats (F32 or F64) in one or two dimensions as its {name}, got {dtype} "
                f"of shape {reprlib.repr(tuple(shape))}"
            )


def check_matching(described: Any, arrays: dict[str, Array]) -> None:
    """Refuse numbers that a matcher cannot have."""
    table, distance, same = arrays["table"], arrays["distances"], arrays["same"]
    entities, n = arrays["entities"], len(arrays["distances"])
    form = described.get("form") if isinstance(described, dict) else None
    if form not in ("logistic", "squared", "isotonic"):
        raise ValueError("the form of its matcher is not known")
    prevalence, groups = described.get("prevalence"), described.get("groups")
    is_share = isinstance(prevalence, float) and 0.0 < prevalence < 1.0
    if (prevalence is not None and not is_share) or not isinstance(groups, bool):
        raise ValueError("the description of its matcher is incomplete")
    shapes = distance.shape, same.shape, entities.shape
    if shapes != ((n,), (n,), (n, 2)) or table.ndim != 2 or table.shape[1] != 2:
        raise ValueError("the tensors of its matcher do not fit together")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("its matcher holds NaN or infinity")
    if not (np.diff(distance) >= 0).all() or distance[0] < 0:
        raise ValueError("the distances of its matcher are not sorted, or some are below zero")
    if not np.isin(same, (0.0, 1.0)).all() or not 0 < same.sum() < n:
        raise ValueError("the labels of its matcher must be 0 and 1, with both kinds present")
    if (entities != np.trunc(entities)).any() or np.abs(entities).max() >= 2.0**53:
        raise ValueError("the entities of its matcher are not whole numbers")
    if form != "isotonic":
        fits = len(table) == 1 and table[0, 1] <= 0
    else:
        distances, shares = table.T
        fits = bool((np.diff(distances) >= 0).all() and (np.diff(shares) <= 0).all())
        fits = fits and bool(shares.min() > 0 and shares.max() < 1)
    if not fits:
        raise ValueError("the probability of its matcher does not fall with the distance")


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
        f"{path} is not a metric file (.safetensors), or is damaged: its header "
        + ("has too many entries" if fits else "has an impossible length")
    )


def _longest_header(file_size: int) -> int:
    """Bytes that the header of a file may take, given what is left for the tensors."""
    return min(_LONGEST_HEADER, file_size - 8, (file_size + _FREE_HEADER) // 2)


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
            f"reads up to {FORMAT_VERSION}): install a newer version"
        )
    n_features, names, info = (header.get(key) for key in ("n_features", "feature_names", "info"))
    if type(n_features) is not int or n_features < 1 or not isinstance(info, dict):
        raise FileError("its description is incomplete")
    if n_features > MOST_FEATURES:
        raise FileError(
            f"it declares {reprlib.repr(n_features)} features, but a metric file has at most "
            f"{MOST_FEATURES:,}"
        )
    are_texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if names is not None and not are_texts:
        raise FileError("its feature names are not text")
    return header


def _most_tokens(shapes: Iterable[Sequence[int]]) -> int:
    """Tokens that a description may have beside tensors of these shapes."""
    rows = max((max(shape) for shape in shapes if shape and 0 not in shape), default=0)
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
