"""The page about a matcher: what it shows, and that it works in a browser."""

import re

import numpy as np
import pytest

import chromium
from dualmetric import Matcher, Metric, Pairs
from dualmetric.report import _match_charts as charts
from dualmetric.report import build_match_report
from test_matching import things

HOSTILE = "</script><img src=x onerror=alert(1)><b>\"'&\ud800"


@pytest.fixture(scope="module")
def fitted():
    X, pairs = things(150, 0.4)
    matcher = Matcher(Metric(None, 4)).fit(X, pairs)
    other, test = things(150, 0.4, seed=1)
    return matcher, other, test


@pytest.fixture(scope="module")
def page(fitted):
    matcher, X, test = fitted
    texts = [f"record {row} {HOSTILE}" for row in range(300)]
    limit = matcher.threshold(precision=0.7)
    return build_match_report(matcher, X, test, title=HOSTILE, texts=texts, threshold=limit)


def listed(page, heading):
    part = page.partition(f"<h3>{heading}")[2].partition("</section>")[0].partition("<h3>")[0]
    return [
        list(map(int, pair)) for pair in re.findall(r"row (\d+)</small>.*?row (\d+)</small>", part)
    ]


def test_errors_are_the_hardest(fitted, page):
    matcher, X, test = fitted
    limit = matcher.threshold(precision=0.7).distance
    distance = matcher.distance(*(X[column] for column in test.index.T))
    false = np.flatnonzero((distance <= limit) & ~test.same)
    false = false[np.argsort(distance[false])][:8]
    assert listed(page, "Accepted, but different") == test.index[false].tolist()
    missed = np.flatnonzero((distance > limit) & test.same)
    missed = missed[np.argsort(-distance[missed])][:8]
    assert listed(page, "The same, but rejected") == test.index[missed].tolist()


def test_scores_are_those_of_evaluate(fitted, page):
    matcher, X, test = fitted
    scores = matcher.evaluate(X, test)
    assert f"<strong>{scores.average_precision:.3f}</strong>" in page
    assert f"<strong>{scores.calibration_error:.4f}</strong>" in page
    assert f"<strong>{scores.log_loss:.4f}</strong>" in page
    assert f"calibration error {scores.calibration_error:.4f}" in page


def test_nothing_of_the_data_becomes_markup(page):
    assert "<img" not in page
    assert "<b>" not in page
    assert "expect lower scores on new pairs" not in page


def test_pairs_that_were_fitted_to_are_named_so(fitted):
    matcher, X, test = fitted
    page = build_match_report(matcher, X, test, title="t", held_out=False)
    assert re.search(r"expect lower\s+scores on new pairs", page)
    assert "probability of at least ½" in page


def test_names_of_rows(fitted):
    matcher, X, test = fitted
    names = [f"<{row}>" for row in range(300)]
    page = build_match_report(matcher, X, test, title="t", row_names=names)
    assert "row 1" not in page
    cells = re.findall(r'class="record" dir="auto">&lt;\d+&gt;</td>', page)
    assert len(cells) == page.count('class="record"') > 0
    with pytest.raises(ValueError, match="2 row names were given for 300 rows"):
        build_match_report(matcher, X, test, title="t", row_names=["a", "b"])


def test_without_errors_there_is_nothing_to_list():
    X, pairs = things(60, 0.001)
    matcher = Matcher(Metric(None, 4)).fit(X, pairs)
    limit = matcher.threshold(recall=0.9)
    page = build_match_report(matcher, X, pairs, title="t", threshold=limit)
    assert page.count("<p>None.</p>") >= 1


def test_bad_arguments(fitted):
    matcher, X, test = fitted
    with pytest.raises(ValueError, match="2 texts were given for 300 rows"):
        build_match_report(matcher, X, test, title="t", texts=["a", "b"])
    with pytest.raises(ValueError, match="no pair is labelled as different"):
        build_match_report(matcher, X, Pairs(test.index[:5]), title="t")


def test_points_are_where_their_numbers_say():
    chart = charts.with_band([(0.0, 0.0, 0.0, 0.5), (1.0, 1.0, 0.5, 1.0)], ("A", "B"), "x")
    left, right = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', chart)
    assert (left, right) == (("60.0", "266.0"), ("422.0", "14.0"))
    chart = charts.on_log_scales([(0.01, 1.0, 0.9, 1.0), (1.0, 0.01, 0.0, 0.1)], ("A", "B"), "x")
    left, right = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', chart)
    assert (left, right) == (("60.0", "14.0"), ("422.0", "266.0"))


def test_heights_of_the_histogram_are_shares():
    same, other = np.full(10, 1.0), np.r_[np.full(5, 2.0), np.full(5, 4.0)]
    chart = charts.distances(same, other, 1.5)
    heights = [float(h) for h in re.findall(r'class="bar \w+"[^>]*height="([\d.]+)"', chart)]
    assert sorted(heights)[-3:] == [126.0, 126.0, 252.0]
    assert "Threshold 1.5" in chart


@pytest.mark.skipif(chromium.find() is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1280, 380])
def test_the_page_in_a_browser(page, width, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    browser = chromium.Browser(tmp_path / "profile")
    try:
        browser.open(path, width=width)
        assert browser.run("document.querySelectorAll('svg.chart').length") == 4
        assert browser.run("document.documentElement.scrollWidth") <= width
        # every chart has a band or bars of some size
        boxes = browser.run(
            "[...document.querySelectorAll('.band, .line.after')].map(e => e.getBBox().width)"
        )
        assert len(boxes) == 6
        assert min(boxes) > 50
        ids = browser.run("[...document.querySelectorAll('nav a')].map(a => a.hash.slice(1))")
        assert all(browser.run(f"!!document.getElementById({name!r})") for name in ids)
        before = browser.run("getComputedStyle(document.body).backgroundColor")
        browser.click("#theme")
        assert browser.run("getComputedStyle(document.body).backgroundColor") != before
        assert browser.errors == []
        assert all(url.startswith("file:") for url in browser.loaded)
    finally:
        browser.close()


def test_with_prevalence_shares_are_those_in_use():
    X, pairs = things(300)
    matcher = Matcher(Metric(None, 4)).fit(X, pairs, prevalence=0.02)
    other, test = things(500, seed=3)
    page = build_match_report(matcher, other, test, title="t")
    scores = matcher.evaluate(other, test)
    assert f"calibration error {scores.calibration_error:.4f}" in page
    assert scores.calibration_error < 0.02
    distance = matcher.distance(*(other[column] for column in test.index.T))
    fpr = np.mean(distance[~test.same] <= distance[test.same].max())
    precision = 0.02 / (0.02 + 0.98 * fpr)  # where all same pairs are accepted
    assert f"{100 * precision:.0f} % at 100 %" in page
