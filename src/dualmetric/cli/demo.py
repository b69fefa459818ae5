"""``dualmetric demo``: learn with every method, compare, draw."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ._output import check_output, write_file

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..datasets import Dataset
    from ..learners._base import MetricLearner


_FORMATS = (".png", ".svg", ".pdf", ".jpg")


class Result(NamedTuple):
    """One row of the table."""

    method: str
    rank: int
    map: float
    knn: float
    seconds: float


def demo(
    dataset: Annotated[
        str,
        typer.Option(help="digits needs no file; others, such as usps, are in DUALMETRIC_DATA."),
    ] = "digits",
    out: Annotated[
        Path | None, typer.Option(help="Where to draw the figure; default demo/DATASET.png.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
) -> None:
    """Learn with every method on a small data set and compare them."""
    from rich.console import Console

    from ..datasets import load_dataset

    data = load_dataset(dataset)
    path = out or Path("demo") / f"{data.name}.png"
    _check_out(path)
    console = Console()
    n, d = data.X_train.shape
    title = data.name + (f" (stand-in for {data.stand_in_for})" if data.stand_in_for else "")
    console.print(
        f"[bold]{title}[/bold]: {n:,} training rows and {len(data.y_test):,} test rows of "
        f"{d:,} features, {len(set(data.y_train.tolist()))} classes"
    )
    results = _compare(data, seed, console)
    console.print(_table(results))
    _draw(title, results, path, console)


def _check_out(path: Path) -> None:
    """Raise now, not after the learning, where the figure could not be written."""
    check_output(path, "--out")
    if path.suffix not in _FORMATS:
        raise ValueError(f"--out: {path.name} must end in one of {', '.join(_FORMATS)}")


def _learners(seed: int) -> list[tuple[str, MetricLearner]]:
    from ..learners import LMNN, OASIS, SPCA, SRP, DuOri, DuRP, Euclidean

    return [
        ("Euclidean", Euclidean()),
        ("SRP", SRP(random_state=seed)),
        ("SPCA", SPCA(random_state=seed)),
        ("LMNN", LMNN(10, random_state=seed)),
        ("OASIS", OASIS(random_state=seed)),
        ("DuOri", DuOri(random_state=seed)),
        ("DuRP", DuRP(random_state=seed)),
        ("DuRP, neighbors", DuRP(sampler="neighbors", random_state=seed)),
    ]


def _compare(data: Dataset, seed: int, console: Console) -> list[Result]:
    import warnings

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from sklearn.base import clone

    from ..evaluation import knn_accuracy, mean_average_precision

    learners = _learners(seed)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    results = []
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("compiling", total=len(learners))
        warm, labels = data.X_train[:60], data.y_train[:60]
        for _, learner in learners:  # so that no time in the table is the compiler's
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # few triplets in 60 rows
                clone(learner).fit(warm, labels)
        for name, learner in learners:
            progress.update(task, description=name)
            begin = perf_counter()
            learner.fit(data.X_train, data.y_train)
            seconds = perf_counter() - begin
            train, test = learner.transform(data.X_train), learner.transform(data.X_test)
            results.append(
                Result(
                    name,
                    learner.metric_.rank,
                    mean_average_precision(test, data.y_test),
                    knn_accuracy(train, data.y_train, test, data.y_test),
                    seconds,
                )
            )
            progress.advance(task)
    return results


def _table(results: list[Result]) -> Table:
    from rich.table import Table

    table = Table("method", caption="On test rows; triplet sampling is part of the seconds.")
    for heading in ("rank", "mAP %", "5-NN %", "seconds"):
        table.add_column(heading, justify="right")
    best_map = max(result.map for result in results)
    best_knn = max(result.knn for result in results)

    def percent(value: float, best: float) -> str:
        return f"[bold]{100 * value:.1f}[/bold]" if value == best else f"{100 * value:.1f}"

    for result in results:
        table.add_row(
            result.method,
            str(result.rank),
            percent(result.map, best_map),
            percent(result.knn, best_knn),
            f"{result.seconds:.2f}",
        )
    return table


def _draw(name: str, results: list[Result], path: Path, console: Console) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        message = "No figure: it needs  pip install 'dualmetric[plot]'"
        console.print(message, markup=False)
        return
    import io

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    methods = [result.method for result in results]
    panels = (
        (left, "mean average precision, %", [100 * result.map for result in results]),
        (right, "5-NN accuracy, %", [100 * result.knn for result in results]),
    )
    for axes, label, values in panels:
        colors = ["#0b6e99" if method.startswith("DuRP") else "#b8c4cc" for method in methods]
        bars = axes.barh(methods, values, color=colors)
        axes.bar_label(bars, fmt="%.1f", padding=3)
        axes.set(xlabel=label, xlim=(0, 112))
        axes.spines[["top", "right"]].set_visible(False)
    left.invert_yaxis()
    figure.suptitle(f"{name}: test rows under each learned distance")
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lstrip("."), dpi=150)
    write_file(path, picture.getvalue())
    console.print(f"Figure: {path}", markup=False, soft_wrap=True)
