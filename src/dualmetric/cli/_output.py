"""Output of commands: to the terminal, and to files that are checked before the work begins."""

import errno
import json as json_format
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from .._version import __version__

STANDARD_OUTPUT = Path("-")

_state = {"quiet": False}  # of the command that runs


def set_quiet(quiet: bool) -> None:
    """Say whether this command prints nothing but errors."""
    _state["quiet"] = quiet


def is_quiet() -> bool:
    """Whether ``--quiet`` was given."""
    return _state["quiet"]


def make_console(json: Path | None = None) -> Any:
    """Standard output for people; silent with ``--quiet``, or if JSON is written there."""
    from rich.console import Console

    quiet = is_quiet() or json == STANDARD_OUTPUT
    console = Console(highlight=False, markup=False, soft_wrap=True, quiet=quiet)
    if not console.is_terminal:
        console.width = max(console.width, 160)  # a file has room for any table
    return console


def print_facts(console: Any, facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one line each, with the values aligned."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.print(f"{name:<{width}}  {value}")


def printable(value: object) -> str:
    """Text from a file without control characters, which could change the terminal."""
    return "".join(character for character in str(value) if character.isprintable())


def row_heading(given: dict[str, Any], word: str = "Row") -> str:
    """The number of a row, and its id and label if it has them."""
    label = "" if given["label"] is None else f", label {printable(given['label'])}"
    named = f" ({printable(given['id'])})" if given.get("id") is not None else ""
    return f"{word} {given['row']}{named}{label}"


def note(text: str) -> None:
    """Print a remark on standard error; nothing with ``--quiet``."""
    if is_quiet():
        return
    typer.echo(f"dualmetric: note: {text}", err=True)


def check_output(path: Path | None, option: str, *inputs: Path | None) -> None:
    """Raise now, not after the work, if a file cannot be written or is used already."""
    if path is None or (option == "--json" and path == STANDARD_OUTPUT):
        return
    from ..io.atomic import refuse_special

    refuse_special(path, f"{option}: ")
    if reason := _obstacle(path):
        raise ValueError(f"{option}: {path} cannot be written: {reason}")
    real = Path(os.path.realpath(path))
    for given in filter(None, inputs):
        taken = Path(os.path.realpath(given))
        if real == taken:
            raise ValueError(
                f"{option}: {path} is already used as an input or output of this command: choose "
                "another name"
            )
        if path.suffix.lower() == ".parquet" and taken in real.parents:
            raise ValueError(
                f"{option}: {path} is inside {given}, the folder that is being read: choose "
                "another folder"
            )


def check_report(path: Path | None, *inputs: Path | None) -> None:
    """Raise now if the page cannot be written, or if its name ends like another kind of file."""
    check_output(path, "--report", *inputs)
    if path is not None and path.suffix.lower() not in ("", ".html", ".htm"):
        raise ValueError(f"--report: reports are written as .html; got {path.name}")


def _obstacle(path: Path) -> str | None:
    """Why a file cannot be written, as far as that shows without writing."""
    if path.is_dir():
        return "it is a folder; give the name of a file"
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is a file, not a folder; choose another folder"
    if not os.access(folder, os.W_OK):
        return f"you may not write in {folder.absolute()}; choose another folder"
    return None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of a file, or of a folder of files, that is then written; errors name it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        named = None if error.filename is None else Path(error.filename)
        is_ours = named is None or named in (path, *path.parents) or path in named.parents
        if error.errno is None or not is_ours:
            raise  # about a file that was read meanwhile
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space or choose another folder" if full else "choose another folder"
        raise OSError(f"{path} could not be written: {error.strerror}; {remedy}") from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file, and make its folder if that is missing."""
    from ..io.atomic import write_atomically

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
