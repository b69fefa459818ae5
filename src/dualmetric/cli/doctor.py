"""``dualmetric doctor``: what this installation has, and what is missing."""

import os
from pathlib import Path
from typing import Any

from .._version import __version__
from ._options import Json
from ._output import check_output, make_console, print_facts, write_json

EXTRAS = {
    "dask": ("dask", "distributed"),
    "data": ("pooch", "tqdm"),
    "faiss": ("faiss",),
    "gpu": ("array_api_compat", "torch"),
    "hdf5": ("h5py",),
    "onnx": ("onnx", "onnxruntime"),
    "parquet": ("pyarrow",),
    "plot": ("matplotlib",),
    "teach": ("starlette", "uvicorn"),
    "torch": ("torch",),
    "zarr": ("zarr",),
}
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "safetensors")


def doctor(json: Json = None) -> None:
    """Show what is installed: versions, cores, memory, extras and data sets."""
    import platform
    from importlib.metadata import version
    from importlib.util import find_spec

    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found
    from threadpoolctl import threadpool_info

    from .._arrays.system import available_memory, n_threads

    check_output(json, "--json")
    own = {"python": platform.python_version(), "dualmetric": __version__}
    keys = {"library": "internal_api", "version": "version", "threads": "num_threads"}
    blas = [found for found in threadpool_info() if found["user_api"] == "blas"]
    result = {
        "versions": own | {name: version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "threads": n_threads(),
        "memory_bytes": available_memory(),
        "blas": [{name: found[key] for name, key in keys.items()} for found in blas],
        "numba_cache": _numba_cache(),
        "extras": {extra: all(map(find_spec, modules)) for extra, modules in EXTRAS.items()},
        "data_folder": _data_folder(),
    }
    _show(make_console(json), result)
    write_json(json, "doctor", result)


def _numba_cache() -> dict[str, Any]:
    """Where compiled loops are stored, and how many."""
    from .._arrays import kernels

    folder = Path(kernels.ranked_precisions.stats.cache_path)
    loops = {path.name.partition("-")[0] for path in folder.glob("kernels.*.nbi")}
    place = next(place for place in (folder, *folder.parents) if place.exists())
    return {"folder": str(folder), "writable": os.access(place, os.W_OK), "loops": len(loops)}


def _data_folder() -> dict[str, Any]:
    from ..datasets import DATA_VARIABLE, NAMES, available

    folder = os.environ.get(DATA_VARIABLE)
    exists = folder is not None and Path(folder).expanduser().is_dir()
    # if the folder is set but does not exist, every lookup would fail
    sets = [name for name in NAMES if available(name)] if exists or not folder else []
    return {"folder": folder, "exists": exists, "sets": sets}


def _show(console: Any, result: dict[str, Any]) -> None:
    from .._arrays.system import format_bytes
    from ..datasets import DATA_VARIABLE

    memory, cache, data = (result[key] for key in ("memory_bytes", "numba_cache", "data_folder"))
    state = (
        f"{cache['loops']} compiled loops" if cache["loops"] else "empty; the first fit fills it"
    )
    if not cache["writable"]:
        state = (
            "cannot be written, so every run compiles again: set NUMBA_CACHE_DIR to a writable "
            "folder"
        )
    folder = data["folder"] or f"none: {DATA_VARIABLE} is not set"
    if data["folder"] and not data["exists"]:
        folder += " does not exist"
    blas = [f"{b['library']} {b['version']}, threads: {b['threads']}" for b in result["blas"]]
    extras = {
        f"[{extra}]": "installed" if found else f"pip install 'dualmetric[{extra}]'"
        for extra, found in result["extras"].items()
    }
    facts = [
        *result["versions"].items(),
        ("platform", result["platform"]),
        ("threads", str(result["threads"])),
        ("memory", "unknown" if memory is None else f"{format_bytes(memory)} available"),
        *(("BLAS", text) for text in blas),
        ("Numba cache", f"{cache['folder']}: {state}"),
        *extras.items(),
        ("data folder", folder),
        ("data sets", ", ".join(data["sets"]) or "none"),
    ]
    print_facts(console, facts)
