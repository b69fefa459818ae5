r"""Lift: rows mapped to kernel features, so that a linear metric there is a non-linear one here.

With landmarks z₁ … z_q drawn from the training rows, a row becomes its kernel values

.. math:: k(x) = \bigl(e^{-\gamma\|x - z_1\|^2}, …, e^{-\gamma\|x - z_q\|^2}\bigr),

and Nyström's features are φ(x) = k(x)N with N = UΛ^−½ from the landmarks' own kernel matrix UΛUᵀ:
φ(x)ᵀφ(x′) is near the kernel of x and x′. A metric learned on φ is kept as the factor NL of k(x).
"""

from dataclasses import dataclass

import numpy as np

from . import matrices, products
from ._namespace import is_device_array, like, namespace, precision
from ._types import Array, Rows

LANDMARKS = 2000
"""Landmarks drawn where there are as many rows."""

_SMALLEST = 1e-5  # eigenvalues of the landmarks' kernel kept, relative to the largest
_PAIRS = 10_000  # of rows whose distances give the width of the kernel
_BLOCK_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class Lift:
    """Gaussian kernel values with landmarks.

    Attributes
    ----------
    landmarks : ndarray of shape (q, n_features)
        z.
    gamma : float
        γ.
    """

    landmarks: Array
    gamma: float

    def apply(self, rows: Array, factor: Array) -> Array:
        """k(x)·factor for each row, a block of rows at a time; where the rows are."""
        if is_device_array(rows):
            from ._device import kernel_dot

            return kernel_dot(rows, self.landmarks, self.gamma, factor)
        landmarks = self.landmarks.astype(rows.dtype, copy=False)
        factor = factor.astype(rows.dtype, copy=False)
        # squares of rows far from zero would drown their differences
        origin = landmarks.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        landmarks = landmarks - origin
        norms = np.einsum("ij,ij->i", landmarks, landmarks)
        out = np.empty((rows.shape[0], factor.shape[1]), dtype=rows.dtype)
        height = max(1, _BLOCK_BYTES // (len(landmarks) * rows.dtype.itemsize))
        for start in range(0, rows.shape[0], height):
            block = rows[start : start + height] - origin
            values = block @ landmarks.T
            values *= -2
            values += norms
            values += np.einsum("ij,ij->i", block, block)[:, None]
            np.maximum(values, 0, out=values)
            values *= rows.dtype.type(-self.gamma)
            np.exp(values, out=values)
            np.matmul(values, factor, out=out[start : start + height])
        return out


def rbf_lift(X: Rows, rng: np.random.Generator, n_landmarks: int = LANDMARKS) -> tuple[Lift, Array]:
    """Landmarks from the rows of X, a width from their distances, and Nyström's N.

    γ is one over the median squared distance of rows, to three digits: more do not matter, and so
    it is the same wherever it is computed.
    """
    if products.is_sparse(X):
        raise ValueError(
            "lift='rbf' is for dense rows of few features: sparse rows are in many dimensions "
            "already; use lift=None"
        )
    n = X.shape[0]
    chosen = np.sort(rng.choice(n, min(n, n_landmarks), replace=False))
    left, right = rng.integers(n, size=(2, _PAIRS))
    apart = left != right
    median = float(np.median(products.sq_distances(X, left[apart], right[apart])))
    if median == 0.0:
        raise ValueError(
            "half of the pairs of rows are equal, so that the rows have no typical distance to "
            "lift by: remove duplicates, or use lift=None"
        )
    limits = np.finfo(precision(X))
    if not float(limits.tiny) ** 0.8 < median < float(limits.max) ** 0.8:
        raise ValueError(
            "the numbers in X are too large or too small for their precision: bring them near 1, "
            "for example with StandardScaler, or pass float64"
        )
    landmarks = products.take_rows(X, chosen)
    lift = Lift(landmarks, float(f"{1.0 / median:.3g}"))
    # in float64: vectors of near eigenvalues would turn with every rounding
    wide = namespace(X).asarray(landmarks, dtype=namespace(X).float64)
    K = lift.apply(wide, like(np.eye(len(chosen)), wide))
    values, vectors = matrices.eigh(0.5 * (K + K.T))
    keep = np.flatnonzero(values > _SMALLEST * values[-1])
    nystroem = products.take_columns(vectors, keep)
    return lift, like(nystroem / like(np.sqrt(values[keep]), nystroem), X)
