"""What the library computes fast, written out slowly from the definitions."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


def comparison_matrices(X, index):
    """A_t = ppᵀ − qqᵀ of comparisons (a, b, c, d), with p = x_c − x_d and q = x_a − x_b."""
    X = np.asarray(X, dtype=np.float64)
    a, b, c, d = np.asarray(index).T
    p, q = X[c] - X[d], X[a] - X[b]
    return np.einsum("ti,tj->tij", p, p) - np.einsum("ti,tj->tij", q, q)


def weighted_sum(X, index, weight):
    """Σ weight_t·A_t."""
    return np.einsum("t,tij->ij", np.float64(weight), comparison_matrices(X, index))


def inner(M, A):
    """⟨M, A_t⟩ for every t."""
    return np.einsum("ij,tij->t", M, A)


def positive_semidefinite(M, rank=None):
    """The nearest positive semi-definite matrix, or the nearest of the given rank."""
    values, vectors = np.linalg.eigh(M)
    values = np.maximum(values, 0.0)
    if rank is not None:
        values[:-rank] = 0.0
    return (vectors * values) @ vectors.T


def primal(M, M0, A, margin, weight, loss, reg):
    """λ/2·‖M − M₀‖² + 1/N·Σ w_t·ℓ(⟨M, A_t⟩ + 1 − b_t)."""
    losses = weight * loss.value(inner(M, A) + 1.0 - margin)
    return 0.5 * reg * np.sum((M - M0) ** 2) + losses.mean()


def dual(beta, A, margin, weight, loss, reg):
    """−1/N·Σ [w_t·ℓ_*(−β_t/w_t) − β_t(b_t − 1)] − 1/(2λN²)·‖Σ β_t A_t‖²."""
    n = len(A)
    V = np.einsum("t,tij->ij", beta, A)
    conjugate = weight * loss.conjugate(beta / weight) - beta * (margin - 1.0)
    return -conjugate.mean() - np.sum(V**2) / (2.0 * reg * n**2)


def maximise_dual(A, margin, weight, loss, reg):
    """The maximum of the dual by L-BFGS-B, and its maximiser."""
    n = len(A)
    G = np.einsum("sab,tab->st", A, A)

    def negative(beta):
        push = G @ beta / (reg * n**2)
        share = beta / weight
        slope = np.log(share / (1.0 - share)) if loss.logistic else loss.smoothing * share - 1.0
        return -dual(beta, A, margin, weight, loss, reg), (slope + 1.0 - margin) / n + push

    low, high = (1e-12, 1.0 - 1e-12) if loss.logistic else (0.0, loss.upper)
    found = minimize(
        negative,
        0.5 * weight,
        jac=True,
        method="L-BFGS-B",
        bounds=[(low * w, None if np.isinf(high) else high * w) for w in weight],
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return -found.fun, found.x


def minimise_primal(M0, A, margin, weight, loss, reg):
    """The symmetric M that minimises `primal`: by BFGS, and by the dual for the hinge."""
    n, d, _ = A.shape
    if not loss.logistic and loss.smoothing == 0.0:
        _, beta = maximise_dual(A, margin - inner(M0, A), weight, loss, reg)
        return M0 + np.einsum("t,tij->ij", beta, A) / (reg * n)

    def value_and_slope(flat):
        M = flat.reshape(d, d)
        z = inner(M, A) + 1.0 - margin
        if loss.logistic:
            slope = -expit(-z)
        else:
            slope = -np.clip((1.0 - z) / loss.smoothing, 0.0, loss.upper)
        gradient = reg * (M - M0) + np.einsum("t,tij->ij", weight * slope, A) / n
        return primal(M, M0, A, margin, weight, loss, reg), gradient.ravel()

    # both the start and every gradient are symmetric, and so is every step
    found = minimize(
        value_and_slope, np.ravel(M0), jac=True, method="BFGS", options={"gtol": 1e-11}
    )
    assert np.abs(found.jac).max() < 1e-6
    return found.x.reshape(d, d)


def dual_step(loss, beta, margin, curvature):
    """The best value of one dual variable β, with the margin ⟨M, A_t⟩ and ‖A_t‖²/(λN) at it."""
    if loss.logistic:
        # log((1−b)/b) = margin + (b − beta)·curvature by bisection in t = log((1−b)/b)
        low, high = margin - beta * curvature, margin + (1.0 - beta) * curvature
        for _ in range(200):
            t = 0.5 * (low + high)
            if margin + (expit(-t) - beta) * curvature > t:
                low = t
            else:
                high = t
        return float(expit(-t))
    bend = loss.smoothing + curvature
    if bend == 0.0:  # linear: A_t = 0 under the hinge
        return loss.upper if margin < 1.0 else 0.0
    step = beta + (1.0 - margin - loss.smoothing * beta) / bend
    return min(max(step, 0.0), loss.upper)


def random_comparisons(n_rows, n, rng, dtype=np.int32):
    """Random comparisons of four different rows, the last third of them triplets (i, j, i, k)."""
    index = np.array([rng.choice(n_rows, size=4, replace=False) for _ in range(n)], dtype=dtype)
    index = index.reshape(-1, 4)
    index[2 * n // 3 :, 2] = index[2 * n // 3 :, 0]
    return index
