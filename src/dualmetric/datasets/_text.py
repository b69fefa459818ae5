"""Documents as in the paper: their most frequent words, then principal components."""

import numpy as np
import scipy.sparse as sp

from .._arrays import ops
from .._arrays.system import require_memory, run_blocks
from .._types import Array, Matrix

N_WORDS = 20_000  # the paper's
N_COMPONENTS = 1_000

_OVERSAMPLING = 100
_ITERATIONS = 4  # on tdt30 they keep 99.9 % of the variance that 10 iterations keep
_BLOCK_COLUMNS = 64  # 64 float32 columns of 10,000 rows fit the cache of a core


def reduce(train: Matrix, test: Matrix, seed: int, dtype: np.dtype) -> tuple[Array, Array]:
    """Words → principal components; both are found from the training rows only."""
    # float32 holds any count
    train, test = (sp.csr_matrix(part, dtype=np.float32) for part in (train, test))
    words = most_frequent_words(train, N_WORDS)
    train, test = train[:, words], test[:, words]
    k = min(N_COMPONENTS, train.shape[1], train.shape[0] - 1)
    require_memory(
        ((train.shape[0] + test.shape[0]) * k + 4 * min(train.shape) * k) * 8,
        f"reducing {train.shape[0]:,} rows to {k:,} principal components",
        "Use a machine with more memory, or a smaller set.",
    )
    mean, V = principal_components(train, k, seed)
    V = V.astype(dtype)
    shift = (mean @ V).astype(dtype)
    train, test = (ops.dot(part.astype(dtype), V) for part in (train, test))
    train -= shift
    test -= shift
    return train, test


def most_frequent_words(X: Matrix, n_words: int) -> Array:
    """Columns of the words that occur in most rows, ascending; of equal ones, the first."""
    # rows are counted, not occurrences, since rcv30 comes weighted
    rows_with = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
    n_present = np.count_nonzero(rows_with)
    return np.sort(np.argsort(-rows_with, kind="stable")[: min(n_words, n_present)])


def principal_components(X: Matrix, k: int, seed: int) -> tuple[Array, Array]:
    """Return the mean of sparse rows X (n × d) and their k leading components (d × k), in float64.

    Subspace iteration with the smaller of the two Gram matrices of the centred rows, which is
    never written out: K = XᵀX − nμμᵀ, or K = J XXᵀ J with J = I − 11ᵀ/n. The iteration is in
    float32; the last step, which decides the accuracy, is in float64. Fewer components are returned
    if the rows have fewer. The largest entry of each is positive.
    """
    n, d = X.shape
    mean = np.asarray(X.T @ np.ones(n)) / n
    tall = n >= d
    B = sp.csr_matrix(X if tall else X.T, dtype=np.float32)
    width = min(k + _OVERSAMPLING, n, d)
    Q = np.random.default_rng(seed).standard_normal((B.shape[1], width), dtype=np.float32)
    for _ in range(_ITERATIONS):
        Q = np.linalg.qr(_gram_dot(B, Q, mean if tall else None))[0]
    B = B.astype(np.float64)
    Q = np.linalg.qr(Q.astype(np.float64))[0]
    T = Q.T @ _gram_dot(B, Q, mean if tall else None)
    values, turn = np.linalg.eigh((T + T.T) / 2)
    values, turn = values[::-1][:k], turn[:, ::-1][:, :k]
    # directions without variance consist of rounding errors only
    some = values > max(values[0], 0) * max(n, d) * np.finfo(np.float64).eps
    V = Q @ turn[:, some]
    if not tall:
        # Q spans left singular vectors: V = (JX)ᵀQ/σ
        V = ops.dot(B, V - V.mean(axis=0)) / np.sqrt(values[some])
    largest = np.abs(V).argmax(axis=0)
    V *= np.where(V[largest, np.arange(V.shape[1])] < 0, -1.0, 1.0)
    return mean, V


def _gram_dot(B: Matrix, Q: Array, mean: Array | None) -> Array:
    """K·Q for the centred rows: of B with their mean, or of Bᵀ where there is none."""
    if mean is None:
        Q = Q - Q.mean(axis=0)
    out = np.empty_like(Q, order="C")

    # threads take columns of Q, so that the result does not depend on how many there are
    def columns(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK_COLUMNS):
            block = slice(first, min(first + _BLOCK_COLUMNS, stop))
            out[:, block] = ops.tdot(B, ops.dot(B, np.ascontiguousarray(Q[:, block])))

    run_blocks(columns, Q.shape[1], smallest=_BLOCK_COLUMNS)
    if mean is None:
        out -= out.mean(axis=0)
    else:
        mean = mean.astype(Q.dtype)
        out -= np.outer(B.shape[0] * mean, mean @ Q)
    return out
