"""``dualmetric export``: a metric for other programs."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._options import MetricFile, Verbose

if TYPE_CHECKING:
    from ..metric import Metric

SUFFIXES = (".npy", ".onnx", ".faiss", ".pt")


def export(
    metric: MetricFile,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where to write: .npy (the matrix), .onnx, .faiss or .pt (torch).",
        ),
    ],
    verbose: Verbose = False,
) -> None:
    """Write a metric for other programs: NumPy, ONNX, FAISS or torch, by the suffix."""
    from .._system import format_bytes
    from ._data import load_metric
    from ._output import check_output, make_console, writing

    if out.suffix not in SUFFIXES:
        raise ValueError(f"--out: {out.name} must end in one of {', '.join(SUFFIXES)}")
    check_output(out, "--out", inputs=(metric,))
    learned = load_metric(metric)
    with writing(out):
        _write(learned, out)
    make_console().print(f"{out}, {format_bytes(out.stat().st_size)}")


def _write(metric: Metric, out: Path) -> None:
    from .. import export as exports
    from .._files import write_atomically

    if out.suffix == ".npy":
        exports.to_npy(metric, out)
    elif out.suffix == ".onnx":
        exports.to_onnx(metric, out)
    elif out.suffix == ".faiss":
        index = exports.to_faiss(metric)
        write_atomically(out, import_module("faiss").serialize_index(index).tobytes())
    else:
        module = exports.to_torch(metric)
        content = BytesIO()
        import_module("torch").save(module.state_dict(), content)
        write_atomically(out, content.getvalue())
