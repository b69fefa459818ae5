"""The page about judged queries: its numbers, and that it works in a browser."""

import re

import numpy as np
import pytest

import chromium
from dualmetric import Metric, Positives, Relevance
from dualmetric.evaluation import query_scores
from dualmetric.intervals import paired_interval
from dualmetric.report import build_query_report
from test_report import Page, cells_of

HOSTILE = "</script><img src=x onerror=alert(1)><b>\"'&\ud800"


@pytest.fixture(scope="module")
def case():
    """Queries near their documents in the first features only, which the metric keeps."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(120, 8))
    Q = D[:40] + rng.normal(size=(40, 8)) * ([0.2] * 2 + [3.0] * 6)
    grades = [[q, q, 2] for q in range(40)] + [[q, q + 40, 1] for q in range(0, 40, 2)]
    grades += [[q, q + 80, 0] for q in range(5)]
    return Metric(np.eye(8)[:, :2]), D, Relevance(grades, queries=Q), Q


@pytest.fixture(scope="module")
def html(case):
    metric, D, judgements, _ = case
    names = [f"question {q} {HOSTILE}" for q in range(40)]
    return build_query_report(metric, D, judgements, title=HOSTILE, query_names=names)


def scores_of(case, measure, k=10):
    metric, D, judgements, Q = case
    bare = Relevance(judgements.grades)
    plain = query_scores(D, bare, Q, measure=measure, k=k)
    return plain, query_scores(metric.transform(D), bare, metric.transform(Q), measure=measure, k=k)


def test_scores_and_curves_are_those_of_evaluation(case, html):
    lines = cells_of(html, 'class="scores"')
    assert [line[0].split()[0] for line in lines] == ["Euclidean", "Cosine", "Learned"]
    for place, measure in enumerate(("ndcg", "map", "recall"), start=1):
        b, a = scores_of(case, measure)
        assert lines[0][place].startswith(f"{100 * b.mean():.1f}\u00a0%")
        assert lines[2][place].startswith(f"{100 * a.mean():.1f}\u00a0%")
    b, a = scores_of(case, "ndcg")
    low, high = paired_interval(a, b)
    assert low > 0
    assert "ranks better than the plain Euclidean" in html
    assert f"95 % interval {100 * low:+.1f} to {100 * high:+.1f}" in html
    for measure in ("recall", "precision"):
        found = cells_of(html, f"{measure.capitalize()} at k</h3>")
        expected = []
        for k in (1, 5, 10, 20, 50, 100):
            b, a = scores_of(case, measure, k)
            expected.append(
                [str(k), f"{100 * b.mean():.1f}\u00a0%", f"{100 * a.mean():.1f}\u00a0%"]
            )
        assert [line[:3] for line in found] == expected


def test_queries_are_listed_by_their_change(case, html):
    lines = cells_of(html, 'aria-label="Queries"')
    assert len(lines) == 40
    b, a = scores_of(case, "ndcg")
    first = 1 / np.array(scores_of(case, "reciprocal_rank", None))
    for name, ranks, was, now, change in lines:
        q = int(name.split()[1])
        assert name == f"question {q} {HOSTILE}".replace("\ud800", "?")
        assert ranks == f"{first[0, q]:.0f} → {first[1, q]:.0f}"
        assert (was, now) == (f"{100 * b[q]:.1f}", f"{100 * a[q]:.1f}")
        assert float(change.replace("−", "-")) == pytest.approx(100 * (a[q] - b[q]), abs=0.06)
    changes = [abs(float(line[4].replace("−", "-"))) for line in lines]
    assert changes == sorted(changes, reverse=True)
    rose, fell = (np.count_nonzero(sign * (a - b) > 1e-9) for sign in (1, -1))
    assert f"rose for {rose} queries, fell for {fell} and stayed" in html


def test_clicks_on_rows_of_the_data(case):
    metric, D, *_ = case
    clicks = Positives([[3, 43], [5, 45], [5, 85]])
    page = Page(build_query_report(metric, D, clicks, title="t"))
    names = [e["text"] for e in page.all("th", scope="row")]
    assert set(names) >= {"query 3", "query 5"}
    assert "2 queries · 120 documents" in page.all("p", **{"class": "summary"})[0]["text"]


def test_names_are_one_per_query(case):
    metric, D, judgements, _ = case
    with pytest.raises(ValueError, match="2 query names were given for 40 queries"):
        build_query_report(metric, D, judgements, title="t", query_names=["a", "b"])
    with pytest.raises(TypeError, match=r"judgements must be Positives or Relevance .* got list"):
        build_query_report(metric, D, [0, 1], title="t")


@pytest.mark.skipif(chromium.find() is None, reason="no Chromium is installed")
def test_the_page_in_a_browser(html, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    browser = chromium.Browser(tmp_path / "profile")
    try:
        for width in (1280, 400):
            browser.open(path, width=width)
            assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run("document.querySelectorAll('main img, main b').length") == 0
        browser.click("table.classes thead th:nth-child(5) button")
        changes = browser.run(
            "[...document.querySelectorAll('table.classes td:nth-child(5)')]"
            ".map(cell => Number(cell.dataset.sort))"
        )
        assert changes == sorted(changes, reverse=True)
        assert re.fullmatch(r"[☾☀].*", browser.run("document.getElementById('theme').textContent"))
        assert browser.errors == []
        assert all(url.startswith("file:") for url in browser.loaded)
    finally:
        browser.close()
