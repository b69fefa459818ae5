"""Rows as pictures: many small ones in one PNG, embedded in the page as text."""

import base64
import struct
import zlib
from typing import Any

import numpy as np

from .._types import Array

_COLUMNS = 64


def check_shape(image_shape: Any, n_features: int) -> tuple[int, int, int]:
    """Height, width and number of colours (1 or 3) of rows that are pictures."""
    shape = tuple(int(size) for size in image_shape)
    if len(shape) == 2:
        shape = (*shape, 1)
    if len(shape) != 3 or shape[2] not in (1, 3) or min(shape) < 1:
        raise ValueError(
            "image_shape must be (height, width), or (height, width, 3) for colours; got "
            f"{tuple(image_shape)}"
        )
    if np.prod(shape) != n_features:
        raise ValueError(
            f"image_shape {tuple(image_shape)} makes {np.prod(shape)} pixels, but rows have "
            f"{n_features} features"
        )
    return shape


def shrunk(pictures: Array, largest: int) -> Array:
    """Pictures (n × height × width × colours) with sides of at most ``largest``."""
    n, height, width, colours = pictures.shape
    side = -(-max(height, width) // largest)
    if side == 1:
        return pictures
    down, across = max(1, height // side), max(1, width // side)
    rows, columns = min(side, height), min(side, width)
    # each new pixel is the mean of a square of old ones; what fills no square is cut off
    cut = pictures[:, : down * rows, : across * columns]
    return cut.reshape(n, down, rows, across, columns, colours).mean(axis=(2, 4))


def sheet(pictures: Array) -> dict[str, Any]:
    """Put pictures (n × height × width × colours, uint8) into one PNG, for the script."""
    n, height, width, colours = pictures.shape
    columns = min(n, _COLUMNS)
    lines = -(-n // columns)
    full = np.zeros((lines * columns, height, width, colours), dtype=np.uint8)
    full[:n] = pictures
    grid = full.reshape(lines, columns, height, width, colours).swapaxes(1, 2)
    file = png(grid.reshape(lines * height, columns * width * colours), colours)
    src = "data:image/png;base64," + base64.b64encode(file).decode("ascii")
    return {"src": src, "width": width, "height": height, "columns": columns}


def png(lines: Array, colours: int) -> bytes:
    """Encode lines of pixels, eight bits per colour."""
    height, width = lines.shape[0], lines.shape[1] // colours
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if colours == 1 else 2, 0, 0, 0)
    unfiltered = np.pad(lines, ((0, 0), (1, 0)))  # each line starts with 0
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(unfiltered.tobytes(), 9), b"IEND": b""}
    file = b"\x89PNG\r\n\x1a\n"
    for name, content in chunks.items():
        length, checksum = (
            struct.pack(">I", n) for n in (len(content), zlib.crc32(name + content))
        )
        file += length + name + content + checksum
    return file
