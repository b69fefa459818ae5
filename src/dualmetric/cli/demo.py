"""``dualmetric demo``: choose a metric, show what it changes, and compare all methods."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import typer

from ._options import Seed
from ._output import check_output, make_console, write_file

_FORMATS = (".png", ".svg", ".pdf", ".jpg")
_DATASET = (
    "digits comes with scikit-learn. Others, such as usps, are read from DUALMETRIC_DATA, or "
    "downloaded."
)
_OUT = "File of the figure. Default: demo/DATASET.png"
_SIDES = {64: 8, 256: 16, 784: 28}  # of square pictures, by number of features
_SHOWN = (6, 10)  # rows and columns of search results
_NEXT = """What to try next, with your own rows and labels:
  dualmetric fit rows.npz -o metric.safetensors                         # learn a distance
  dualmetric evaluate metric.safetensors rows.npz --report report.html  # see what changed
  dualmetric transform metric.safetensors rows.npz -o vectors.npy       # vectors for a search index
  dualmetric teach rows.npz                                             # no labels? Teach it."""


class Result(NamedTuple):
    """One row of the table."""

    method: str
    rank: int
    map: float
    knn: float
    seconds: float


def demo(
    dataset: Annotated[str, typer.Option(metavar="NAME", help=_DATASET)] = "digits",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=_OUT)] = None,
    seed: Seed = 0,
) -> None:
    """Learn a distance for a small data set, and compare it with the methods of the paper."""
    from ..datasets import load_dataset
    from ..side_by_side import compare
    from ._methods import options_in_words
    from ._scores import as_numbers, gains_of, verdict

    data = load_dataset(dataset)
    path = out or Path("demo") / f"{data.name}.png"
    check_output(path, "--out")
    if path.suffix not in _FORMATS:
        raise ValueError(f"--out: {path.name} must end in one of {', '.join(_FORMATS)}")
    console = make_console()
    n, d = data.X_train.shape
    title = data.name + (f" (stand-in for {data.stand_in_for})" if data.stand_in_for else "")
    console.print(
        f"{title}: {n:,} training rows and {len(data.y_test):,} test rows of {d:,} features, "
        f"{len(set(data.y_train.tolist()))} classes"
    )
    results, chosen = _compare(data, seed)
    metric = chosen.metric_
    scores = compare(metric, data.X_test, data.y_test)
    console.print(
        f"MetricCV chose {type(chosen).__name__} ({options_in_words(chosen)}) on held-out training "
        f"rows, in {results[0].seconds:.1f} s."
    )
    y = data.y_test
    console.print(f"On the test rows: {verdict(as_numbers(scores, y), gains_of(scores, y))}")
    console.print(_table(results))
    if _draw(data, title, metric, scores, results, path):
        console.print(f"Figure: {path}")
    else:
        console.print("No figure: it needs  pip install 'dualmetric[plot]'")
    console.print(_NEXT)


def _compare(data: Any, seed: int) -> tuple[list[Result], Any]:
    """Results of all methods, and the estimator that MetricCV chose."""
    import warnings

    from sklearn.base import clone

    from ..estimators import LMNN, OASIS, SPCA, SRP, DuOri, DuRP, Euclidean, MetricCV
    from ..evaluation import knn_accuracy, mean_average_precision
    from ._progress import show_steps

    search = MetricCV(random_state=seed)
    estimators: dict[str, Any] = {
        "MetricCV": search,
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
    with show_steps() as steps:
        steps.begin("compiling")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few triplets in 60 rows
            for estimator in estimators.values():  # so that the seconds exclude compiling
                clone(estimator).fit(data.X_train[:60], data.y_train[:60])
        for name, estimator in estimators.items():
            steps.begin(name)
            begin = perf_counter()
            more = {"callback": steps.advance_search} if estimator is search else {}
            estimator.fit(data.X_train, data.y_train, **more)
            seconds = perf_counter() - begin
            train, test = estimator.transform(data.X_train), estimator.transform(data.X_test)
            precision = mean_average_precision(test, data.y_test)
            accuracy = knn_accuracy(train, data.y_train, test, data.y_test)
            results.append(Result(name, estimator.metric_.rank, precision, accuracy, seconds))
    return results, search.best_estimator_


def _table(results: list[Result]) -> Any:
    from rich.table import Table
    from rich.text import Text

    caption = "Scores of test rows. Below MetricCV, the methods of the paper with default settings."
    table = Table("method", caption=caption)
    for heading in ("rank", "mAP %", "5-NN %", "seconds"):
        table.add_column(heading, justify="right")
    best = Result(*map(max, zip(*results, strict=True)))
    for method, rank, *scores, seconds in results:
        pairs = zip(scores, (best.map, best.knn), strict=True)
        cells = [Text(f"{100 * score:.1f}", "bold" if score == top else "") for score, top in pairs]
        table.add_row(method, str(rank), *cells, f"{seconds:.2f}", end_section=method == "MetricCV")
    return table


# --- the figure ------------------------------------------------------------------------------


def _draw(
    data: Any, title: str, metric: Any, scores: Any, results: list[Result], path: Path
) -> bool:
    """Draw what a search finds before and after, and the mAP of all methods; False if it cannot."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        return False
    import io

    figure = Figure(figsize=(12, 3.4), layout=ConstrainedLayoutEngine(wspace=0.04))
    side = _SIDES.get(data.X_test.shape[1])
    if side is not None and not hasattr(data.X_test, "nnz"):
        asked, *both, bars = figure.subplots(1, 4, width_ratios=[0.16, 1.4, 1.4, 1])
        _draw_results(asked, both, data, metric, scores, side)
    else:
        curve, bars = figure.subplots(1, 2)
        _draw_curves(curve, scores)
    _draw_bars(bars, results)
    figure.suptitle(f"{title}: rows that were not learned from")
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lstrip("."), dpi=110)
    write_file(path, picture.getvalue())
    return True


def _draw_results(asked: Any, both: Any, data: Any, metric: Any, scores: Any, side: int) -> None:
    """The first results of one search, by the plain and by the learned distance.

    The query is a typical one: the plain distance has its median average precision there.
    """
    import numpy as np

    from ..metric import Metric

    before = scores["euclidean"].average_precision
    ranked = np.argsort(before, kind="stable")
    query = int(ranked[np.isfinite(before).sum() // 2])
    height, width = _SHOWN
    for axes, one, name in zip(
        both, (Metric(None, metric.n_features), metric), ("plain distance", "learned"), strict=True
    ):
        distances = one.pairwise(data.X_test[query : query + 1], data.X_test)[0]
        order = np.argsort(distances, kind="stable")
        first = order[order != query][: height * width]
        right = data.y_test[first] == data.y_test[query]
        sheet = np.ones((height * (side + 2), width * (side + 2), 3))
        for place, (row, fits) in enumerate(zip(first, right, strict=True)):
            top, left = (side + 2) * (place // width) + 1, (side + 2) * (place % width) + 1
            sheet[top - 1 : top + side + 1, left - 1 : left + side + 1] = (
                1.0 if fits else (0.84, 0.15, 0.16)
            )
            sheet[top : top + side, left : left + side] = _picture(data.X_test[row], side, fits)
        axes.imshow(sheet)
        axes.set_axis_off()
        axes.set_title(f"{name}: {right.sum()} of the first {len(first)} right")
    asked.imshow(_picture(data.X_test[query], side, True))
    asked.set_axis_off()
    asked.set_title("query")


def _picture(row: Any, side: int, fits: bool) -> Any:
    """Dark on white; on light red where it is wrong."""
    import numpy as np

    values = np.asarray(row, dtype=float).reshape(side, side, 1)
    ink = (values - values.min()) / max(float(np.ptp(values)), 1e-12)
    paper = np.array([1.0, 1.0, 1.0] if fits else [1.0, 0.85, 0.85])
    return paper * (1.0 - ink) + np.array([0.1, 0.15, 0.2]) * ink


def _draw_curves(axes: Any, scores: Any) -> None:
    """Precision over recall, before and after."""
    from ..side_by_side import RECALLS

    for name, label, color in (
        ("euclidean", "plain distance", "#8a979e"),
        ("learned", "learned", "#0b6e99"),
    ):
        axes.plot(100 * RECALLS, 100 * scores[name].curve, color=color, label=label)
    axes.set(xlabel="recall, %", ylabel="precision, %", ylim=(0, 103))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bars(axes: Any, results: list[Result]) -> None:
    methods = [result.method for result in results]
    colors = ["#0b6e99" if method == "MetricCV" else "#b8c4cc" for method in methods]
    bars = axes.barh(methods, [100 * result.map for result in results], color=colors)
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.set(xlabel="mean average precision, %", xlim=(0, 118))
    axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()
