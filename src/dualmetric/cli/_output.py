"""What commands write: to the terminal, and to files that are checked before the long work."""

from __future__ import annotations

import errno
import json as json_format
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .._files import refuse_special, write_atomically
from .._version import __version__

if TYPE_CHECKING:
    from rich.console import Console

STANDARD_OUTPUT = Path("-")


def make_console(json: Path | None = None) -> Console:
    """Standard output for people; silent where it is taken by JSON."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True, quiet=json == STANDARD_OUTPUT)
    if not console.is_terminal:
        console.width = max(console.width, 160)  # a file has room for any table
    return console


def print_facts(console: Console, facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, a line each, the values under each other."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.print(f"{name:<{width}}  {value}")


def printable(value: object) -> str:
    """Text from a file without control characters, which could move the cursor or worse."""
    return "".join(character for character in str(value) if character.isprintable())


def note(text: str) -> None:
    """Say something beside the result."""
    typer.echo(f"dualmetric: note: {text}", err=True)


def check_output(path: Path | None, option: str, *, inputs: Sequence[Path | None] = ()) -> None:
    """Raise now, not after the work, where a file could not be written."""
    if path is None or (option == "--json" and path == STANDARD_OUTPUT):
        return
    refuse_special(path, f"{option}: ")
    if reason := _obstacle(path):
        raise ValueError(f"{option}: {path} cannot be written: {reason}")
    for given in inputs:
        if given is not None and os.path.realpath(path) == os.path.realpath(given):
            raise ValueError(f"{option}: {path} is a file of this command already: choose another")
        if given is not None and path.suffix.lower() == ".parquet" and _is_in(path, given):
            raise ValueError(f"{option}: {path} is in {given}, which is read: name another place")


def _is_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents


def _obstacle(path: Path) -> str | None:
    """What is in the way of a file, as far as it can be told without writing."""
    if path.is_dir():
        return "it is a folder; name a file"
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is a file, not a folder; name another place"
    if not os.access(folder, os.W_OK):
        return f"you may not write in {folder.absolute()}; name another place"
    return None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of a file that is then written, and say what the system refused."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        named = None if error.filename is None else Path(error.filename)
        if error.errno is None or named not in (None, path, *path.parents):
            raise  # what was read meanwhile
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space or name another place" if full else "name another place"
        raise OSError(f"{path} could not be written: {error.strerror}; {remedy}") from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file, and the folder it lies in where that is missing."""
    with writing(path):
        write_atomically(path, content)


def write_json(path: Path | None, command: str, result: dict[str, Any]) -> None:
    """Write the result of a command; the fields are described in docs/command-line.md."""
    if path is None:
        return
    record = {"dualmetric": __version__, "command": command, **result}
    text = json_format.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    if path == STANDARD_OUTPUT:
        typer.echo(text)
    else:
        write_file(path, f"{text}\n".encode())
