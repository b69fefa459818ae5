"""``dualmetric doctor``: what this installation has, and what it lacks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ._options import Json, Verbose

EXTRAS = {
    "dask": ("dask", "distributed", "pandas"),
    "data": ("pooch", "tqdm"),
    "faiss": ("faiss",),
    "onnx": ("onnx", "onnxruntime"),
    "parquet": ("pyarrow",),
    "plot": ("matplotlib",),
    "torch": ("torch",),
}
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "safetensors")


def doctor(json: Json = None, verbose: Verbose = False) -> None:
    """Show versions, cores, memory, caches, extras and the data folder of this installation."""
    import platform
    from importlib.metadata import version

    from .. import _system
    from .._version import __version__
    from ._output import check_output, make_console, write_json

    check_output(json, "--json")
    result = {
        "versions": {
            "python": platform.python_version(),
            "dualmetric": __version__,
            **{name: version(name) for name in _PACKAGES},
        },
        "platform": platform.platform(),
        "threads": _system.n_threads(),
        "memory_bytes": _system.available_memory(),
        "blas": _blas(),
        "numba_cache": _numba_cache(),
        "extras": {extra: _is_installed(modules) for extra, modules in EXTRAS.items()},
        "data_folder": _data_folder(),
    }
    _show(make_console(json), result)
    write_json(json, "doctor", result)


def _blas() -> list[dict[str, Any]]:
    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found
    from threadpoolctl import threadpool_info

    return [
        {
            "library": found["internal_api"],
            "version": found["version"],
            "threads": found["num_threads"],
        }
        for found in threadpool_info()
        if found["user_api"] == "blas"
    ]


def _numba_cache() -> dict[str, Any]:
    """Where compiled loops are kept, and how many are."""
    from .. import _kernels

    folder = Path(_kernels.ranked_precisions.stats.cache_path)
    loops = {path.name.partition("-")[0] for path in folder.glob("_kernels.*.nbi")}
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    return {"folder": str(folder), "writable": os.access(place, os.W_OK), "loops": len(loops)}


def _is_installed(modules: tuple[str, ...]) -> bool:
    from importlib.util import find_spec

    return all(find_spec(module) is not None for module in modules)


def _data_folder() -> dict[str, Any]:
    from ..datasets import DATA_VARIABLE, NAMES, available

    folder = os.environ.get(DATA_VARIABLE)
    exists = folder is not None and Path(folder).expanduser().is_dir()
    # a folder that is named and not there fails every lookup
    sets = [name for name in NAMES if available(name)] if exists or not folder else []
    return {"folder": folder, "exists": exists, "sets": sets}


def _show(console: Any, result: dict[str, Any]) -> None:
    from .._system import format_bytes
    from ..datasets import DATA_VARIABLE
    from ._output import print_facts

    memory, cache, data = (result[key] for key in ("memory_bytes", "numba_cache", "data_folder"))
    state = f"{cache['loops']} compiled loops" if cache["loops"] else "empty: a fit fills it"
    if not cache["writable"]:
        state = "cannot be written, so that every run compiles anew: set NUMBA_CACHE_DIR"
    folder = data["folder"] or f"none: {DATA_VARIABLE} is not set"
    if data["folder"] and not data["exists"]:
        folder += " does not exist"
    facts = [
        *result["versions"].items(),
        ("platform", result["platform"]),
        ("threads", str(result["threads"])),
        ("memory", "not known" if memory is None else f"{format_bytes(memory)} available"),
        *(
            ("BLAS", f"{blas['library']} {blas['version']}, {blas['threads']} threads")
            for blas in result["blas"]
        ),
        ("Numba cache", f"{cache['folder']}: {state}"),
        *(
            (f"[{extra}]", "installed" if found else f"pip install 'dualmetric[{extra}]'")
            for extra, found in result["extras"].items()
        ),
        ("data folder", folder),
        ("data sets", ", ".join(data["sets"]) or "none"),
    ]
    print_facts(console, facts)
