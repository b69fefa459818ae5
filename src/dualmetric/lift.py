r"""Lift: rows mapped to kernel features; a linear metric of these is non-linear in the rows.

With landmarks z₁ … z_q drawn from the training rows, a row becomes its kernel values

.. math:: k(x) = \bigl(e^{-\gamma\|x - z_1\|^2}, …, e^{-\gamma\|x - z_q\|^2}\bigr),

and Nyström's features are φ(x) = k(x)N with N = UΛ^−½ from the landmarks' own kernel matrix UΛUᵀ:
φ(x)ᵀφ(x′) is near the kernel of x and x′. A metric learned on φ is kept as the factor NL of k(x).
"""

from dataclasses import dataclass

import numpy as np

from ._arrays import eigen, ops
from ._arrays.namespace import blocks_of, like, namespace, precision, to_numpy
from ._types import Matrix

LANDMARKS = 2000
"""Number of landmarks, if there are as many rows."""

SPARSE_FEATURES = 4000
"""Features of sparse rows, at most: landmarks are dense."""

_SMALLEST = 1e-5  # eigenvalues of the landmarks' kernel kept, relative to the largest
_PAIRS = 10_000  # of rows whose distances give the width of the kernel


@dataclass(frozen=True, eq=False)
class Lift:
    """Gaussian kernel values with landmarks."""

    landmarks: Matrix  # (q, n_features): z
    gamma: float  # γ

    def apply(self, rows: Matrix, factor: Matrix | None = None) -> Matrix:
        """k(x)·factor for each row, a block of rows at a time, on the device of the rows.

        Without a factor it is k(x). Blocks of sparse rows are written out.
        """
        xp = namespace(rows)
        landmarks = like(self.landmarks, rows)
        factor = None if factor is None else like(factor, rows)
        # squares of rows far from zero would drown their differences
        origin = ops.column_means(landmarks)[None, :]
        landmarks = landmarks - origin
        norms = xp.vecdot(landmarks, landmarks)[None, :]
        parts = []
        held = (landmarks.shape[0] + rows.shape[1]) * precision(rows).itemsize
        for part in blocks_of(rows, rows.shape[0], held // 2):
            block = ops.to_dense(rows[part, :]) - origin
            values = ops.threaded_dot(block, landmarks.T)
            values *= -2.0
            values += norms
            values += xp.vecdot(block, block)[:, None]
            values = xp.maximum(values, xp.zeros_like(values))
            values *= -self.gamma
            values = xp.exp(values)
            parts.append(values if factor is None else ops.threaded_dot(values, factor))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def rbf_lift(
    X: Matrix, rng: np.random.Generator, n_landmarks: int = LANDMARKS
) -> tuple[Lift, Matrix]:
    """Landmarks from the rows of X, a width from their distances, and Nyström's N.

    γ is one over the median squared distance of rows, rounded to three digits, so that it is the
    same wherever it is computed.
    """
    if X.shape[1] > SPARSE_FEATURES:
        ops.require_dense(
            X,
            f"lift='rbf' is for rows with few features: sparse rows may have {SPARSE_FEATURES:,} "
            f"at most, but X has {X.shape[1]:,}; use lift=None",
        )
    n = X.shape[0]
    chosen = np.sort(rng.choice(n, min(n, n_landmarks), replace=False))
    left, right = rng.integers(n, size=(2, _PAIRS))
    apart = left != right
    median = float(np.median(ops.sq_distances(X, left[apart], right[apart])))
    if median == 0.0:
        raise ValueError(
            "at least half of all pairs of rows are duplicates, so the width of the kernel cannot "
            "be chosen: remove duplicates, or use lift=None"
        )
    ops.check_range(median, X)
    landmarks = ops.to_dense(ops.take_rows(X, chosen))
    lift = Lift(landmarks, float(f"{1.0 / median:.3g}"))
    # in float64: vectors of near eigenvalues would turn with every rounding
    landmarks64 = namespace(X).astype(landmarks, namespace(X).float64)
    with np.errstate(over="ignore"):
        longest = float(to_numpy(ops.row_lengths(landmarks64)).max())
    ops.check_range(longest * longest, X)
    K = lift.apply(landmarks64)
    values, vectors = eigen.eigh(0.5 * (K + K.T))
    keep = np.flatnonzero(values > _SMALLEST * values[-1])
    nystroem = ops.take_columns(vectors, keep)
    return lift, like(nystroem / like(np.sqrt(values[keep]), nystroem), X)
