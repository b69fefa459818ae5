"""Faults at random moments: kills, interrupts, full disks, folders without permission, two writers.

Each fault strikes a command that writes files. Afterwards, every file under its final name must be
whole, the old one or the new one; what was finished must still be there; and the same command must
then succeed and leave nothing behind. ``python -m hostile.faults --count 300``.

Commands run in children of one process that has imported everything, so that a fault takes
tenths of a second.
"""

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from dualmetric import DuOri, Metric
from dualmetric.io.rowfiles import read_rows, write_rows
from dualmetric.supervision import Triplets
from makers import make_classes

from . import campaign

LONGEST = 120  # seconds of one command
METRIC, ROWS = "m.safetensors", "rows.npz"
DURP = ("--method", "durp", "--sampler", "neighbors")


# --- commands -------------------------------------------------------------------------------


def _is_metric(path):
    Metric.load(path)


def _is_json(path):
    json.loads(path.read_text())


def _is_page(path):
    text = path.read_text()
    assert text.startswith("<!doctype html>")
    assert len(text) > 1000


def _are_rows(path):
    assert read_rows(path).X.shape[0] == 120


def _are_cells(path):
    # a line that was cut short is not a result: the next run replaces it
    for line in path.read_text().rpartition("\n")[0].splitlines():
        json.loads(line)


REPRODUCE = ("reproduce", "--datasets", "digits", "--experiments", "statistics", "--out", "out")
# One line per command: its arguments, and its files with what shows that one is whole.
COMMANDS = {
    "save": (("save", "-o", "saved.safetensors"), {"saved.safetensors": _is_metric}),
    "state": (("state", "-o", "s.safetensors"), {"s.safetensors": DuOri.load_state}),
    "fit": (("fit", ROWS, *DURP, "-o", "new.safetensors"), {"new.safetensors": _is_metric}),
    "fit, scores": (
        ("fit", ROWS, "--method", "whitening", "-o", "new.safetensors", "--json", "fit.json"),
        {"new.safetensors": _is_metric, "fit.json": _is_json},
    ),
    "transform npy": (("transform", METRIC, ROWS, "-o", "v.npy"), {"v.npy": _are_rows}),
    "transform csv": (("transform", METRIC, ROWS, "-o", "v.csv"), {"v.csv": _are_rows}),
    "transform npz": (("transform", METRIC, ROWS, "-o", "v.npz"), {"v.npz": _are_rows}),
    "transform parquet": (("transform", METRIC, ROWS, "-o", "v.parquet"), {"v.parquet": _are_rows}),
    "export": (("export", METRIC, "-o", "L.npy"), {"L.npy": np.load}),
    "evaluate": (
        ("evaluate", METRIC, ROWS, "--report", "page.html", "--json", "scores.json"),
        {"page.html": _is_page, "scores.json": _is_json},
    ),
    "neighbors": (
        ("neighbors", METRIC, ROWS, "--query", "1", "--json", "near.json"),
        {"near.json": _is_json},
    ),
    "reproduce": (REPRODUCE, {"out/cells.jsonl": _are_cells, "out/index.html": _is_page}),
}


def run_command(arguments):
    """Run a command in this process; never returns."""
    from dualmetric.cli import main

    if arguments[0] == "save":
        metric = Metric.load(METRIC)
        for _ in range(20):
            metric.save(arguments[2])
        os._exit(0)
    if arguments[0] == "state":
        rows = read_rows(ROWS).X
        model = DuOri(prior="identity", random_state=0).partial_fit(rows, Triplets([[0, 3, 1]]))
        for _ in range(20):
            model.save_state(arguments[2])
        os._exit(0)
    sys.argv = ["dualmetric", *arguments]
    main()


def warm_up(folder):
    """Import in this process what the commands need, so that its children have it."""
    before, given = os.getcwd(), sys.argv
    os.chdir(folder)
    try:
        for arguments in (
            ("fit", ROWS, *DURP, "-o", METRIC),
            *(one for one, _ in COMMANDS.values()),
        ):
            if arguments[0] not in ("save", "state"):
                hidden = contextlib.redirect_stdout(io.StringIO())
                with hidden, contextlib.suppress(SystemExit):
                    run_command(arguments)
    finally:
        os.chdir(before)
        sys.argv = given


def start(arguments, folder, limit=None):
    """Start a command in a child process, in which files may have at most ``limit`` bytes."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        log = os.open(folder.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        run_command(arguments)
    except SystemExit as end:
        code = end.code or 0
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:
        os.write(2, repr(error).encode())
    finally:
        os._exit(code if isinstance(code, int) else 1)


def finish(child):
    """Wait for a child; its exit status, or None where it hangs and was killed."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


# --- faults ---------------------------------------------------------------------------------


def _strike(number):
    def strike(draw, arguments, folder, usual):
        child = start(arguments, folder)
        time.sleep(draw.uniform(0, 1.1 * usual))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)
        return finish(child)

    return strike


def _full_disk(draw, arguments, folder, usual):
    return finish(
        start(arguments, folder, limit=draw.choice((0, 1, 100, 1000, draw.randrange(30_000))))
    )


def _not_writable(draw, arguments, folder, usual):
    if os.geteuid() == 0:  # nothing is forbidden to this user: the folder is gone instead
        moved = [part.replace("out", "/proc/out") if part == "out" else part for part in arguments]
        at = [place for place, part in enumerate(moved) if part in ("-o", "--json", "--report")]
        for place in at:
            moved[place + 1] = f"/proc/{moved[place + 1]}"
        return finish(start(moved, folder))
    folder.chmod(0o555)
    try:
        return finish(start(arguments, folder))
    finally:
        folder.chmod(0o755)


def _two_writers(draw, arguments, folder, usual):
    first, second = start(arguments, folder), start(arguments, folder)
    time.sleep(draw.uniform(0, usual))
    os.kill(first, signal.SIGKILL)
    finish(first)
    return finish(second)


FAULTS = {
    "kill": _strike(signal.SIGKILL),
    "interrupt": _strike(signal.SIGINT),
    "terminate": _strike(signal.SIGTERM),
    "full disk": _full_disk,
    "not writable": _not_writable,
    "two writers": _two_writers,
}
EXPECTED = {  # exit statuses; None would be a hang
    "kill": (-9, 0),
    "interrupt": (130, 0),
    "terminate": (-15, 0),
    "full disk": (0, 1, 2),
    "not writable": (2, 1),
    "two writers": (0, 2),  # two at a time may not add to the same results
}


class Bench:
    """A folder with data, a metric and what commands wrote before; made once, copied for each."""

    def __init__(self, folder):
        self.model = folder / "model"
        self.model.mkdir()
        X, y = make_classes(120, 8, seed=0)
        write_rows(self.model / ROWS, X, y)
        self.usual = {}
        warm_up(self.model)
        status = finish(start(("fit", ROWS, *DURP, "-o", METRIC), self.model))
        assert status == 0, (folder / "log").read_text()
        for name, (arguments, _) in COMMANDS.items():
            begin = time.monotonic()
            status = finish(start(arguments, self.model))
            assert status == 0, (name, (folder / "log").read_text())
            self.usual[name] = time.monotonic() - begin
        self.folder = folder
        print(", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.usual.items()))

    def try_fault(self, draw):
        """One fault; returns its name and what came of it."""
        name, fault = draw.choice(list(COMMANDS)), draw.choice(list(FAULTS))
        arguments, files = COMMANDS[name]
        here = self.folder / "here"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.model, here)
        fresh = draw.random() < 0.5
        if fresh:
            for file in files:
                (here / file).unlink(missing_ok=True)
        finished = self._cells(here)
        status = FAULTS[fault](draw, arguments, here, self.usual[name])
        log = (self.folder / "log").read_text(errors="replace")
        label = f"{fault}, {name}"
        if status is None:
            return label, "hang", log
        if status not in EXPECTED[fault]:
            return label, f"exit status {status}", log
        if "Traceback" in log:
            return label, "traceback", log
        broken = self._broken(here, files, fresh)
        if broken:
            return label, "half a file", broken
        if not self._cells(here) >= finished:
            return label, "finished results are lost", ""
        status = finish(start(arguments, here))
        if status != 0:
            return label, f"does not resume: {status}", (self.folder / "log").read_text()
        broken = self._broken(here, files, False)
        left = [path.name for path in here.rglob(".dualmetric-*")]
        if broken or left:
            return label, "leftovers", f"{broken} {left}"
        return label, "survived", ""

    @staticmethod
    def _broken(here, files, may_be_missing):
        for file, check in files.items():
            path = here / file
            if not path.exists() and may_be_missing:
                continue
            try:
                check(path)
            except Exception as error:
                return f"{file}: {error!r}"
        return ""

    @staticmethod
    def _cells(here):
        path = here / "out" / "cells.jsonl"
        return set(path.read_text().splitlines()) if path.exists() else set()


# --- Dask -----------------------------------------------------------------------------------

DASK = """
import os, random, signal, sys, threading, time
import numpy as np
if __name__ == "__main__":
    import dask.array as da
    from distributed import Client, LocalCluster
    from dualmetric import DuRP
    draw, fault, mark = random.Random(int(sys.argv[1])), sys.argv[2], sys.argv[3]
    X = np.random.default_rng(0).standard_normal((4000, 30)); y = np.arange(4000) % 4
    X[np.arange(4000), y] += 3
    model = DuRP(5, n_triplets=2000, random_state=0, shrinkage=0.5, all_rows=True, max_rows=500)
    expected = model.fit(X, y).transform(X[:50])
    limit = "700MiB"
    with LocalCluster(2, processes=True, threads_per_worker=1, memory_limit=limit,
                      dashboard_address=None) as cluster, Client(cluster) as client:
        def slow(block):
            time.sleep(0.05)
            if fault == "memory" and not os.path.exists(mark):
                open(mark, "w").close()
                waste = []
                for _ in range(10):
                    waste.append(np.ones(2**24))
                    time.sleep(0.3)
            return block
        rows = da.from_array(X, chunks=(200, 30)).map_blocks(slow, dtype=X.dtype)
        if fault == "lost":
            pids = list(client.run(os.getpid).values())
            def strike():
                time.sleep(draw.uniform(0, 1.5))
                os.kill(draw.choice(pids), signal.SIGKILL)
            threading.Thread(target=strike, daemon=True).start()
        found = model.fit(rows, y).transform(X[:50])
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
        print("SAME")
"""


def try_dask(draw, folder):
    """Lose a worker, or let one run out of memory; the fit must give the same result."""
    fault = draw.choice(("lost", "lost", "memory"))
    script, mark = folder / "dask_fault.py", folder / "wasted"
    mark.unlink(missing_ok=True)
    script.write_text(DASK)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(campaign.ROOT / "src")
    command = [sys.executable, str(script), str(draw.randrange(2**32)), fault, str(mark)]
    label = f"worker {'lost' if fault == 'lost' else 'out of memory'}, fit on Dask"
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return label, "hang", ""
    good = done.returncode == 0 and "SAME" in done.stdout
    return label, "survived" if good else "lost", done.stderr[-1500:]


def main():
    """Run faults until there were enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--dask", type=float, default=0.03, help="share of faults of Dask workers")
    parser.add_argument("--keep", default=str(campaign.ROOT / "build" / "hostile"))
    parser.add_argument("--results", help="file to store the counts in")
    parser.add_argument("--teach", type=float, default=0.1, help="share of faults while teaching")
    given = parser.parse_args()
    from . import teach_faults  # which needs what is above

    kept = Path(given.keep)
    kept.mkdir(parents=True, exist_ok=True)
    outcomes, faults, begin = Counter(), Counter(), time.monotonic()
    code = campaign.commit()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        teach_faults.warm_up()
        for seed in range(given.seed, given.seed + given.count):
            if time.monotonic() > begin + 60 * given.minutes:
                break
            draw = random.Random(seed)
            place = draw.random()
            if place < given.dask:
                label, outcome, said = try_dask(draw, Path(folder))
            elif place < given.dask + given.teach:
                label, outcome, said = teach_faults.try_fault(draw, Path(folder))
            else:
                label, outcome, said = bench.try_fault(draw)
            outcomes[outcome] += 1
            fault, _, what = label.partition(", ")
            faults[fault + (" while teaching" if what == "teach" else "")] += 1
            if outcome != "survived":
                print(f"fault {seed}: {label}: {outcome}: {said[-400:]}", flush=True)
                record = {"seed": seed, "fault": label, "outcome": outcome, "said": said}
                (kept / f"fault-{seed}.json").write_text(json.dumps(record, indent=1))
    seconds = time.monotonic() - begin
    print(f"{sum(faults.values()):,} faults in {seconds:.0f} s:")
    for counts in (faults, outcomes):
        for what, number in counts.most_common():
            print(f"{number:8,}  {what}")
    if given.results:
        record = {"kind": "faults", "commit": code, "seed": given.seed}
        record |= {"cases": sum(faults.values()), "faults": dict(sorted(faults.items()))}
        record |= {"outcomes": dict(sorted(outcomes.items())), "seconds": round(seconds)}
        record["day"] = time.strftime("%Y-%m-%d")
        campaign.store(given.results, record)
    return int(set(outcomes) != {"survived"})


if __name__ == "__main__":
    sys.exit(main())
