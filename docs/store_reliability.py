"""Write the counts of the last campaigns into docs/reliability.md; run it as a script."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "tests" / "hostile" / "results.jsonl"
_NAMES = {
    "fits": "hostile fits",
    "files": "damaged files",
    "requests": "hostile requests",
    "faults": "faults",
}
_GOOD = {  # outcomes as they are stored, and as they are named on the page
    "works": "succeeded",
    "refused": "rejected with a clear error",
    "survived": "survived",
}
_BEGIN = "<!-- made by docs/store_reliability.py from tests/hostile/results.jsonl -->"


def section(path: Path = RESULTS) -> str:
    """The table of all campaigns, and what the faults were."""
    records = {one["kind"]: one for one in map(json.loads, path.read_text().splitlines())}
    lines = ["| campaign | cases | outcomes | anything else | commit |", "|---|---|---|---|---|"]
    for kind, name in _NAMES.items():
        if kind not in records:
            continue
        one = records[kind]
        found = one["outcomes"]
        good = [f"{found[what]:,} {named}" for what, named in _GOOD.items() if what in found]
        bad = [f"{n:,} {what}" for what, n in found.items() if what not in _GOOD]
        cells = (name, f"{one['cases']:,}", ", ".join(good), ", ".join(bad) or "0", one["commit"])
        lines.append(f"| {' | '.join(cells)} |")
    text = "\n".join(lines)
    if "faults" in records:
        kinds = ", ".join(f"{what} {n}" for what, n in records["faults"]["faults"].items())
        text += f"\n\nThe faults were: {kinds}."
    return (
        text
        + '\n\nThe column "anything else" counts crashes, hangs of more than 20 seconds, numbers '
        "that are not finite, metrics that are\nnot positive semi-definite or not identical when "
        "the fit is repeated, errors of another type or without the name of an\nargument or file, "
        "state changed by a failed fit, more than 3 GB of memory, half-written or lost files, "
        "commands that do\nnot resume, and a page that serves what it should refuse or loses what "
        "it acknowledged."
    )


def page(text: str, made: str) -> str:
    """The page with the part between the marks replaced."""
    return re.sub(
        rf"{re.escape(_BEGIN)}\n.*?<!-- end -->",
        lambda _: f"{_BEGIN}\n{made}\n<!-- end -->",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), section()), encoding="utf-8")
