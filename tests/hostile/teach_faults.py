"""Faults while a distance is being taught: `dualmetric teach` dies as judgements are posted.

Whatever the fault, every judgement that the page acknowledged is in the file, in its order; the
metric file is whole; and the same command then continues from there and saves.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import threading
import time

from dualmetric import Metric
from dualmetric.teach import judgements
from makers import make_classes

from . import faults

N = 120
_, Y = make_classes(N, 8, seed=0)
OUT, JUDGED = "taught.safetensors", "taught.judgements.jsonl"
COMMAND = ("teach", faults.ROWS, "-o", OUT)
STRIKES = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT, "terminate": signal.SIGTERM}
FAULTS = (*STRIKES, "kill", "full disk", "not writable")


class Page:
    """The page of a running command, as a script uses it."""

    def __init__(self, log, child):
        self.port = None
        end = time.monotonic() + faults.LONGEST
        while time.monotonic() < end and os.waitpid(child, os.WNOHANG) == (0, 0):
            said = log.read_text(errors="replace")
            if found := re.search(r"Open http://127.0.0.1:(\d+)/\?token=(\S+)\nJudg", said):
                self.port, self.token = int(found[1]), found[2]
                return
            time.sleep(0.005)

    def send(self, name, given=None):
        """Status and answer of a request; None where the command is gone."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=faults.LONGEST)
        headers = {"X-Token": self.token, "Origin": f"http://127.0.0.1:{self.port}"}
        try:
            method = "GET" if name == "state" else "POST"
            body = None if name == "state" else json.dumps(given or {})
            connection.request(method, f"/api/{name}", body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


class Person:
    """Judges at random, and remembers what was acknowledged."""

    def __init__(self, draw, page):
        self.draw, self.page = draw, page
        self.said, self.on_its_way, self.refusals = [], None, []

    def work(self, until):
        """Judge until the command is gone, or for so many steps."""
        for _ in range(until):
            act = self.draw.choices(("judge", "undo", "save", "next"), (12, 2, 1, 1))[0]
            query, row = self.draw.sample(range(N), 2)
            right = bool(Y[query] == Y[row])
            after = self.said
            if act == "judge":
                marked = {j[:2]: j[2] for j in self.said}
                if marked.get((query, row)) is not right:  # a second click changes nothing
                    after = [*self.said, (query, row, right)]
            elif act == "undo":
                after = self.said[:-1]
            self.on_its_way = after
            answer = self.page.send(act, {"query": query, "row": row, "right": right})
            if answer is None:
                return
            if answer[0] == 200:
                self.said = after
            else:
                self.refusals.append(answer[1]["error"])
            self.on_its_way = None


def _strike(draw, child, seconds, number):
    def strike():
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread


def warm_up():
    """Import what the command needs, so that children have it."""
    import uvicorn  # noqa: F401

    from dualmetric.teach import server  # noqa: F401
    from dualmetric.teach.session import Session

    X, _ = make_classes(N, 8, seed=0)
    session = Session(X)
    for row in range(1, 9):
        session.judge(0, row, bool(Y[row] == Y[0]))
    session.metric()


def try_fault(draw, folder):
    """One fault; returns its name and what came of it."""
    fault = draw.choice(FAULTS)
    label, here, log = f"{fault}, teach", folder / "here", folder / "log"
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(folder / "model", here)
    log.write_text("")
    if fault == "not writable":
        status = faults.finish(faults.start((*COMMAND[:-1], "/proc/none/t.safetensors"), here))
        said = log.read_text()
        good = status == 2 and "/proc/none" in said and "Traceback" not in said
        return label, "survived" if good else f"exit status {status}", said
    limit = draw.randrange(100, 3000) if fault == "full disk" else None
    child = faults.start(COMMAND, here, limit=limit)
    early = draw.random() < 0.2
    striking = None
    if early and fault in STRIKES:  # before the page is there
        striking = _strike(draw, child, draw.uniform(0, 0.4), STRIKES[fault])
    page = Page(log, child)
    person = Person(draw, page)
    if page.port is not None:
        if striking is None and fault in STRIKES:
            striking = _strike(draw, child, draw.uniform(0, 1.5), STRIKES[fault])
        person.work(10_000 if fault in STRIKES else 40)
        if fault == "full disk":
            os.kill(child, signal.SIGINT)
    with contextlib.suppress(ChildProcessError):  # it may have been waited for by the page
        if faults.finish(child) is None:
            return label, "hang", log.read_text()
    if striking is not None:
        striking.join()
    said = log.read_text(errors="replace")
    is_whole = limit is not None and len(said) < limit - 100  # what is said is limited as well
    if is_whole and person.said and not (here / OUT).exists() and "run the same" not in said:
        return label, "the end is not explained", said
    if "Traceback" in said:
        return label, "traceback", said
    if any(JUDGED not in one and OUT not in one for one in person.refusals):
        return label, "names no file", str(person.refusals)
    return label, *_what_is_left(here, log, person, fault)


def _what_is_left(here, log, person, fault):
    """Outcome, and what there is to say about it."""
    kept = []
    if (here / JUDGED).exists():
        kept = [one[:3] for one in judgements.read(here / JUDGED, N).judgements]
    if kept != person.said and (person.on_its_way is None or kept != person.on_its_way):
        return "judgements are lost", f"{person.said} {person.on_its_way} {kept}"
    if (here / OUT).exists():
        try:
            saved = Metric.load(here / OUT).info["judgements"]
        except Exception as error:
            return "half a file", repr(error)
        if fault in ("interrupt", "terminate") and saved != len(kept):
            return "not saved at the end", f"{saved} {len(kept)}"
    log.write_text("")  # the address of the first run is in it
    child = faults.start(COMMAND, here)
    page = Page(log, child)
    if page.port is None:
        return "does not resume", log.read_text()
    found = page.send("state")[1]["judgements"]
    again = Person(person.draw, page)
    again.said = list(kept)
    again.work(3)
    os.kill(child, signal.SIGINT)
    status = faults.finish(child)
    if found != len(kept) or again.refusals or status != 0:
        return "does not resume", f"{found} {len(kept)} {again.refusals} {status}"
    if (again.said or kept) and Metric.load(here / OUT).info["judgements"] != len(again.said):
        return "not saved at the end", ""
    left = [path.name for path in here.rglob(".dualmetric-*")]
    return ("leftovers", str(left)) if left else ("survived", "")
