"""Record the first 60 clicks of a simulated person for the documentation.

DUALMETRIC_DATA=... python docs/record_teaching.py

The person answers from the labels, in a real Chromium, on fashion images and on messages of 20
Newsgroups. Screenshots go to docs/_static, and what the clicks did to docs/outputs/teach.txt.
"""

import os
import re
import sys
import tarfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import chromium  # noqa: E402
from dualmetric import mean_average_precision, tfidf  # noqa: E402
from dualmetric.io import read_rows  # noqa: E402
from dualmetric.teach.content import Pixels, Texts  # noqa: E402
from dualmetric.teach.notebook import Page  # noqa: E402
from dualmetric.teach.server import Teaching  # noqa: E402
from dualmetric.teach.session import Session  # noqa: E402

N_CLICKS = 60


def fashion(folder):
    """Rows, labels, what is shown, test rows and their labels, and names of features."""
    file = read_rows(folder / "fashion_mnist_13k.npz")
    X, train, test = np.asarray(file.X, np.float32), file.train_idx, file.test_idx[:2000]
    return X[train], file.y[train], Pixels(X[train], (28, 28)), X[test], file.y[test], None


def news(folder):
    """The same for messages: 100 leading components of tf-idf, named by their largest words."""
    from sklearn.decomposition import TruncatedSVD

    file = read_rows(folder / "20news_bydate.npz")
    rng = np.random.default_rng(0)
    train = np.sort(rng.choice(file.train_idx, 4000, replace=False))
    test = np.sort(rng.choice(file.test_idx, 2000, replace=False))
    counts = file.X.astype(np.float32)
    idf = tfidf.fit_idf(counts[train])
    texts = []
    with tarfile.open(folder / "20news-bydate.tar.xz") as archive:
        wanted = set(train.tolist())
        files = (member for member in archive if member.isfile())
        for number, member in enumerate(files):
            if number in wanted:
                texts.append(_without_header(archive.extractfile(member).read()))
    words = (folder / "20news_bydate.vocabulary.txt").read_text(encoding="utf-8").split("\n")
    X, T = (tfidf.weigh(counts[rows], idf) for rows in (train, test))
    found = TruncatedSVD(100, random_state=0).fit(X)
    X, T = (found.transform(rows).astype(np.float32) for rows in (X, T))
    largest = np.argsort(-np.abs(found.components_), axis=1)[:, :3]
    names = ["/".join(words[word] for word in line) for line in largest]
    return X, file.y[train], Texts(texts), T, file.y[test], names


def _without_header(message):
    """The subject and the text, without addresses."""
    head, _, body = message.decode("latin-1").partition("\n\n")
    subject = re.search(r"^Subject: (.*)", head, re.MULTILINE)
    body = re.sub(r"\S+@\S+", "…", body)
    return " ".join(f"{subject[1] if subject else ''}: {body}".split())


def walk(browser, name, data):
    """Click 60 times; yields lines for the documentation."""
    X, y, content, test, test_y, names = data
    session = Session(X, feature_names=names)
    page = Page(Teaching(session, content, title=f"Teach a distance: {name}", names=names))
    took = []
    try:
        browser.open(page.address, width=1000, height=620)
        plain = mean_average_precision(session.base.first.transform(test), test_y)
        yield f"{name}: {X.shape[0]:,} rows × {X.shape[1]:,} features, plain mAP {plain:.3f}"
        first = None
        while len(session.judgements) < N_CLICKS:
            _press(browser, "n")
            query = page.teaching.query
            if first is None:
                first = query
                if name == "fashion":
                    _shot(browser, "teach_fashion_start.png")
            for _ in page.teaching.asked.rows:
                row = int(browser.run("document.querySelector('.row.selected').dataset.row"))
                _press(browser, "c" if y[row] == y[query] else "f")
                took.append(float(browser.run("document.documentElement.dataset.took")))
                n = len(session.judgements)
                if n % 20 == 0:
                    score = mean_average_precision(session.metric().transform(test), test_y)
                    points = 100 * (score - plain)
                    yield f"{n:>4} judgements: mAP {score:.3f} ({points:+.1f} points)"
                if n == N_CLICKS:
                    break
        browser.press("/")
        browser.type(str(first if name == "fashion" else _most_changed(session)))
        _press(browser, "Enter")
        _shot(browser, f"teach_{name}_after.png")
        browser.click("#learned summary")
        browser.wait("document.getElementById('learned').dataset.ready === 'yes'")
        gained = browser.run("document.querySelector('#learned-body table').innerText")
        lines = [line.replace("\t", " ") for line in gained.split("\n")[:6]]
        yield f"     gained or lost weight: {', '.join(lines)}"
        yield (
            f"     from click to new order: median {np.median(took):.0f} ms, "
            f"95 % within {np.quantile(took, 0.95):.0f} ms"
        )
        assert browser.errors == [], browser.errors
    finally:
        page.stop()


def _most_changed(session):
    """The judged query whose nearest rows changed most."""
    queries = dict.fromkeys(judgement.query for judgement in session.judgements)
    return min(queries, key=lambda query: len(np.intersect1d(*session.nearest(query))))


def _press(browser, key):
    before = "Number(document.documentElement.dataset.acts ?? 0)"
    n = int(browser.run(before))
    browser.press(key)
    browser.wait(f"{before} > {n}")


def _shot(browser, name):
    browser.run("Promise.all(document.getAnimations().map((a) => a.finished))")
    browser.run("window.scrollTo(0, 0)")
    browser.wait("[...document.images].every((image) => image.complete)")
    browser.screenshot(HERE / "_static" / name)


def main() -> None:
    """Write the screenshots and the text."""
    import tempfile

    folder = Path(os.environ.get("DUALMETRIC_DATA") or sys.exit("set DUALMETRIC_DATA"))
    lines = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = chromium.Browser(Path(profile))
        try:
            for name, read in (("fashion", fashion), ("news", news)):
                for line in walk(browser, name, read(folder)):
                    print(line, flush=True)
                    lines.append(line)
        finally:
            browser.close()
    (HERE / "outputs" / "teach.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
