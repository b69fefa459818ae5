"""Threads and memory of the machine."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

_lock = Lock()
_one_thread_users = 0
_shared: dict[Any, tuple[int, ExitStack]] = {}  # settings: their users, and what undoes them
_in_a_part = ContextVar("_in_a_part", default=False)  # of `run_blocks`


def n_threads() -> int:
    """Threads to use: ``OMP_NUM_THREADS`` if it is set, otherwise the cores of this process."""
    if _one_thread_users:
        return 1
    value = os.environ.get("OMP_NUM_THREADS", "")
    if value.isdigit() and int(value) > 0:
        return int(value)
    return _cores()


@cache
def _cores() -> int:
    from joblib import cpu_count

    return int(cpu_count())  # minds a container's share and the process's affinity


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the whole process to one thread until the last user leaves."""
    global _one_thread_users
    with _lock:
        _one_thread_users += 1
    try:
        with single_blas_thread(), _thread_pools("openmp").limit(limits=1):
            yield
    finally:
        with _lock:
            _one_thread_users -= 1


def fill_by_threads(
    kernel: Callable[..., None], out: Any, *arguments: Any, total: int, smallest: int
) -> Any:
    """``kernel(*arguments, start, stop, out)`` over parts of ``range(total)``; returns ``out``."""
    run_blocks(lambda start, stop: kernel(*arguments, start, stop, out), total, smallest)
    return out


def run_blocks(work: Callable[[int, int], object], total: int, smallest: int = 1) -> None:
    """Call ``work(start, stop)`` over equal parts of ``range(total)``, one part per thread.

    ``work`` must release the GIL to gain from it, and write only to its own part of the output.
    Parts are at least ``smallest`` long, so that small work stays in this thread, as does work that
    a part splits again. This thread does the first part, and those for which no other is free.
    """
    n = n_threads()
    parts = max(1, min(n, total // max(1, smallest)))
    if parts == 1 or _in_a_part.get():
        work(0, total)
        return
    bounds = [total * part // parts for part in range(parts + 1)]
    first, *others = pairwise(bounds)
    jobs: list[Future[object]] = []
    token = _in_a_part.set(True)
    try:
        helpers = _helpers(n - 1)
        # with the settings of this thread, such as np.errstate
        jobs.extend(helpers.submit(partial(copy_context().run, work, *pair)) for pair in others)
        work(*first)
        for pair, job in zip(others, jobs, strict=True):
            if job.cancel():  # the helpers work for other callers
                work(*pair)
    finally:
        _in_a_part.reset(token)
        running = [job for job in jobs if not job.cancel()]
        _wait_for(running)  # before the caller can touch what they write to
    for job in running:
        job.result()


def _wait_for(jobs: list[Future[object]]) -> None:
    """Wait until all jobs have ended; an interrupt is raised after that."""
    interrupt = None
    while not all(job.done() for job in jobs):
        try:
            wait(jobs)
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


@cache
def _helpers(n: int) -> ThreadPoolExecutor:
    """Threads that are kept for the next call, because starting one takes 0.1 ms."""
    return ThreadPoolExecutor(n, thread_name_prefix="dualmetric")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a child process has no threads


@contextmanager
def shared(setting: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Change a setting of the whole process; the first user sets it and the last one restores it.

    If each user restored what it found, two overlapping threads could leave the setting changed.
    """
    with _lock:
        users, undo = _shared.get(setting, (0, ExitStack()))
        if users == 0:
            undo.enter_context(setting())
        _shared[setting] = users + 1, undo
    try:
        yield
    finally:
        with _lock:
            users, undo = _shared.pop(setting)
            if users > 1:
                _shared[setting] = users - 1, undo
            else:
                undo.close()


@cache
def _thread_pools(user_api: str) -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found

    # looking for the libraries takes milliseconds
    return ThreadpoolController().select(user_api=user_api)


def _take_control() -> None:
    """Let this thread set OpenBLAS's limit: threadpoolctl ≥ 3.8 listens to the first one only."""
    release = getattr(OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


@contextmanager
def _blas_limit() -> Iterator[None]:
    _take_control()
    with _thread_pools("blas").limit(limits=1):
        yield
        _take_control()


def single_blas_thread() -> AbstractContextManager[None]:
    """Limit BLAS and LAPACK to one thread, in the whole process, until the last user leaves."""
    return shared(_blas_limit)


def blas_threads_for(size: int, enough: int = 512) -> AbstractContextManager[None]:
    """Limit BLAS and LAPACK to one thread for matrices of at most ``enough`` rows."""
    # these gain little from threads, and lose a hundredfold where the cores are busy
    return single_blas_thread() if size <= enough else nullcontext()


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, or None where the system does not say."""
    found = [size for size in (_free_memory(), _container_memory()) if size is not None]
    return min(found, default=None)


def _free_memory() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _container_memory() -> int | None:
    """What a container's limit leaves, where there is one."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = int((folder / "memory.max").read_text())
        return max(limit - int((folder / "memory.current").read_text()), 0)
    except (OSError, ValueError):  # not in a container, or "max"
        return None


def format_bytes(size: float) -> str:
    """A number of bytes in a readable form: ``13.5 GB``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def require_memory(
    size: int, purpose: str, remedy: str, *, available: int | None = None, where: str = ""
) -> None:
    """Raise a ValueError when ``size`` bytes for ``purpose`` would not fit in memory."""
    available = available_memory() if available is None else available
    if available is not None and size > available:
        raise ValueError(
            f"{purpose} needs {format_bytes(size)} of memory{where}, but only "
            f"{format_bytes(available)} is available. {remedy}"
        )
