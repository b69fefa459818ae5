"""``dualmetric reproduce``: the paper's tables, figures and theorems."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

_QUICK_DATASETS = ("digits", "usps")
_DATASETS = (
    "Data sets, separated by commas, as in usps,tdt30. Default: digits, and the paper's "
    "data sets (or their substitutes) that are available."
)
_PARTS = (
    "Experiments, separated by commas: statistics, methods, projections, reg, unit, dual, "
    "theorems. Default: all."
)
_OUT = "Folder for results and the page. Default: results, or results-quick with --quick."
_QUICK = "One trial on digits and usps, without projections and dual, in about a minute."
_MIX = "Add to stored results even if the learning code has changed; the page says so."
_names = partial(typer.Option, metavar="NAME,…")


def reproduce(
    datasets: Annotated[list[str] | None, _names(help=_DATASETS)] = None,
    experiments: Annotated[list[str] | None, _names(help=_PARTS)] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Number of repetitions of each randomised method.")
    ] = 5,
    out: Annotated[Path | None, typer.Option(help=_OUT)] = None,
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK)] = False,
    mix: Annotated[bool, typer.Option("--mix", help=_MIX)] = False,
) -> None:
    """Run the experiments of the paper, and write a page with its numbers beside ours.

    Each result is stored at once. If a run is stopped, the same command continues it.
    """
    from importlib.util import find_spec

    from ..datasets import NAMES, available, load_dataset
    from ..paper.cells import EXPERIMENTS, Store, plan
    from ..paper.page import write_page
    from ..paper.published import COUNTERPART
    from ..paper.run import run_cells
    from ..paper.summary import display_name
    from ._output import make_console
    from ._progress import show_cells

    names = _split(datasets)
    if unknown := [name for name in names if name not in NAMES]:
        raise ValueError(f"unknown data set {unknown[0]!r}; known: {', '.join(NAMES)}")
    usual = _QUICK_DATASETS if quick else (*COUNTERPART, "digits")
    names = names or [name for name in usual if available(name)]
    left_out = ("projections", "dual") if quick else ()
    chosen = _split(experiments) or [name for name in EXPERIMENTS if name not in left_out]
    trials = 1 if quick else trials
    cells = plan(chosen, names, trials)
    folder = out or Path("results-quick" if quick else "results")
    store = Store(folder, {"trials": trials})
    console = make_console()
    missing = [cell for cell in cells if not store.has(cell)]
    if missing and not mix:
        store.refuse_other_code()
    console.print(f"Data sets: {', '.join(map(display_name, names))}")
    console.print(f"{len(cells)} results, {len(cells) - len(missing)} of them stored already")
    try:
        for name in names:
            if any(cell.dataset == name for cell in missing) and not available(name):
                load_dataset(name)  # fail now rather than in an hour
        with show_cells(console, missing) as bar:
            run_cells(store, missing, bar)
        page = write_page(store)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"finished results are kept in {folder}, and the same command continues from there"
        ) from None
    if find_spec("matplotlib") is None:
        console.print("No figures: they need  pip install 'dualmetric[plot]'")
    console.print(f"Page: {page}")


def _split(values: list[str] | None) -> list[str]:
    """Names given in several options, with commas, or both; each name once."""
    names = (name.strip() for value in values or () for name in value.split(","))
    return list(dict.fromkeys(names))
