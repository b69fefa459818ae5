"""The command line. Each command is a file here, and imports what it needs when it runs."""

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from .._version import __version__
from ._options import Verbose, is_verbose
from ._output import printable
from .demo import demo
from .doctor import doctor
from .evaluate import evaluate
from .explain import explain
from .export import export
from .fit import fit
from .info import info
from .neighbors import neighbors
from .reproduce import reproduce
from .transform import transform

# what click raises for wrong arguments; recent versions of typer have a click of their own
_UsageError: Any = typer.BadParameter.__base__


class _Commands(TyperGroup):
    """Commands whose errors are one line: exit status 2, or 130 after Ctrl-C."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command's name."""
        given = bool(args)  # it takes what it reads out of the list
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            if not given:  # not an error, but the help
                raise
            _refuse_usage(error)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            with _warnings_as_notes():
                return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has left, and is told nothing
            raise
        except _UsageError as error:
            _refuse_usage(error)
        except MemoryError as error:
            _fail(ctx, f"there is not enough memory: {error or 'use less data, or a lower rank'}")
        except (ValueError, OSError, ImportError) as error:
            _fail(ctx, str(error))
        except KeyboardInterrupt as stop:
            typer.echo("; ".join(["dualmetric: stopped", *map(str, stop.args)]), err=True)
            raise typer.Exit(130) from None


def _fail(ctx: Any, message: str) -> NoReturn:
    """End with one line, after the traceback where that was asked for."""
    if is_verbose(ctx):
        typer.echo(traceback.format_exc(), err=True)
    # it may quote a file, control characters and all
    typer.echo("dualmetric: " + printable(" ".join(message.splitlines())), err=True)
    raise typer.Exit(2) from None


def _refuse_usage(error: Any) -> NoReturn:
    command = error.ctx.command_path if error.ctx else "dualmetric"
    message = " ".join(error.format_message().split()).rstrip(".")
    typer.echo(f"dualmetric: {message}; see {command} --help", err=True)
    raise typer.Exit(2) from None


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print what our functions warn of in one line, without a place in the source."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo(f"dualmetric: note: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


app = typer.Typer(
    name="dualmetric",
    cls=_Commands,
    help="Learn a distance metric for high-dimensional data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dualmetric {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
    verbose: Verbose = False,
) -> None:
    pass


for _command in (
    fit,
    evaluate,
    neighbors,
    explain,
    transform,
    export,
    info,
    doctor,
    demo,
    reproduce,
):
    app.command()(_command)


def main() -> None:
    """Run the command line."""
    app()
