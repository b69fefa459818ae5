"""The page for teaching in a real browser, served by the real command."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

import chromium
from dualmetric import Metric
from makers import make_clusters

pytest.importorskip("starlette", reason="dualmetric[teach] is not installed")
pytest.importorskip("uvicorn", reason="dualmetric[teach] is not installed")
pytestmark = pytest.mark.skipif(
    chromium.find() is None, reason="no Chromium is installed; on Debian: apt-get install chromium"
)
HOSTILE = "</script><img src=x onerror=document.title='owned'><b>\"'& \u202eevil\u202c " + "w" * 300
X, Y = make_clusters(n=90, d=12, n_classes=3, apart=1.5)
TEXTS = [f"message {number} of class {label}" for number, label in enumerate(Y)]
TEXTS[:30] = [f"{text} {HOSTILE}" for text in TEXTS[:30]]


class Server:
    """The command in a process of its own."""

    def __init__(self, folder, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from dualmetric.cli import main; main()", "teach", "x.npz",
             *arguments],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.match(r"Open (\S+)", line):
                self.address = found[1]
                return
        self.stop()
        raise RuntimeError("".join(self.said))

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        self.said.append(self.process.stdout.read())
        self.process.stdout.close()
        return self.process.wait(20)


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "x.npz", X=X)
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    return tmp_path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def acts(browser):
    return int(browser.run("document.documentElement.dataset.acts ?? 0"))


def after(browser, does):
    """Do something when nothing moves any more, and wait for the answer of the server."""
    browser.run("Promise.allSettled(document.getAnimations().map((one) => one.finished))")
    n = acts(browser)
    does()
    browser.wait(f"Number(document.documentElement.dataset.acts ?? 0) > {n}")


def shown(browser, column):
    rows = f"[data-list={column}] .row"
    return browser.run(
        f"[...document.querySelectorAll({rows!r})].map((e) => Number(e.dataset.row))"
    )


def text(browser, selector):
    return browser.run(f"document.querySelector({selector!r}).textContent")


def query_of(browser):
    return int(re.search(r"\d+", text(browser, "#query-heading"))[0])


def answer_all(browser, mark):
    """Answer every question of one query from the labels."""
    query = query_of(browser)
    for row in shown(browser, "asked"):
        mark(query, row)
    return query


def search(browser, wanted):
    """Look for a row by keys alone."""
    browser.press("/")
    browser.run("document.activeElement.select()")
    browser.type(wanted)
    after(browser, lambda: browser.press("Enter"))


def click_mark(browser):
    def mark(query, row):
        name = "closer" if Y[query] == Y[row] else "farther"
        selector = f"[data-list=asked] [data-row='{row}'] .{name}"
        after(browser, lambda: browser.click(selector))

    return mark


def test_the_whole_flow(browser, folder):
    """Start, mark, undo, be killed, start again, save."""
    server = Server(folder, "--texts", "t.jsonl", "--out", "m.safetensors")
    try:
        browser.open(server.address)
        before = shown(browser, "before")
        assert shown(browser, "now") == before
        after(browser, lambda: browser.click("#next"))
        for _ in range(3):
            answer_all(browser, click_mark(browser))
            after(browser, lambda: browser.click("#next"))
        n = int(re.search(r"(\d+) judgements", text(browser, "#counts"))[1])
        assert n >= 25
        after(browser, lambda: browser.click("#undo"))
        assert text(browser, "#counts").startswith(f"{n - 1} judgements")
        assert "random queries" in text(browser, "#verdict")
        query = query_of(browser)
        assert shown(browser, "now") != shown(browser, "before")
        ranked = shown(browser, "now")
        assert browser.run("document.querySelectorAll('.moved-up, .moved-down').length") > 0
        browser.click("#learned summary")
        browser.wait("document.getElementById('learned').dataset.ready === 'yes'")
        assert browser.run("document.querySelectorAll('#learned-body svg circle').length") > 100
        assert "feature" in text(browser, "#learned-body")
        assert browser.errors == []
        place = server.address.partition("?")[0]
        assert [url for url in browser.loaded if not url.startswith((place, "data:"))] == []
    finally:
        server.stop(signal.SIGKILL)
    assert not (folder / "m.safetensors").exists()
    after(browser, lambda: browser.click("#undo"))
    assert text(browser, "#message") != ""  # the page says that nobody answers
    server = Server(folder, "--texts", "t.jsonl", "--out", "m.safetensors")
    try:
        browser.open(server.address)
        assert text(browser, "#counts").startswith(f"{n - 1} judgements")
        after(
            browser, lambda: (browser.press("/"), browser.type(str(query)), browser.press("Enter"))
        )
        assert query_of(browser) == query
        assert len(set(shown(browser, "now")) & set(ranked)) >= 8
        after(browser, lambda: browser.click("#save"))
        assert text(browser, "#message") == "The metric was saved."
        assert Metric.load(folder / "m.safetensors").info["judgements"] == n - 1
        os.remove(folder / "m.safetensors")
        after(browser, lambda: browser.click(f"[data-list=now] [data-row='{ranked[0]}'] .farther"))
        assert browser.errors == []
    finally:
        assert server.stop() == 0
    assert Metric.load(folder / "m.safetensors").info["judgements"] == n  # saved at the end
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["m.judgements.jsonl", "m.safetensors", "t.jsonl", "x.npz"]


def test_keyboard_alone_on_a_narrow_page_with_hostile_texts(browser, folder):
    server = Server(folder, "--texts", "t.jsonl")
    try:
        browser.open(server.address, width=400, height=800)
        after(browser, lambda: browser.press("n"))

        def mark(query, row):
            selected = browser.run("Number(document.querySelector('.row.selected').dataset.row)")
            right = Y[query] == Y[selected]
            after(browser, lambda: browser.press("c" if right else "f"))

        for _ in range(2):
            answer_all(browser, mark)
            left = "[data-list=asked] .row:not(.right, .wrong)"
            assert browser.run(f"document.querySelectorAll({left!r}).length") == 0
            after(browser, lambda: browser.press("n"))
        n = int(re.search(r"(\d+) judgements", text(browser, "#counts"))[1])
        after(browser, lambda: browser.press("u"))
        assert text(browser, "#counts").startswith(f"{n - 1} judgements")
        first = browser.run("document.querySelector('.row.selected').dataset.row")
        browser.press("ArrowDown")
        assert browser.run("document.querySelector('.row.selected').dataset.row") != first
        assert browser.run("document.activeElement.classList.contains('selected')")
        row, said = shown(browser, "before")[0], []
        for name in ("closer", "farther"):  # one of them contradicts the other
            selector = f"[data-list=before] [data-row='{row}'] .{name}"
            after(browser, lambda selector=selector: browser.click(selector))
            said.append(text(browser, "#message"))
        assert any(one.startswith("This contradicts earlier judgements") for one in said)
        assert "1 contradictory" in text(browser, "#counts")
        search(browser, "message 7 of")
        assert query_of(browser) == 7
        assert HOSTILE[:60] in text(browser, "#query")
        search(browser, "plums")
        assert text(browser, "#message") == "no row contains this text"
        browser.errors.clear()  # Chromium notes the status 404
        after(browser, lambda: browser.press("s"))
        for width in (400, 1280):
            browser.resize(width, 800)
            assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run("document.title").startswith("Teach a distance")
        assert (
            browser.run("document.querySelectorAll('#lists img, #query img, main b').length") == 0
        )
        assert browser.errors == []
        # a second page: what it does is seen at the next click
        token = server.address.partition("token=")[2]
        place = server.address.partition("/?")[0]
        body = json.dumps({"query": 40, "row": 41, "right": True}).encode()
        headers = {"X-Token": token, "Origin": place}
        urllib.request.urlopen(urllib.request.Request(f"{place}/api/judge", body, headers)).close()
        after(browser, lambda: browser.press("c"))
        assert text(browser, "#message") == "Also changed in another window."
        assert (folder / "taught.safetensors").exists()
    finally:
        assert server.stop() == 0


def test_pictures_that_are_missing(browser, folder):
    from dualmetric.report._pictures import png

    (folder / "images").mkdir()
    for number in range(90):
        pixels = np.full((8, 8), number, dtype=np.uint8)
        (folder / "images" / f"{number:03}.png").write_bytes(png(pixels, 1))
    server = Server(folder, "--images", "images")
    try:
        (folder / "images" / "000.png").unlink()
        browser.open(server.address)
        browser.wait("document.querySelector('#query .missing') !== null")
        assert text(browser, "#query") == "picture is missing"
        browser.wait(
            "[...document.querySelectorAll('#lists img')].every((e) => e.naturalWidth === 8)"
        )
        assert browser.run("document.querySelectorAll('#lists img').length") >= 15
        browser.errors.clear()  # the picture that was not found
    finally:
        server.stop(signal.SIGKILL)
