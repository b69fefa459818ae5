"""Numbers of the pages, taken from stored results: none is typed by hand.

A page writes ``{{ text_ridge_map }}``; an unknown name fails the build.
"""

import json
from pathlib import Path
from statistics import mean
from typing import Any


def collect(root: Path) -> dict[str, str]:
    """Return the numbers by the names that pages use."""
    text = _benchmark(root, "wide_text")
    sampler = _benchmark(root, "core_sampler")
    fit = _benchmark(root, "core_fit")["ratios"]
    whitened = text["DuRP, shrinkage 0.84"]
    numbers = {
        "text_plain_map": _percent(text["cosine"]["map"]),
        "text_plain_knn": _percent(text["cosine"]["knn"]),
        "text_ridge_map": _percent(text["ridge, cosine"]["map"]),
        "text_ridge_knn": _percent(text["ridge, cosine"]["knn"]),
        "text_durp_map": _percent(text["DuRP"]["euclidean"]["map"]),
        "text_durp_knn": _percent(text["DuRP"]["euclidean"]["knn"]),
        "text_whitened_map": _percent(whitened["cosine"]["map"]),
        "text_whitened_knn": _percent(whitened["cosine"]["knn"]),
        "fit_duori_times": f"{fit['duori/durp']:.0f}",
    }
    for name, found in sampler.items():
        numbers[f"sampler_{name}_map"] = _percent(100 * mean(found["map"]))
        numbers[f"sampler_{name}_knn"] = _percent(100 * mean(found["knn"]))
    for method in ("Euclid", "DuOri", "DuRP-m10", "LMNN-m10", "OASIS"):
        cells = [
            json.loads(path.read_text(encoding="utf-8"))["result"]
            for path in sorted(root.glob(f"results/cells/fit/usps-{method}-seed*.json"))
        ]
        short = method.split("-")[0].lower()
        numbers[f"usps_{short}_map"] = _percent(100 * mean(cell["map"] for cell in cells))
        numbers[f"usps_{short}_knn"] = _percent(100 * mean(cell["knn"] for cell in cells))
    return numbers


def _benchmark(root: Path, name: str) -> Any:
    path = root / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"]


def _percent(value: float) -> str:
    return f"{value:.1f} %"
