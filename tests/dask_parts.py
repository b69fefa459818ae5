"""What the tests of Dask share: data in other forms, and a worker that dies."""

import os
import signal
import time

import numpy as np
import pytest

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

CHUNKS = [(60, 12), (25, 12), (7, 5), ((0, 13, 0, 46, 1, 0), 12)]


def frame(X, y, names="abc"):
    made = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    return made.assign(label=np.array(list(names))[y])


class Recorded:
    """A Dask array whose blocks remember that they were read."""

    def __init__(self, X, chunks):
        self.read = []
        self.array = da.from_array(X, chunks=chunks).map_blocks(self._remember, dtype=X.dtype)
        self.read.clear()

    def _remember(self, block, block_info=None):
        if block_info:
            self.read.append(block_info[0]["chunk-location"][0])
        return block

    def __dask_tokenize__(self):
        return id(self)


def slowly(block, folder):
    """Leave a file that says which process works on a block, and take a while."""
    if len(block):
        with open(os.path.join(folder, f"{os.getpid()}-{time.monotonic_ns()}"), "w"):
            pass
        time.sleep(0.3)
    return block


def kill_a_worker(folder, killed):
    """Wait until a process works on its second block, and kill it."""
    for _ in range(3000):
        working = [name.split("-")[0] for name in os.listdir(folder)]
        busy = [pid for pid in working if working.count(pid) > 1]
        if busy:
            os.kill(int(busy[0]), signal.SIGKILL)
            killed.append(int(busy[0]))
            return
        time.sleep(0.02)
