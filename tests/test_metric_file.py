"""Files of metrics: they hold everything, survive everything, and refuse what is hostile."""

import json
import os
import pickle
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import save as tensor_bytes

from dualmetric import Metric, __version__
from dualmetric.blocks import Blocks
from dualmetric.io import metric_file
from makers import INFO, NAMES, make_cosine, make_metric, make_rows

KEPT = {"version": __version__, **INFO}


def make_tfidf(dtype=np.float64, identity=False):
    rank = None if identity else 3
    return make_metric("cosine, centred", dtype=dtype, rank=rank, idf=True)


def make_lifted(dtype=np.float64, cosine=True):
    kind = "cosine, centred" if cosine else "euclidean"
    return make_metric(kind, dtype=dtype, names=NAMES, n_landmarks=7)


# --- there and back ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("names", [None, NAMES])
@pytest.mark.parametrize("kind", [str, Path])
def test_round_trip(dtype, names, kind, tmp_path):
    path = kind(tmp_path / "größe 1.metric")
    metric = make_metric(dtype=dtype, names=names)
    metric.save(path)
    back = Metric.load(path)
    assert back.factor.dtype == dtype
    assert_array_equal(back.factor, metric.factor)
    assert (back.n_features, back.feature_names, back.info) == (5, names, KEPT)
    assert_array_equal(back.transform(make_rows(3)), metric.transform(make_rows(3)))
    assert os.listdir(tmp_path) == ["größe 1.metric"]


def test_names_that_are_no_strings(tmp_path):
    Metric(None, 3, np.array([0, 1, 2])).save(tmp_path / "m")
    assert Metric.load(tmp_path / "m").feature_names == ("0", "1", "2")


def test_round_trip_of_the_identity(tmp_path):
    Metric(None, 4, ("a", "b", "c", "d")).save(tmp_path / "plain")
    back = Metric.load(tmp_path / "plain")
    assert (back.factor, back.n_features, back.rank) == (None, 4, 4)
    assert back.feature_names == ("a", "b", "c", "d")
    assert back.info == {"version": __version__}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_round_trip_of_the_cosine(dtype, identity, centred, tmp_path):
    metric = make_cosine(dtype, centred, identity)
    metric.save(tmp_path / "m")
    back = Metric.load(tmp_path / "m")
    assert (back.kind, back.n_features, back.info) == ("cosine", 5, KEPT)
    assert (back.factor is None) is identity
    assert (back.centre is None) is not centred
    if centred:
        assert back.centre.dtype == dtype
        assert_array_equal(back.centre, metric.centre)
    assert_array_equal(back.transform(make_rows(3)), metric.transform(make_rows(3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("identity", [False, True])
def test_round_trip_of_tfidf(dtype, identity, tmp_path):
    metric = make_tfidf(dtype, identity)
    metric.save(tmp_path / "m")
    back = Metric.load(tmp_path / "m")
    assert back.idf.dtype == dtype
    assert_array_equal(back.idf, metric.idf)
    counts = make_rows(4, counts=True)
    assert_array_equal(back.transform(counts), metric.transform(counts))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cosine", [False, True])
def test_round_trip_of_a_lift(dtype, cosine, tmp_path):
    metric = make_lifted(dtype, cosine)
    metric.save(tmp_path / "m")
    back = Metric.load(tmp_path / "m")
    assert back.lift.landmarks.dtype == dtype
    assert_array_equal(back.lift.landmarks, metric.lift.landmarks)
    assert back.lift.gamma == 0.1
    assert (back.n_features, back.feature_names, back.info) == (5, NAMES, KEPT)
    assert_array_equal(back.transform(make_rows(3)), metric.transform(make_rows(3)))
    back.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def make_outside(dtype=np.float64, distance="cosine"):
    """A metric that keeps the plain distance outside two directions."""
    columns = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 2)))[0]
    factor = (columns * [3.0, 0.25]).astype(dtype)
    return Metric(factor, 5, NAMES, INFO, distance=distance, outside=0.5)


def make_after(first, dtype=np.float64, outside=0.0):
    """A metric of rank two that is applied to the rows of another one."""
    columns = np.linalg.qr(np.random.default_rng(1).standard_normal((first.rank, 2)))[0]
    distance = "euclidean" if outside else "cosine"
    centre = None if outside else np.array([0.1, -0.2], dtype)
    factor = (2.0 * columns).astype(dtype)
    return Metric(factor, 5, NAMES, INFO, centre, distance, outside=outside, before=first)


NEWEST = {
    "outside": make_outside,
    "outside, euclidean": lambda dtype=np.float64: make_outside(dtype, "euclidean"),
    "after a cosine": lambda dtype=np.float64: make_after(make_cosine(dtype), dtype),
    "after tf-idf": lambda dtype=np.float64: make_after(make_tfidf(dtype, identity=True), dtype),
    "after a lift": lambda dtype=np.float64: make_after(make_lifted(dtype, cosine=True), dtype),
    "outside after a cosine": lambda dtype=np.float64: make_after(make_cosine(dtype), dtype, 0.3),
    "after outside": lambda dtype=np.float64: make_after(make_outside(dtype), dtype),
}


def make_blocks(distance="euclidean"):
    weighs = Blocks(np.array([0, 1, 0, 2, 1]), np.array([0.2, 0.0, 0.8]))
    return Metric(None, 5, NAMES, KEPT, distance=distance, blocks=weighs)


BLOCKS = {
    "blocks": make_blocks,
    "blocks of length one": lambda: make_blocks("cosine"),
    "after blocks": lambda: make_after(make_blocks("cosine"), np.float64),
}


def make_scaled(metric):
    return metric.with_scale(np.array([0.5, 1.0, 20.0, 1.0, 3.0]))


SCALED = {
    "scaled columns, cosine": lambda: make_scaled(Metric(None, 5, distance="cosine")),
    "scaled columns, lift": lambda: make_scaled(make_lifted()),
    "after scaled columns and a lift": lambda: make_scaled(NEWEST["after a lift"]()),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", list(NEWEST))
def test_round_trip_of_version_4(kind, dtype, tmp_path):
    metric = NEWEST[kind](dtype)
    metric.save(tmp_path / "m")
    back = Metric.load(tmp_path / "m")
    assert (back.kind, back.outside, back.n_features) == (metric.kind, metric.outside, 5)
    assert (back.feature_names, back.info) == (NAMES, KEPT)
    assert back.factor.dtype == dtype
    rows = make_rows(4, dtype=dtype, counts=True)
    assert_array_equal(back.transform(rows), metric.transform(rows))
    assert_array_equal(back.pairwise(rows), metric.pairwise(rows))
    back.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def description(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["dualmetric"])


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (make_metric, 1),
        (make_cosine, 1),
        (lambda: Metric(None, 5), 1),
        (make_tfidf, 2),
        (make_lifted, 3),
        *((make, 4) for make in NEWEST.values()),
        *((make, 5) for make in BLOCKS.values()),
        (lambda: make_scaled(make_metric()), 1),
        (lambda: make_scaled(Metric(None, 5)), 5),
        *((make, 7) for make in SCALED.values()),
        (lambda: make_lifted().replaced(idf=np.arange(1.0, 6.0)), 8),
    ],
)
def test_a_file_has_the_lowest_version_that_can_express_it(make, version, tmp_path):
    make().save(tmp_path / "m")
    assert description(tmp_path / "m")["version"] == version


def test_method_parameters_and_scores_are_kept(tmp_path):
    scores = {"euclidean": {"map": 0.5, "knn": 0.75, "hit_rate": 1.0}, "learned": {"map": 0.625}}
    metric = make_metric(names=NAMES).with_info(scores=scores, class_names=["a", "b"])
    metric.save(tmp_path / "m")
    back = Metric.load(tmp_path / "m")
    assert back.info == {**KEPT, "scores": scores, "class_names": ["a", "b"]}
    assert back.feature_names == NAMES
    back.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_the_version_that_made_a_metric_is_kept(tmp_path):
    make_metric().with_info(version="0.0.1").save(tmp_path / "m")
    assert Metric.load(tmp_path / "m").info["version"] == "0.0.1"


def test_numbers_that_json_does_not_have(tmp_path):
    """A strict reader of JSON can read the file."""
    info = {"a": np.nan, "b": [1.0, -np.inf, ({"c": np.inf},)], "d": "NaN"}
    Metric(None, 2, info=info).save(tmp_path / "m")
    text = json.dumps(description(tmp_path / "m"), allow_nan=False)
    assert json.loads(text)["info"]["b"] == [1.0, None, [{"c": None}]]
    assert Metric.load(tmp_path / "m").info["a"] is None
    assert np.isnan(info["a"])


def test_files_from_before_the_cosine(tmp_path):
    (tmp_path / "m").write_bytes(file_bytes())
    with pytest.warns(UserWarning, match="m was written by dualmetric 0.1 and has no checksum"):
        metric = Metric.load(tmp_path / "m")
    assert (metric.kind, metric.centre) == ("euclidean", None)


@pytest.mark.parametrize(
    "layout",
    [np.asfortranarray, lambda factor: np.repeat(factor, 2, axis=1)[:, ::2], lambda f: f[::-1]],
)
def test_round_trip_in_any_layout(layout, tmp_path):
    factor = layout(make_metric().factor)
    Metric(factor, 5).save(tmp_path / "m")
    assert_array_equal(Metric.load(tmp_path / "m").factor, factor)


def test_a_path_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_metric().save("here")
    assert Metric.load("here").rank == 3


def test_load_executes_nothing(tmp_path, monkeypatch):
    make_metric().save(tmp_path / "m")

    def refuse(*args, **kwargs):
        raise AssertionError("a load must not unpickle")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert Metric.load(tmp_path / "m").rank == 3

    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    monkeypatch.undo()
    (tmp_path / "bomb").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="bomb is not a metric file"):
        Metric.load(tmp_path / "bomb")
    assert not (tmp_path / "executed").exists()


# --- damaged and hostile files ----------------------------------------------------------------


def header(**changes):
    fields = {"version": 1, "n_features": 5, "feature_names": None, "info": {}, **changes}
    return json.dumps({key: value for key, value in fields.items() if value != "absent"})


def file_bytes(factor=None, text=None, **changes):
    factor = np.ones((5, 2)) if factor is None else factor
    return tensor_bytes({"factor": factor}, {"dualmetric": text or header(**changes)})


def centre_bytes(centre, factor=None, distance="cosine"):
    tensors = {"factor": np.ones((5, 2)) if factor is None else factor, "centre": centre}
    return tensor_bytes(tensors, {"dualmetric": header(distance=distance)})


def idf_bytes(idf):
    return tensor_bytes({"idf": idf}, {"dualmetric": header(version=2)})


def lift_bytes(landmarks=None, factor=None, version=3, gamma=0.1, more=None, **changes):
    tensors = {
        "landmarks": np.ones((7, 5)) if landmarks is None else landmarks,
        "factor": np.ones((7, 2)) if factor is None else factor,
        **(more or {}),
    }
    text = header(version=version, gamma=gamma, **changes)
    return tensor_bytes(tensors, {"dualmetric": text})


def newest_bytes(factor=None, more=None, **changes):
    tensors = {"factor": np.eye(5, 2) if factor is None else factor, **(more or {})}
    return tensor_bytes(tensors, {"dualmetric": header(version=4, **changes)})


def raw_bytes(tensors, data=b"", text=None):
    """A file with any header, which safetensors would not write."""
    fields = {"__metadata__": {"dualmetric": header() if text is None else text}, **tensors}
    content = json.dumps(fields).encode()
    return struct.pack("<Q", len(content)) + content + data


def tensor(shape, offsets, dtype="F64"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def zip_bytes(tmp_path):
    np.savez(tmp_path / "a.npz", factor=np.ones((5, 2)))
    return (tmp_path / "a.npz").read_bytes()


def not_finite(value):
    factor = np.ones((5, 2))
    factor[2, 1] = value
    return factor


# safetensors before 0.6 has other words for the same faults
_HEADER = "integer `-|(?i:invalid ?header ?deserialization)"
_OFFSET = "(?i:invalid ?offset)"
DAMAGED = {
    "empty": (b"", "not a metric file"),
    "text": (b"width,height\n1,2\n", "not a metric file"),
    "long text": (b"width,height\n1,2\n" * 1000, "not a metric file"),
    "zeros": (bytes(1000), "not a metric file"),
    "huge header": (struct.pack("<Q", 2**63) + b"{}", "not a metric file"),
    "long header": (struct.pack("<Q", 10**8 + 1) + b"{}" * 100, "not a metric file"),
    "header beyond the end": (struct.pack("<Q", 1000) + b"{}", "not a metric file"),
    "header is not JSON": (struct.pack("<Q", 8) + b"{{{{{{{{", "not a metric file"),
    "header of 100 MB that is not there": (struct.pack("<Q", 10**8) + b"{}", "not a metric file"),
    "negative shape": (raw_bytes({"factor": tensor([-5, -2], [0, 80])}, bytes(80)), _HEADER),
    "negative offset": (
        raw_bytes({"factor": tensor([5, 2], [-80, 0])}, bytes(80)),
        _HEADER,
    ),
    "offsets reversed": (
        raw_bytes({"factor": tensor([5, 2], [80, 0])}, bytes(80)),
        _OFFSET,
    ),
    "offset beyond the end": (
        raw_bytes({"factor": tensor([5, 2], [0, 80])}, bytes(40)),
        "damaged or cut short",
    ),
    "shape of more than there is": (
        raw_bytes({"factor": tensor([5, 2**32], [0, 80])}, bytes(80)),
        "damaged or cut short",
    ),
    "shape beyond counting": (
        raw_bytes({"factor": tensor([2**40, 2**40], [0, 80])}, bytes(80)),
        "(?i:overflow)",
    ),
    "shape that overflows to nothing": (
        raw_bytes({"factor": tensor([2**61, 8], [0, 0])}),
        "(?i:overflow)",
    ),
    "vast and empty": (raw_bytes({"factor": tensor([2**60, 0], [0, 0])}), "got F64 of shape"),
    "no dimensions": (raw_bytes({"factor": tensor([], [0, 8])}, bytes(8)), r"of shape \(\)"),
    "100 dimensions": (
        raw_bytes({"factor": tensor([1] * 100, [0, 8])}, bytes(8)),
        r"of shape \(1, 1, 1, 1, 1, 1, \.\.\.\)",
    ),
    "10,000 dimensions": (
        raw_bytes({"factor": tensor([1] * 10_000, [0, 8])}, bytes(8)),
        "its header has too many entries",
    ),
    "1,000 tensors": (
        raw_bytes({str(k): tensor([0], [0, 0]) for k in range(1000)}),
        "its header has too many entries",
    ),
    "overlap": (
        raw_bytes({"factor": tensor([5, 2], [0, 80]), "centre": tensor([2], [64, 80])}, bytes(80)),
        _OFFSET,
    ),
    "the same numbers twice": (
        raw_bytes({"factor": tensor([5], [0, 40]), "centre": tensor([5], [0, 40])}, bytes(40)),
        _OFFSET,
    ),
    "gap": (raw_bytes({"factor": tensor([5, 2], [8, 88])}, bytes(88)), _OFFSET),
    "fractional shape": (
        raw_bytes({"factor": tensor([5.5, 2], [0, 80])}, bytes(80)),
        "damaged or cut short",
    ),
    "unknown kind of number": (
        raw_bytes({"factor": tensor([5, 2], [0, 80], "F\n\x1b[31m")}, bytes(80)),
        rf"unknown variant `F\\n\\x1b|{_HEADER}",
    ),
    "complex numbers": (
        raw_bytes({"factor": tensor([5, 2], [0, 80], "C64")}, bytes(80)),
        f"expected floats .* got C64|{_HEADER}",
    ),
    "brain floats": (
        raw_bytes({"factor": tensor([5, 2], [0, 20], "BF16")}, bytes(20)),
        "expected floats .* got BF16",
    ),
    "description is a number": (raw_bytes({}, text=5), "not a metric file"),
    "header nests too deep": (
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        "its header has too many entries",
    ),
    "trailing bytes": (file_bytes() + b"more", "not a metric file"),
    "no metadata": (tensor_bytes({"factor": np.ones((5, 2))}), "not written by Metric.save"),
    "other metadata": (
        tensor_bytes({"factor": np.ones((5, 2))}, {"format": "pt"}),
        "not written by Metric.save",
    ),
    "integers": (file_bytes(np.ones((5, 2), dtype=np.int64)), "expected floats"),
    "half precision": (file_bytes(np.ones((5, 2), dtype=np.float16)), "expected floats"),
    "booleans": (file_bytes(np.ones((5, 2), dtype=bool)), "expected floats"),
    "another tensor": (
        tensor_bytes({"weight": np.ones((5, 2))}, {"dualmetric": header()}),
        r"tensors named \['weight'\], but a metric of its version has only centre, factor",
    ),
    "two tensors": (
        tensor_bytes(
            {"factor": np.ones((5, 2)), "more": np.ones(1)},
            {"dualmetric": header()},
        ),
        "tensors named",
    ),
    "a third tensor": (
        tensor_bytes(
            {"factor": np.ones((5, 2)), "centre": np.ones(2), "more": np.ones(1)},
            {"dualmetric": header(distance="cosine")},
        ),
        "tensors named",
    ),
    "centre of integers": (centre_bytes(np.ones(2, dtype=int)), "expected floats"),
    "centre of another rank": (centre_bytes(np.ones(3)), r"rank 2 .* got \(3,\)"),
    "centre is empty": (centre_bytes(np.ones(0)), r"its centre, got F64 of shape \(0,\)"),
    "centre is a matrix": (centre_bytes(np.ones((1, 2))), r"rank 2 .* got \(1, 2\)"),
    "centre is NaN": (centre_bytes(np.array([1.0, np.nan])), "centre .* NaN or infinity"),
    "centre is infinite": (centre_bytes(np.array([1.0, np.inf])), "centre .* NaN or infinity"),
    "centre without cosine": (centre_bytes(np.ones(2), distance="euclidean"), "centre is for"),
    "centre of the identity": (
        tensor_bytes({"centre": np.ones(4)}, {"dualmetric": header(distance="cosine")}),
        r"rank 5 .* got \(4,\)",
    ),
    "unknown distance": (file_bytes(distance="Cosine"), "'euclidean' or 'cosine'; got 'Cosine'"),
    "distance is null": (file_bytes(distance=None), "'euclidean' or 'cosine'; got None"),
    "distance is a list": (file_bytes(distance=["cosine"]), "'euclidean' or 'cosine'; got"),
    "NaN": (file_bytes(not_finite(np.nan)), "contains NaN or infinity"),
    "infinity": (file_bytes(not_finite(-np.inf)), "contains NaN or infinity"),
    "other shape": (file_bytes(np.ones((4, 2))), r"over 5 features .* got \(4, 2\)"),
    "one dimension": (file_bytes(np.ones(5)), r"got \(5,\)"),
    "no directions": (file_bytes(np.ones((5, 0))), r"its factor, got F64 of shape \(5, 0\)"),
    "idf in version 1": (
        tensor_bytes({"idf": np.ones(5)}, {"dualmetric": header()}),
        r"tensors named \['idf'\], but a metric of its version has only centre, factor",
    ),
    "idf of another width": (idf_bytes(np.ones(4)), r"over 5 features .* got \(4,\)"),
    "idf is a matrix": (idf_bytes(np.ones((5, 1))), r"over 5 features .* got \(5, 1\)"),
    "idf of integers": (idf_bytes(np.ones(5, dtype=int)), "expected floats .* its idf, got I64"),
    "idf is NaN": (idf_bytes(np.full(5, np.nan)), "idf .* NaN or infinity"),
    "landmarks in version 2": (
        lift_bytes(version=2),
        r"tensors named \['factor', 'landmarks'\], but a metric of its version has only",
    ),
    "landmarks of another width": (
        lift_bytes(np.ones((7, 4))),
        r"landmarks .* over 5 features .* got \(7, 4\)",
    ),
    "landmarks are a vector": (lift_bytes(np.ones(5)), r"landmarks .* got \(5,\)"),
    "landmarks are empty": (
        lift_bytes(np.ones((0, 5))),
        r"its landmarks, got F64 of shape \(0, 5\)",
    ),
    "landmarks of integers": (lift_bytes(np.ones((7, 5), dtype=int)), "expected floats"),
    "landmarks are NaN": (lift_bytes(np.full((7, 5), np.nan)), "landmarks .* NaN or infinity"),
    "landmarks are infinite": (lift_bytes(np.full((7, 5), np.inf)), "landmarks .* NaN or infinity"),
    "factor of another number of landmarks": (
        lift_bytes(factor=np.ones((5, 2))),
        r"lifted by 7 landmarks must have shape \(7, rank\).* got \(5, 2\)",
    ),
    "landmarks without a factor": (
        tensor_bytes({"landmarks": np.ones((7, 5))}, {"dualmetric": header(version=3, gamma=0.1)}),
        "a lift needs a factor",
    ),
    "landmarks and a centre of another rank": (
        lift_bytes(more={"centre": np.ones(7)}, distance="cosine"),
        r"rank 2 .* got \(7,\)",
    ),
    "landmarks and names of them": (
        lift_bytes(feature_names=["a"] * 7),
        "feature_names has 7 names for 5",
    ),
    "landmarks without gamma": (
        lift_bytes(gamma="absent"),
        "landmarks without gamma, or gamma without landmarks",
    ),
    "gamma without landmarks": (
        file_bytes(version=3, gamma=0.1),
        "landmarks without gamma, or gamma without landmarks",
    ),
    "gamma is null": (lift_bytes(gamma=None), "finite number above 0; got None"),
    "gamma is zero": (lift_bytes(gamma=0), "finite number above 0; got 0"),
    "gamma is negative": (lift_bytes(gamma=-0.1), r"finite number above 0; got -0\.1"),
    "gamma is NaN": (lift_bytes(gamma=np.nan), "finite number above 0; got nan"),
    "gamma is infinite": (lift_bytes(gamma=np.inf), "finite number above 0; got inf"),
    "gamma is beyond floats": (
        lift_bytes(gamma=10**400),
        r"finite number above 0; got 1000*\.\.\.0",
    ),
    "gamma is true": (lift_bytes(gamma=True), "finite number above 0; got True"),
    "gamma is text": (lift_bytes(gamma="0.1"), "finite number above 0; got '0.1'"),
    "gamma is a list": (lift_bytes(gamma=[0.1]), "finite number above 0; got"),
    "outside is null": (newest_bytes(outside=None), "outside must be .* at least 0; got None"),
    "outside is negative": (newest_bytes(outside=-0.5), r"outside must be .*; got -0\.5"),
    "outside is NaN": (newest_bytes(outside=np.nan), "outside must be .*; got nan"),
    "outside is infinite": (newest_bytes(outside=np.inf), "outside must be .*; got inf"),
    "outside is beyond floats": (newest_bytes(outside=10**400), r"outside must be .*; got 1000*\."),
    "outside is true": (newest_bytes(outside=True), "outside must be .*; got True"),
    "outside is text": (newest_bytes(outside="0.5"), "outside must be .*; got '0.5'"),
    "outside columns that are not orthogonal": (
        newest_bytes(factor=np.ones((5, 2)), outside=0.5),
        "outside needs a factor whose columns are orthogonal",
    ),
    "outside a column of zeros": (
        newest_bytes(factor=np.eye(5, 2) * [1, 0], outside=0.5),
        "outside needs a factor whose columns are orthogonal, and none of them zero",
    ),
    "outside nothing": (
        tensor_bytes({}, {"dualmetric": header(version=4, outside=0.5)}),
        "outside > 0 needs a factor",
    ),
    "before is a list": (newest_bytes(before=[]), "its first step is not described"),
    "before is null": (newest_bytes(before=None), "its first step is not described"),
    "before is missing": (
        newest_bytes(more={"before.factor": np.eye(5)}),
        "tensors of a step that it does not describe",
    ),
    "before in an old version": (
        tensor_bytes({"before.factor": np.eye(5)}, {"dualmetric": header(version=3, before={})}),
        "tensors named .* but a metric of its version has only",
    ),
    "before has another width": (
        newest_bytes(before={}, more={"before.factor": np.eye(4)}),
        r"must have shape \(5, rank\)",
    ),
    "before has another rank": (
        newest_bytes(before={}, more={"before.factor": np.eye(5, 3)}),
        r"after one of rank 3 must have shape \(3, rank\)",
    ),
    "before has another distance": (
        newest_bytes(before={"distance": "l1"}, more={"before.factor": np.eye(5)}),
        "'euclidean' or 'cosine'; got 'l1'",
    ),
    "before has landmarks without gamma": (
        newest_bytes(before={}, more={"before.landmarks": np.eye(5), "before.factor": np.eye(5)}),
        "landmarks without gamma, or gamma without landmarks",
    ),
    "before has gamma without landmarks": (
        newest_bytes(before={"gamma": 0.1}, more={"before.factor": np.eye(5)}),
        "landmarks without gamma, or gamma without landmarks",
    ),
    "idf after another metric": (
        newest_bytes(before={}, more={"before.factor": np.eye(5), "idf": np.ones(5)}),
        "idf, lift and blocks cannot be combined with before",
    ),
    "blocks without weights": (
        tensor_bytes({"blocks": np.zeros(5)}, {"dualmetric": header(version=5)}),
        "blocks without block_weights, or block_weights without blocks",
    ),
    "blocks in an old version": (
        newest_bytes(more={"blocks": np.zeros(5), "block_weights": np.ones(1)}),
        "tensors named .* but a metric of its version has only",
    ),
    "blocks that have no weight": (
        tensor_bytes(
            {"blocks": np.arange(5.0), "block_weights": np.ones(4)},
            {"dualmetric": header(version=5)},
        ),
        "a weight of at least 0 for each block",
    ),
    "newer version": (
        file_bytes(version=9),
        "newer dualmetric .format 9, this one reads up to 8.: .*install a newer version",
    ),
    "newer version with other tensors": (
        tensor_bytes({"more": np.ones((1, 2, 3), dtype=int)}, {"dualmetric": header(version=9)}),
        "newer dualmetric",
    ),
    "much newer version": (file_bytes(version=10**1000), r"newer dualmetric .format 1000*\.\.\.0"),
    "version is 0": (file_bytes(version=0), "description cannot be read"),
    "version is true": (file_bytes(version=True), "description cannot be read"),
    "version is text": (file_bytes(version="1"), "description cannot be read"),
    "no version": (file_bytes(version="absent"), "description cannot be read"),
    "description is not JSON": (file_bytes(text="{"), "description cannot be read"),
    "description is a list": (file_bytes(text="[]"), "description cannot be read"),
    "description nests too deep": (file_bytes(text="[" * 200_000), "description cannot be read"),
    "description has a giant number": (file_bytes(text="9" * 10_000), "description cannot be read"),
    "no n_features": (file_bytes(n_features="absent"), "description is incomplete"),
    "n_features is text": (file_bytes(n_features="5"), "description is incomplete"),
    "n_features is 0": (file_bytes(n_features=0), "description is incomplete"),
    "n_features is true": (file_bytes(n_features=True), "description is incomplete"),
    "n_features is negative": (file_bytes(n_features=-5), "description is incomplete"),
    "very many features": (
        tensor_bytes({}, {"dualmetric": header(n_features=2**31)}),
        "declares 2147483648 features, but a metric file has at most 2,147,483,647",
    ),
    "no end of features": (
        tensor_bytes({}, {"dualmetric": header(n_features=10**1000)}),
        r"declares 1000*\.\.\.0* features",
    ),
    "no info": (file_bytes(info="absent"), "description is incomplete"),
    "info is a list": (file_bytes(info=[]), "description is incomplete"),
    "too few names": (file_bytes(feature_names=["a"]), "feature_names has 1 names for 5"),
    "names are numbers": (file_bytes(feature_names=[1, 2, 3, 4, 5]), "names are not text"),
    "names are one text": (file_bytes(feature_names="abcde"), "names are not text"),
}


@pytest.mark.parametrize("kind", list(DAMAGED))
def test_damaged_files_are_named(kind, tmp_path):
    content, message = DAMAGED[kind]
    path = tmp_path / "bad.metric"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"bad\.metric .*({message})") as caught:
        Metric.load(path)
    assert str(caught.value).isprintable()  # one line, with nothing that speaks to a terminal
    assert len(str(caught.value)) < 500


def test_a_description_that_repeats_itself_is_cut_in_messages(tmp_path):
    (tmp_path / "m").write_bytes(file_bytes(distance="x" * 10_000))
    with pytest.raises(ValueError, match="'euclidean' or 'cosine'; got 'xxx") as caught:
        Metric.load(tmp_path / "m")
    assert len(str(caught.value)) < 300


MEASURED_LOADS = """
import gc, sys
from dualmetric import Metric

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024

for k, path in enumerate(sys.argv[1:]):
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak
    before = status("VmRSS")
    try:
        Metric.load(path)
        outcome = "loaded"
    except ValueError:
        outcome = "refused"
    if k:  # the first brings in the modules
        print(outcome, status("VmHWM") - before)
"""


def memory_to_load(paths, tmp_path):
    """For each file, what becomes of it and how much memory that takes at the most."""
    make_metric().save(tmp_path / "small")
    command = [sys.executable, "-c", MEASURED_LOADS, str(tmp_path / "small"), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(outcome, int(size)) for outcome, size in map(str.split, done.stdout.splitlines())]


def long_header(unit, size, end, start=b'{"a":'):
    content = start + unit * ((size - len(start)) // len(unit)) + end
    return struct.pack("<Q", len(content)) + content


def long_description(unit, size):
    inner = header(info={"a": [1]}).replace("[1]", "[" + unit * (size // len(unit)) + "1]")
    return raw_bytes({}, text=inner)


MB = 1_000_000
HOSTILE = {
    "lists": lambda size: long_description("[],", size),
    "objects": lambda size: long_description("{},", size),
    "numbers": lambda size: long_description("1.5,", size),
    "texts": lambda size: long_description('"a",', size * 2 // 3),
    "shape": lambda size: long_header(b"1,", size, b"1]}}", b'{"factor":{"shape":['),
    "metadata": lambda size: long_header(b'"a":"",', size, b'"b":""}}', b'{"__metadata__":{'),
    "tensors": lambda size: long_header(
        b'"":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},', size, b"}", b"{"
    ),
    "brackets": lambda size: long_header(b"[", size, b""),
    "quotes": lambda size: long_header(b'"', size, b""),
    "escapes": lambda size: long_header(b'\\"', size, b"", b'"'),
}


needs_proc = pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="memory is read from Linux's /proc"
)


@needs_proc
def test_hostile_headers_take_no_more_memory_than_the_file(tmp_path):
    """A few times its size, where parsing takes up to 30 times; above 32 MB, nothing."""
    paths = []
    for kind, size in [*((kind, 9 * MB) for kind in HOSTILE), ("lists", 40 * MB)]:
        paths.append(tmp_path / f"{size} bytes of {kind}")
        paths[-1].write_bytes(HOSTILE[kind](size))
    for path, (outcome, memory) in zip(paths, memory_to_load(paths, tmp_path), strict=True):
        size = path.stat().st_size
        assert outcome == "refused", path.name
        assert memory < 2 * MB + (4.5 * size if size < 32 * MB else 0), path.name


@needs_proc
def test_a_large_file_takes_its_size_in_memory(tmp_path):
    """Mapped and copied: twice its size."""
    Metric(np.ones((10**6, 10), dtype=np.float32)).save(tmp_path / "large")
    [(outcome, memory)] = memory_to_load([tmp_path / "large"], tmp_path)
    assert outcome == "loaded"
    assert memory < 2.5 * 40 * MB


def test_what_cannot_be_read_back_is_not_written(tmp_path, monkeypatch):
    names = [f"feature {k}" for k in range(2000)]
    monkeypatch.setattr(metric_file, "_FREE_HEADER", 10_000)
    path = tmp_path / "m"
    with pytest.raises(ValueError, match=r"names and info of .* bytes over 2,000 .* do not fit"):
        Metric(None, 2000, names).save(path)
    wide = Metric(np.ones((2000, 10)), 2000, names)  # names may take as much as the numbers
    wide.save(path)
    assert Metric.load(path).feature_names == tuple(names)
    monkeypatch.setattr(metric_file, "_FREE_HEADER", 10**6)
    monkeypatch.setattr(metric_file, "_FREE_TOKENS", 100)
    with pytest.raises(ValueError, match="save it without feature names, and with less in info"):
        Metric(None, 2000, names).save(path)
    wide.save(path)
    assert Metric.load(path).feature_names == tuple(names)
    with pytest.raises(ValueError, match="do not fit in a metric file"):
        wide.with_info(many=[[]] * 3000).save(path)
    with pytest.raises(ValueError, match="over 2,147,483,648 features do not fit"):
        Metric(None, 2**31).save(path)
    assert os.listdir(tmp_path) == ["m"]
    assert Metric.load(path).rank == 10


@given(
    st.lists(st.text(max_size=6), max_size=8),
    st.recursive(
        st.none() | st.integers() | st.text(',"[]{}\\a', max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(',"[]{}\\', max_size=3), inner, max_size=3)
        ),
    ),
    st.booleans(),
)
def test_tokens_are_counted_as_a_parser_does(names, value, escaped):
    def tokens(item):
        if isinstance(item, str):
            return 1
        if isinstance(item, list):
            return 1 + sum(map(tokens, item)) + max(len(item) - 1, 0)
        if isinstance(item, dict):
            return tokens([part for pair in item.items() for part in pair]) - len(item)
        return 0

    item = [names, value]
    text = json.dumps(item, ensure_ascii=escaped)
    count = tokens(item)
    assert not metric_file._holds_more_tokens(text, count)
    assert metric_file._holds_more_tokens(text, count - 1)


def test_numpy_archive(tmp_path):
    path = tmp_path / "bad.metric"
    path.write_bytes(zip_bytes(tmp_path))
    with pytest.raises(ValueError, match=r"bad\.metric is not a metric file"):
        Metric.load(path)


@pytest.mark.parametrize(
    "make", [make_metric, lambda: make_metric(names=NAMES), make_cosine, make_tfidf, make_lifted]
)
def test_files_cut_short_at_any_length(make, tmp_path):
    make().save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    path = tmp_path / "bad.metric"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"bad\.metric "):
            Metric.load(path)


@given(st.data())
@pytest.mark.parametrize(
    "make", [lambda: make_metric(names=NAMES), make_cosine, make_tfidf, make_lifted]
)
def test_any_changed_byte_is_found_or_harmless(make, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("changed")
    make().save(folder / "m")
    content = bytearray((folder / "m").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "m").write_bytes(content)
    try:
        metric = Metric.load(folder / "m")
    except ValueError as error:
        assert str(folder / "m") in str(error)  # noqa: PT017 - loading is as good
    else:
        assert np.isfinite(metric.factor).all()
        assert metric.centre is None or np.isfinite(metric.centre).all()
        assert metric.idf is None or np.isfinite(metric.idf).all()
        if metric.lift is not None:
            assert np.isfinite(metric.lift.landmarks).all()
            assert 0 < metric.lift.gamma < np.inf


def test_folder(tmp_path):
    with pytest.raises(ValueError, match="is a folder, not a metric file"):
        Metric.load(tmp_path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.metric"):
        Metric.load(tmp_path / "nowhere.metric")


# --- the documented format --------------------------------------------------------------------

FORMAT = Path(__file__).parent.parent / "docs" / "file-format.md"


@pytest.fixture(scope="module")
def documented():
    """The reader that the documentation of the format ends with."""
    if not FORMAT.exists():
        pytest.skip("the documentation is not here: it is no part of a source package")
    code = FORMAT.read_text(encoding="utf-8").rpartition("```python\n")[2].partition("```")[0]
    found = {}
    exec(compile(code, FORMAT.name, "exec"), found)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("idf", [False, True])
def test_the_documented_reader(dtype, distance, identity, idf, documented, tmp_path):
    for centred in (False, True) if distance == "cosine" else (False,):
        metric = make_cosine(dtype, centred, identity)
        metric = Metric(metric.factor, 5, NAMES, INFO, metric.centre, distance)
        metric = metric.with_idf(np.arange(1, 6).astype(dtype)) if idf else metric
        metric.save(tmp_path / "m")
        found, tensors = documented["read_metric"](tmp_path / "m")
        assert len(found.pop("checksum")) == 64
        assert found == {
            "version": 2 if idf else 1,
            "n_features": 5,
            "feature_names": list(NAMES),
            "distance": distance,
            "info": KEPT,
        }
        rows = make_rows(6, counts=True)
        rows[2] = 0
        vectors = documented["transform"](rows, found, tensors)
        assert_allclose(vectors, metric.transform(rows), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cosine", [False, True])
def test_the_documented_reader_of_a_lift(dtype, cosine, documented, tmp_path):
    metric = make_lifted(dtype, cosine)
    metric.save(tmp_path / "m")
    found, tensors = documented["read_metric"](tmp_path / "m")
    assert len(found.pop("checksum")) == 64
    assert found == {
        "version": 3,
        "n_features": 5,
        "feature_names": list(NAMES),
        "distance": "cosine" if cosine else "euclidean",
        "gamma": 0.1,
        "info": KEPT,
    }
    rows = make_rows(6)
    vectors = documented["transform"](rows, found, tensors)
    assert_allclose(vectors, metric.transform(rows), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", list(NEWEST))
def test_the_documented_reader_of_version_4(kind, dtype, documented, tmp_path):
    metric = NEWEST[kind](dtype)
    metric.save(tmp_path / "m")
    found, tensors = documented["read_metric"](tmp_path / "m")
    assert found["version"] == 4
    assert ("before" in found) == (metric.before is not None)
    assert found.get("outside", 0.0) == metric.outside
    rows = make_rows(6, counts=True)
    vectors = documented["transform"](rows, found, tensors)
    assert_allclose(vectors, metric.transform(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [*BLOCKS, *SCALED])
def test_the_documented_reader_of_blocks(kind, documented, tmp_path):
    metric = (BLOCKS | SCALED)[kind]()
    metric.save(tmp_path / "m")
    found, tensors = documented["read_metric"](tmp_path / "m")
    rows = make_rows(6)
    rows[2] = 0
    rows[3, [0, 2]] = 0
    vectors = documented["transform"](rows, found, tensors)
    assert_allclose(vectors, metric.transform(rows), rtol=1e-6, atol=1e-12)
    assert_array_equal(Metric.load(tmp_path / "m").transform(rows), metric.transform(rows))


def test_the_documented_reader_refuses_a_newer_version(documented, tmp_path):
    (tmp_path / "m").write_bytes(file_bytes(version=9))
    with pytest.raises(ValueError, match="newer version"):
        documented["read_metric"](tmp_path / "m")


def test_the_documented_limits(documented):
    text = FORMAT.read_text(encoding="utf-8")
    for name in ("_LONGEST_HEADER", "_FREE_HEADER", "_HEADER_TOKENS", "_FREE_TOKENS"):
        assert f"{getattr(metric_file, name):,}" in text
    assert metric_file.MOST_FEATURES == 2**31 - 1
    assert "2³¹ − 1" in text


# --- saving in one step -----------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["replace", "fsync", "fdopen"])
@pytest.mark.parametrize("exists", [True, False])
def test_an_interrupted_save_leaves_what_was_there(error, call, exists, tmp_path, monkeypatch):
    path = tmp_path / "m"
    if exists:
        Metric(None, 2).save(path)

    def stop(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, call, stop)
        with pytest.raises(type(error)):
            make_metric().save(path)
    assert os.listdir(tmp_path) == (["m"] if exists else [])
    if exists:
        assert Metric.load(path).n_features == 2


def test_a_write_that_fails_half_way_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "m"
    Metric(None, 2).save(path)
    fdopen = os.fdopen

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            self.file.close()

        def write(self, content):
            self.file.write(content[: len(content) // 2])
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", lambda *args: Full(fdopen(*args)))
        with pytest.raises(OSError, match="No space left"):
            make_metric().save(path)
    assert os.listdir(tmp_path) == ["m"]
    assert Metric.load(path).n_features == 2


def test_interrupted_just_after_the_file_is_in_place(tmp_path, monkeypatch):
    replace = os.replace

    def late(*args):
        replace(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", late)
        with pytest.raises(KeyboardInterrupt):
            make_metric().save(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]
    assert Metric.load(tmp_path / "m").rank == 3


def test_info_that_json_cannot_hold(tmp_path):
    Metric(None, 2).save(tmp_path / "m")
    with pytest.raises(TypeError, match="not JSON serializable"):
        Metric(None, 3, info={"seed": object()}).save(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]
    assert Metric.load(tmp_path / "m").n_features == 2


def test_folders_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for path, error in [
        (tmp_path / "absent" / "m", FileNotFoundError),
        (tmp_path / "file" / "m", NotADirectoryError),
        (tmp_path, OSError),
    ]:
        with pytest.raises(error):
            make_metric().save(path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_unwritable_folder():
    """In a process of its own, which gives up the rights of root where it has them."""
    code = (
        "import os, sys; from dualmetric.io.atomic import write_atomically\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: write_atomically(sys.argv[1], b'x')\n"
        "except PermissionError: print('refused')"
    )
    # not in tmp_path, which no other user may enter
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        command = [sys.executable, "-c", code, os.path.join(folder, "m")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "refused\n"
        assert os.listdir(folder) == []


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002, 0o000])
def test_mode_honours_the_umask(umask, tmp_path):
    old = os.umask(umask)
    try:
        make_metric().save(tmp_path / "m")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o666 & ~umask


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "m", tmp_path / "link"
    Metric(None, 2).save(target)
    link.symlink_to(target)
    make_metric().save(link)
    assert link.is_symlink()
    assert Metric.load(target).rank == 3
    assert os.listdir(tmp_path / "folder") == ["m"]


def test_the_longest_name(tmp_path):
    path = tmp_path / ("m" * 255)
    make_metric().save(path)
    assert Metric.load(path).rank == 3
