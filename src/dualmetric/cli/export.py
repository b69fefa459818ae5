"""``dualmetric export``: a metric for other programs."""

from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Annotated

from ._options import MetricFile, out_option

SUFFIXES = (".npy", ".onnx", ".faiss", ".pt")
_OUT = "Where to write: .npy (the matrix), .onnx, .faiss or .pt (torch)."


def export(metric: MetricFile, out: Annotated[Path, out_option(help=_OUT)]) -> None:
    """Write a metric for other programs: NumPy, ONNX, FAISS or torch; the suffix decides.

    If the file also holds a matcher, ONNX has the probability of a match as a second output.
    """
    from .._arrays.system import format_bytes
    from ..io import export as exports
    from ..io.atomic import write_atomically
    from ._data import load_matcher, load_metric
    from ._output import check_output, make_console, writing

    if out.suffix not in SUFFIXES:
        raise ValueError(f"--out: {out.name} must end in one of {', '.join(SUFFIXES)}")
    check_output(out, "--out", metric)
    learned = load_metric(metric)
    with writing(out):
        if out.suffix == ".npy":
            exports.to_npy(learned, out)
        elif out.suffix == ".onnx":
            exports.to_onnx(load_matcher(metric) or learned, out)
        elif out.suffix == ".faiss":
            index = exports.to_faiss(learned)
            write_atomically(out, import_module("faiss").serialize_index(index).tobytes())
        else:
            module, content = exports.to_torch(learned), BytesIO()
            import_module("torch").save(module.state_dict(), content)
            write_atomically(out, content.getvalue())
    make_console().print(f"{out}, {format_bytes(out.stat().st_size)}")
