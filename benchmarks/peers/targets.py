"""What the library set out to reach, beside what was measured."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .datasets import NAMES
from .summary import Problem, Result

Results = dict[Problem, list[Result]]
TIMES = 50  # faster than what learns from triplets or neighbours
EXPONENT = 1.05
LINEAR_AXES = ("rows", "nonzeros", "triplets")
MEMORY = 0.3  # of the input, beside it
LARGE_MB = 100.0
CV_FITS = 10


def section(found: Results) -> str:
    """One line per target."""
    lines = [*_usps(found), *_comparing(found), *_growing(found), *_memory(found)]
    lines += [*_quality(found), *_search(found)]
    if not lines:
        return ""
    verdicts = {True: "yes", False: "**no**", None: "not measured"}
    table = "\n".join(
        f"| {what} | {measured} | {verdicts[reached]} |" for what, measured, reached in lines
    )
    return (
        "## Targets\n\nTimes are compared only if both were measured on the same machine with the "
        "same number of threads, and both or neither while others used it.\n\n"
        "| target | measured | reached |\n|---|---|---|\n" + table
    )


Line = tuple[str, str, bool | None]
APART = "not measured side by side"


def _methods(found: Results, name: str) -> dict[str, Result]:
    some = found.get(("same_classes", name, ()), [])
    return {result.solver: result for result in some if result.status == "ok"}


def _usps(found: Results) -> Iterator[Line]:
    methods = _methods(found, "usps")
    ours = methods.get("DuRP, quick")
    lda, nca = methods.get("LDA"), methods.get("NCA")
    quick = "usps: a whole fit (DuRP, quick) takes at most 3 × LDA's time"
    faster = "usps: at least 100 × faster than NCA, with a better mAP"
    for what, theirs in ((quick, lda), (faster, nca)):
        if not ours or not theirs:
            continue
        if ours.conditions != theirs.conditions:
            yield what, APART, None
        elif theirs is lda:
            ratio = ours.seconds / lda.seconds
            yield what, f"{ratio:.1f} ×", ratio <= 3
        else:
            ratio = theirs.seconds / ours.seconds
            better = f"{ratio:.0f} ×, mAP {ours.map:.1f} and {theirs.map:.1f}"
            yield what, better, ratio >= 100 and ours.map > theirs.map


def _comparing(found: Results) -> Iterator[Line]:
    """Against each peer: the fastest of ours that ranks as well, on every set it finished."""
    peers = sorted(
        {r.solver for some in found.values() for r in some if r.compares and r.status == "ok"}
    )
    for peer in peers:
        ratios, apart = {}, 0
        for name in NAMES:
            methods = _methods(found, name)
            if peer not in methods:
                continue
            theirs = methods[peer]
            as_good = [r for r in methods.values() if r.ours and r.map >= theirs.map]
            beside = [r.seconds for r in as_good if r.conditions == theirs.conditions]
            if as_good and not beside:
                apart += 1
            else:
                ratios[name] = theirs.seconds / min(beside) if beside else 0.0
        what = f"{TIMES} × faster than {peer} at equal or better mAP, on every set"
        note = f"; {APART} on {apart}" if apart else ""
        if not ratios:
            yield what, note.removeprefix("; ") or APART, None
            continue
        worst = min(ratios, key=lambda name: ratios[name])
        shown = f"{ratios[worst]:.0f} ×" if ratios[worst] else "none of ours ranks as well"
        enough = sum(ratio >= TIMES for ratio in ratios.values())
        reached = False if enough < len(ratios) else None if apart else True
        yield what, f"on {enough} of {len(ratios)}; least on {worst}: {shown}{note}", reached


def growth(found: Results) -> list[tuple[str, str, bool, int, int, float, str]]:
    """Axis, method, whether ours, smallest and largest size, exponent, and the times."""
    series: dict[tuple[Any, ...], list[tuple[int, float]]] = {}
    for (objective, _, variant), methods in found.items():
        if objective != "growth":
            continue
        what = dict(variant)
        for result in methods:
            if result.status == "ok":
                key = what["axis"], result.solver, result.ours, result.conditions
                series.setdefault(key, []).append((what["size"], result.seconds))
    lines = []
    for (axis, solver, ours, _), points in series.items():
        points.sort()
        sizes, seconds = np.array(points).T
        if len(points) < 2:
            continue
        exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        times = ", ".join(f"{value:.2f}" for value in seconds)
        lines.append((axis, solver, ours, int(sizes[0]), int(sizes[-1]), exponent, times))
    return lines


def _growing(found: Results) -> Iterator[Line]:
    for axis, solver, ours, low, high, exponent, _ in growth(found):
        if ours and axis in LINEAR_AXES:
            yield (
                f"{solver}: time grows linearly or less with {axis} ({low:,} to {high:,}), "
                f"exponent at most {EXPONENT}",
                f"{exponent:.2f}",
                exponent <= EXPONENT,
            )


def _memory(found: Results) -> Iterator[Line]:
    """Dense sets that are not small."""
    for solver in ("DuRP", "DuRP, whitened"):
        shares = {}
        for (objective, name, variant), methods in found.items():
            wanted = objective == "same_classes" or ("axis", "rows") in variant
            for result in methods:
                first = result.first
                dense = not first["sparse"] and first["input_mb"] >= LARGE_MB
                if wanted and result.solver == solver and result.status == "ok" and dense:
                    shares[name] = result.extra_mb / first["input_mb"]
        if shares:
            worst = max(shares, key=lambda name: shares[name])
            yield (
                f"{solver}: memory in addition to the input is at most {100 * MEMORY:.0f} % of it, "
                f"on dense sets of {LARGE_MB:.0f} MB and more",
                f"on {sum(s <= MEMORY for s in shares.values())} of {len(shares)}; "
                f"most on {worst}: {100 * shares[worst]:.0f} %",
                max(shares.values()) <= MEMORY,
            )


def _quality(found: Results) -> Iterator[Line]:
    for measure, solver in (("map", "MetricCV"), ("knn", "MetricCV, for 5-NN")):
        title = "mAP" if measure == "map" else "5-NN accuracy"
        ahead: dict[bool, dict[str, float]] = {True: {}, False: {}}
        behind_plain, behind_lifted = {}, {}
        for name in NAMES:
            methods = _methods(found, name)
            peers = [getattr(r, measure) for r in methods.values() if r.linear and not r.ours]
            if solver not in methods or not peers:
                continue
            mine = getattr(methods[solver], measure)
            first = methods[solver].first
            large = not first["sparse"] and first["rows"] + first["queries"] > 1000
            ahead[large][name] = mine - max(peers)
            behind_plain[name] = mine - getattr(methods["plain rows"], measure)
            if "ridge, lifted" in methods:
                behind_lifted[name] = mine - getattr(methods["ridge, lifted"], measure)
        for differences, least, what in (
            (ahead[True], 0.0, "ahead of the best linear peer on dense sets of over 1,000 rows"),
            (ahead[False], -1.0, "within 1 point of the best linear peer, or ahead, on the others"),
            (behind_lifted, -1.0, "within 1 point of ridge on lifted rows, or ahead"),
            (behind_plain, -0.5, "never below the plain distances by more than half a point"),
        ):
            if differences:
                worst = min(differences, key=lambda name: differences[name])
                enough = sum(value >= least for value in differences.values())
                yield (
                    f"{solver}: {title} {what}",
                    f"on {enough} of {len(differences)}; least on {worst}: "
                    + f"{differences[worst]:+.1f}".replace("-", "−"),
                    enough == len(differences),
                )


def _search(found: Results) -> Iterator[Line]:
    """The whole search beside one fit of what it chose, in the same process."""
    ratios, settings = {}, []
    for name in NAMES:
        search = _methods(found, name).get("MetricCV")
        facts = search.first.get("facts", {}) if search else {}
        chosen = facts.get("chosen", {})
        if search and len(chosen) > 1:  # the plain distance takes no time to learn
            ratios[name] = search.seconds / facts["refit_seconds"]
            settings.append(facts["settings"])
    if ratios:
        worst = max(ratios, key=lambda name: ratios[name])
        yield (
            f"MetricCV, over {min(settings)} to {max(settings)} settings, takes at most "
            f"{CV_FITS} × one fit of what it chose",
            f"on {sum(r <= CV_FITS for r in ratios.values())} of {len(ratios)}; "
            f"most on {worst}: {ratios[worst]:.0f} ×",
            max(ratios.values()) <= CV_FITS,
        )
