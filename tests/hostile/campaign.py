"""Campaigns of hostile cases, in subprocesses, so that a crash is noticed.

``python -m hostile.campaign fits --seed 0 --count 1000`` draws cases of seeds 0, 1, … and prints
how many had which outcome. Cases that are neither "works" nor "refused" are kept as files. Run one
again with ``--seed N --count 1 --show``.
"""

import argparse
import faulthandler
import json
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from select import select

GOOD = ("works", "refused")
LONGEST = 20  # seconds of the processor for one case
MOST_MEMORY = 3 * 2**30  # bytes of a process that has run a batch of small cases
BATCH = 500
ROOT = Path(__file__).parents[2]


def make_case(kind, seed):
    """The case of a seed."""
    draw = random.Random(seed)
    if kind == "requests":  # needs the extra "teach"
        from .requests import Requests

        return Requests(draw)
    from . import files, fits

    return {"fits": fits.Fit, "files": files.Damage}[kind](draw)


def work(kind, seed, count, show):
    """Run cases in this process; one line of JSON before and after each."""
    faulthandler.enable()
    make_case(kind, 0).run()  # imports what it needs
    for number in range(seed, seed + count):
        print(json.dumps({"begin": number}), flush=True)
        case = None
        try:
            case = make_case(kind, number)
            outcome, said = case.run()
        except BaseException as error:
            outcome, said = f"broken case: {type(error).__name__}", traceback.format_exc()
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if outcome in GOOD and used > MOST_MEMORY:
            outcome, said = "memory", f"{used:,} bytes"
        bad = outcome not in GOOD
        line = {"end": number, "outcome": outcome, "said": str(said)[:2000]}
        line |= {"case": repr(case)[:2000]} if bad or show else {}
        print(json.dumps(line), flush=True)
        if outcome == "memory":
            return


def batches(kind, seed, count, until, tell):
    """Run cases in subprocesses until there were ``count``, or the time is up."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))
    last = seed + count
    while seed < last and time.monotonic() < until:
        size = min(BATCH, last - seed)
        command = [sys.executable, "-m", "hostile.campaign", kind, "--worker"]
        command += ["--seed", str(seed), "--count", str(size)]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=ROOT
        )
        seed = follow(child, seed, size, tell)


def seconds_of(pid):
    """Seconds of the processor that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def follow(child, seed, size, tell):
    """Read what a batch says; returns the seed to continue with."""
    began, limit, buffer = seed, 60, b""  # starting takes longer than a case
    fd, waited, spent = child.stdout.fileno(), 0, 0.0
    while True:
        if not select([fd], [], [], limit)[0]:
            used = seconds_of(child.pid)
            if used - spent < LONGEST and waited < 10:  # others use the processor
                waited += 1
                continue
            child.kill()
            child.communicate()
            tell({"end": began, "outcome": "hang", "said": f"over {LONGEST} s"})
            return began + 1
        data = os.read(fd, 65536)
        if not data:
            break
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in filter(None, lines):
            try:
                found = json.loads(line)
            except ValueError:
                continue  # something was printed by a case
            if "begin" in found:
                began, limit, waited, spent = found["begin"], LONGEST, 0, seconds_of(child.pid)
            else:
                tell(found)
                seed = found["end"] + 1
                began = seed
    said = child.communicate()[1].decode(errors="replace")
    if child.returncode != 0:
        tell({"end": began, "outcome": f"crash ({child.returncode})", "said": said[-2000:]})
        return began + 1
    return seed


def commit():
    """Commit of the code, with + where files have changed."""
    run = {"capture_output": True, "text": True, "cwd": ROOT, "check": False}
    name = subprocess.run(["git", "rev-parse", "--short", "HEAD"], **run).stdout.strip()
    paths = ["src", "tests/hostile"]
    changed = subprocess.run(["git", "status", "--porcelain", *paths], **run).stdout.strip()
    return name + ("+" if changed else "")


def store(path, record):
    """Keep the record of the last campaign of each kind, one line of JSON each."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    kept = [line for line in lines if json.loads(line)["kind"] != record["kind"]]
    path.write_text("\n".join(sorted([*kept, json.dumps(record)])) + "\n")


def main():
    """Run a campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["fits", "files", "requests"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--keep", default=str(ROOT / "build" / "hostile"))
    parser.add_argument("--results", help="file to store the counts in")
    parser.add_argument("--worker", action="store_true", help="run the cases in this process")
    parser.add_argument("--show", action="store_true", help="the same, and print every case")
    given = parser.parse_args()
    if given.worker or given.show:
        work(given.kind, given.seed, given.count, given.show)
        return 0
    folder = Path(given.keep)
    folder.mkdir(parents=True, exist_ok=True)
    counts, begin, code = Counter(), time.monotonic(), commit()

    def tell(found):
        counts[found["outcome"]] += 1
        if found["outcome"] not in GOOD:
            print(f"{given.kind} {found['end']}: {found['outcome']}: {found['said'][-300:]}")
            (folder / f"{given.kind}-{found['end']}.json").write_text(json.dumps(found, indent=1))
        if sum(counts.values()) % 1000 == 0:
            print(f"{sum(counts.values()):,} cases, {time.monotonic() - begin:.0f} s", flush=True)

    try:
        batches(given.kind, given.seed, given.count, begin + 60 * given.minutes, tell)
    except KeyboardInterrupt:
        print("stopped")
    total = sum(counts.values())
    print(f"{total:,} {given.kind} in {time.monotonic() - begin:.0f} s:")
    for outcome, number in counts.most_common():
        print(f"{number:8,}  {outcome}")
    if given.results:
        record = {"kind": given.kind, "commit": code, "seed": given.seed, "cases": total}
        record |= {"outcomes": dict(sorted(counts.items()))}
        record["seconds"] = round(time.monotonic() - begin)
        record["day"] = time.strftime("%Y-%m-%d")
        store(given.results, record)
    return int(any(outcome not in GOOD for outcome in counts))


if __name__ == "__main__":
    sys.exit(main())
