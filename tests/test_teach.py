"""Teaching without a browser: judgements, the live metric, the meter, questions, and the server."""

import json
import os
import socket
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="dualmetric[teach] is not installed")


from dualmetric import Metric
from dualmetric.teach import content, judgements, learned, meter, policy
from dualmetric.teach import live as living
from dualmetric.teach.judgements import Groups, Judgement
from dualmetric.teach.server import HOST, Teaching, make_app, open_port
from dualmetric.teach.session import Session
from makers import make_classes, make_clusters

with warnings.catch_warnings():  # newer versions of Starlette prefer another client
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

X, Y = make_clusters(n=120, d=10, n_classes=4, apart=1.2)


def answered(session, n_questions, y=Y):
    """Let a simulated person answer questions from labels."""
    for _ in range(n_questions):
        asked = session.ask()
        for row in asked.rows:
            session.judge(asked.query, int(row), bool(y[asked.query] == y[row]), asked.asked)
    return session


# --- judgements ------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
@settings(max_examples=50, deadline=None)
def test_groups_follow_from_labels(pairs):
    """Of consistent answers, every implied relation is true, and none is contradictory."""
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    said = [Judgement(a, b, bool(labels[a] == labels[b])) for a, b in pairs if a != b]
    groups = Groups(said)
    assert groups.contradictions == 0
    for members in groups.members.values():
        assert len({labels[row] for row in members}) == 1
    for row in groups.of:
        assert all(labels[other] != labels[row] for other in groups.apart_from(row))
    for a, b, right, _ in said:
        assert (groups.of[a] == groups.of[b]) == right
        assert (b in groups.apart_from(a)) != right


def test_contradictions_are_counted_and_change_nothing():
    said = [Judgement(0, 1, True), Judgement(1, 2, False)]
    groups = Groups([*said, Judgement(0, 1, False), Judgement(0, 2, True)])
    assert groups.contradictions == 2
    assert groups.members == Groups(said).members
    assert groups.apart == Groups(said).apart


def test_comparisons_of_a_judgement():
    rng = np.random.default_rng(0)
    groups = Groups([Judgement(0, 1, True), Judgement(5, 6, True)])
    found = judgements.comparisons_of(groups, Judgement(0, 5, False), 100, rng)
    # every row of one group is closer to the other of its group than to both of the other
    expected = {(a, b, a, c) for a, b in ((0, 1), (1, 0)) for c in (5, 6)}
    expected |= {(a, b, a, c) for a, b in ((5, 6), (6, 5)) for c in (0, 1)}
    assert set(map(tuple, found.tolist())) == expected
    groups.add(Judgement(0, 5, False))
    found = judgements.comparisons_of(groups, Judgement(0, 9, True), 100, rng)
    assert {tuple(row) for row in found.tolist()} == {
        (a, b, a, c) for a, b in ((0, 9), (9, 0), (1, 9), (9, 1)) for c in (5, 6)
    }
    assert len(judgements.comparisons_of(groups, Judgement(0, 9, True), 3, rng)) == 3
    for known in (Judgement(0, 1, True), Judgement(1, 6, False), Judgement(0, 5, True)):
        assert not len(judgements.comparisons_of(groups, known, 100, rng))


def test_a_file_survives_being_cut(tmp_path):
    path = tmp_path / "j.jsonl"
    session = answered(Session(X, path=path), 3)
    before = session.judgements
    session.log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])  # in the middle of the last line
    again = Session(X, path=path)
    assert again.judgements == before[:-1]
    assert again.notes == [f"{path}: 1 line left out (could not be read)"]
    again.judge(3, 4, True)
    again.log.close()
    third = Session(X, path=path)
    assert third.judgements == [*before[:-1], Judgement(3, 4, True)]
    assert len(third.checks) == len(session.checks)
    third.log.close()


def test_hostile_lines_are_dropped(tmp_path):
    path = tmp_path / "j.jsonl"
    lines = [
        '{"query": 1, "row": 2, "right": true}',
        '{"query": 1, "row": 2, "right": 1}',
        '{"query": -1, "row": 2, "right": true}',
        '{"query": 1.0, "row": 2, "right": true}',
        '{"query": true, "row": 2, "right": true}',
        '{"query": 4, "row": 4, "right": true}',
        "[1, 2]",
        '"undo"',
        '["undo"]',
        "null",
        "[" * 5000,
        '{"query": 1, "row": 500, "right": true}',
        '{"query": 3, "row": 4, "right": false, "asked": "<script>"}',
        '{"check": {"query": 1, "rows": [1], "plain": [NaN], "taught": [0], "earlier": [0]}}',
        '{"check": {"query": 1, "rows": [[1]], "plain": [[1]], "taught": [[0]], "earlier": [[0]]}}',
        '{"undo": 7}',
    ]
    path.write_text("\n".join(lines) + "\n")
    found = judgements.read(path, 120)
    assert found.judgements == [Judgement(1, 2, True)]
    assert found.dropped == 10
    assert found.outside == 1
    path.write_bytes(b"\xff\x00" * 30_000)
    assert judgements.read(path).judgements == []
    session = Session(X, path=path)
    assert session.judgements == []
    session.log.close()


def test_rows_that_changed_are_refused(tmp_path):
    path = tmp_path / "j.jsonl"
    answered(Session(X, path=path), 1).log.close()
    other = X.copy()
    other[0, 0] += 1e-9
    with pytest.raises(ValueError, match="has judgements about other rows"):
        Session(other, path=path)
    assert judgements.fingerprint(X) != judgements.fingerprint(X.astype(np.float32))
    assert judgements.fingerprint(sp.csr_matrix(X)) != judgements.fingerprint(sp.csr_matrix(other))


def test_judgements_are_learned_from_by_fit(tmp_path):
    from dualmetric.cli._known import _read_judgements

    path = tmp_path / "j.jsonl"
    session = answered(Session(X, path=path), 4)
    index = _read_judgements(path).numbers
    np.testing.assert_array_equal(
        np.sort(X[index].reshape(len(index), -1), axis=0),
        np.sort(session.kept.raw[session.kept.index].reshape(len(index), -1), axis=0),
    )
    session.log.close()


# --- the live metric -------------------------------------------------------------------------


def wide_twin(session):
    """The slow way: the metric as a fit rebuilds it, over all rows."""
    twin = living.Wide(session.X, session.base, session.rebuilt)
    twin.follow(session.updated)
    return twin


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("exact", [True, False])
def test_live_metric_equals_a_rebuilt_one(monkeypatch, distance, exact):
    monkeypatch.setattr(living, "_MOVED", 0.0)
    if not exact:
        monkeypatch.setattr(living, "EXACT_WORK", 0.0)
    session = Session(X, distance=distance, margin=3.0)
    for _ in range(4):
        answered(session, 2)
        twin = wide_twin(session)
        rows = np.arange(1, 40)
        np.testing.assert_allclose(
            session.live.distances(0, rows), twin.distances(0, rows), rtol=1e-6, atol=1e-9
        )
        for query in (0, 7):
            for name in ("nearest", "nearest_plain"):
                found, squares = getattr(session.live, name)(query, 10)
                expected, theirs = getattr(twin, name)(query, 10)
                np.testing.assert_allclose(squares, theirs, rtol=1e-6, atol=1e-9)
                np.testing.assert_array_equal(found, expected)
    mapped = session.live.mapped(rows)
    apart = np.square(mapped[1:] - mapped[0]).sum(axis=1)
    np.testing.assert_allclose(apart, session.live.distances(1, rows[1:]), rtol=1e-6, atol=1e-9)
    pairs = np.column_stack([np.full(len(rows), 0), rows])
    np.testing.assert_allclose(session.live.pair_distances(pairs), twin.pair_distances(pairs))
    for live in (session.live, twin):
        between = live.between(rows[:3], rows)
        apart = [session.live.distances(int(row), rows) for row in rows[:3]]
        np.testing.assert_allclose(between, apart, rtol=1e-6, atol=1e-9)


def test_stale_lengths_catch_up():
    """zᵀMz follows by its leading directions: after enough looks it is exact."""
    session = Session(X)
    session.live.is_exact = False
    answered(session, 3)
    for _ in range(8):
        session.live.nearest(0, 5)
    expected = np.einsum("nd,de,ne->n", session.live.Z, session.live.M, session.live.Z)
    np.testing.assert_allclose(session.live.lengths, expected, rtol=1e-2)


@pytest.mark.parametrize("d", [40, 320])
def test_positive_part(d):
    rng = np.random.default_rng(0)
    B = rng.standard_normal((d, 30))
    delta = (B * np.append(np.full(12, -0.2), np.full(18, 0.1))) @ B.T
    found = living.positive(delta, 1.0)
    values, vectors = np.linalg.eigh(delta + np.eye(d))
    expected = (vectors * np.maximum(values, 0.0)) @ vectors.T
    assert (values < 0).sum() == 12
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(values).max())


# --- sessions --------------------------------------------------------------------------------


def test_teaching_improves_the_ranking():
    from dualmetric import mean_average_precision

    rows, y = make_classes(n=160, d=20)  # two features matter
    session = answered(Session(rows[:100]), 8, y[:100])
    metric = session.metric()
    plain = mean_average_precision(session.base.first.transform(rows[100:]), y[100:])
    assert mean_average_precision(metric.transform(rows[100:]), y[100:]) > plain + 0.02
    assert {name for name, _ in learned.gained(session, None)[:2]} == {"feature 0", "feature 1"}
    assert metric.info["judgements"] == len(session.judgements)


def test_undo_leaves_what_was_there_before():
    session = answered(Session(X), 4)
    before, kept = session.live.M.copy(), session.kept
    query = session.judgements[-1].query
    row = next(r for r in range(120) if r not in session.groups.of and r != query)
    session.judge(query, row, True)
    assert len(session.kept) > len(kept)
    assert session.undo() == Judgement(query, row, True)
    assert session.kept.ids == kept.ids
    np.testing.assert_array_equal(session.kept.index, kept.index)
    # both are within the tolerance of the same solution
    assert np.linalg.norm(session.live.M - before) < 0.05 * np.linalg.norm(before - np.eye(10))
    while session.undo() is not None:
        pass
    np.testing.assert_array_equal(session.live.M, np.eye(10))
    assert session.undo() is None
    assert len(session.kept) == 0


def test_a_restart_gives_the_same_metric(tmp_path):
    path = tmp_path / "j.jsonl"
    session = answered(Session(X, path=path), 5)
    session.undo()
    session.log.close()
    again = Session(X, path=path)
    assert again.judgements == session.judgements
    assert again.kept.ids == session.kept.ids
    ours, theirs = again.metric().pairwise(X), session.metric().pairwise(X)
    np.testing.assert_allclose(ours, theirs, rtol=2e-2, atol=2e-2)
    assert again.reading() == session.reading()
    again.log.close()


@pytest.mark.skipif(os.name == "nt", reason="files cannot be locked in this way there")
def test_a_file_has_one_writer(tmp_path):
    path = tmp_path / "j.jsonl"
    session = Session(X, path=path)
    with pytest.raises(ValueError, match="another page that is still running"):
        Session(X, path=path)
    session.judge(0, 1, True)
    session.log.close()
    again = Session(X, path=path)
    assert again.judgements == [Judgement(0, 1, True)]
    again.log.close()


@pytest.mark.skipif(os.name == "nt", reason="there is no such limit there")
def test_a_full_disk_loses_nothing(tmp_path):
    """Found by `make faults`: a line was written in part, and the next one continued it."""
    import resource
    import signal

    path = tmp_path / "j.jsonl"
    session = Session(X, path=path)
    session.judge(0, 1, True)
    whole = path.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 9, before[1]))
    try:
        with pytest.raises(OSError, match=r"No space left on device.*j\.jsonl"):
            session.judge(0, 2, True)
        with pytest.raises(OSError, match=r"j\.jsonl"):
            session.undo()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == whole
    assert session.judgements == [Judgement(0, 1, True)]
    session.judge(0, 3, False)
    session.log.close()
    assert judgements.read(path).judgements == session.judgements


def test_wide_sparse_rows(monkeypatch):
    monkeypatch.setattr("dualmetric.teach.session.DENSE_LIMIT", 50)
    wide = sp.csr_matrix((X[:60] > 0.5).astype(float) @ np.random.default_rng(0).random((10, 300)))
    wide.data[wide.data < 1.0] = 0.0
    wide.eliminate_zeros()
    session = answered(Session(wide), 3, Y[:60])
    assert isinstance(session.live, living.Wide)
    now, before = session.nearest(0, 5)
    assert len(now) == len(before) == 5
    assert len(learned.gained(session, None)) > 0
    # at most 200 directions are kept, and fewer rows than that are named: nothing is lost
    exact = session.rebuilt(session.updated)
    rows = np.arange(1, 60)
    np.testing.assert_allclose(
        session.live.distances(0, rows), np.square(exact.pairwise(wide[:1], wide)[0, 1:]), rtol=1e-4
    )


def test_more_judgements_than_are_learned_from(monkeypatch):
    monkeypatch.setattr(judgements, "MOST_COMPARISONS", 40)
    session = answered(Session(X), 6)
    assert len(session.kept) == 40
    assert len(session.judgements) > 40
    np.testing.assert_allclose(
        session.live.distances(0, np.arange(1, 9)),
        wide_twin(session).distances(0, np.arange(1, 9)),
        rtol=1e-2,
    )


def test_wrong_judgements_are_refused():
    session = Session(X)
    with pytest.raises(ValueError, match="there is no row 120"):
        session.judge(0, 120, True)
    with pytest.raises(ValueError, match="cannot be judged against itself"):
        session.judge(3, 3, True)
    with pytest.raises(ValueError, match="at least 3 rows"):
        Session(X[:2])
    assert session.judgements == []


def test_gained_features_are_those_of_the_metric():
    session = answered(Session(X, distance="euclidean"), 5)
    names = [f"f{number}" for number in range(10)]
    diagonal = np.diag(session.live.M) - 1.0
    found = dict(learned.gained(session, names))
    assert found
    for name, change in found.items():
        assert change == pytest.approx(diagonal[int(name[1:])], rel=0.05, abs=0.05)
    places = learned.map_of(session)
    assert len(places["rows"]) == len(places["now"]) == len(places["before"])


# --- meter and questions ---------------------------------------------------------------------


def made_checks(n, plain, taught, earlier):
    """Checks of ten rows, five of them right; each metric orders so many of these well."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(n):
        right = np.arange(10) < 5
        distances = {
            name: np.where(right, 0.0, 1.0) * skill + rng.random(10) * 2
            for name, skill in (("plain", plain), ("taught", taught), ("earlier", earlier))
        }
        answers = {row: bool(right[row]) for row in range(10)}
        made.append(meter.Check(99, np.arange(10), distances, answers))
    return made


def test_meter():
    assert meter.read([]).verdict == "too few"
    few = made_checks(meter.FEWEST - 1, 0, 1, 0)
    assert meter.read(few).text.endswith("7 of the 8 needed.")
    helps = meter.read(made_checks(40, 0.2, 1.0, 0.2))
    assert (helps.verdict, helps.stop) == ("helps", False)
    assert helps.plain < helps.taught
    assert helps.gain_interval[0] > 0
    assert helps.text.startswith("Teaching helps: +")
    harms = meter.read(made_checks(40, 1.0, 0.2, 1.0))
    assert harms.verdict == "harms"
    assert meter.read(made_checks(10, 0.5, 0.5, 0.5)).verdict == "no difference"
    same = made_checks(40, 0.0, 1.0, 0.0)
    for check in same:
        check.distances["earlier"][:] = check.distances["taught"]
    assert meter.read(same).stop
    for check in same[:35]:
        check.answers.clear()
        check.answers[0] = True  # one kind only: it says nothing
    assert meter.read(same).n_checks == 5


def test_agreement():
    distances = np.array([0.0, 1.0, 2.0, 3.0])
    assert meter.agreement(distances, np.array([True, False, True, False])) == 0.75
    assert meter.agreement(np.ones(4), np.array([True, False, True, False])) == 0.5
    assert np.isnan(meter.agreement(distances, np.ones(4, bool)))


def test_checks_are_noted_before_they_are_learned_from():
    session = answered(Session(X), 4)
    check = session.checks[-1]
    assert len(check.answers) == len(check.rows)
    fresh = [row for c in session.checks[1:] for row in c.rows]
    assert len(fresh) == len(set(fresh))
    plain = session.live.distances(check.query, check.rows, 0)
    np.testing.assert_allclose(check.distances["plain"], plain)
    assert meter.from_entry(meter.as_entry(check))._replace(answers=0)[0] == check.query


def test_questions():
    session = Session(X)
    first = session.ask()
    assert first.asked == "random"
    answered(session, 5)
    kinds = set()
    for number in range(8):
        asked = policy.ask(
            number, session.live, 120, session.judgements, session.groups, session.rng
        )
        kinds.add(asked.asked)
        assert asked.query not in asked.rows
        assert len(set(asked.rows.tolist())) == len(asked.rows) <= policy.N_ASKED
        if asked.asked == "next":
            assert asked.query not in session.groups.of
            known = [row for row in asked.rows.tolist() if row in session.groups.of]
            assert len(known) == 1  # of the group that the query belongs to most probably
            assert len(session.groups.with_row(known[0])) > 1
    assert kinds == {"random", "next"}
    tiny = Session(X[:6])
    for _ in range(6):
        assert len(tiny.ask().rows)


def test_rows_that_are_asked_about_are_far_apart():
    session = answered(Session(X), 4)
    rows = np.arange(0, 120, 3)
    taken = policy._far_apart(session.live, rows, 6)
    expected = [int(rows[0])]  # the same by all pairs
    between = np.array([session.live.distances(int(row), rows) for row in rows])
    while len(expected) < 6:
        nearest = between[np.isin(rows, expected)].min(axis=0)
        expected.append(int(rows[nearest.argmax()]))
    assert taken == expected
    equal = Session(np.vstack([X[:3], np.repeat(X[:1], 9, axis=0)]))
    assert sorted(policy._far_apart(equal.live, np.arange(12), 12)) == list(range(12))


def test_queries_are_typical_and_new():
    """Of a judged cluster, another one and rows far from all, queries are of the second."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 6))
    rows[150:270, 0] += 8.0
    rows[270:] *= 30.0
    session = Session(rows, distance="euclidean")
    for row in range(1, 40):
        session.judge(0, row, bool(row % 2))
    free = np.arange(40, 300)
    found = [
        policy._new_query(session.live, free, 300, session.groups, session.rng) for _ in range(20)
    ]
    assert all(150 <= query < 270 for query in found)


def test_the_prior_counts_more_while_there_are_few_queries():
    session = Session(X)
    for row in range(1, 9):
        session.judge(0, row, bool(row % 2))
    few = session.options.reg
    assert few == pytest.approx(0.03 * (1 + 800 / len(session.kept)) * (1 + 4))
    for row in range(20, 29):
        session.judge(10, row, bool(row % 2))
    expected = 0.03 * (1 + 800 / len(session.kept)) * (1 + 4 / 2)
    assert session.options.reg == pytest.approx(expected)
    assert expected < few


def test_rows_in_doubt_are_asked_about(monkeypatch):
    """Where the curve is steep, rows at the distance where it is one half are drawn."""
    rows, y = make_clusters(n=900, d=10, n_classes=4, apart=1.2)
    session = answered(Session(rows), 4, y)
    middle = float(np.quantile(session.live.distances(0, np.arange(1, 900)), 0.15))
    monkeypatch.setattr(policy, "_logistic", lambda *_: (100.0, 100.0 * middle))
    shares = []
    for _ in range(10):
        asked = policy.ask_next(session.live, 900, session.judgements, session.groups, session.rng)
        new = asked.rows[[row not in session.groups.of for row in asked.rows.tolist()]]
        others = np.setdiff1d(np.arange(900), [asked.query])
        doubt = np.sort(np.abs(session.live.distances(asked.query, others) - middle))
        asked_about = np.abs(session.live.distances(asked.query, new) - middle)
        shares.append(np.mean(np.searchsorted(doubt, asked_about)) / len(others))
    assert np.mean(shares) < 0.1  # of all rows are more in doubt


def test_logistic_curve():
    rng = np.random.default_rng(0)
    squares = rng.random(4000) * 2
    right = rng.random(4000) < 1 / (1 + np.exp(5 * squares - 4))
    slope, offset = policy._logistic(squares, right)
    assert slope == pytest.approx(5, rel=0.15)
    assert offset == pytest.approx(4, rel=0.15)
    assert policy._logistic(squares, ~right)[0] == 0.0


# --- what rows look like ---------------------------------------------------------------------


def test_contents(tmp_path):
    texts = content.Texts(["Apples", "pears and APPLES", "x" * 5000, "\ud800"])
    assert texts.find("apples", 1) == 1
    assert texts.find("Apples", 2) == 0
    assert texts.find("plums") is None
    assert len(texts.of(2)) < 1600
    assert texts.of(3) == "?"
    table = content.make_content(X, ["a"] * 9 + ["b"], columns="b, a")
    assert table.of(0) == [["b", f"{X[0, 9]:.4g}"], ["a", f"{X[0, 8]:.4g}"]]
    assert len(content.Table(X, None).of(0)) == 8
    with pytest.raises(ValueError, match="no feature called 'c'"):
        content.make_content(X, ["a"] * 10, columns=["c"])
    with pytest.raises(ValueError, match="cannot be combined"):
        content.make_content(X, None, texts=["a"], columns="a")
    with pytest.raises(ValueError, match="2 were given for 120 rows"):
        content.make_content(X, None, texts=["a", "b"])
    with pytest.raises(ValueError, match="has 0 pictures"):
        content.make_content(X, None, images=tmp_path)
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(b"picture %d" % number)
    images = content.Images(tmp_path, 3)
    assert images.image(1) == ("image/png", b"picture 1")
    (tmp_path / "1.png").unlink()
    assert images.image(1) is None
    pixels = content.make_content(X, None, image_shape="2,5")
    assert pixels.image(0)[1].startswith(b"\x89PNG")
    assert content.make_content(X, None, image_shape="2x5").image(0) == pixels.image(0)
    with pytest.raises(ValueError, match="must be HEIGHTxWIDTH"):
        content.make_content(X, None, image_shape="2 by 5")
    lines = tmp_path / "t.jsonl"
    lines.write_text('{"text": "one"}\n"two"\n3\n')
    assert content.read_texts(lines) == ["one", "two", "3"]
    lines.write_text("{")
    with pytest.raises(ValueError, match="line 1 is not JSON"):
        content.read_texts(lines)
    with pytest.raises(FileNotFoundError, match=r"texts: .*none\.txt does not exist"):
        content.read_texts(tmp_path / "none.txt")


def test_a_feature_that_decides_the_distance_is_named():
    assert content.Table(X, None).dominant() == ""
    assert content.Table(sp.csr_matrix(X), None).dominant() == ""
    assert content.Table(X[:, :1], None).dominant() == ""
    assert content.Table(np.zeros((5, 3)), None).dominant() == ""
    names = [f"x{place}" for place in range(10)]
    said = content.Table(X * ([100.0] + 9 * [1.0]), names).dominant()
    assert said.startswith("x0 alone makes up 100 % of the squared distances")


# --- the server ------------------------------------------------------------------------------

PORT = 8123
PAGE = {"Origin": f"http://{HOST}:{PORT}"}


@pytest.fixture
def teaching(tmp_path):
    texts = content.Texts([f"<b>row {number}</b>" for number in range(120)])
    session = Session(X, path=tmp_path / "j.jsonl")
    beside = {"other": Metric(np.eye(10)[:, :2])}
    yield Teaching(session, texts, out=tmp_path / "m.safetensors", beside=beside)
    session.log.close()


@pytest.fixture
def client(teaching):
    app = make_app(teaching, PORT)
    with TestClient(app, base_url=f"http://{HOST}:{PORT}") as client:
        client.headers["X-Token"] = teaching.token
        yield client


def test_a_session_over_http(client, teaching, tmp_path):
    state = client.get("/api/state").json()
    assert [column["name"] for column in state["columns"]] == ["now", "before", "other"]
    assert state["content"]["0"] == "<b>row 0</b>"
    asked = client.post("/api/next", json={}, headers=PAGE).json()["asked"]
    query = teaching.query
    for row in asked["rows"]:
        given = {"query": query, "row": row, "right": bool(Y[query] == Y[row])}
        state = client.post("/api/judge", json=given, headers=PAGE).json()
        assert state["marks"][str(row)] is given["right"]
    assert client.post("/api/judge", json=given, headers=PAGE).json()["judgements"] == len(
        asked["rows"]
    )  # the same click twice is one judgement
    state = client.post("/api/undo", json={}, headers=PAGE).json()
    assert state["judgements"] == len(asked["rows"]) - 1
    state = client.post("/api/next", json={"find": "row 17<"}, headers=PAGE).json()
    assert state["query"] == 17
    assert client.post("/api/next", json={"find": " 5 "}, headers=PAGE).json()["query"] == 5
    assert client.get("/api/state?query=3").json()["query"] == 3
    assert len(client.post("/api/learned", json={}, headers=PAGE).json()["map"]["rows"]) == 120
    state = client.post("/api/save", json={}, headers=PAGE).json()
    assert state["unsaved"] == 0
    assert Metric.load(tmp_path / "m.safetensors").info["judgements"] == state["judgements"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j.jsonl", "m.safetensors"]


def test_the_metric_is_saved_at_the_end(teaching, tmp_path):
    with TestClient(make_app(teaching, PORT), base_url=f"http://{HOST}:{PORT}"):
        teaching.session.judge(0, 1, True)
    assert Metric.load(tmp_path / "m.safetensors").info["judgements"] == 1


def test_judgements_of_a_killed_page_are_saved_by_the_next(tmp_path):
    """Found by `make faults`: without a new judgement, nothing was saved."""
    path, out = tmp_path / "j.jsonl", tmp_path / "m.safetensors"
    session = Session(X, path=path)
    session.judge(0, 1, True)
    session.judge(0, 2, False)
    session.log.close()
    for unsaved in (2, 0):
        session = Session(X, path=path)
        teaching = Teaching(session, content.Table(X, None), out=out)
        assert teaching.state()["unsaved"] == unsaved
        with TestClient(make_app(teaching, PORT), base_url=f"http://{HOST}:{PORT}"):
            pass
        session.log.close()
        assert Metric.load(out).info["judgements"] == 2
    session.log = None
    session.undo()
    teaching.out = tmp_path / "missing" / "m.safetensors"
    teaching.close()
    assert isinstance(teaching.failure, FileNotFoundError)


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"Host": "evil.example"}, "open the address"),
        ({"Host": f"evil.example:{PORT}"}, "open the address"),
        ({"X-Token": "wrong"}, "token"),
        ({"X-Token": ""}, "token"),
        ({"X-Token": "ü"}, "token"),
        ({"Origin": "http://evil.example"}, "page itself"),
        ({"Origin": "null"}, "page itself"),
        ({"Origin": f"http://{HOST}:{PORT + 1}"}, "page itself"),
    ],
)
def test_requests_from_elsewhere_are_refused(client, teaching, headers, word):
    headers = {name: value.encode() for name, value in headers.items()}
    for answer in (
        client.get("/api/state", headers=headers),
        client.get("/", headers=headers),
        client.post(
            "/api/judge", json={"query": 0, "row": 1, "right": True}, headers={**PAGE, **headers}
        ),
    ):
        assert answer.status_code == 403
        assert word in answer.json()["error"]
    assert teaching.session.judgements == []


def test_posts_need_an_origin(client, teaching):
    assert client.post("/api/undo", json={}).status_code == 403
    assert client.get("/api/undo").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"[" * 5000,
        b'{"query": 0, "row": 120, "right": true}',
        b'{"query": -1, "row": 1, "right": true}',
        b'{"query": 0, "row": 1.0, "right": true}',
        b'{"query": 0, "row": true, "right": true}',
        b'{"query": 0, "row": 0, "right": true}',
        b'{"query": 0, "row": 1, "right": "yes"}',
        b'{"query": 0, "row": 1}',
        b'{"query": 1e999, "row": 1, "right": true}',
        b" " * 20_000,
        b"\xff\xfe",
    ],
)
def test_wrong_requests_change_nothing(client, teaching, body):
    answer = client.post("/api/judge", content=body, headers=PAGE)
    assert answer.status_code in (400, 404, 413)
    assert answer.json()["error"]
    assert teaching.session.judgements == []
    for find in ("", " ", "9" * 30, "1" * 5, 7, None, ["x"], "no such text"):
        answer = client.post("/api/next", content=json.dumps({"find": find}), headers=PAGE)
        assert answer.status_code in (200, 400, 404)


def test_every_answer_has_a_policy(client, teaching):
    page = client.get(f"/?token={teaching.token}")
    assert page.headers["content-type"].startswith("text/html")
    for answer in (
        page,
        client.get("/static/teach.js"),
        client.get("/static/../server.py"),
        client.get("/static/server.py"),
        client.get("/nothing"),
        client.get("/image/0"),
        client.get("/image/999"),
        client.get("/image/" + "1" * 5000),
        client.get("/api/state", headers={"X-Token": "wrong"}),
    ):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/static/server.py").status_code == 404
    assert "unsafe" not in page.headers["content-security-policy"]


def test_a_port_in_use_is_said():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} cannot be used .*choose another"):
            open_port(port)
    with open_port(0) as free:
        assert free.getsockname()[0] == HOST


def test_the_command_checks_its_files(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from dualmetric.cli import app

    np.save(tmp_path / "x.npy", X)
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    for arguments, message in [
        (["--out", "m.txt"], "must end in .safetensors"),
        (["--out", "m.safetensors", "--judgements", "m.safetensors"], "is already used"),
        (["--distance", "l1"], "must be cosine or euclidean"),
        (["--images", "nowhere"], "--images: nowhere is not a folder"),
        (["--columns", "a"], "--columns: there is no feature called"),
        (["--image-shape", "2by2"], "--image-shape must be HEIGHTxWIDTH"),
        (["--texts", "no.txt"], "--texts: no.txt does not exist"),
        (["--texts", "t.txt", "--columns", "a"], "--texts and --columns cannot be combined"),
    ]:
        done = run.invoke(app, ["teach", "x.npy", *arguments])
        assert done.exit_code == 2
        assert message in done.output
    assert os.listdir(tmp_path) == ["x.npy"]


def test_texts_in_a_column(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from dualmetric.cli import app

    pytest.importorskip("uvicorn")
    monkeypatch.chdir(tmp_path)
    lines = [f"text {row},{','.join(map(str, x))}" for row, x in enumerate(X.tolist())]
    header = ",".join(["words", *(f"f{i}" for i in range(X.shape[1]))])
    (tmp_path / "x.csv").write_text("\n".join([header, *lines]) + "\n")
    served = []
    monkeypatch.setattr("dualmetric.teach.server.serve", lambda page, *_: served.append(page))
    done = CliRunner().invoke(app, ["teach", "x.csv", "--texts", "words"])
    assert done.exit_code == 0, done.output
    assert served[0].content.of(7) == "text 7"
    assert served[0].names == tuple(header.split(",")[1:])
    done = CliRunner().invoke(app, ["teach", "x.csv", "--texts", "other"])
    assert "--texts: 'other' is neither a file nor a column of x.csv" in done.output


def test_a_notebook_shows_the_page(tmp_path):
    import urllib.request

    pytest.importorskip("uvicorn")
    page = Metric(np.eye(10)[:, :3]).teach(
        X, [f"row {number}" for number in range(120)], out=tmp_path / "m.safetensors"
    )
    try:
        shown = page._repr_html_()
        assert shown.startswith('<iframe src="http://127.0.0.1:')
        with urllib.request.urlopen(page.address) as answer:
            policy_of_page = answer.headers["Content-Security-Policy"]
        assert "frame-ancestors http://127.0.0.1:* http://localhost:*" in policy_of_page
        names = [column["name"] for column in page.teaching.state()["columns"]]
        assert names == ["now", "before", "this metric"]
        page.teaching.session.judge(0, 1, True)
        assert page.metric().info["judgements"] == 1
    finally:
        page.stop()
    assert Metric.load(tmp_path / "m.safetensors").n_features == 10


def test_a_notebook_with_counts():
    counts = sp.csr_matrix(np.random.default_rng(0).poisson(1.0, (40, 10)).astype(float))
    page = Metric(np.eye(10)[:, :3], idf=np.arange(1.0, 11.0)).teach(counts)
    try:
        assert page.metric().first.idf is not None
        assert page.metric().transform(counts).shape == (40, 10)
    finally:
        page.stop()
