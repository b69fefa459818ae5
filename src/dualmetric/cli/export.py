"""``dualmetric export``: a metric for other programs."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Annotated

from ._options import MetricFile, out_option

SUFFIXES = (".npy", ".onnx", ".faiss", ".pt")
FOLDER = "Dense"  # sentence-transformers names the folders of such layers 2_Dense, 3_Dense, …
MEASURES = {
    "euclidean": 'the Euclidean distance (similarity_fn_name="euclidean")',
    "cosine": "the cosine, as sentence-transformers does by default",
}
# options of fit with which a metric has no lift and fits a format
_WITHOUT_LIFT = {".faiss": "--for faiss", ".npy": "--for linear --distance euclidean"}
_OUT = (
    "File or folder to write. Its name decides the format: .npy (the matrix), .onnx, "
    ".faiss, .pt (PyTorch), or a folder whose name ends in Dense (a layer of "
    "sentence-transformers)."
)


def export(metric: MetricFile, out: Annotated[Path, out_option(help=_OUT)]) -> None:
    """Write a metric for NumPy, ONNX, FAISS, PyTorch or sentence-transformers.

    If the file also holds a matcher, the ONNX model also gives the probability of a match.
    """
    from .._arrays.system import format_bytes
    from ..io import export as exports
    from ..io.atomic import write_atomically
    from ._data import load_matcher, load_metric
    from ._output import check_output, make_console, writing

    is_folder = out.name.endswith(FOLDER)
    if not is_folder and out.suffix not in SUFFIXES:
        raise ValueError(
            f"--out: {out.name} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, or be a "
            f"folder whose name ends in {FOLDER}"
        )
    largest = out / "model.safetensors" if is_folder else out
    check_output(largest, "--out", metric)
    learned = load_metric(metric)
    with writing(out), _as_command(metric, out):
        if is_folder:
            exports.to_sentence_transformers(learned, out)
        elif out.suffix == ".npy":
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
    console = make_console()
    console.print(f"Exported: {largest}, {format_bytes(largest.stat().st_size)}")
    if is_folder:
        console.print(f"Compare the outputs of this layer by {MEASURES[learned.kind]}.")


@contextmanager
def _as_command(metric: Path, out: Path) -> Iterator[None]:
    """Errors whose remedy is a command, where that of the library is a method."""
    try:
        yield
    except ValueError as error:
        command = f"use the vectors of dualmetric transform {metric} DATA -o vectors.npy"
        message = str(error).replace("pass metric.transform(X) instead of X", command)
        if "(lift)" in message:
            message += f", or fit again with {_WITHOUT_LIFT.get(out.suffix, '--for linear')}"
        raise ValueError(message) from error
