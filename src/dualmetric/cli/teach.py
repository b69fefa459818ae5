"""``dualmetric teach``: a page on which a person teaches a distance by clicking."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import DataFile, Labels, Names, Seed, file_option, out_option

_TEXTS = (
    "Texts of the rows: a file with one per line, .jsonl with one JSON object per line, or a "
    "column if DATA is .csv or .parquet."
)
_IMAGES = "Folder with one picture per row, in row order when sorted by name."
_IMAGE_SHAPE = "The rows are pictures of this size: 28x28, for example, or 32x32x3."
_COLUMNS = "Features to show, separated by commas. Default: the largest of each row."
_JUDGEMENTS = (
    "File that keeps the judgements. If it exists, teaching continues from it. Default: the name "
    "of the metric, ending in .judgements.jsonl."
)
_BESIDE = "Also show the nearest rows by the metric in this file. May be repeated."
_DISTANCE = "The distance to start from and to correct: cosine or euclidean."


def teach(
    data: DataFile,
    out: Annotated[Path, out_option(help="Where the metric is saved.")] = Path(
        "taught.safetensors"
    ),
    texts: Annotated[str | None, typer.Option(metavar="FILE|COLUMN", help=_TEXTS)] = None,
    images: Annotated[Path | None, typer.Option(metavar="FOLDER", help=_IMAGES)] = None,
    image_shape: Annotated[str | None, typer.Option(metavar="HxW", help=_IMAGE_SHAPE)] = None,
    columns: Annotated[str | None, typer.Option(metavar="NAME,…", help=_COLUMNS)] = None,
    judgements: Annotated[Path | None, file_option(help=_JUDGEMENTS)] = None,
    beside: Annotated[list[Path] | None, typer.Option(metavar="METRIC", help=_BESIDE)] = None,
    distance: Annotated[str, typer.Option(metavar="NAME", help=_DISTANCE)] = "cosine",
    tfidf: Annotated[
        bool, typer.Option("--tfidf", help="DATA holds word counts: weight them by tf-idf.")
    ] = False,
    names: Names = None,
    labels: Labels = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 chooses any free port.")
    ] = 0,
    seed: Seed = 0,
) -> None:
    """Teach a distance by clicking, on a page in your browser.

    The page can be opened only on this computer. teach does not learn from
    labels: --labels only names the column that is not a feature.
    """
    from ._data import column_of, load_metric, read_data, read_lines, read_texts
    from ._output import check_output, make_console, note, writing

    try:
        from ..teach.server import Teaching, open_port, serve
    except ImportError as error:
        raise ImportError(
            f"dualmetric teach needs {error.name}: install it with pip install 'dualmetric[teach]'"
        ) from None
    from ..teach.content import make_content
    from ..teach.session import Session

    if distance not in ("cosine", "euclidean"):
        raise ValueError(f"--distance must be cosine or euclidean; got {distance!r}")
    given = {"texts": texts, "images": images, "image-shape": image_shape, "columns": columns}
    flags = [f"--{name}" for name, value in given.items() if value is not None]
    if len(flags) > 1:
        raise ValueError(f"{' and '.join(flags)} cannot be combined: give one of them")
    log = judgements or out.with_suffix(".judgements.jsonl")
    text_file = None if texts is None else Path(texts)
    inputs = (data, text_file, names, *(beside or ()))
    check_output(out, "--out", *inputs, log)
    check_output(log, "--judgements", *inputs)
    if out.suffix != ".safetensors":
        raise ValueError(f"--out: metric files must end in .safetensors; got {out.name}")
    open_port(port).close()  # said now, not after the rows were read
    lines: Any = text_file
    column = column_of(data, texts, "--texts")  # such a column is not a feature
    if column is not None:
        lines = read_texts(column, data, 0)
    file, rows = read_data(data, labels, drop=() if column is None else (column,))
    feature_names = read_lines(names, "--names", rows.n_features, "feature") or file.feature_names
    X, finish = rows.take(), lambda metric: metric
    if tfidf:
        from .. import tfidf as weighting

        idf = weighting.fit_idf(X)
        X = weighting.weigh(X, idf)
        finish = lambda metric: metric.with_idf(idf)  # noqa: E731
    others = {path.stem: load_metric(path) for path in beside or ()}
    try:
        content = make_content(X, feature_names, lines, images, image_shape, columns)
    except (ValueError, FileNotFoundError) as error:  # begins with the name of an argument
        named = re.sub(r"^(texts|images|columns)(?=:)|^image_shape\b", _as_flag, str(error))
        raise ValueError(named) from error
    with writing(log):
        session = Session(X, distance=distance, path=log, feature_names=feature_names, seed=seed)
    if text := content.dominant():
        session.notes.append(text)
    for text in session.notes:
        note(text)
    teaching = Teaching(
        session,
        content,
        out=out,
        beside=others,
        title=f"Teach a distance: {data.name}",
        names=feature_names,
        finish=finish,
    )
    console = make_console()

    def started(address: str) -> None:
        console.print(f"Open {address}")
        console.print(f"Judgements go to {log}, and the metric to {out}. Stop with Ctrl-C.")
        console.file.flush()

    serve(teaching, port, started)
    if session.log is not None:
        session.log.close()
    console.print(f"{len(session.judgements)} judgements in {log}")
    if teaching.failure is not None:
        raise OSError(
            f"{out} could not be written: {teaching.failure.strerror}. Your judgements are safe. "
            "Free some space or check permissions, then run the same command again"
        )
    if session.judgements:
        console.print(f"The metric is in {out}")


def _as_flag(name: re.Match[str]) -> str:
    return "--" + name[0].replace("_", "-")
