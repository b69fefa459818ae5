"""Data that several test files learn from, and the same data in other forms."""

import numpy as np
import scipy.sparse as sp

from dualmetric import Metric
from dualmetric.lift import Lift

NAMES = ("width", "höhe", "深さ", "", "💡")
INFO = {"method": "DuRP", "parameters": {"reg": None, "scale": True, "tol": 0.5}, "ü": [1, "β"]}


# --- rows that are not in memory --------------------------------------------------------


class Stored:
    """What HDF5 and Zarr arrays have in common; it remembers which slices were read."""

    def __init__(self, array, *, ends_at=None, shape=None, chunks=None):
        self._array, self._ends_at = array, ends_at
        self.shape, self.dtype = shape or array.shape, array.dtype
        self.chunks = chunks if chunks is not None else getattr(array, "chunks", None)
        self.read = []

    def __getitem__(self, key):
        assert isinstance(key, slice), "rows are read by slices only"
        assert key.step in (None, 1)
        self.read.append((key.start, min(key.stop, self.shape[0])))
        if self._ends_at is None:
            return self._array[key]
        return self._array[: self._ends_at][key].copy()

    def __len__(self):
        return self.shape[0]

    @property
    def largest_read(self):
        return max(stop - start for start, stop in self.read)


# --- rows with labels -----------------------------------------------------------------------


def make_classes(n=60, d=12, n_classes=3, shift=3.0, spread=1.0, seed=0, dtype=np.float64):
    """Classes that differ by ``shift`` in the first two features; the others are noise.

    ``spread`` is the standard deviation of all features, or of each.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d)) * spread
    X[:, 0] += shift * (y % 2)
    X[:, 1] += shift * (y // 2)
    return X.astype(dtype), y


def make_clusters(n=60, d=6, n_classes=4, apart=1.0, seed=0):
    """Classes around random centres that are ``apart``, overlapping, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    return apart * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d)), y


def make_sparse(n=60, d=30, seed=0, dtype=np.float64):
    """Rows of `make_classes`, most of their entries zero, as CSR. Row 4 is empty."""
    X, y = make_classes(n, d, seed=seed, dtype=dtype)
    X[np.random.default_rng(seed).random((n, d)) > 0.4] = 0.0
    X[4] = 0.0
    return sp.csr_array(X), y


def make_wide(n=2500, d=5000, per_row=8, seed=0, dtype=np.float64):
    """Sparse rows of three classes, ten features typical of each.

    By default there are more features than are written out as a matrix, and more rows than are
    replaced by their span.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    columns = rng.integers(30, d, size=(n, per_row))
    columns[:, :2] = 10 * y[:, None] + rng.integers(10, size=(n, 2))
    values = rng.random(n * per_row) + 0.5
    X = sp.csr_matrix((values, (np.repeat(np.arange(n), per_row), columns.ravel())), shape=(n, d))
    return X.astype(dtype), y


def make_counts(n=60, d=40, seed=0, dtype=np.float64):
    """Counts of words as CSR: five words are frequent in each of three classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    rates = np.full((3, d), 0.4)
    rates[:, :15] += 1.1 * np.eye(3).repeat(5, axis=1)
    return sp.csr_matrix(rng.poisson(rates[y]).astype(dtype)), y


# --- rows without labels --------------------------------------------------------------------


def make_rows(n, d=5, dtype=np.float64, seed=1, counts=False):
    """Normal numbers, the small ones replaced by zero; or counts."""
    rng = np.random.default_rng(seed)
    if counts:
        return rng.poisson(1.0, (n, d)).astype(dtype)
    X = rng.standard_normal((n, d))
    X[np.abs(X) < 0.5] = 0.0
    return X.astype(dtype)


def random_index(n_rows, n_triplets, rng, dtype=np.int32):
    """Random triples of three different rows."""
    picks = [rng.choice(n_rows, size=3, replace=False) for _ in range(n_triplets)]
    return np.array(picks, dtype=dtype).reshape(-1, 3)


# --- metrics --------------------------------------------------------------------------------


def make_metric(
    kind="euclidean", *, dtype=np.float64, rank=3, d=5, names=None, idf=False, n_landmarks=0
):
    """A metric with random directions; the identity where ``rank`` is None.

    ``kind`` is "euclidean", "cosine" or "cosine, centred". With ``n_landmarks``, it has a lift.
    """
    rng = np.random.default_rng(0)
    factor = None if rank is None else rng.standard_normal((n_landmarks or d, rank)).astype(dtype)
    centre = rng.standard_normal(rank or d).astype(dtype) if "centred" in kind else None
    weights = np.linspace(1, 3, d).astype(dtype) if idf else None
    lift = Lift(rng.standard_normal((n_landmarks, d)).astype(dtype), 0.1) if n_landmarks else None
    return Metric(factor, d, names, INFO, centre, kind.partition(",")[0], weights, lift)


def make_cosine(dtype=np.float64, centred=True, identity=False, rank=3, d=5):
    """`make_metric` with the cosine distance."""
    kind = "cosine, centred" if centred else "cosine"
    return make_metric(kind, dtype=dtype, rank=None if identity else rank, d=d)


# --- the same numbers, held differently -----------------------------------------------------


def as_kind(X, kind):
    """X as the kind of array with this name."""
    return {"dense": np.asarray, "csr": sp.csr_matrix, "csr_array": sp.csr_array}[kind](X)


def laid_out(X, layout):
    """A dense X with another layout in memory."""
    if layout == "fortran":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.full((2 * X.shape[0], 3 * X.shape[1]), 77, dtype=X.dtype)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    if layout == "reversed":
        return X[::-1].copy()[::-1]
    X = np.ascontiguousarray(X)
    if layout == "read-only":
        X = X.copy()
        X.flags.writeable = False
    return X


def as_csr(X, index_dtype=np.int64):
    """A CSR matrix whose indices have the given type."""
    X = sp.csr_matrix(X, copy=True)
    X.indices, X.indptr = X.indices.astype(index_dtype), X.indptr.astype(index_dtype)
    return X


def unsorted(X):
    """CSR with the indices of each row in reverse order."""
    order = np.concatenate(
        [np.arange(a, b)[::-1] for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    )
    return sp.csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)


def duplicated(X):
    """CSR with every entry stored as two halves."""
    return sp.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), X.indptr * 2), shape=X.shape
    )


def explicit_zeros(X, per_row=20):
    """CSR with zeros stored in about ``per_row`` places of each row."""
    n, d = X.shape
    X = X.tocoo()
    rows = np.r_[X.row, np.repeat(np.arange(n), per_row)]
    columns = np.r_[X.col, np.random.default_rng(0).integers(d, size=n * per_row)]
    values = np.r_[X.data, np.zeros(n * per_row, X.dtype)]
    stored = sp.coo_array((values, (rows, columns)), X.shape).tocsr()
    assert (stored.data == 0).sum() > n
    return stored
