"""Progress bars, shown on a terminal only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from ._output import is_quiet

if TYPE_CHECKING:
    from ..paper.cells import Cell


def make_bar(console: Console, *columns: ProgressColumn) -> Progress:
    """A bar with columns on its right; it disappears at the end."""
    if not console.is_terminal or is_quiet():
        console = Console(quiet=True)  # a disabled bar still ends a line in some versions of rich
    options: Any = {"console": console, "transient": True, "disable": console.quiet}
    return Progress(TextColumn("{task.description}"), BarColumn(), *columns, **options)


class _Left(ProgressColumn):
    """The time that the rest of a step will take, if it goes on as it began."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        if not task.total or not 0 < task.completed < task.total or task.elapsed is None:
            return Text("")
        if not task.fields["is_even"]:
            return Text("")
        left = task.elapsed * (task.total - task.completed) / task.completed
        return Text(f"about {timedelta(seconds=round(left))} left", style="progress.remaining")


class Steps:
    """A bar that shows one step of a command at a time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, note="", is_even=True)

    def begin(self, name: str) -> None:
        """Show that a step has begun."""
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=None, note="", is_even=True)
        self._progress.refresh()  # a step may end before the bar is next drawn

    def advance(self, done: int, total: int, note: str = "") -> None:
        """Show how much of the step is done."""
        if done < self._progress.tasks[-1].completed:  # another round, with a time of its own
            self._progress.reset(self._task)
        self._progress.update(self._task, completed=done, total=total, note=note, refresh=True)

    def advance_search(self, done: int, most: int) -> None:
        """Show how many groups of candidates are done.

        No time left is shown, since it is not known how many of the others will be run.
        """
        note = f"{done} of at most {most} groups" if done < most else ""
        self._progress.update(
            self._task, completed=done, total=most, note=note, is_even=False, refresh=True
        )


@contextmanager
def show_steps() -> Iterator[Steps]:
    """Show `Steps` on standard error."""
    columns = (TimeElapsedColumn(), _Left(), TextColumn("{task.fields[note]}"))
    with make_bar(Console(stderr=True), *columns) as progress:
        yield Steps(progress)


@contextmanager
def show_cells(console: Console, cells: list[Cell]) -> Iterator[Any]:
    """Show how many cells are done and the time left; call the result as ``bar(cell, done)``."""
    from ..paper.run import TimeLeft, weight

    left = TimeLeft(cells)
    counts = (f"{done}/{len(cells)}" for done in range(len(cells) + 1))

    class Left(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            seconds = left.seconds()
            shown = "-:--:--" if seconds is None else str(timedelta(seconds=round(seconds)))
            return Text(f"{shown} left", style="progress.remaining")

    def report(cell: Cell, done: bool) -> None:
        if done:
            left.end(cell)
            progress.update(task, advance=weight(cell), count=next(counts))
        else:
            left.begin()
            label = " ".join(filter(None, (cell.dataset or cell.kind, cell.method)))
            progress.update(task, description=label)

    with make_bar(console, TextColumn("{task.fields[count]}"), Left()) as progress:
        task = progress.add_task("", total=sum(map(weight, cells)), count=next(counts))
        yield report
