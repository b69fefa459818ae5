"""Rows as a person sees them: a text, a picture, or a few columns of a table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._arrays import ops
from .._types import Matrix

LONGEST_TEXT = 1500
"""Characters of a text that are shown."""

_SHOWN_COLUMNS = 8
_DOMINANT = 0.9  # of the variance of all features
_KINDS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


class Content:
    """What is shown of a row; ``kind`` is "text", "image" or "table"."""

    kind = "table"

    def dominant(self) -> str:
        """What to say where one feature decides the plain distance, or nothing."""
        return ""

    def of(self, row: int) -> Any:
        """What the page gets: a text, the address of a picture, or names and values."""
        raise NotImplementedError

    def image(self, row: int) -> tuple[str, bytes] | None:
        """Type and bytes of a picture; None where there is none."""
        return None

    def find(self, text: str, start: int = 0) -> int | None:
        """Number of the first row from ``start`` on that holds a text; it goes round at the end."""
        return None


class Texts(Content):
    """One text per row."""

    kind = "text"

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = [str(text).encode("utf-8", "replace").decode() for text in texts]

    def of(self, row: int) -> str:
        """The beginning of the text."""
        text = self.texts[row]
        return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT].rstrip() + " …"

    def find(self, text: str, start: int = 0) -> int | None:
        """Ignore case."""
        wanted, n = text.casefold(), len(self.texts)
        for row in (*range(start, n), *range(min(start, n))):
            if wanted in self.texts[row].casefold():
                return row
        return None


class Table(Content):
    """Columns of a table, or the features that are largest in a row."""

    def __init__(
        self, X: Matrix, names: Sequence[str] | None, columns: Sequence[str] | None = None
    ) -> None:
        self.X, self.names = X, names
        self.chosen: list[int] | None = None
        if columns is not None:
            known = {name: place for place, name in enumerate(names or ())}
            missing = [name for name in columns if name not in known]
            if missing:
                raise ValueError(
                    f"columns: there is no feature called {missing[0]!r}: give names of features"
                )
            self.chosen = [known[name] for name in columns]

    def dominant(self) -> str:
        """What to say where one feature decides the plain distance, or nothing."""
        spread = np.var(self.X, axis=0, dtype=np.float64) if ops.is_dense(self.X) else np.zeros(1)
        largest = int(spread.argmax())
        if len(spread) < 2 or not spread[largest] > _DOMINANT * spread.sum():
            return ""
        return (
            f"{self._name(largest)} alone makes up {100 * spread[largest] / spread.sum():.0f} % of "
            "the squared distances: give all features a similar spread first, for example by "
            "scikit-learn's StandardScaler"
        )

    def _name(self, place: int) -> str:
        return f"feature {place}" if self.names is None else str(self.names[place])

    def of(self, row: int) -> list[list[str]]:
        """Names and values."""
        values = ops.to_dense(ops.take_rows(self.X, np.array([row])))[0]
        places = self.chosen
        if places is None:
            order = np.argsort(-np.abs(values), kind="stable")[:_SHOWN_COLUMNS]
            places = [int(place) for place in order if values[place]]
        return [[self._name(f), f"{values[f]:.4g}"] for f in places]


class Images(Content):
    """Files of a folder, one per row in the order of their names; or rows as pixels."""

    kind = "image"

    def __init__(self, folder: Path, n_rows: int) -> None:
        if not folder.is_dir():
            raise ValueError(f"images: {folder} is not a folder: give a folder of pictures")
        names = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in _KINDS)
        if len(names) != n_rows:
            raise ValueError(
                f"images: {folder} has {len(names)} pictures ({', '.join(_KINDS)}) for {n_rows} "
                "rows: give one per row, in row order when sorted by name"
            )
        self.folder, self.names = folder, names

    def of(self, row: int) -> str:
        """The name of the file, as its description."""
        return self.names[row]

    def image(self, row: int) -> tuple[str, bytes] | None:
        """Read the file; None where it has gone."""
        path = self.folder / self.names[row]
        try:
            return _KINDS[path.suffix.lower()], path.read_bytes()
        except OSError:
            return None

    def find(self, text: str, start: int = 0) -> int | None:
        """Look in the names of the files."""
        return Texts(self.names).find(text, start)


class Pixels(Content):
    """Rows that are pictures themselves."""

    kind = "image"

    def __init__(self, X: Matrix, image_shape: Any) -> None:
        from ..report import _pictures

        self.X, self.shape = X, _pictures.check_shape(image_shape, X.shape[1])
        values = ops.stored_values(X)
        self.low, self.high = min(0.0, float(values.min())), float(values.max())

    def of(self, row: int) -> str:
        """The number of the row, as a description."""
        return f"row {row}"

    def image(self, row: int) -> tuple[str, bytes]:
        """A PNG."""
        from ..report import _pictures

        values = ops.to_dense(ops.take_rows(self.X, np.array([row])))[0]
        scaled = (values - self.low) / ((self.high - self.low) or 1.0)
        pixels = np.rint(255 * np.clip(scaled, 0, 1)).astype(np.uint8)
        height, width, colours = self.shape
        return "image/png", _pictures.png(pixels.reshape(height, width * colours), colours)


def make_content(
    X: Matrix,
    names: Sequence[str] | None,
    texts: Path | Sequence[str] | None = None,
    images: Path | None = None,
    image_shape: Any = None,
    columns: str | Sequence[str] | None = None,
) -> Content:
    """What is shown of each row; at most one of the last four is given."""
    given = [what for what in (texts, images, image_shape, columns) if what is not None]
    if len(given) > 1:
        raise ValueError(
            "texts, images, image_shape and columns cannot be combined: give one of them"
        )
    n = X.shape[0]
    if texts is not None:
        lines = read_texts(texts) if isinstance(texts, Path) else list(texts)
        if len(lines) != n:
            raise ValueError(f"texts: {len(lines)} were given for {n} rows: give one per row")
        return Texts(lines)
    if images is not None:
        return Images(images, n)
    if image_shape is not None:
        if isinstance(image_shape, str):
            parts = [part.strip() for part in image_shape.lower().replace("x", ",").split(",")]
            if not all(part.isdecimal() for part in parts):
                raise ValueError(f"image_shape must be HEIGHTxWIDTH; got {image_shape!r}")
            image_shape = tuple(map(int, parts))
        return Pixels(X, image_shape)
    if isinstance(columns, str):
        columns = [name.strip() for name in columns.split(",")]
    return Table(X, names, columns)


def read_texts(path: Path) -> list[str]:
    """One text per line; of a .jsonl file, the field "text" of each object, or the whole of it."""
    if not path.is_file():
        raise FileNotFoundError(f"texts: {path} does not exist: check its name and folder")
    content = path.read_bytes().decode("utf-8", "replace")
    lines = content.removesuffix("\n").split("\n") if content else []
    if path.suffix != ".jsonl":
        return [line.rstrip("\r") for line in lines]
    found = []
    for place, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError(f"{path}: line {place} is not JSON: {line[:40]!r}") from None
        found.append(str(entry.get("text", line)) if isinstance(entry, dict) else str(entry))
    return found
