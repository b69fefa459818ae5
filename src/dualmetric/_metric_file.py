"""Files that hold a metric: safetensors, with a description in JSON. Nothing is executed."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ._files import write_atomically
from ._types import Array

FORMAT_VERSION = 1
_KEY = "dualmetric"
_TENSORS = {"factor", "centre"}  # each may be absent


def write(path: str | os.PathLike[str], header: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Write a description and arrays, replacing the file in one step."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    text = json.dumps({"version": FORMAT_VERSION, **header})
    write_atomically(path, save(contiguous, {_KEY: text}))


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and arrays of a metric file, or a ValueError that says what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a metric file")
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
            if not _TENSORS.issuperset(names) or any(
                file.get_slice(name).get_dtype() not in ("F32", "F64") for name in names
            ):
                raise ValueError(
                    f"{path} is damaged: expected one float tensor, 'factor', and perhaps another, "
                    "'centre'"
                )
            return header, {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a metric file, or is damaged or cut short ({error}); save it again"
        ) from None


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
    n_features, names, info = (header.get(key) for key in ("n_features", "feature_names", "info"))
    if not isinstance(n_features, int) or n_features < 1 or not isinstance(info, dict):
        raise ValueError(f"{path} is damaged: its description is incomplete; save it again")
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise ValueError(f"{path} is damaged: its feature names are not text; save it again")
    return header
