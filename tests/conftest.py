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


@pytest.fixture(autouse=True)
def same_numbers_every_time():
    """Seed what ``random_state=None`` draws from: a test passes always or never."""
    np.random.seed(0)  # noqa: NPY002


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


# --- Dask, imported only by the tests that need it -------------------------------------------


@pytest.fixture
def dask_in_one_thread():
    """Run in this thread, unless a test asks for a cluster."""
    import dask

    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture
def vectors(tmp_path):
    """A Parquet file with a column of vectors, in row groups of ten, as Dask reads it."""
    import dask.dataframe as dd
    import pandas as pd

    def build(rows, y, **options):
        pd.DataFrame({"v": list(rows), "label": y}).to_parquet(
            tmp_path / "rows.parquet", row_group_size=10
        )
        return dd.read_parquet(tmp_path / "rows.parquet", split_row_groups=True, **options)

    return build


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes."""
    import dask

    distributed = pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "60s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0
        ) as made,
        distributed.Client(made, set_as_default=False, timeout="60s") as client,
    ):
        yield client


@pytest.fixture
def on_cluster(cluster):
    import dask

    cluster.wait_for_workers(2, timeout=120)
    with cluster.as_current(), dask.config.set(scheduler=None):
        yield cluster
