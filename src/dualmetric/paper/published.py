"""The numbers that the paper reports in its Tables 1, 2 and 3."""

import tomllib
from importlib.resources import files
from typing import Any, NamedTuple

from ..datasets._catalog import CATALOG


class Value(NamedTuple):
    """A mean and its standard deviation, None where the paper gives none."""

    mean: float
    spread: float | None = None


def read_asset(name: str) -> dict[str, Any]:
    """Return the content of a TOML file of this package."""
    return tomllib.loads(files(__package__).joinpath("assets", name).read_text(encoding="utf-8"))


_PAPER = read_asset("published.toml")
# by data set: classes, features, training rows and test rows
STATISTICS: dict[str, list[int]] = _PAPER["statistics"]
# by data set and method: CPU time in minutes, and mean average precision in per cent
MINUTES, MAP = (
    {
        name: {method: Value(*numbers) for method, numbers in methods.items()}
        for name, methods in _PAPER[table].items()
    }
    for table in ("minutes", "map")
)
# our sets that are a part of the paper's set; other stand-ins are other data of the same kind
PARTS: list[str] = _PAPER["parts"]
# The paper's set that each of our sets is compared with; digits and the extra sets have none.
COUNTERPART = {
    ours: theirs
    for theirs in STATISTICS
    for ours, entry in CATALOG.items()
    if theirs in (ours, entry.stand_in_for)
}
