"""What is known about rows besides labels, read from files, with errors that name the line."""

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._rows import Rows
from .._types import Array
from ..io import rowfiles
from ..io._csv import is_number
from ..io._forms import FileError, cause, open_text, reading, unpack_limit
from ..io._npy import Archive, read_npy
from ..io.parquet import import_pyarrow
from ..io.rowfiles import RowFile
from ..supervision import Comparisons, Pairs, Positives, Relevance, Triplets
from ._data import check_same_features, column_of, is_search_folder, read_data, vectors_of
from ._matching import read_ids
from ._output import note

_TRUTH = {"true": "1", "false": "0"}
_NUMBER = re.compile(r"[-+]?\d+")
_PLACE = re.compile(r"\b(?:triplets|comparisons|pairs|positives|grades?)\[(\d+)\]( = (\[[^]]*\]))?")
_CLASH = re.compile(r", rows (\d+) and (\d+)$")
_PLAIN_FILES = (".csv", ".tsv", ".txt", ".npy", ".npz", ".parquet")

Source = tuple[str, Path]  # the name of a flag, and its file


class _Kind(NamedTuple):
    make: Any
    columns: tuple[int, ...]  # how many a file may have
    n_numbers: int  # how many of these are row numbers
    line: str  # what a line must be


_KINDS = {
    "triplets": _Kind(Triplets, (3,), 3, "3 row numbers"),
    "comparisons": _Kind(Comparisons, (4,), 4, "4 row numbers"),
    "pairs": _Kind(Pairs, (2, 3), 2, "2 row numbers, and 1 (the same) or 0 (not)"),
    "positives": _Kind(Positives, (2,), 2, "the numbers of a query and a document"),
    "relevance": _Kind(Relevance, (3,), 2, "the numbers of a query and a document, and a grade"),
}
_NOUNS = {"pairs": "pairs", "positives": "queries", "relevance": "queries"}


class _Table(NamedTuple):
    numbers: Array  # of rows
    values: Array | None  # the last column, where it holds no row numbers
    lines: list[int] | None = None  # of a text file


class _Calls(NamedTuple):
    """What the rows of a column of row numbers are called."""

    flag: str
    names: Sequence[Any] | None  # None where they have numbers only
    given: str | None  # the file or column of the names


# --- which file ------------------------------------------------------------------------------


def source_of(given: dict[str, Path | None], queries: Path | None, data: Path, part: str) -> Any:
    """Flag and file of what is known; None where that is labels.

    A folder in BEIR's layout has judgements of its own: those of ``part``, unless others are given.
    """
    found = [(name, path) for name, path in given.items() if path is not None]
    if len(found) > 1:
        flags = " and ".join(f"--{name}" for name, _ in found)
        raise ValueError(f"{flags} cannot be combined: give one of them")
    name = found[0][0] if found else None
    if is_search_folder(data):
        if name not in (None, "relevance") or queries is not None:
            raise ValueError(
                f"--{name or 'queries'} does not apply to {data}, a folder with queries and "
                "judgements of its own: leave it out"
            )
        return found[0] if found else ("relevance", data / "qrels" / f"{part}.tsv")
    if queries is not None and name not in ("positives", "relevance"):
        raise ValueError("--queries goes with --positives or --relevance: give one of them")
    return found[0] if found else None


def noun_of(source: Source | None) -> str:
    """What is held out and scored: rows, pairs or queries."""
    return "rows" if source is None else _NOUNS.get(source[0], "rows")


# --- reading ---------------------------------------------------------------------------------


def read_known(
    source: Source,
    data: Path,
    file: RowFile,
    rows: Rows,
    queries: Path | None = None,
    names: Sequence[Any] | None = None,
    query_ids: str | None = None,
    ids_from: str | None = None,
) -> Any:
    """An object of `dualmetric.supervision`, checked against the rows of DATA.

    Lines of text have ``names`` of rows instead of their numbers where these are given, from the
    file or column ``ids_from``, and ids of queries where ``query_ids`` names them.
    """
    flag, path = source
    kind = _KINDS[flag]
    ids = asked = None
    if is_search_folder(data):
        ids = [_read_ids(data / f"{name}.jsonl") for name in ("queries", "corpus")]
        _check_count(vectors_of(data, "corpus"), rows, data / "corpus.jsonl", ids[1])
        queries = vectors_of(data, "queries")
    calls = [_Calls("--ids", names, ids_from)] * kind.n_numbers  # by column
    if queries is not None:
        try:
            column = column_of(queries, query_ids, "--query-ids")
            drop = () if column is None else (column,)
            found, asked = read_data(queries, None, rows.n_features, drop=drop)
            check_same_features(found, rows.n_features, file.feature_names, queries, "--queries")
        except (ValueError, OSError) as error:
            named = ids is not None or str(error).startswith("--")
            raise ValueError(str(error) if named else f"--queries: {error}") from error
        called = read_ids(queries, query_ids, asked.shape[0], "--query-ids")
        calls[0] = _Calls("--query-ids", called, query_ids)
        if ids is not None:
            _check_count(queries, asked, data / "queries.jsonl", ids[0])
    if not path.is_file():
        raise FileNotFoundError(f"--{flag}: {path} does not exist: check its name and folder")
    lines = None
    try:
        table = _read(path, flag, kind, ids, calls)
        lines = getattr(table, "lines", None)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UserWarning)
            known = _make(kind.make, table, asked).check(rows.shape[0])
    except ImportError:
        raise
    except Exception as error:  # readers of other libraries raise any type on damaged files
        raise ValueError(f"--{flag}: {path}: {_in_lines(cause(error), lines, names)}") from error
    for warning in said:
        note(f"--{flag}: {path}: {_in_lines(str(warning.message), lines, names)}")
    if flag == "pairs":
        given, kept = (
            np.sort(np.asarray(index, dtype=np.int64), axis=1) @ [rows.shape[0], 1]
            for index in (table.numbers, known.index)
        )
        if repeated := np.count_nonzero(np.isin(given, kept)) - len(kept):
            note(f"--{flag}: {path}: repeated pairs count once: {repeated:,} are left out")
    return known


def query_names(data: Path, file: RowFile, queries: Path | None) -> list[str] | None:
    """Texts of the queries of a folder in BEIR's layout, or ids where queries are rows of DATA."""
    if not is_search_folder(data):
        return None if queries is not None or file.ids is None else list(map(str, file.ids))
    with open_text(data / "queries.jsonl") as stream:
        found = [json.loads(line) for line in stream if line.strip()]
    return [str(query.get("text") or query["_id"]) for query in found]


def _make(make: Any, table: Any, queries: Rows | None) -> Any:
    if make is Relevance:
        if isinstance(table, _Table):
            table = np.column_stack([table.numbers, np.asarray(table.values)])
        return Relevance(table, queries)
    if make is Positives:
        return Positives(table.numbers, queries)
    return make(table.numbers) if table.values is None else make(table.numbers, table.values)


def _in_lines(message: str, lines: list[int] | None, names: Sequence[Any] | None) -> str:
    """An error of `dualmetric.supervision`, with the lines of a text file and the name of X.

    Rows that clash are named by their ids, if they have any.
    """
    if names is not None:
        message = _CLASH.sub(
            lambda found: f", ids {names[int(found[1])]} and {names[int(found[2])]}", message
        )
    if lines is not None:
        places = dict(enumerate(lines))
        message = _PLACE.sub(
            lambda found: f"line {places[int(found[1])]}" + (f" ({found[3]})" if found[3] else ""),
            message,
        )
    return re.sub(r"\bX\b", "DATA", message)


def _check_count(path: Path, rows: Rows, jsonl: Path, ids: dict[str, int]) -> None:
    if rows.shape[0] != len(ids):
        raise ValueError(
            f"{path} has {rows.shape[0]:,} rows for the {len(ids):,} lines of {jsonl}: give one "
            "row per line, in the same order"
        )


def _read_ids(path: Path) -> dict[str, int]:
    """Row number of each ``_id`` of a file with one JSON object per line."""
    found: dict[str, int] = {}
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: a folder in BEIR's layout needs it")
    with reading(path), open_text(path) as stream:
        for place, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                name = str(json.loads(line)["_id"])
            except (ValueError, KeyError, TypeError):
                raise FileError(
                    f'line {place} must be a JSON object with an "_id"; got {line[:40]!r}'
                ) from None
            if name in found:
                raise FileError(f"line {place} repeats the _id {name!r}: give each once")
            found[name] = len(found)
    return found


def _read(path: Path, flag: str, kind: _Kind, ids: Any, calls: list[_Calls]) -> Any:
    """A `_Table`, or a sparse matrix of judgements."""
    if flag == "comparisons" and path.suffix == ".jsonl":
        return _read_judgements(path)
    if ids is not None or path.suffix in (".csv", ".tsv", ".txt"):
        return _read_text(path, kind, ids, calls)
    if path.suffix not in _PLAIN_FILES:
        raise ValueError(
            "it must be a .npy, .npz, .parquet, .csv or .tsv file; got "
            f"{path.suffix or 'a name without an ending'}"
        )
    if path.suffix == ".parquet":
        columns = import_pyarrow().parquet.read_table(path).columns
        return _table(np.column_stack([np.asarray(column) for column in columns]), kind)
    with open(path, "rb") as stream:
        if path.suffix == ".npy":
            return _table(read_npy(stream), kind)
        found = Archive(stream, unpack_limit(path))
        if flag == "relevance" and ("indptr" in found or "format" in found):
            return rowfiles.read_rows(path).X
        if flag == "pairs" and {"pairs", "same"} <= set(found.names):
            return _Table(found["pairs"], found["same"])
        key = found.names[0] if len(found.names) == 1 else flag
        if key not in found:
            raise ValueError(f"it must hold a single array, or one named {flag!r}")
        return _table(found[key], kind)


def _read_judgements(path: Path) -> _Table:
    """Comparisons of the judgements that ``dualmetric teach`` wrote."""
    from ..teach import judgements

    found = judgements.read(path)
    if found.dropped:
        note(f"--comparisons: {found.dropped} lines of {path} could not be read and are left out")
    return _Table(judgements.as_comparisons(found.judgements), None)


def _table(found: Array, kind: _Kind) -> _Table:
    if found.ndim != 2 or found.shape[1] not in kind.columns or kind.columns == (kind.n_numbers,):
        if kind.make is Relevance:
            raise ValueError(f"its rows must be {kind.line}; got shape {found.shape}")
        return _Table(found, None)  # a wrong shape is refused by `check`
    values = found[:, kind.n_numbers] if found.shape[1] > kind.n_numbers else None
    return _Table(found[:, : kind.n_numbers], values)


def _read_text(path: Path, kind: _Kind, ids: Any, calls: list[_Calls]) -> _Table:
    """Lines with commas, or tabs in a ``.tsv``; of a folder in BEIR's layout, ids of rows.

    ``calls`` says for each column of row numbers whether it has ids instead.
    """
    flags = [called.flag for called in calls]
    numbers_of: dict[str, dict[str, list[int]]] = {flag: {} for flag in flags}
    for called in dict(zip(flags, calls, strict=True)).values():
        for row, name in enumerate(called.names or ()):
            numbers_of[called.flag].setdefault(str(name), []).append(row)
    mark, between = ("\t", "tabs") if path.suffix == ".tsv" else (",", "commas")
    index: list[list[int]] = []
    values: list[float] = []
    lines: list[int] = []
    n_columns = None
    for place, line in enumerate(rowfiles.read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split(mark)]
        numbers, more = cells[: kind.n_numbers], cells[kind.n_numbers :]
        if kind.make is Pairs:  # as a data frame writes them
            more = [_TRUTH.get(cell.lower(), cell) for cell in more]
        is_known = any(cell in numbers_of[flag] for flag, cell in zip(flags, numbers, strict=False))
        is_header = place == 1 and not is_known and not any(map(is_number, [*numbers, *more]))
        if not line.strip() or is_header:
            continue
        is_right = len(cells) in kind.columns and all(map(is_number, more))
        odd = None  # the option that could say what the cells are that are no row numbers
        if ids is None:
            cells_of = zip(flags, numbers, strict=False)
            plain = (pair for pair in cells_of if not numbers_of[pair[0]])
            odd = next((flag for flag, cell in plain if not _NUMBER.fullmatch(cell)), None)
            is_right = is_right and odd is None
        if not is_right or len(cells) != (n_columns or len(cells)):
            what = kind.line if ids is None else "a query-id, a corpus-id and a score"
            if any(numbers_of.values()):
                what = what.replace("row numbers", "ids")
            hint = "" if odd is None else f": to use ids, name their column or file with {odd}"
            raise ValueError(
                f"line {place} must be {what}, separated by {between}; got {line[:40]!r}{hint}"
            )
        n_columns = len(cells)
        if ids is not None:
            index.append(_rows(numbers, ids, place))
        else:
            index.append(
                [
                    _row_of(cell, numbers_of[called.flag], called, place)
                    if numbers_of[called.flag]
                    else int(cell)
                    for called, cell in zip(calls, numbers, strict=True)
                ]
            )
        values.extend(map(float, more))
        lines.append(place)
    table = np.array(index, dtype=np.int64).reshape(-1, kind.n_numbers)
    has_values = n_columns != kind.n_numbers and kind.columns != (kind.n_numbers,)
    return _Table(table, np.array(values) if has_values else None, lines)


def _row_of(name: str, numbers_of: dict[str, list[int]], called: _Calls, place: int) -> int:
    found = numbers_of.get(name, [])
    if len(found) > 1:
        raise ValueError(
            f"line {place}: the id {name!r} belongs to rows {found[0]} and {found[1]}: ids must be "
            "unique"
        )
    if not found:
        where = str(called.given)
        if not Path(where).is_file():
            where = f"column {where}"
        remedy = "correct the id"
        if _NUMBER.fullmatch(name):
            remedy = f"write the ids, or leave out {called.flag} to use row numbers"
        raise ValueError(
            f"line {place}: the id {name!r} was not found in {where} (ids look like "
            f"{next(iter(numbers_of))!r}): {remedy}"
        )
    return found[0]


def _rows(names: list[str], ids: Any, place: int) -> list[int]:
    for name, known, what in zip(names, ids, ("query", "corpus"), strict=True):
        if name not in known:
            file = {"query": "queries"}.get(what, what)
            raise ValueError(
                f"line {place}: the {what}-id {name!r} was not found in {file}.jsonl: correct the "
                "id"
            )
    return [known[name] for name, known in zip(names, ids, strict=True)]
