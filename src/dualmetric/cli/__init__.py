"""The command line. Each command is a file here, and imports what it needs when it runs."""

import sys

import typer

from .._version import __version__
from .demo import demo
from .reproduce import reproduce

app = typer.Typer(
    name="dualmetric",
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
    """Run the command line; an error the user can mend is one line, with exit status 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        typer.echo(f"dualmetric: {error}", err=True)
        sys.exit(2)
