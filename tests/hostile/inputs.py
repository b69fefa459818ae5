"""Rows, supervision and parameters that nobody should pass, and some that anybody might."""

import warnings

import numpy as np
import scipy.sparse as sp

from dualmetric._options import options_of
from dualmetric.supervision import Comparisons, Labels, Pairs, Positives, Relevance, Triplets

# Each entry is one line: the class, and settings that make it fast. Options are found by
# `options_of`, so that those of a new estimator are tried as soon as it is named here.
ESTIMATORS = {
    "DuRP": {"n_projections": 3, "n_triplets": 60},
    "DuOri": {"n_triplets": 60},
    "SRP": {"n_projections": 3, "n_triplets": 60},
    "SPCA": {"n_projections": 3, "n_triplets": 60},
    "OASIS": {"n_triplets": 60},
    "LMNN": {"max_iter": 20},
    "RidgeMetric": {},
    "Whitening": {},
    "Euclidean": {},
    "QueryMetric": {"n_triplets": 60, "max_epochs": 2},
    "MetricCV": {"n_triplets": 60, "n_projections": 3, "lifts": (None,), "powers": (0.0,)},
}
RARE = ("MetricCV",)  # slow: drawn less often
SLOW_WHEN_LARGE = ("max_epochs", "max_iter")  # a number of passes is done, however large

SIZES = (0, 1, 2, 3, 4, 6, 12, 30, 60)
WIDTHS = (1, 2, 3, 5, 8, 40, 200)
STRANGE = (
    *(float("nan"), float("inf"), -float("inf"), -1, 0, 1, 2, 0.5, -0.0, 1e308, 1e-308, 1e-30),
    *(10**30, 10**400, 2**63, "x", "", None, b"x", True, object(), dict, print),
    *([], [1], [0.5, None], (), {}, {"a": 1}, np.array([1, 2]), np.array(0.5), np.float32(0.1)),
    *(np.int8(3), np.bool_(True), 1j, range(3), slice(2), np.nan * 1j),
)


# --- rows -----------------------------------------------------------------------------------


def numbers(draw, n, d):
    """A dense array of n rows of d numbers, of one of many kinds."""
    rng = np.random.default_rng(draw.randrange(2**32))
    X = rng.standard_normal((n, d))
    kind = draw.choice(NUMBERS)
    with np.errstate(all="ignore"):
        return kind, NUMBERS_BY_NAME[kind](X, rng)


def _spot(X, value):
    if X.size:
        X.flat[X.size // 2] = value
    return X


NUMBERS_BY_NAME = {
    "normal": lambda X, rng: X,
    "clusters": lambda X, rng: X + 4 * (np.arange(len(X)) % 3)[:, None],
    "zeros": lambda X, rng: X * 0,
    "constant": lambda X, rng: X * 0 + 3.5,
    "constant columns": lambda X, rng: np.where(np.arange(X.shape[1]) % 2, X, 1.0),
    "duplicates": lambda X, rng: X[np.arange(len(X)) // 3],
    "rank one": lambda X, rng: X[:, :1] * np.ones(X.shape[1]),
    "far from zero": lambda X, rng: X + 1e9,
    "very far from zero": lambda X, rng: X + 1e17,
    "large": lambda X, rng: X * 1e150,
    "huge": lambda X, rng: X * 1e300,
    "small": lambda X, rng: X * 1e-150,
    "tiny": lambda X, rng: X * 1e-310,
    "all scales": lambda X, rng: X * 10.0 ** rng.integers(-300, 300, X.shape[1]),
    "some scales": lambda X, rng: X * 10.0 ** rng.integers(-8, 8, X.shape[1]),
    "outlier": lambda X, rng: _spot(X, 1e300),
    "mild outlier": lambda X, rng: _spot(X, 1e8),
    "NaN": lambda X, rng: _spot(X, np.nan),
    "infinity": lambda X, rng: _spot(X, -np.inf),
    "counts": lambda X, rng: rng.poisson(0.5, X.shape).astype(float),
    "one hot": lambda X, rng: np.eye(max(X.shape))[: X.shape[0], : X.shape[1]],
    "sparse": lambda X, rng: np.where(rng.random(X.shape) < 0.8, 0.0, X),
    "negative zeros": lambda X, rng: np.where(X < 0, -0.0, X),
    "grid": lambda X, rng: np.rint(2 * X),
    "ties": lambda X, rng: (np.arange(X.size) % 2).reshape(X.shape).astype(float),
}
NUMBERS = (*NUMBERS_BY_NAME, *["normal", "clusters"] * 8)


def _csr(X):
    return sp.csr_matrix(np.where(np.isfinite(X), X, 0))


def _damaged(X, part, place, value):
    X = _csr(X)
    array = np.array(
        getattr(X, part), dtype=np.result_type(getattr(X, part), np.min_scalar_type(value))
    )
    if array.size:
        array[place % array.size] = value
    setattr(X, part, array)
    return X


def _frame(X, **more):
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(**more)


def _polars(X):
    pl = __import__("polars")
    return pl.DataFrame({f"x{i}": X[:, i] for i in range(X.shape[1])})


def _matrix(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.asmatrix(X)


def _strided(X):
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), 77.0)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


HOLDERS_BY_NAME = {
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "big endian": lambda X: X.astype(">f8"),
    "int64": lambda X: np.nan_to_num(X, posinf=0, neginf=0).clip(-1e18, 1e18).astype(np.int64),
    "uint8": lambda X: np.nan_to_num(X, posinf=0, neginf=0).clip(0, 255).astype(np.uint8),
    "bool": lambda X: X > 0,
    "objects": lambda X: X.astype(object),
    "text": lambda X: X.astype(str),
    "complex": lambda X: X.astype(complex),
    "dates": lambda X: np.zeros(X.shape, "datetime64[s]"),
    "list": lambda X: X.tolist(),
    "ragged": lambda X: [row[: 1 + i % 3].tolist() for i, row in enumerate(X)],
    "matrix": _matrix,
    "masked": lambda X: np.ma.masked_array(X, X > 1),
    "not masked": lambda X: np.ma.masked_array(X),
    "fortran": lambda X: np.asfortranarray(X),
    "strided": _strided,
    "reversed": lambda X: X[::-1].copy()[::-1],
    "read only": _read_only,
    "one dimension": lambda X: X.ravel(),
    "three dimensions": lambda X: X[None],
    "giant": lambda X: [[10**400] * X.shape[1]] * len(X),
    "None": lambda X: None,
    "number": lambda X: 3.5,
    "string": lambda X: "rows.csv",
    "dict": lambda X: {"X": X},
    "generator": lambda X: (row for row in X),
    "csr": _csr,
    "csr float32": lambda X: _csr(X).astype(np.float32),
    "csr array": lambda X: sp.csr_array(_csr(X)),
    "csc": lambda X: _csr(X).tocsc(),
    "coo": lambda X: _csr(X).tocoo(),
    "bsr": lambda X: _csr(X).tobsr(),
    "lil": lambda X: _csr(X).tolil(),
    "dok": lambda X: _csr(X).todok(),
    "dia": lambda X: _csr(X).todia(),
    "index out of range": lambda X: _damaged(X, "indices", 1, 10**8),
    "negative index": lambda X: _damaged(X, "indices", 1, -1),
    "fractional index": lambda X: _damaged(X, "indices", 1, 0.5),
    "indptr beyond": lambda X: _damaged(X, "indptr", -1, 10**6),
    "indptr falls": lambda X: _damaged(X, "indptr", 1, -5),
    "indptr starts late": lambda X: _damaged(X, "indptr", 0, 1),
    "NaN stored": lambda X: _damaged(X, "data", 0, np.nan),
    "csr of bool": lambda X: sp.csr_matrix(X > 0),
    "frame": _frame,
    "frame with text": lambda X: _frame(X, text="red"),
    "frame with dates": lambda X: _frame(X, date=np.datetime64("2020-01-01")),
    "frame with missing": lambda X: _frame(X, more=None),
    "frame of objects": lambda X: _frame(X.astype(object)),
    "polars": _polars,
}
HOLDERS = (*HOLDERS_BY_NAME, *["array", "float32", "csr", "frame"] * 8)


def rows(draw, n=None, d=None, plain=False):
    """Rows in some form, and words for them; ``plain`` ones are numbers in an array."""
    n = draw.choice(SIZES) if n is None else n
    d = draw.choice(WIDTHS) if d is None else d
    kind, X = numbers(draw, n, d)
    holder = draw.choice(HOLDERS[-8:] if plain else HOLDERS)
    with np.errstate(all="ignore"):
        try:
            held = HOLDERS_BY_NAME[holder](X)
        except (ImportError, ValueError, OverflowError):  # no such frame, or matrix, of no rows
            holder, held = "array", X
    return f"{n}×{d} {kind}, {holder}", held


# --- supervision ----------------------------------------------------------------------------


def _index(draw, n, width):
    """Row numbers: mostly right, sometimes not."""
    rng = np.random.default_rng(draw.randrange(2**32))
    count = draw.choice((1, 2, 10, 40))
    index = rng.integers(max(n, 1), size=(count, width))
    fault = draw.choice(
        ("none",) * 12
        + (
            "beyond",
            "negative",
            "float",
            "text",
            "flat",
            "empty",
            "wide",
            "nan",
            "sparse",
            "uint64",
            "same",
        )
    )
    changed = {
        "beyond": lambda: np.where(index == index.flat[0], n, index),
        "negative": lambda: index - 1,
        "float": lambda: index + 0.5,
        "text": lambda: index.astype(str),
        "flat": lambda: index.ravel(),
        "empty": lambda: index[:0],
        "wide": lambda: np.hstack([index, index]),
        "nan": lambda: np.where(index == 0, np.nan, index),
        "sparse": lambda: sp.csr_matrix(index),
        "uint64": lambda: index.astype(np.uint64) + np.uint64(2**63),
        "same": lambda: index * 0,
    }
    return changed.get(fault, lambda: index)()


def _values(draw, index, low=0.0):
    n = index.shape[0]
    rng = np.random.default_rng(draw.randrange(2**32))
    usual = rng.random(n) + low
    return draw.choice(
        (
            None,
            usual,
            usual,
            usual,
            usual * 0,
            -usual,
            usual[:-1],
            1e300 * usual,
            usual * np.nan,
            usual * np.inf,
            "x",
            2.5,
            usual > 0.5,
            [None] * n,
        )
    )


def _queries(draw, d):
    return draw.choice((None, None, rows(draw, d=d)[1], rows(draw, n=6, d=d)[1]))


def _comparisons(draw, n, d):
    index = _index(draw, n, 4)
    return Comparisons(index, _values(draw, index), _values(draw, index))


def _pairs(draw, n, d):
    index = _index(draw, n, 2)
    same = np.arange(index.shape[0]) % 2
    same = draw.choice((same, same, same == 1, 2 * same - 1, same * 0, same + 0.5, same[:-1], "x"))
    return Pairs(index, same, _values(draw, index))


def _relevance(draw, n, d):
    grades = np.random.default_rng(draw.randrange(2**32)).integers(4, size=(draw.choice((1, 5)), n))
    grades = draw.choice((grades, sp.csr_matrix(grades), grades - 2.5, grades * np.nan, grades * 0))
    queries = rows(draw, n=grades.shape[0], d=d)[1]
    return Relevance(grades, draw.choice((queries, queries, None)))


LABELS_BY_NAME = {
    "three classes": lambda n: np.arange(n) % 3,
    "two classes": lambda n: 2 * (np.arange(n) % 2) - 1,
    "one class": lambda n: np.zeros(n, int),
    "all different": lambda n: np.arange(n),
    "one class large": lambda n: (np.arange(n) == 0).astype(int),
    "text": lambda n: np.array([f"c{i % 3}" for i in range(n)], dtype=object),
    "unicode": lambda n: np.array(["ü", "深", ""])[np.arange(n) % 3],
    "bool": lambda n: np.arange(n) % 2 == 0,
    "floats": lambda n: (np.arange(n) % 3).astype(float),
    "fractions": lambda n: np.arange(n) / 7,
    "NaN": lambda n: np.where(np.arange(n) == 0, np.nan, np.arange(n) % 2),
    "infinity": lambda n: np.where(np.arange(n) == 0, np.inf, np.arange(n) % 2),
    "None inside": lambda n: np.array([None, *(np.arange(n) % 2)], dtype=object)[:n],
    "mixed": lambda n: np.array(["a", 1, 2.5] * n, dtype=object)[:n],
    "lists": lambda n: [[1]] * n,
    "too few": lambda n: np.arange(max(n - 1, 0)) % 2,
    "too many": lambda n: np.arange(n + 1) % 2,
    "column": lambda n: (np.arange(n) % 3)[:, None],
    "three columns": lambda n: np.zeros((n, 3), int),
    "sparse": lambda n: sp.csr_matrix(np.ones((max(n, 1), 1))),
    "masked": lambda n: np.ma.masked_array(np.arange(n) % 2, np.arange(n) < 1),
    "large": lambda n: (np.arange(n) % 2).astype(np.uint64) + np.uint64(2**63),
    "dates": lambda n: np.array(["2020-01-01", "NaT"], "datetime64[D]")[np.arange(n) % 2],
    "bytes": lambda n: np.array([b"a", b"b"])[np.arange(n) % 2],
    "list": lambda n: (np.arange(n) % 3).tolist(),
    "None": lambda n: None,
    "name": lambda n: "x0",
    "number": lambda n: 3,
}
# one line per kind of supervision
KNOWN_BY_NAME = {
    "Labels": lambda draw, n, d: Labels(_labels(draw, n), draw.choice((None, 0, -1, "a"))),
    "Triplets": lambda draw, n, d: Triplets(_index(draw, n, 3)),
    "Comparisons": _comparisons,
    "Pairs": _pairs,
    "Positives": lambda draw, n, d: Positives(_index(draw, n, 2), _queries(draw, d)),
    "Relevance": _relevance,
}


def _labels(draw, n):
    return LABELS_BY_NAME[draw.choice((*LABELS_BY_NAME, *["three classes"] * 20))](n)


def supervision(draw, n, d, plain=False):
    """What is passed as y, and words for it; ``plain`` is labels of a few classes."""
    if plain:
        name = draw.choice(list(LABELS_BY_NAME)[:2])
        return name, LABELS_BY_NAME[name](n)
    if draw.random() < 0.7:
        name = draw.choice((*LABELS_BY_NAME, *["three classes"] * 25))
        return name, LABELS_BY_NAME[name](n)
    name = draw.choice(list(KNOWN_BY_NAME))
    return name, KNOWN_BY_NAME[name](draw, n, d)


# --- parameters -----------------------------------------------------------------------------


def _allowed(draw, option):
    """A value that the declaration allows."""
    if option.optional and draw.random() < 0.2:
        return None
    if option.choices is not None:
        return draw.choice(option.choices)
    if option.kind == "bool":
        return draw.random() < 0.5
    if option.kind not in ("int", "float"):
        return None
    low = 0 if option.low is None else option.low
    high = low + 20 if option.high is None else option.high
    if option.kind == "int":
        return draw.randint(int(low), int(high))
    return draw.choice(
        (low + 1e-9, low + 1e-3, 0.5 * (low + high), float(high), draw.uniform(low, high))
    )


def parameters(draw, made, name):
    """Settings of an estimator: fast ones, with some changed."""
    settings = {**ESTIMATORS[name], "random_state": 0}
    declared = options_of(made)
    settings = {key: value for key, value in settings.items() if key in declared}
    for _ in range(draw.choice((0, 0, 1, 1, 2, 3))):
        key = draw.choice([key for key in declared if key != "verbose"])
        value = _allowed(draw, declared[key]) if draw.random() < 0.6 else draw.choice(STRANGE)
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if key in SLOW_WHEN_LARGE and is_number and not abs(value) < 20:
            value = 20
        settings[key] = value
    return settings
