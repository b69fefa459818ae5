"""The progress bar of a long run: what is being done, how many are done, and the time left."""

from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from ..paper.cells import Cell
from ..paper.run import TimeLeft, weight


class CellProgress:
    """A bar over cells, to be called as ``bar(cell, done)``; shown on a terminal only."""

    def __init__(self, console: Console, cells: list[Cell]) -> None:
        self._left = TimeLeft(cells)
        self._done, self._count = 0, len(cells)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            _LeftColumn(self._left),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        total = sum(map(weight, cells))
        self._task = self._progress.add_task("", total=total, count=self._counted())

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, cell: Cell, done: bool) -> None:
        if done:
            self._left.end(cell)
            self._done += 1
            self._progress.update(self._task, advance=weight(cell), count=self._counted())
        else:
            self._left.begin()
            label = " ".join(filter(None, (cell.dataset or cell.kind, cell.method)))
            self._progress.update(self._task, description=label)

    def _counted(self) -> str:
        return f"{self._done}/{self._count}"


class _LeftColumn(ProgressColumn):
    """Estimated time left, counted down."""

    max_refresh = 0.5

    def __init__(self, left: TimeLeft) -> None:
        super().__init__()
        self._left = left

    def render(self, task: Task) -> Text:
        """Return ``0:12:34 left``."""
        seconds = self._left.seconds()
        shown = "-:--:--" if seconds is None else str(timedelta(seconds=round(seconds)))
        return Text(f"{shown} left", style="progress.remaining")
