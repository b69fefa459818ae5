"""Fixtures that several test files share, and how Hypothesis runs."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # one worker per core: more threads in each would only wait for each other
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, "1")

import numpy as np
import pytest
from hypothesis import settings

import makers

settings.register_profile("dualmetric", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("dualmetric")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def triplet_matrices():
    """The paper's A_t = (x_i − x_k)(x_i − x_k)ᵀ − (x_i − x_j)(x_i − x_j)ᵀ, written out."""

    def build(X, index):
        X = np.asarray(X, dtype=np.float64)
        p = X[index[:, 0]] - X[index[:, 2]]
        q = X[index[:, 0]] - X[index[:, 1]]
        return np.einsum("ta,tb->tab", p, p) - np.einsum("ta,tb->tab", q, q)

    return build


@pytest.fixture(scope="session")
def random_index():
    """The maker of this name."""
    return makers.random_index
