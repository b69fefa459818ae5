"""The command line. Each command is one file, and imports what it needs when it runs."""

import traceback
import warnings
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from .._version import __version__
from ._methods import in_flags, with_estimator_options
from ._output import note, printable, set_quiet
from .demo import demo
from .doctor import doctor
from .duplicates import duplicates
from .evaluate import evaluate
from .explain import explain
from .export import export
from .fit import fit
from .info import info
from .match import match
from .neighbors import neighbors
from .reproduce import reproduce
from .teach import teach
from .transform import transform

# what click raises for wrong arguments; recent versions of typer contain their own click
_UsageError: Any = typer.BadParameter.__base__


class _PlainHelp:
    """A command whose help shows flags without a value, and arguments without brackets."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options; flags take no value, so none is shown."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Parts of the line that begins with "Usage"."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]


class _Command(_PlainHelp, TyperCommand):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # lines end where the terminal does, not where those of the docstring do
        paragraphs = (self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class _Commands(_PlainHelp, TyperGroup):
    """Commands whose errors are one line: exit status 2, or 130 after Ctrl-C."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the name of the command."""
        # asked first, since parsing empties the list
        given, self.is_verbose = bool(args), "--verbose" in args
        set_quiet(False)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            if not given:  # not an error: the help is shown
                raise
            _fail(error)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, which takes ``--verbose`` and ``--quiet``, too.

        ``fit`` also gets the flags of the estimators.
        """
        command: Any
        name, command, rest = super().resolve_command(ctx, args)
        if name == "fit":
            complete = typer.Typer(add_completion=False)
            complete.command(name, cls=_Command)(with_estimator_options(fit))
            command = typer.main.get_command(complete)
        shared = ("verbose", "quiet")
        command.params += [option for option in self.params if option.name in shared]
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was given; warnings are printed as notes of one line."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *place: note(in_flags(str(message)))
                return super().invoke(ctx)
        except BrokenPipeError:  # whoever reads our output has stopped: no message is needed
            raise
        except (_UsageError, MemoryError, ValueError, OSError, ImportError) as error:
            if self.is_verbose and not isinstance(error, _UsageError):
                typer.echo(traceback.format_exc(), err=True)
            _fail(error)
        except KeyboardInterrupt as stop:
            typer.echo("; ".join(["dualmetric: stopped", *map(str, stop.args)]), err=True)
            raise typer.Exit(130) from None


def _fail(error: Any) -> NoReturn:
    """Print an error in one line, and exit."""
    message = str(error)
    if isinstance(error, _UsageError):
        command = error.ctx.command_path if error.ctx else "dualmetric"
        message = " ".join(error.format_message().split()).rstrip(".")
        message += f"{' See' if message.endswith('?') else '; see'} {command} --help"
    elif isinstance(error, MemoryError):
        message = f"not enough memory: {message or 'use less data, or a lower rank'}"
    # the message may quote a file, including its control characters
    typer.echo("dualmetric: " + printable(" ".join(message.splitlines())), err=True)
    raise typer.Exit(2) from None


app = typer.Typer(
    name="dualmetric",
    cls=_Commands,
    help="Learn a distance for feature vectors from labels, pairs, clicks or judgements.\n\n"
    "Start with: dualmetric fit DATA -o metric.safetensors",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dualmetric {__version__}")
        raise typer.Exit()


def _be_quiet(wanted: bool) -> None:
    # the option may stand before the command or after it: only being given counts
    if wanted:
        set_quiet(True)


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
    verbose: bool = typer.Option(
        False, "--verbose", expose_value=False, help="Show the traceback of an error."
    ),
    quiet: bool = typer.Option(
        False, "--quiet", "-q", callback=_be_quiet, expose_value=False, help="Print only errors."
    ),
) -> None:
    pass


for _command in (
    fit,
    evaluate,
    neighbors,
    explain,
    transform,
    match,
    duplicates,
    export,
    teach,
    info,
    doctor,
    demo,
    reproduce,
):
    app.command(cls=_Command)(_command)

main = app
