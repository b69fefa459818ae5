"""``dualmetric reproduce``: the paper's tables, figures and theorems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_QUICK_DATASETS = ("digits", "usps")


def reproduce(
    datasets: Annotated[
        list[str] | None,
        typer.Option(help="Data sets; may be repeated. Default: those whose files are at hand."),
    ] = None,
    experiments: Annotated[
        list[str] | None,
        typer.Option(
            help="statistics, methods, projections, reg, theorems; may be repeated. Default: all."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each stochastic method.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for results and the page.")] = Path("results"),
    quick: Annotated[
        bool, typer.Option("--quick", help="One trial on digits and usps, in about a minute.")
    ] = False,
) -> None:
    """Run the paper's experiments and write a page of its numbers beside ours.

    Each result is stored as soon as it is known: a run that was stopped goes on where it was.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from ..datasets import NAMES, available
    from ..paper.cells import EXPERIMENTS, Cell, Store, plan
    from ..paper.page import write_page
    from ..paper.run import run_cells, weight

    if unknown := [name for name in datasets or () if name not in NAMES]:
        raise ValueError(f"unknown data set {unknown[0]!r}; known: {', '.join(NAMES)}")
    if quick:
        trials = 1
    names = datasets or [n for n in (_QUICK_DATASETS if quick else NAMES) if available(n)]
    cells = plan(experiments or _default_experiments(quick, list(EXPERIMENTS)), names, trials)
    store = Store(out, {"trials": trials})
    console = Console()
    console.print(f"{len(cells)} results, {sum(map(store.has, cells))} of them stored already")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    missing = [cell for cell in cells if not store.has(cell)]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=sum(map(weight, missing)))

        def show(cell: Cell, done: bool) -> None:
            label = " ".join(filter(None, (cell.dataset or cell.kind, cell.method)))
            bar.update(task, description=label, advance=weight(cell) if done else 0)

        run_cells(store, missing, show)
    console.print(f"Page: {write_page(store)}")


def _default_experiments(quick: bool, known: list[str]) -> list[str]:
    return [name for name in known if not (quick and name == "projections")]
