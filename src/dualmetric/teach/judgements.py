"""Judgements, what they imply, and the file that they are kept in.

A judgement says that a row is right for a query ("closer") or wrong ("farther"). Rows that are
right for each other belong to one group, and a wrong row is apart from the whole group: so each
answer says something about many pairs. It becomes comparisons (a, b, a, c), "a is closer to b, of
its group, than to c, which is apart from it".

The file has one JSON object per line and is only ever appended to. A line that was cut short, as
when the power fails, is left out and counted.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .._arrays import ops
from .._types import Array, Matrix
from .._version import __version__
from ..io.atomic import lock

MOST_COMPARISONS = 4000
"""Comparisons that are learned from at once: later ones replace others at random."""

_MANY = 16  # comparisons of an early judgement; fewer of each as there are more judgements
_HALF_AT = 100  # judgements at which a judgement gives half as many
_LONGEST_LINE = 10_000  # bytes


class Judgement(NamedTuple):
    """What a person said about a row and a query."""

    query: int
    row: int
    right: bool
    asked: str = "own"  # "random" and "next": the page chose the row; "own": the person did


class Groups:
    """Rows that belong together, and groups that are apart, as judgements imply."""

    def __init__(self, judgements: Iterable[Judgement] = ()) -> None:
        self.of: dict[int, int] = {}  # row: group
        self.members: dict[int, list[int]] = {}
        self.apart: dict[int, set[int]] = {}
        self.contradictions = 0
        for judgement in judgements:
            self.add(judgement)

    def add(self, judgement: Judgement) -> None:
        """Take in one judgement. One that contradicts what is implied so far is only counted."""
        one, other = (self._group(row) for row in (judgement.query, judgement.row))
        same, apart = one == other, other in self.apart[one]
        if apart if judgement.right else same:
            self.contradictions += 1
        elif judgement.right and not same:
            self._join(one, other)
        elif not judgement.right and not apart:
            self.apart[one].add(other)
            self.apart[other].add(one)

    def _group(self, row: int) -> int:
        if row not in self.of:
            self.of[row] = row
            self.members[row], self.apart[row] = [row], set()
        return self.of[row]

    def _join(self, one: int, other: int) -> None:
        if len(self.members[one]) < len(self.members[other]):
            one, other = other, one
        moved = self.members.pop(other)
        self.members[one] += moved
        self.of.update(dict.fromkeys(moved, one))
        for group in self.apart.pop(other):
            self.apart[group].discard(other)
            self.apart[group].add(one)
            self.apart[one].add(group)

    def with_row(self, row: int) -> list[int]:
        """The group of a row, itself included."""
        return self.members[self.of[row]] if row in self.of else [row]

    def apart_from(self, row: int) -> list[int]:
        """Rows that are apart from this one."""
        if row not in self.of:
            return []
        return [other for group in self.apart[self.of[row]] for other in self.members[group]]


def comparisons_of(groups: Groups, judgement: Judgement, n: int, rng: np.random.Generator) -> Array:
    """At most n comparisons that a judgement adds to what the groups imply without it."""
    q, x, right, _ = judgement
    same = groups.of.get(q, q) == groups.of.get(x, x)
    apart = q in groups.of and groups.of.get(x, x) in groups.apart[groups.of[q]]
    if same or apart:
        return np.zeros((0, 4), dtype=np.int64)  # known already, or a contradiction
    g, h = groups.with_row(q), groups.with_row(x)
    from_g, from_h = groups.apart_from(q), groups.apart_from(x)
    if right:
        far = from_g + from_h
        direct = [([q], [x], from_g), ([x], [q], from_h)]
        rest = [(g, h, far), (h, g, far), (g, g, from_h), (h, h, from_g)]
    else:
        direct = [([q], g, [x]), ([x], h, [q])]
        rest = [(g, g, h), (h, h, g)]
    first = _drawn(direct, max(n // 2, 1), rng)
    found = list(dict.fromkeys(first + _drawn(rest, n, rng)))[:n]
    return np.array(found, dtype=np.int64).reshape(-1, 4)


def _drawn(
    blocks: Sequence[tuple[list[int], list[int], list[int]]], n: int, rng: np.random.Generator
) -> list[tuple[int, int, int, int]]:
    """At most n of the comparisons (a, b, a, c) over a, b and c of the same block."""
    sizes = [len(a) * len(b) * len(c) for a, b, c in blocks]
    total = sum(sizes)
    places = np.arange(total) if total <= 2 * n else rng.integers(total, size=2 * n)
    found = []
    for place in rng.permutation(places):
        left = int(place)
        for (near, others, far), size in zip(blocks, sizes, strict=True):
            if left < size:
                left, c = divmod(left, len(far))
                a, b = near[left // len(others)], others[left % len(others)]
                if a != b:
                    found.append((a, b, a, far[c]))
                break
            left -= size
    return list(dict.fromkeys(found))[:n]


def n_comparisons_of(number: int) -> int:
    """How many comparisons the judgement of this number may add."""
    return max(1, round(_MANY / (1.0 + number / _HALF_AT)))


# --- the file --------------------------------------------------------------------------------


def fingerprint(X: Matrix) -> str:
    """Tells rows apart from others: a hash of their shape and of 1,000 rows among them."""
    n = X.shape[0]
    rows = np.unique(np.linspace(0, n - 1, min(n, 1000)).astype(np.int64))
    digest = hashlib.sha256(f"{X.shape} {X.dtype}".encode())
    part = ops.canonical(ops.take_rows(X, rows))
    for array in ops.named_parts(part).values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


class Read(NamedTuple):
    """What a file of judgements holds."""

    judgements: list[Judgement]  # without those that were undone
    fingerprint: str | None
    dropped: int  # lines that could not be read
    outside: int  # judgements about rows that are not there
    checks: list[Any]  # what the meter noted before random queries were answered


def read(path: Path, n_rows: int | None = None) -> Read:
    """Read a file of judgements; where ``n_rows`` is given, only those about such rows."""
    found: list[Judgement] = []
    checks: list[Any] = []
    mark, dropped, outside = None, 0, 0
    for line in _lines(path):
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict):
                raise ValueError("a line holds one JSON object")
            if "undo" in entry:
                if found:
                    found.pop()
            elif "fingerprint" in entry:
                mark = str(entry["fingerprint"])
            elif "check" in entry:
                checks.append((len(found), entry["check"]))
            else:
                found.append(_judgement(entry))
                if n_rows is not None and max(found[-1][:2]) >= n_rows:
                    found.pop()
                    outside += 1
        except (ValueError, KeyError, TypeError, RecursionError):
            dropped += 1
    return Read(found, mark, dropped, outside, checks)


def _lines(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while line := file.readline(_LONGEST_LINE):
            if line.strip():
                yield line


def _judgement(entry: Any) -> Judgement:
    query, row, right = entry["query"], entry["row"], entry["right"]
    asked = entry.get("asked", "own")
    numbers = all(type(number) is int and number >= 0 for number in (query, row))
    if not numbers or type(right) is not bool or query == row:
        raise ValueError("a judgement has two row numbers, and true or false")
    return Judgement(query, row, right, asked if asked in ("random", "next") else "own")


def as_comparisons(judgements: Sequence[Judgement]) -> Array:
    """All comparisons that a session learns from after these judgements."""
    groups = Groups()
    parts = [np.zeros((0, 4), dtype=np.int64)]
    for number, judgement in enumerate(judgements):
        rng = np.random.default_rng(number)
        parts.append(comparisons_of(groups, judgement, n_comparisons_of(number), rng))
        groups.add(judgement)
    return np.concatenate(parts)


class Log:
    """The file, open for appending: each line is on disk before the next step."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = open(path, "ab", buffering=0)  # noqa: SIM115 closed by `close`
        if not lock(self._file, wait=False):
            self._file.close()
            raise ValueError(
                f"{path}: another page that is still running writes its judgements there: stop it, "
                "or name another file for these"
            )

    def begin(self, mark: str) -> None:
        """Write the first line of a new file; end a last line that was cut short."""
        size = os.fstat(self._file.fileno()).st_size
        if not size:
            self.write({"dualmetric": __version__, "fingerprint": mark})
        elif not _ends_with_newline(self.path):
            self._append(b"\n")

    def write(self, entry: dict[str, Any]) -> None:
        """Append one line: all of it, or nothing."""
        self._append(json.dumps(entry).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        handle = self._file.fileno()
        size = os.fstat(handle).st_size
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)  # the next line must not continue half a line
            error.filename = str(self.path)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
