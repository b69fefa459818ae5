"""The command line. Each command is a file here, and imports what it needs when it runs."""

from typing import Any

import typer
from typer.core import TyperGroup

from .._version import __version__
from .demo import demo
from .reproduce import reproduce


class _Commands(TyperGroup):
    """Commands whose errors are one line: exit status 2, or 130 after Ctrl-C."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has left, and is told nothing
            raise
        except (ValueError, OSError, ImportError) as error:
            typer.echo(f"dualmetric: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as stop:
            typer.echo("; ".join(["dualmetric: stopped", *map(str, stop.args)]), err=True)
            raise typer.Exit(130) from None


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
) -> None:
    pass


app.command()(demo)
app.command()(reproduce)


def main() -> None:
    """Run the command line."""
    app()
