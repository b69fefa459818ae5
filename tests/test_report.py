"""What the report page says, against the scores and `Metric.explain`."""

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import normalize

from dualmetric import DuRP, Metric
from dualmetric.intervals import bootstrap_interval, paired_interval
from dualmetric.report import (
    _explorer,
    _material,
    _pictures,
    build_report,
)
from dualmetric.side_by_side import RECALLS, compare
from dualmetric.tfidf import fit_idf, tfidf
from makers import make_counts

HOSTILE = "</script><script>alert(1)</script> <!-- \"quoted\" 'too' & \u2028 ünï 🦆 $title"


class Page(HTMLParser):
    """Elements of a page as a browser would see them: tag, attributes, text."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self._open = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        self.elements.append(element)
        if tag not in {"meta", "br", "input", "link", "img"}:
            self._open.append(element)

    def handle_endtag(self, tag):
        while self._open and self._open.pop()["tag"] != tag:
            pass

    def handle_data(self, text):
        for element in self._open:
            element["text"] += text

    def all(self, tag, **having):
        return [
            e for e in self.elements
            if e["tag"] == tag and all(e.get(k) == v for k, v in having.items())
        ]  # fmt: skip

    @property
    def data(self):
        return json.loads(self.all("script", id="report-data")[0]["text"])


@pytest.fixture(scope="module")
def text_case():
    X, y = make_counts(90)
    X_train, y_train = make_counts(90, seed=2)
    idf = fit_idf(X_train)
    learner = DuRP(n_triplets=2000, n_components=3, distance="cosine", random_state=0)
    metric = learner.fit(tfidf(X_train, idf), y_train).metric_.with_idf(idf)
    return metric, X, y, X_train, y_train


def test_scores_are_those_of_the_comparison(text_case):
    metric, X, y, *_ = text_case
    scores = compare(*text_case)
    html = build_report(*text_case, title="words")
    assert html == build_report(metric, X, y, title="words", scores=scores)
    page = Page(html)
    table = re.search(r'<table class="scores">.*?</table>', html, re.S).group()
    cells = [cell["text"] for cell in Page(table).all("td")]
    expected = []
    for s in scores.values():
        for values in (s.average_precision, s.knn_correct, s.hits):
            low, high = bootstrap_interval(values)
            mean = 100 * np.mean(values)
            expected.append(f"{mean:.1f}\u00a0%{100 * low:.1f} to {100 * high:.1f}")
    assert cells == expected
    assert scores["learned"].map > scores["cosine"].map + 0.05
    (headline,) = page.all("p", **{"class": "headline better"})
    assert headline["text"].startswith("The learned distance ranks better than the plain")
    low, high = paired_interval(
        scores["learned"].average_precision,
        max(scores["euclidean"], scores["cosine"], key=lambda s: s.map).average_precision,
    )
    assert f"95 % interval {100 * low:+.1f} to {100 * high:+.1f}" in html


def test_a_worse_metric_is_called_worse():
    X, y = make_counts(90)
    useless = Metric(np.eye(40)[:, 30:31])
    (headline,) = Page(build_report(useless, X, y, title="t")).all(
        "p", **{"class": "headline worse"}
    )
    assert "ranks worse" in headline["text"]
    html = build_report(Metric(None, 40), normalize(X), y, title="t")
    assert len(Page(html).all("p", **{"class": "headline even"})) == 1
    assert "little reason to use it" in html
    assert "This metric is the identity" in html


def test_a_gain_at_a_cost_is_not_hidden(text_case):
    metric, X, y, *_ = text_case
    scores = compare(*text_case)
    always = np.ones(90, dtype=bool)
    right = np.ones_like(scores["learned"].precision_at)
    scores["learned"] = replace(
        scores["learned"], knn_correct=always, hits=always, precision_at=right
    )
    assert "But it is worse" not in build_report(metric, X, y, title="t", scores=scores)
    scores["learned"] = replace(scores["learned"], knn_correct=~always)
    page = Page(build_report(metric, X, y, title="t", scores=scores))
    (headline,) = page.all("p", **{"class": "headline better"})
    assert headline["text"].endswith(" But its 5-NN accuracy is worse.")


def test_before_is_the_better_plain_distance():
    """Rows whose class is their direction, and whose length says nothing."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = (np.eye(3)[y] + 0.2 * rng.random((60, 3))) * rng.uniform(0.1, 9, size=(60, 1))
    scores = compare(Metric(np.eye(3)), X, y)
    assert scores["cosine"].map > scores["euclidean"].map
    page = Page(build_report(Metric(np.eye(3)), X, y, title="t", scores=scores))
    headings = [heading["text"] for heading in page.all("h3")]
    assert headings[-3:] == ["Before: cosine", "After: learned", "Spectrum of the metric"]
    query = page.data["queries"][0]
    number = page.data["rows"][query["row"]]
    found = [page.data["rows"][row] for row in query["before"]]
    assert found == scores["cosine"].neighbors[number].tolist()
    # the two plain distances have curves of their own, beside those of precision at k
    assert len(page.all("polyline")) == 3 + 2


def test_class_table(text_case):
    scores = compare(*text_case)
    y = np.append(text_case[2][:-1], 7)  # one row alone in its class
    metric, X = text_case[0], text_case[1]
    scores = compare(metric, X, y)
    html = build_report(metric, X, y, title="t", scores=scores)
    rows = re.search(r'id="classes-table".*?<tbody>(.*?)</tbody>', html, re.S).group(1)
    listed = []
    for row in rows.split("</tr>")[:-1]:
        page = Page(row)
        listed.append([page.all("th")[0]["text"], *(c["text"] for c in page.all("td")[:4])])
    before = max(("euclidean", "cosine"), key=lambda name: scores[name].map)
    expected = {}
    for label in (0, 1, 2):
        a, b = (scores[n].average_precision[y == label].mean() for n in ("learned", before))
        expected[str(label)] = [
            str((y == label).sum()), f"{100 * b:.1f}", f"{100 * a:.1f}",
            f"{100 * (a - b):+.1f}".replace("-", "−"),
        ]  # fmt: skip
    assert {name: cells for name, *cells in listed[:-1]} == expected
    changes = [abs(float(cells[-1].replace("−", "-"))) for cells in listed[:-1]]
    assert changes == sorted(changes, reverse=True)
    assert listed[-1] == ["7", "1", "–", "–", "–"]
    best = max(expected, key=lambda name: float(expected[name][3].replace("−", "-")))
    assert f"Gained most, in points: <b>{best}</b>" in html


def cells_of(html, table):
    """The texts of a table, row by row."""
    part = re.search(rf"{table}.*?<tbody>(.*?)</tbody>", html, re.S).group(1)
    pages = [Page(row) for row in part.split("</tr>")[:-1]]
    return [[e["text"] for e in page.elements if e["tag"] in ("th", "td")] for page in pages]


def test_precision_at_k(text_case):
    scores = compare(*text_case)
    html = build_report(*text_case, title="t", scores=scores)
    before = max(("euclidean", "cosine"), key=lambda name: scores[name].map)
    expected = []
    drawn = {"before": [], "after": []}
    for place, k in enumerate((1, 5, 10, 20, 50)):  # of 90 rows, no query has 100 others
        b, a = (scores[name].precision_at[:, place] for name in (before, "learned"))
        low, high = (f"{100 * end:+.1f}".replace("-", "−") for end in paired_interval(a, b))
        change = f"{100 * (a.mean() - b.mean()):+.1f}".replace("-", "−")
        means = [f"{100 * values.mean():.1f}\u00a0%" for values in (b, a)]
        expected.append([str(k), *means, f"{change}{low} to {high}"])
        drawn["before"].append(b.mean())
        drawn["after"].append(a.mean())
    assert cells_of(html, 'class="at-k"') == expected
    svg = re.search(r'<svg[^>]*aria-label="Precision at k.*?</svg>', html, re.S).group()
    for line in Page(svg).all("polyline"):
        heights = [float(point.split(",")[1]) for point in line["points"].split()]
        values = drawn[line["class"].removeprefix("line ")]
        np.testing.assert_allclose((266 - np.array(heights)) / (266 - 14), values, atol=1e-3)


def test_confusions_are_those_of_the_vote(text_case):
    """Counts by scikit-learn; a class that only training rows have can be predicted too."""
    metric, X, y, X_train, y_train = text_case
    y_train = np.where(np.arange(90) % 5 == 0, 9, y_train)
    scores = compare(metric, X, y, X_train, y_train)
    before = max(("euclidean", "cosine"), key=lambda name: scores[name].map)
    html = build_report(metric, X, y, title="t", scores=scores)
    labels = [0, 1, 2, 9]
    counts = [
        confusion_matrix(y, scores[name].predicted, labels=labels) for name in (before, "learned")
    ]
    assert counts[0][:, 3].sum() + counts[1][:, 3].sum() > 0
    expected = {}
    for i, true in enumerate(labels[:3]):
        for j, voted in enumerate(labels):
            b, a, n = counts[0][i, j], counts[1][i, j], (y == true).sum()
            if i != j and b + a:
                change = f"{a - b:+d}".replace("-", "−") if a != b else "0"
                shares = [f"{v} {100 * v / n:.0f}\u00a0%" for v in (b, a)]
                expected[f"{true} → {voted}"] = [str(n), *shares, change]
    listed = cells_of(html, 'id="confusions-table"')
    assert {name: cells for name, *cells in listed} == expected
    largest = [max(int(cell.split()[0]) for cell in cells[2:4]) for cells in listed]
    assert largest == sorted(largest, reverse=True)
    errors = [int(c.sum() - np.trace(c)) for c in counts]
    assert f"wrong for {errors[0]} of 90 rows before, and for {errors[1]} after" in html
    matrices = re.findall(r'<svg class="matrix".*?</svg>', html, re.S)
    assert len(matrices) == 2
    for svg, count in zip(matrices, counts, strict=True):
        cells = Page(svg).all("rect")
        said = [int(re.search(r": (\d+) \(", cell["text"]).group(1)) for cell in cells]
        assert said == count[:3].ravel().tolist()


def test_many_classes_have_no_matrix():
    X = np.random.default_rng(0).normal(size=(80, 5))
    html = build_report(Metric(np.eye(5)), X, np.arange(80) % 40, title="t")
    assert 'class="matrix"' not in html
    assert len(cells_of(html, 'id="classes-table"')) == 40
    assert len(cells_of(html, 'id="confusions-table"')) == 30
    assert "The 30 largest confusions" in html


def test_curves_are_drawn_to_scale(text_case):
    scores = compare(*text_case)
    html = build_report(*text_case, title="t", scores=scores)
    svg = re.search(r'<svg[^>]*aria-label="Precision at each recall.*?</svg>', html, re.S).group()
    lines = Page(svg).all("polyline")
    assert len(lines) == 2
    for line in lines:
        drawn = np.array([point.split(",") for point in line["points"].split()], dtype=float)
        curve = scores["learned" if "after" in line["class"] else "euclidean"].curve
        np.testing.assert_allclose((drawn[:, 0] - 60) / (422 - 60), RECALLS, atol=1e-3)
        np.testing.assert_allclose((266 - drawn[:, 1]) / (266 - 14), curve, atol=1e-3)


def test_spectrum_is_that_of_the_metric():
    X, y = make_counts(90)
    factor = np.random.default_rng(2).normal(size=(40, 4)) * [4, 1, 3, 2]
    page = Page(build_report(Metric(factor), X, y, title="t"))
    heights = np.array([float(bar["height"]) for bar in page.all("rect", **{"class": "bar"})])
    values = np.linalg.eigvalsh(factor.T @ factor)[::-1]
    np.testing.assert_allclose(heights / heights.sum(), values / values.sum(), atol=1e-4)


def test_spectrum_of_a_corrected_plain_distance():
    X, y = make_counts(90)
    columns = np.linalg.qr(np.random.default_rng(2).normal(size=(40, 3)))[0] * [4, 0.5, 3]
    metric = Metric(columns, outside=2.0)
    html = build_report(metric, X, y, title="t")
    heights = [float(bar["height"]) for bar in Page(html).all("rect", **{"class": "bar"})]
    values = np.linalg.eigvalsh(metric.matrix())[::-1]
    np.testing.assert_allclose(heights / np.sum(heights), values / values.sum(), atol=1e-3)
    assert "the plain distance, corrected in 3 directions" in html


@pytest.mark.parametrize("lift", [None, "rbf"])
def test_metric_with_a_prior(lift):
    """Rows are centred and scaled before the learned part."""
    X, y = load_digits(return_X_y=True)
    learner = DuRP(
        n_triplets=2000, prior="identity", distance="cosine", lift=lift, n_components=5,
        random_state=0,
    )  # fmt: skip
    metric = learner.fit(X[:200], y[:200]).metric_
    X, y = X[200:300], y[200:300]
    html = build_report(metric, X, y, title="t")
    assert "cosine of transformed rows, minus their mean" in html
    data = Page(html).data
    rows, query = data["rows"], data["queries"][0]
    for place in query["after"]:
        expected = metric.distance(X[[rows[query["row"]]]], X[[rows[place]]])[0]
        distance, *parts = data["why"][0][str(place)]["after"]
        assert distance == pytest.approx(expected, rel=5e-3)
        assert bool(parts) == (lift is None)
        if lift is None:
            assert parts[0] + sum(parts[2::2]) == pytest.approx(expected, rel=0.02)
    heights = [float(bar["height"]) for bar in Page(html).all("rect", **{"class": "bar"})]
    assert heights == sorted(heights, reverse=True)
    if lift is None:
        values = np.linalg.eigvalsh(metric.matrix())[::-1]
        values = values[: len(heights)] / values.sum()
        np.testing.assert_allclose(heights / np.sum(heights), values / values.sum(), atol=1e-3)


@pytest.mark.parametrize("kind", ["euclidean", "cosine"])
@pytest.mark.parametrize("to", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("with_factor", [True, False, "outside"])
def test_contributions_are_those_of_explain(kind, to, with_factor):
    rng = np.random.default_rng(3)
    X = rng.poisson(0.4, size=(30, 25)).astype(float)
    X[4] = 0  # without direction
    X[5] = X[0]
    factor = rng.normal(size=(25, 3)) if with_factor else None
    rank = 3 if with_factor else 25
    centres = [None] if kind == "euclidean" else [None, rng.normal(size=rank)]
    outside = 0.0
    if with_factor == "outside":
        factor, centres, outside = np.linalg.qr(factor)[0] * [3, 0.5, 2], [None], 1.5
    for centre in centres:
        metric = Metric(factor, 25, centre=centre, distance=kind, outside=outside)
        others = np.array([3, 4, 5, 9])
        distances, features, parts = _explorer.contributions(metric, to(X), 0, others)
        for row, distance, values in zip(others, distances, parts, strict=True):
            expected = metric.explain(X[0], X[row], top=26)
            assert distance == pytest.approx(expected.distance, abs=1e-12)
            assert values.sum() == pytest.approx(expected.distance, abs=1e-12)
            named = dict(expected.parts)
            for feature, value in zip(features, values, strict=True):
                name = "(centre)" if feature == 25 else f"feature {feature}"
                assert value == pytest.approx(named.pop(name, 0.0), abs=1e-12)
            assert not any(abs(value) > 1e-12 for value in named.values())


def test_explorer_data(text_case):
    metric, X, y, *_ = text_case
    scores = compare(*text_case)
    words = [f"word{i}" for i in range(40)]
    texts = [f"text  number\n{i}" for i in range(90)]
    options = {"class_names": ["a", "b", "c"], "feature_names": words, "texts": texts}
    data = Page(build_report(metric, X, y, title="t", scores=scores, **options)).data
    rows, before = data["rows"], scores["euclidean"]
    assert scores["euclidean"].map >= scores["cosine"].map
    assert sorted(rows) == list(range(90))
    assert data["classes"] == ["a", "b", "c"]
    assert data["labels"] == y[rows].tolist()
    assert data["texts"] == [f"text number {row}" for row in rows[: len(data["texts"])]]
    assert len(data["queries"]) == 90  # all rows, in order
    plain = Metric(None, 40)
    for number, (query, why) in enumerate(zip(data["queries"], data["why"], strict=True)):
        assert rows[query["row"]] == number
        for when, s in (("before", before), ("after", scores["learned"])):
            assert [rows[row] for row in query[when]] == s.neighbors[number].tolist()
        assert query["precision"] == pytest.approx(
            [before.average_precision[number], scores["learned"].average_precision[number]],
            rel=5e-3,
        )
        assert set(map(int, why)) == {*query["before"], *query["after"]}
    counts = X.toarray()
    weighted = tfidf(X, metric.idf).toarray()
    for number in (0, 50):
        for place, parts in data["why"][number].items():
            row = rows[int(place)]
            expected = {
                "after": metric.explain(counts[number], counts[row], words, top=6),
                "before": plain.explain(weighted[number], weighted[row], words, top=4),
            }
            all_parts = {
                "after": dict(metric.explain(counts[number], counts[row], words, top=41).parts),
                "before": dict(plain.explain(weighted[number], weighted[row], words, top=40).parts),
            }
            for when, explanation in expected.items():
                distance, rest, *pairs = parts[when]
                assert distance == pytest.approx(explanation.distance, rel=5e-3)
                assert rest == pytest.approx(explanation.rest, rel=5e-3, abs=1e-9)
                named = [data["features"][f] for f in pairs[::2]]
                values = [value for _, value in explanation.parts]
                assert pairs[1::2] == pytest.approx(values, rel=5e-3)
                # features that contribute the same may come in any order
                assert [all_parts[when][name] for name in named] == pytest.approx(values)


def test_rows_go_by_their_numbers(text_case):
    metric, X, y, *_ = text_case
    scores = compare(*text_case)
    numbers = 1000 + np.arange(90)[::-1]
    report = {"title": "t", "scores": scores}
    plain = Page(build_report(metric, X, y, **report)).data
    assert "names" not in plain
    data = Page(build_report(metric, X, y, row_names=numbers, **report)).data
    assert data["names"] == [f"row {1089 - row}" for row in plain["rows"]]
    assert data["queries"] == plain["queries"]
    names = [f"id-{number}" for number in numbers]
    data = Page(build_report(metric, X, y, row_names=names, **report)).data
    assert data["names"] == [f"id-{1089 - row}" for row in plain["rows"]]
    with pytest.raises(ValueError, match="89 row names were given for 90 rows"):
        build_report(metric, X, y, row_names=numbers[:-1], **report)


@pytest.fixture(scope="module", params=["euclidean", "cosine"])
def lifted_case(request):
    """Digits, half to learn on; float32, to show that scores and page agree in it."""
    X, y = load_digits(return_X_y=True)
    X = X[:400].astype(np.float32)
    learner = DuRP(n_triplets=2000, lift="rbf", distance=request.param, random_state=0)
    return learner.fit(X[200:], y[200:400]).metric_, X[:200], y[:200]


@pytest.mark.parametrize("image_shape", [None, (8, 8)])
def test_a_lifted_metric_is_not_split(lifted_case, image_shape):
    metric, X, y = lifted_case
    scores = compare(metric, X, y)
    page = Page(build_report(metric, X, y, title="t", scores=scores, image_shape=image_shape))
    data = page.data
    distances = metric.pairwise(X.astype(np.float64))
    plain = Metric(None, 64, distance=max(("euclidean", "cosine"), key=lambda n: scores[n].map))
    for query, why in list(zip(data["queries"], data["why"], strict=True))[::25]:
        number = data["rows"][query["row"]]
        for row, parts in why.items():
            other = data["rows"][int(row)]
            assert parts["after"] == [pytest.approx(distances[number, other], rel=5e-3)]
            expected = plain.explain(X[number], X[other], top=4)
            assert parts["before"][0] == pytest.approx(expected.distance, rel=5e-3)
            if image_shape is None:
                values = [value for _, value in expected.parts]
                assert parts["before"][3::2] == pytest.approx(values, rel=5e-3)
    assert ("directions" in data) == (image_shape is not None)
    assert data.get("directions") is None
    text = " ".join(page.all("body")[0]["text"].split())
    assert "it is not linear in the features, so its distances cannot be split by feature" in text
    assert "strongest directions look at" not in text
    facts = [item["text"] for item in page.all("dd")]
    assert f"Gaussian kernel with 200 landmarks, γ = {metric.lift.gamma:.3g}" in facts
    assert f"{metric.rank} of 200 landmarks" in facts


def test_spectrum_of_a_lifted_metric_is_that_in_the_space_of_the_kernel(lifted_case):
    metric, X, y = lifted_case
    page = Page(build_report(metric, X, y, title="t"))
    heights = np.array([float(bar["height"]) for bar in page.all("rect", **{"class": "bar"})])
    kernel = rbf_kernel(metric.lift.landmarks.astype(float), gamma=metric.lift.gamma)
    factor = metric.factor.astype(float)
    values = np.linalg.eigvalsh(factor.T @ kernel @ factor)[::-1][: len(heights)]
    assert len(heights) == min(metric.rank, 100)
    np.testing.assert_allclose(heights / heights.sum(), values / values.sum(), atol=1e-4)
    assert "eigenvalue of the metric, in the space of the kernel" in page.all("body")[0]["text"]


def test_other_metrics_are_not_called_lifted(text_case):
    text = Page(build_report(*text_case, title="t")).all("body")[0]["text"]
    assert "Choose a neighbour to see how features contribute to its distance." in text
    assert "lifted" not in text
    assert "landmark" not in text


def decoded(sheet):
    content = base64.b64decode(sheet["src"].removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(content)))


def test_pictures():
    X, y = load_digits(return_X_y=True)
    X, y = X[:150], y[:150]
    metric = DuRP(n_triplets=2000, n_components=4, random_state=0).fit(X, y).metric_
    data = Page(build_report(metric, X, y, title="digits", image_shape=(8, 8))).data
    sheet = decoded(data["pictures"])
    columns = data["pictures"]["columns"]
    for place in (0, 70, 149):
        down, across = divmod(place, columns)
        tile = sheet[8 * down : 8 * down + 8, 8 * across : 8 * across + 8]
        row = X[data["rows"][place]].reshape(8, 8)
        np.testing.assert_array_equal(tile, np.rint(255 * row / X.max()))
    # what each pixel adds: 128 is nothing, the strongest is at the end of the scale
    query = data["queries"][3]
    place = query["after"][0]
    distance, number = data["why"][3][str(place)]["after"]
    a, b = X[data["rows"][query["row"]]], X[data["rows"][place]]
    explanation = metric.explain(a, b, top=64)
    assert distance == pytest.approx(explanation.distance, rel=5e-3)
    parts = np.zeros(64)
    for name, value in explanation.parts:
        parts[int(name.removeprefix("feature "))] = value
    down, across = divmod(number, data["heat"]["columns"])
    tile = decoded(data["heat"])[8 * down : 8 * down + 8, 8 * across : 8 * across + 8]
    expected = 128 + 127 * parts / np.abs(parts).max()
    np.testing.assert_allclose(tile.ravel(), expected, atol=0.51)
    assert decoded(data["directions"]).shape == (8, 8 * 4)


def test_shrunk_pictures_and_colours():
    pictures = np.arange(2 * 6 * 9 * 3, dtype=float).reshape(2, 6, 9, 3)
    small = _pictures.shrunk(pictures, 3)
    assert small.shape == (2, 2, 3, 3)
    np.testing.assert_allclose(small[1, 0, 2], pictures[1, :3, 6:9].mean(axis=(0, 1)))
    assert _pictures.shrunk(pictures, 9) is pictures
    assert _pictures.shrunk(np.ones((1, 1, 40, 1)), 8).shape == (1, 1, 8, 1)
    colours = np.random.default_rng(0).integers(0, 256, size=(5, 2, 3, 3), dtype=np.uint8)
    sheet = _pictures.sheet(colours)
    np.testing.assert_array_equal(decoded(sheet), np.concatenate(list(colours), axis=1))


def test_hostile_strings_stay_text(text_case):
    metric, X, y, *_ = text_case
    names = [HOSTILE, "'" + HOSTILE, "half \ud800 a pair"]
    metric = metric.with_info(parameters={HOSTILE: HOSTILE}, method=HOSTILE)
    html = build_report(
        metric, X, y, title=HOSTILE, class_names=names,
        feature_names=[f"{i} {HOSTILE}" for i in range(40)], texts=[HOSTILE] * 90,
    )  # fmt: skip
    html.encode("utf-8")
    page = Page(html)
    assert [script.get("type") for script in page.all("script")] == ["application/json", "module"]
    assert page.all("h1")[0]["text"] == HOSTILE
    assert page.data["classes"] == [HOSTILE, "'" + HOSTILE, "half ? a pair"]
    assert set(page.data["texts"]) == {" ".join(HOSTILE.split())}
    features = set(page.data["features"]) - {"(centre)"}
    assert features <= {f"{i} {HOSTILE}" for i in range(40)}
    assert len(features) > 20
    table_names = {cell["text"] for cell in page.all("th", scope="row", dir="auto")}
    assert table_names == set(page.data["classes"])
    assert HOSTILE in {cell["text"] for cell in page.all("dd")}


def test_page_is_self_contained(text_case):
    html = build_report(*text_case, title="t", texts=["see https://example.org"] * 90)
    page = Page(html)
    for element in page.elements:
        assert not {"src", "srcset", "action", "background"} & set(element)
        assert element.get("href", "#").startswith("#")
    style = page.all("style")[0]["text"]
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    script = page.all("script", type="module")[0]["text"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["content"].startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}'" in policy["content"]
    assert "$" not in page.all("body")[0]["text"].replace(script, "")


def test_page_stays_small():
    """Long texts of four-byte characters; more rows than the map shows."""
    rng = np.random.default_rng(4)
    n = 3100
    X = sp.random(n, 2000, density=0.01, format="csr", random_state=5)
    y = rng.integers(0, 20, size=n)
    metric = Metric(rng.normal(size=(2000, 10)))
    html = build_report(metric, X, y, title="t", texts=["🦆" * 5000] * n)
    assert len(html.encode()) < 5_000_000
    data = Page(html).data
    assert 50 < len(data["queries"]) < _explorer.N_QUERIES  # fewer, for their texts are long
    assert np.bincount([data["labels"][q["row"]] for q in data["queries"]], minlength=20).min() >= 2
    assert len(data["onMap"]) == _explorer.N_ON_MAP
    assert data["texts"][0] == "🦆" * 240 + "…"
    assert {query["row"] for query in data["queries"]} <= set(data["onMap"])


def test_map_shows_the_first_two_components():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 5)) * [9, 4, 1, 1, 1]
    before, after = _explorer.map_places(X, -X[:, [1, 0, 2]])
    for places in (before, after):
        assert abs(np.corrcoef(places[:, 0], X[:, 0])[0, 1]) > 0.98
        assert abs(np.corrcoef(places[:, 1], X[:, 1])[0, 1]) > 0.98
        assert places.min() >= 0
        assert places.max() <= _explorer.MAP_SIZE
        assert np.ptp(places[:, 0]) > 0.9 * _explorer.MAP_SIZE
    # turned and mirrored so that rows stay where they were
    assert np.abs(before - after).max() < 60


@pytest.mark.parametrize("to", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.0, 1], [1, 0], [1, 1]]),
        np.ones((4, 2)),
        np.zeros((5, 3)),
        np.array([[1.0], [2], [4]]),
    ],
    ids=["three rows", "equal rows", "zeros", "one feature"],
)
def test_few_or_equal_rows(X, to):
    y = np.array(["a", "a", "b", "b", "b"])[: len(X)]
    for metric in (Metric(np.ones((X.shape[1], 1))), Metric(np.zeros((X.shape[1], 2)))):
        data = Page(build_report(metric, to(X), y, title="t")).data
        shared = [row for row in range(len(y)) if (y == y[row]).sum() > 1]
        assert [data["rows"][query["row"]] for query in data["queries"]] == shared
    page = Page(build_report(metric, to(X), ["a"] * len(X), title="t"))
    assert page.data["classes"] == ["a"]


def test_names_of_classes(text_case):
    metric, X, y, *_ = text_case
    scores = compare(metric, X, y)

    def names(labels, metric=metric, class_names=None):
        return _material.gather(metric, X, labels, None, None, class_names, scores).class_names

    assert names(y) == ["0", "1", "2"]
    assert names(y.astype(float)) == ["0", "1", "2"]
    assert names(np.array(["x", "y", "z"])[y]) == ["x", "y", "z"]
    named = metric.with_info(class_names=["k", "l", "m"])
    assert names(y, named) == ["k", "l", "m"]
    assert names(y, named, class_names=["p", "q", "r", "s"]) == ["p", "q", "r"]
    assert names(y + 5, named) == ["5", "6", "7"]
    with pytest.raises(ValueError, match="leave class_names out"):
        names(y, class_names=["p", "q"])


def test_bad_input_says_what_to_do(text_case):
    metric, X, y, *_ = text_case
    with pytest.raises(ValueError, match="3 texts were given for 90 rows"):
        build_report(metric, X, y, title="t", texts=["a", "b", "c"])
    with pytest.raises(ValueError, match="makes 36 pixels, but rows have 40"):
        build_report(metric, X, y, title="t", image_shape=(6, 6))
    with pytest.raises(ValueError, match=r"\(height, width\)"):
        build_report(metric, X, y, title="t", image_shape=(5, 4, 2))
    with pytest.raises(ValueError, match="texts and image_shape cannot be combined"):
        build_report(metric, X, y, title="t", texts=[""] * 90, image_shape=(5, 8))
    with pytest.raises(ValueError, match="feature_names has 2 names"):
        build_report(metric, X, y, title="t", feature_names=["a", "b"])
    with pytest.raises(ValueError, match="scores are for 90 rows, but X has 60"):
        build_report(metric, X[:60], y[:60], title="t", scores=compare(metric, X, y))


def test_families_that_were_tried(text_case):
    metric, X, labels = text_case[:3]
    tried = [
        {"name": "RidgeMetric, lifted", "score": 0.9876, "low": 0.98, "high": 0.99},
        {"name": HOSTILE, "score": 0.5, "low": 0.4, "high": 0.6},
        {"name": "no score"},
        "nonsense",
        {"name": "text", "score": "0.5", "low": 0.4, "high": 0.6},
    ]
    page = Page(build_report(metric.with_info(families=tried), X, labels, title="t"))
    text = next(e["text"] for e in page.all("div") if e["text"].startswith("Tried on held-out"))
    assert "RidgeMetric, lifted 98.8 % (98.0 to 99.0)" in text
    assert "50.0 % (40.0 to 60.0)" in text
    assert "no score" not in text
    assert len(page.all("script")) == len(
        Page(build_report(metric, X, labels, title="t")).all("script")
    )
