"""Numbers in the pages, taken from stored results: none is typed by hand.

A page has ``<!--text_ridge_map-->76.7 %<!--/-->``, and `tables.py` writes what is between the two.
"""

import re
from functools import cache
from pathlib import Path
from statistics import mean, stdev

from _common import commits, results
from chooser import DENSE, TEXT
from dualmetric.paper.cells import Store
from dualmetric.paper.summary import over_trials

ROOT = Path(__file__).parents[1]


def filled(page: str, numbers: dict[str, str]) -> str:
    """The text of a page with its numbers; an unknown name raises an error."""
    return re.sub(
        r"<!--(\w+)-->.*?<!--/-->", lambda m: f"<!--{m[1]}-->{numbers[m[1]]}<!--/-->", page
    )


@cache
def collect() -> dict[str, str]:
    """Return the numbers by the names that pages use."""
    text = results("wide", "text")
    sampler = results("core", "sampler")
    fit = results("core", "fit")["ratios"]
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
    for name in ("usps", "isolet1", "20news_use512", "fashion_mnist_13k", "caltech101_top30_bovw"):
        for method, found in results("peers", f"new classes {name}")["methods"].items():
            if found["splits"]:
                short = method.replace("DuRP, ", "").replace(" ", "_").lower()
                score = mean(one["map"] for one in found["splits"])
                numbers[f"new_{name}_{short}"] = _percent(score)
    for name in ("usps", "fashion_mnist_13k", "20news_use512", "caltech101_top30_bovw"):
        found = results("teaching", name)
        ahead = [
            ours["gain"]["200"] - theirs["gain"]["200"]
            for ours, theirs in zip(found["next"], found["random"], strict=True)
        ]
        error = stdev(ahead) / len(ahead) ** 0.5
        numbers[f"teach_{name}_ahead"] = f"{mean(ahead):+.1f} ± {error:.1f}".replace("-", "−")
        for policy, runs in found.items():
            for n in ("20", "60", "100", "200"):
                gain = mean(run["gain"][n] for run in runs)
                numbers[f"teach_{name}_{policy}_{n}"] = f"{gain:+.1f}".replace("-", "−")
            lowest = min(gain for run in runs for gain in run["gain"].values())
            numbers[f"teach_{name}_{policy}_lowest"] = f"{lowest:+.1f}".replace("-", "−")
    speed = results("teaching", "speed")["milliseconds"]
    used = results("teaching", "speed")["processor"]
    numbers |= {f"teach_{name}_used": f"{used[name][0]:.0f}" for name in used}
    click = results("teaching", "browser")["milliseconds"]["click"]
    numbers |= {f"teach_{name}_ms": f"{speed[name][0]:.0f}" for name in ("pass", "metric", "rank")}
    numbers |= {"teach_click_ms": f"{click[0]:.0f}", "teach_click_p95_ms": f"{click[1]:.0f}"}
    numbers |= _matching() | _choosing()
    stored = Store(ROOT / "results", {"trials": 5}).results("fit")
    for method in ("Euclid", "DuOri", "DuRP", "LMNN", "OASIS"):
        for score in ("map", "knn"):
            found = over_trials(stored, "usps", method, score)
            numbers[f"usps_{method.lower()}_{score}"] = _percent(100 * found.mean)
    times = [f"times {name}" for name in (*DENSE, *TEXT)]
    numbers["commits_chooser"] = commits("chooser", *times)
    return numbers | {f"commits_{name}": commits(name) for name in ("matching", "teaching")}


def _choosing() -> dict[str, str]:
    """Times of `MetricCV` beside those of what it is compared with."""
    numbers = {}
    for name in (*DENSE, *TEXT):
        found = results("chooser", f"times {name}")
        numbers[f"choose_{name}_seconds"] = f"{found['seconds']['MetricCV']:.1f}"
        numbers[f"choose_{name}_times"] = f"{found['ratio']:.1f}"
    return numbers


def _matching() -> dict[str, str]:
    """Numbers of the page about matching."""
    found = results("matching", "guarantee")

    def worst(what: str, of_hubs: bool, allowed: bool) -> str:
        """Largest share of draws, over designs and what was asked for."""
        return _percent(
            100
            * max(
                result[what]
                for name, each in found.items()
                for asked, result in each.items()
                if ("generic" in name) == of_hubs and asked.endswith("hubs") == allowed
            )
        )

    numbers = {
        "match_broken_most": worst("broken", of_hubs=False, allowed=False),
        "match_broken_hubs": worst("broken", of_hubs=True, allowed=False),
        "match_broken_unnoted": worst("broken_without_a_note", of_hubs=True, allowed=False),
        "match_broken_allowed": worst("broken", of_hubs=True, allowed=True),
    }
    numbers["match_ratio"] = f"{results('matching', 'duplicates')['cpu_ratio']:.2f}"
    for name, found in results("matching", "records").items():
        logistic = found["both"]["logistic regression of the cosine"]
        numbers[f"match_{name}_logistic_loss"] = f"{logistic['log_loss']:.3f}"
        itml = found["ITML on MiniLM"]
        for precision in ("0.99", "0.9", "0.8"):
            place = f"at_{precision[2:]}"
            rankings = {
                "itml": itml,
                "same": found["MiniLM"]["learned"],
                "both": found["both"]["learned"],
            }
            for method, of in rankings.items():
                recall = of["ranking"][precision]
                numbers[f"match_{name}_{method}_{place}"] = _percent(100 * recall)
            own = itml["calibrate_threshold"][precision]
            reached = "–" if own["precision"] is None else _percent(100 * own["precision"])
            numbers[f"match_{name}_own_{place}"] = f"{reached}, {_percent(100 * own['recall'])}"
        for method in ("cosine", "learned"):
            scores = found["both"][method]
            prefix = f"match_{name}_{method}"
            numbers[f"{prefix}_ap"] = f"{scores['average_precision']:.3f}"
            numbers[f"{prefix}_loss"] = f"{scores['log_loss']:.3f}"
            numbers[f"{prefix}_error"] = f"{scores['calibration_error']:.3f}"
            numbers[f"{prefix}_chance"] = f"{scores['calibration_error_by_chance']:.3f}"
            at = scores["at"]["0.8"]
            numbers[f"{prefix}_at_80"] = _percent(100 * at["recall"]) if at["supported"] else "–"
    return numbers


def _percent(value: float) -> str:
    return f"{value:.1f} %"
