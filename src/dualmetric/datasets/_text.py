"""Documents as the paper has them: their most frequent words, then principal components.

The components are those of the centred training rows, found by subspace iteration from a random
start. X is never centred in memory, nor made dense: only its products are.
"""

import numpy as np
import scipy.sparse as sp

from .. import products
from .._system import require_memory, run_blocks
from .._types import Array, Rows
from ._catalog import Weighting

N_WORDS = 20_000  # the paper's
N_COMPONENTS = 1_000

_OVERSAMPLING = 100
_ITERATIONS = 4  # on tdt30 these keep 99.9 % of the variance that 10 keep
_BLOCK_COLUMNS = 64  # a block of 64 float32 columns of 10,000 rows is about a core's cache


def reduce(
    train: Rows, test: Rows, weighting: Weighting, seed: int, dtype: np.dtype
) -> tuple[Array, Array]:
    """Words → weights → principal components; all are found on the training rows alone."""
    # float32 holds any count
    train, test = (sp.csr_matrix(part, dtype=np.float32) for part in (train, test))
    words = most_frequent_words(train, N_WORDS)
    train, test = weighted(train[:, words], test[:, words], weighting)
    k = min(N_COMPONENTS, train.shape[1], train.shape[0] - 1)
    require_memory(
        ((train.shape[0] + test.shape[0]) * k + 4 * min(train.shape) * k) * 8,
        f"reducing {train.shape[0]:,} rows to {k:,} principal components",
        "Use a machine with more memory, or a smaller set.",
    )
    mean, V = principal_components(train, k, seed)
    V = V.astype(dtype)
    shift = (mean @ V).astype(dtype)
    train, test = (products.dot(part.astype(dtype), V) for part in (train, test))
    train -= shift
    test -= shift
    return train, test


def most_frequent_words(X: Rows, n_words: int) -> Array:
    """Columns of the words that the most rows have, in ascending order.

    Rows are counted, not occurrences: rcv30 comes weighted, so that only these can be counted.
    Of words that as many rows have, that of the lower column comes first.
    """
    rows_with = _rows_with(X)
    n_present = np.count_nonzero(rows_with)
    return np.sort(np.argsort(-rows_with, kind="stable")[: min(n_words, n_present)])


def _rows_with(X: Rows) -> Array:
    return np.bincount(X.indices[X.data != 0], minlength=X.shape[1])


def weighted(train: Rows, test: Rows, weighting: Weighting) -> tuple[Rows, Rows]:
    """Leave counts as they are, or weight them by ln(rows / rows with the word), unit or not."""
    if weighting == "counts":
        return train, test
    from sklearn.preprocessing import normalize

    idf = np.log(train.shape[0] / np.maximum(_rows_with(train), 1)).astype(train.dtype)
    train, test = (sp.csr_matrix(part @ sp.diags(idf)) for part in (train, test))
    if weighting == "tf-idf":
        return train, test
    return normalize(train), normalize(test)


def principal_components(X: Rows, k: int, seed: int) -> tuple[Array, Array]:
    """Return the mean of sparse rows X (n × d) and their k leading components (d × k), in float64.

    Subspace iteration with the smaller of the two Gram matrices of the centred rows, which is
    only ever multiplied with: K = XᵀX − nμμᵀ, or K = J XXᵀ J with J = I − 11ᵀ/n. It finds an
    orthonormal basis Q of nearly the leading eigenvectors; those of QᵀKQ then turn Q to them.
    The iteration is in float32, and the last step, which sets the accuracy of the result, in
    float64. Fewer components are given where the rows have fewer. The sign of each is such that
    its largest entry is positive.
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
    # what is left of directions without variance is rounding
    some = values > max(values[0], 0) * max(n, d) * np.finfo(np.float64).eps
    V = Q @ turn[:, some]
    if not tall:
        # Q spans left singular vectors: V = (JX)ᵀQ/σ
        V = products.dot(B, V - V.mean(axis=0)) / np.sqrt(values[some])
    largest = np.abs(V).argmax(axis=0)
    V *= np.where(V[largest, np.arange(V.shape[1])] < 0, -1.0, 1.0)
    return mean, V


def _gram_dot(B: Rows, Q: Array, mean: Array | None) -> Array:
    """K·Q for the centred rows: of B with their mean, or of Bᵀ where there is none.

    Threads take columns of Q, so that the result does not depend on how many there are.
    """
    if mean is None:
        Q = Q - Q.mean(axis=0)
    out = np.empty_like(Q, order="C")

    def columns(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK_COLUMNS):
            block = slice(first, min(first + _BLOCK_COLUMNS, stop))
            out[:, block] = products.tdot(B, products.dot(B, np.ascontiguousarray(Q[:, block])))

    run_blocks(columns, Q.shape[1], smallest=_BLOCK_COLUMNS)
    if mean is None:
        out -= out.mean(axis=0)
    else:
        mean = mean.astype(Q.dtype)
        out -= np.outer(B.shape[0] * mean, mean @ Q)
    return out
