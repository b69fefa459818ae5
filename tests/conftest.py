"""Fixtures that several test files share, and how Hypothesis runs."""

import numpy as np
import pytest
from hypothesis import settings

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
    """Random triples of three different rows."""

    def build(n_rows, n_triplets, rng, dtype=np.int32):
        picks = [rng.choice(n_rows, size=3, replace=False) for _ in range(n_triplets)]
        return np.array(picks, dtype=dtype).reshape(-1, 3)

    return build
