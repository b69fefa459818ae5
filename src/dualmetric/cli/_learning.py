"""Learning with a bar that shows the duality gap, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..learners._base import MetricLearner
    from ..solver import Epoch


class Steps:
    """What is being done, for the bar: `begin` a step, and report `epoch`s of learning."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, gap="")

    def begin(self, name: str, total: int | None = None) -> None:
        """Show that a step has begun; ``total`` is the number of its epochs, where it has any."""
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=total, gap="")
        self._progress.refresh()  # a step may be over before the bar draws itself

    def epoch(self, epoch: Epoch) -> None:
        """Show where learning stands after an epoch."""
        self._progress.update(
            self._task,
            completed=epoch.epoch,
            gap=f"duality gap {epoch.gap:.3g}",
            refresh=True,
        )


@contextmanager
def steps_on_terminal() -> Iterator[Steps]:
    """Show a bar on standard error, if that is a terminal, and remove it at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[gap]}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield Steps(progress)


def reporting(learner: MetricLearner, report: Callable[[Epoch], None]) -> MetricLearner:
    """Return the same learner, which reports each epoch where its method has a duality gap."""
    parameters = learner.get_params(deep=False)
    if not hasattr(learner, "_print_epoch"):
        return learner
    kind = type(learner)
    # a class of the same name: it is what metrics remember as their method
    told = {"_print_epoch": lambda self, epoch: report(epoch), "__module__": kind.__module__}
    watched: MetricLearner = type(kind.__name__, (kind,), told)(**{**parameters, "verbose": 1})
    return watched
