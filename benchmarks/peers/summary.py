"""Stored runs as tables need them: seeds averaged, the better distance chosen."""

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import store
from .scoring import best


@dataclass
class Result:
    """One method on one problem, over its seeds.

    ``seconds`` are those of the clock, or of the processors where the machine was busy.
    """

    solver: str
    status: str
    message: str = ""
    ours: bool = False
    linear: bool = True
    compares: bool = False
    busy: bool = False
    map: float = float("nan")
    knn: float = float("nan")
    map_distance: str = ""
    knn_distance: str = ""
    seconds: float = float("nan")
    extra_mb: float = float("nan")
    peak_mb: float = float("nan")
    first: dict[str, Any] = field(default_factory=dict)
    """The record of the first seed."""

    @property
    def conditions(self) -> tuple[Any, ...]:
        """What must be equal for times to be compared: machine, threads, whether it was busy."""
        machine = self.first["machine"]
        return *sorted(machine.items(), key=str), self.first.get("threads"), self.busy


Problem = tuple[str, str, tuple[tuple[str, Any], ...]]
"""Objective, data set, variant."""


def results(path: Path = store.RESULTS) -> dict[Problem, list[Result]]:
    """All problems, each with its methods: the best mAP first, what failed last."""
    groups: dict[tuple[Problem, str], list[store.Record]] = defaultdict(list)
    for record in store.read(path).values():
        problem = record["objective"], record["dataset"], tuple(sorted(record["variant"].items()))
        groups[problem, record["solver"]].append(record)
    found: dict[Problem, list[Result]] = defaultdict(list)
    for (problem, _), records in groups.items():
        found[problem].append(_result(records))
    for of_problem in found.values():
        of_problem.sort(key=lambda r: (r.status != "ok", -r.map if r.map == r.map else 0.0))
    return dict(found)


def _result(records: list[store.Record]) -> Result:
    done = [record for record in records if record["status"] == "ok"]
    first = (done or records)[0]
    result = Result(
        first["solver"],
        first["status"],
        first.get("message", ""),
        first["ours"],
        first["linear"],
        first["compares"],
        any(record["busy"] for record in records),
        first=first,
    )
    if not done:
        return result
    clock = "fit_cpu_seconds" if result.busy else "fit_seconds"
    result.seconds = statistics.median(record[clock] for record in done)
    result.peak_mb = max(record["fit_peak_mb"] for record in done)
    result.extra_mb = max(record["fit_peak_mb"] - record["before_fit_mb"] for record in done)
    if "scores" in first:
        mean = {
            distance: {
                measure: 100
                * statistics.fmean(record["scores"][distance][measure] for record in done)
                for measure in ("map", "knn")
            }
            for distance in first["scores"]
        }
        result.map, result.map_distance = best(mean, "map")
        result.knn, result.knn_distance = best(mean, "knn")
    return result
