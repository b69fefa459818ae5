"""``dualmetric demo``: choose a metric, learn with every method, and compare them."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import typer

from ._options import Seed
from ._output import check_output, write_file

_FORMATS = (".png", ".svg", ".pdf", ".jpg")
_DATASET = "digits needs no file; others, such as usps, are in DUALMETRIC_DATA."
_OUT = "Where to draw the figure; default demo/DATASET.png."


class Result(NamedTuple):
    """One row of the table."""

    method: str
    rank: int
    map: float
    knn: float
    seconds: float


def demo(
    dataset: Annotated[str, typer.Option(help=_DATASET)] = "digits",
    out: Annotated[Path | None, typer.Option(help=_OUT)] = None,
    seed: Seed = 0,
) -> None:
    """Choose a metric for a small data set, and compare it with every method of the paper."""
    from rich.console import Console

    from ..datasets import load_dataset

    data = load_dataset(dataset)
    path = out or Path("demo") / f"{data.name}.png"
    check_output(path, "--out")
    if path.suffix not in _FORMATS:
        raise ValueError(f"--out: {path.name} must end in one of {', '.join(_FORMATS)}")
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
    console.print(
        "MetricCV chooses the metric and its settings on held-out training rows; the others are "
        "the methods of the paper with their defaults. To try it on your own rows:\n"
        "  dualmetric fit rows.npz -o metric.safetensors\n"
        "  dualmetric evaluate metric.safetensors rows.npz --report report.html",
        markup=False,
        soft_wrap=True,
    )


def _compare(data: Any, seed: int, console: Any) -> list[Result]:
    import warnings

    from rich.progress import MofNCompleteColumn
    from sklearn.base import clone

    from ..estimators import LMNN, OASIS, SPCA, SRP, DuOri, DuRP, Euclidean, MetricCV
    from ..evaluation import knn_accuracy, mean_average_precision
    from ._progress import make_bar

    estimators: dict[str, Any] = {
        "MetricCV": MetricCV(random_state=seed),
        "Euclidean": Euclidean(),
        "SRP": SRP(random_state=seed),
        "SPCA": SPCA(random_state=seed),
        "LMNN": LMNN(10, random_state=seed),
        "OASIS": OASIS(random_state=seed),
        "DuOri": DuOri(random_state=seed),
        "DuRP": DuRP(random_state=seed),
        "DuRP, neighbors": DuRP(sampler="neighbors", random_state=seed),
    }
    results = []
    with make_bar(console, MofNCompleteColumn()) as progress:
        task = progress.add_task("compiling", total=len(estimators))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few triplets in 60 rows
            for estimator in estimators.values():  # so that the seconds exclude compiling
                clone(estimator).fit(data.X_train[:60], data.y_train[:60])
        for name, estimator in estimators.items():
            progress.update(task, description=name)
            begin = perf_counter()
            estimator.fit(data.X_train, data.y_train)
            seconds = perf_counter() - begin
            train, test = estimator.transform(data.X_train), estimator.transform(data.X_test)
            precision = mean_average_precision(test, data.y_test)
            accuracy = knn_accuracy(train, data.y_train, test, data.y_test)
            results.append(Result(name, estimator.metric_.rank, precision, accuracy, seconds))
            progress.advance(task)
    return results


def _table(results: list[Result]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table("method", caption="Scores on test rows; the seconds include triplet sampling.")
    for heading in ("rank", "mAP %", "5-NN %", "seconds"):
        table.add_column(heading, justify="right")
    best = Result(*map(max, zip(*results, strict=True)))
    for method, rank, *scores, seconds in results:
        pairs = zip(scores, (best.map, best.knn), strict=True)
        cells = [Text(f"{100 * score:.1f}", "bold" if score == top else "") for score, top in pairs]
        table.add_row(method, str(rank), *cells, f"{seconds:.2f}")
    return table


def _draw(name: str, results: list[Result], path: Path, console: Any) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        console.print("No figure: it needs  pip install 'dualmetric[plot]'", markup=False)
        return
    import io

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    methods = [result.method for result in results]
    colors = ["#0b6e99" if method == "MetricCV" else "#b8c4cc" for method in methods]
    labels = {"map": "mean average precision, %", "knn": "5-NN accuracy, %"}
    both = figure.subplots(1, 2, sharey=True)
    for axes, (score, label) in zip(both, labels.items(), strict=True):
        values = [100 * getattr(result, score) for result in results]
        bars = axes.barh(methods, values, color=colors)
        axes.bar_label(bars, fmt="%.1f", padding=3)
        axes.set(xlabel=label, xlim=(0, 112))
        axes.spines[["top", "right"]].set_visible(False)
    both[0].invert_yaxis()
    figure.suptitle(f"{name}: test rows under each learned distance")
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lstrip("."), dpi=150)
    write_file(path, picture.getvalue())
    console.print(f"Figure: {path}", markup=False, soft_wrap=True)
