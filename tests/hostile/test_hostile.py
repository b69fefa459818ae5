"""The short, deterministic part of the campaigns: `make hostile` runs as many cases as you like."""

import json
import random
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dualmetric
from hostile import campaign, files, fits, inputs

FITS = st.builds(fits.Fit, st.randoms(use_true_random=False))
DAMAGES = st.builds(files.Damage, st.randoms(use_true_random=False))


@settings(max_examples=40)
@given(FITS)
def test_fits(case):
    outcome, said = case.run()
    assert outcome in campaign.GOOD, f"{case}: {outcome}: {said}"


@pytest.mark.parametrize("seed", range(0, 60))
def test_fits_of_a_campaign(seed):
    outcome, said = campaign.make_case("fits", seed).run()
    assert outcome in campaign.GOOD, said


@settings(max_examples=60)
@given(DAMAGES)
def test_files(case):
    outcome, said = case.run()
    assert outcome in campaign.GOOD, f"{case}: {outcome}: {said}"


@pytest.mark.parametrize("seed", range(40))
def test_requests_of_a_campaign(seed):
    pytest.importorskip("starlette", reason="dualmetric[teach] is not installed")
    outcome, said = campaign.make_case("requests", seed).run()
    assert outcome in campaign.GOOD, said


def test_a_served_secret_is_noticed():
    pytest.importorskip("starlette", reason="dualmetric[teach] is not installed")
    from hostile.requests import SECRET, Ask, Requests

    ask = Ask(random.Random(0), "token")
    ask.is_wrong, ask.method, ask.path = False, "GET", "/"

    def wrong(status=200, body=b"{}", policy="default-src 'none'"):
        import httpx

        answer = httpx.Response(status, content=body, headers={"content-security-policy": policy})
        return Requests._wrong(ask, answer)

    assert wrong() == ""
    assert wrong(500) == "another status"
    assert wrong(policy="") == "no policy"
    assert wrong(body=SECRET.encode()) == "another file was sent"
    assert wrong(404) == "no reason"
    assert wrong(404, b'{"error": "there is no such row"}') == ""
    ask.is_wrong = True
    assert wrong() == "served in spite of wrong headers"


@pytest.mark.parametrize("kind", list(files.READERS))
def test_whole_files_are_read(kind, tmp_path):
    if "parquet" in kind:
        pytest.importorskip("pyarrow")
    name, read, write = files.READERS[kind]
    (tmp_path / name).write_bytes(write(name))
    read(tmp_path / name)


def test_every_estimator_is_tried():
    made = {name for name in dualmetric.__all__ if hasattr(getattr(dualmetric, name), "fit")}
    assert {*inputs.ESTIMATORS, "Matcher"} == made  # the matcher is of a metric: tried below


@pytest.mark.parametrize("seed", range(40))
def test_matcher(seed):
    """It works, or it is refused in words that name the argument."""
    draw = random.Random(seed)
    _, X = inputs.rows(draw, 30, 5, plain=draw.random() < 0.7)
    _, known = inputs.supervision(draw, 30, 5, draw.random() < 0.3)
    if draw.random() < 0.6:
        rng = np.random.default_rng(seed)
        index = rng.integers(30 if draw.random() < 0.8 else 40, size=(draw.choice((2, 8, 60)), 2))
        known = dualmetric.supervision.Pairs(index, rng.random(len(index)) < draw.choice((0, 0.5)))
    metric = dualmetric.Euclidean().fit(np.eye(draw.choice((5, 5, 5, 4)))).metric_
    matcher = dualmetric.Matcher(metric)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            matcher.fit(X, known, prevalence=draw.choice((None, None, 0.1, 0.0, float("nan"))))
            refusal = ""
        except (ValueError, TypeError) as error:
            refusal = str(error)
        if not refusal:
            assert np.isfinite(matcher.predict_proba(X, X)).all()
            return
    words = (*fits.ARGUMENTS, "prevalence", "metric", "row", "distances?", "Matcher")
    assert re.search(rf"\b({'|'.join(words)})\b", refusal), refusal
    assert not any(name.endswith("_") for name in vars(matcher))


def test_every_suffix_is_tried():
    from dualmetric.io._forms import FORMS

    names = [name for name, _, _ in files.READERS.values()]
    known = {".libsvm": ".svm", ".svmlight": ".svm"}  # read as the other
    for suffix in FORMS:
        assert any(name.endswith(known.get(suffix, suffix)) for name in names), suffix


# --- the campaign notices what it should -----------------------------------------------------


class Model:
    """An estimator that has learned what it is told."""

    def __init__(self, mapped, matrix):
        self.metric_, self.mapped, self.M = self, mapped, np.array(matrix)
        self.lift = self.before = None
        self.n_features = len(self.M)

    def transform(self, X):
        return np.array(self.mapped)

    def matrix(self):
        return self.M


@pytest.mark.parametrize(
    ("mapped", "matrix", "outcome"),
    [
        ([[1.0]], np.eye(2), "works"),
        ([[np.nan]], np.eye(2), "not finite"),
        ([[np.inf]], np.eye(2), "not finite"),
        ([[1.0]], [[1.0, 0.0], [0.0, -1e-3]], "not positive semi-definite"),
        ([[1.0]], [[np.inf, 0.0], [0.0, 1.0]], "not finite"),
    ],
)
def test_wrong_metrics_are_noticed(mapped, matrix, outcome):
    case = fits.Fit(random.Random(0))
    case.name, case.twice = "DuRP", False
    assert case.check(Model(mapped, matrix))[0] == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("X has no rows"), "refused"),
        (TypeError("reg must be a number"), "refused"),
        (ValueError("negative dimensions are not allowed"), "names no argument"),
        (IndexError("X"), "undocumented error"),
        (ZeroDivisionError("X"), "undocumented error"),
        (RuntimeWarning("overflow in X"), "numerical warning"),
    ],
)
def test_errors_are_judged(error, outcome):
    case = fits.Fit(random.Random(0))
    case.words = ["X", "reg"]
    assert case.judge(error)[0] == outcome


CRASHING = """
import os, random
from hostile import campaign
class Crash:
    def __init__(self, draw): self.n = draw.n
    def run(self):
        if self.n == 2: os.kill(os.getpid(), 11)
        return "works", ""
def make_case(kind, seed):
    draw = random.Random(seed); draw.n = seed
    return Crash(draw)
campaign.make_case = make_case
campaign.work("fits", int(os.environ["FIRST"]), 5 - int(os.environ["FIRST"]), False)
"""


def test_a_crash_is_noticed_and_the_rest_goes_on():
    import os
    import subprocess
    import sys

    found, seed = [], 0
    path = os.pathsep.join(map(str, (campaign.ROOT / "src", campaign.ROOT / "tests")))
    while seed < 5:
        child = subprocess.Popen(
            [sys.executable, "-c", CRASHING],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "FIRST": str(seed), "PYTHONPATH": path},
        )
        seed = campaign.follow(child, seed, 5, found.append)
    outcomes = [one["outcome"] for one in found]
    assert outcomes == ["works", "works", "crash (-11)", "works", "works"]


def test_the_last_campaign_of_each_kind_is_stored(tmp_path):
    path = tmp_path / "a" / "campaigns.jsonl"
    for record in ({"kind": "fits", "cases": 1}, {"kind": "files"}, {"kind": "fits", "cases": 2}):
        campaign.store(path, record)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"kind": "files"}, {"kind": "fits", "cases": 2}]
