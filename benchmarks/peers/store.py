"""Results: one line of JSON per run, appended when it is done."""

import json
import os
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "peers.jsonl"

Record = dict[str, Any]
Key = tuple[str, str, str, str, int]


def key(record: Record) -> Key:
    """What a run is; a later line of the same key replaces an earlier one."""
    variant = json.dumps(record["variant"], sort_keys=True)
    return (
        record["objective"],
        record["dataset"],
        variant,
        record["solver"],
        record["seed"],
    )


def read(path: Path = RESULTS) -> dict[Key, Record]:
    """The newest record of each run; a last line that was cut short is left out."""
    if not path.exists():
        return {}
    found: dict[Key, Record] = {}
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):  # stopped while writing
                continue
            raise ValueError(f"line {number} of {path} is damaged: remove it ({error})") from error
        found[key(record)] = record
    return found


def append(record: Record, path: Path = RESULTS) -> None:
    """Add a line, on the disk before this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, ensure_ascii=False) + "\n"
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # the line before was cut short: it is lost
                file.seek(0)
                whole = file.read().rpartition(b"\n")[0]
                file.truncate(len(whole) + 1 if whole else 0)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
