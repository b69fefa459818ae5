"""Threads and memory: limits are put back as they were, and work is done once."""

import contextlib
import os
import re
import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from dualmetric._arrays import system


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """BLAS with two threads to begin with, whatever the environment says; three for our own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with system.single_blas_thread():
        pass  # so that the libraries are loaded
    with threadpool_limits(2):
        if set(blas()) != {2}:
            pytest.skip("no BLAS here whose threads can be set")
        yield


def blas():
    """Threads of NumPy's and SciPy's BLAS; other packages, as FAISS, bring one of their own."""
    return [
        pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and re.search("numpy|scipy", pool["filepath"])
    ]


def overlapping(limit, fails=False):
    """Enter the limit here, then in another thread; leave it here, then there.

    Returns the numbers of threads, BLAS's and ours, that this thread saw after each leaving.
    """
    entered, leave = threading.Event(), threading.Event()

    def other():
        with contextlib.suppress(KeyError), limit():
            entered.set()
            assert leave.wait(10)
            if fails:
                raise KeyError

    thread = threading.Thread(target=other)
    with limit():
        thread.start()
        assert entered.wait(10)
    seen = [(set(blas()), system.n_threads())]
    leave.set()
    thread.join(10)
    return [*seen, (set(blas()), system.n_threads())]


class TestThreads:
    @pytest.mark.parametrize(("value", "expected"), [("1", 1), ("7", 7)])
    def test_environment(self, monkeypatch, value, expected):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert system.n_threads() == expected

    @pytest.mark.parametrize("value", ["", "0", "-2", "2,1", "many"])
    def test_environment_that_says_nothing(self, monkeypatch, value):
        monkeypatch.delenv("OMP_NUM_THREADS")
        expected = system.n_threads()
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert system.n_threads() == expected >= 1


class TestOneThread:
    def test_holds_and_restores(self):
        with system.one_thread():
            assert system.n_threads() == 1
            assert set(blas()) == {1}
        assert system.n_threads() == 3
        assert set(blas()) == {2}

    def test_restores_after_an_exception(self):
        with pytest.raises(KeyError), system.one_thread():
            raise KeyError
        assert system.n_threads() == 3
        assert set(blas()) == {2}

    def test_restores_after_nesting(self):
        with system.one_thread(), system.one_thread():
            assert system.n_threads() == 1
        assert system.n_threads() == 3
        assert set(blas()) == {2}

    def test_holds_until_the_outermost_leaves(self):
        with system.one_thread():
            with system.one_thread():
                pass
            assert system.n_threads() == 1
            assert set(blas()) == {1}

    @pytest.mark.parametrize("fails", [False, True])
    def test_two_threads_that_overlap(self, fails):
        assert overlapping(system.one_thread, fails) == [({1}, 1), ({2}, 3)]

    def test_around_and_within_a_single_blas_thread(self):
        # as in the timed cells of the paper's tables: learners limit BLAS on their own
        with system.one_thread():
            with system.single_blas_thread():
                assert set(blas()) == {1}
            assert set(blas()) == {1}
            assert system.n_threads() == 1
        assert set(blas()) == {2}
        with system.single_blas_thread():
            with system.one_thread():
                assert system.n_threads() == 1
            assert set(blas()) == {1}
        assert set(blas()) == {2}

    def test_work_stays_in_this_thread(self):
        seen = []
        with system.one_thread():
            system.run_blocks(lambda a, b: seen.append((a, b, threading.get_ident())), 100)
        assert seen == [(0, 100, threading.get_ident())]


class TestSingleBlasThread:
    def test_holds_and_restores(self):
        with system.single_blas_thread():
            assert set(blas()) == {1}
            assert system.n_threads() == 3  # our own threads are another matter
        assert set(blas()) == {2}

    def test_nested(self):
        with system.single_blas_thread():
            with system.single_blas_thread():
                assert set(blas()) == {1}
            assert set(blas()) == {1}
        assert set(blas()) == {2}

    def test_restores_after_an_exception(self):
        with pytest.raises(KeyError), system.single_blas_thread():
            raise KeyError
        assert set(blas()) == {2}
        with system.single_blas_thread():
            with pytest.raises(KeyError), system.single_blas_thread():
                raise KeyError
            assert set(blas()) == {1}
        assert set(blas()) == {2}

    @pytest.mark.parametrize("fails", [False, True])
    def test_two_threads_that_overlap(self, fails):
        # the last to leave puts the limit back, whichever thread it is
        assert overlapping(system.single_blas_thread, fails) == [({1}, 3), ({2}, 3)]

    def test_many_threads(self):
        def enter_and_leave():
            for _ in range(20):
                with system.single_blas_thread():
                    if set(blas()) != {1}:
                        wrong.append(blas())

        wrong = []
        threads = [threading.Thread(target=enter_and_leave) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not wrong
        assert set(blas()) == {2}

    @pytest.mark.parametrize(("size", "expected"), [(1, 1), (512, 1), (513, 2)])
    def test_only_for_small_matrices(self, size, expected):
        with system.blas_threads_for(size):
            assert set(blas()) == {expected}


class TestRunBlocks:
    @given(st.integers(0, 5000), st.integers(-1, 300), st.integers(1, 9))
    def test_covers_the_range_once(self, total, smallest, threads):
        parts = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OMP_NUM_THREADS", str(threads))
            system.run_blocks(lambda start, stop: parts.append((start, stop)), total, smallest)
        parts.sort()
        assert parts[0][0] == 0
        assert parts[-1][1] == total
        assert all(left[1] == right[0] for left, right in pairwise(parts))
        assert len(parts) <= threads
        lengths = [stop - start for start, stop in parts]
        assert max(lengths) - min(lengths) <= 1
        assert len(parts) == 1 or min(lengths) >= max(1, smallest)

    def test_uses_several_threads(self):
        meeting = threading.Barrier(3, timeout=10)
        system.run_blocks(lambda start, stop: meeting.wait(), 3)

    @pytest.mark.parametrize("total", [1, 90])
    def test_exceptions_come_through(self, total):
        def work(start, stop):
            if stop == total:
                raise ZeroDivisionError(f"at {start}")

        with pytest.raises(ZeroDivisionError, match="at"):
            system.run_blocks(work, total)

    def test_nothing_runs_on_after_an_exception(self):
        begun, done, meeting = [], [], threading.Barrier(3, timeout=10)

        def work(start, stop):
            meeting.wait()
            if start == 0:
                raise ZeroDivisionError
            begun.append(start)
            time.sleep(0.05)
            done.append(start)

        with pytest.raises(ZeroDivisionError):
            system.run_blocks(work, 90)
        assert sorted(done) == sorted(begun) == [30, 60]

    def test_nothing_runs_on_after_an_interrupt(self):
        done, meeting = [], threading.Barrier(3, timeout=10)

        def work(start, stop):
            meeting.wait()
            if start:
                time.sleep(0.4)
                done.append(start)

        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            system.run_blocks(work, 90)
        assert sorted(done) == [30, 60]

    def test_a_caller_does_not_wait_for_the_work_of_others(self):
        free, meeting = threading.Event(), threading.Barrier(4, timeout=10)

        def long(start, stop):
            meeting.wait()
            assert free.wait(10)

        other = threading.Thread(target=lambda: system.run_blocks(long, 3), daemon=True)
        other.start()
        meeting.wait()  # all helpers are busy
        done = []
        system.run_blocks(lambda start, stop: done.append(start), 90)
        assert sorted(done) == [0, 30, 60]
        assert other.is_alive()
        free.set()
        other.join(10)
        assert not other.is_alive()

    def test_the_number_of_threads_may_change_meanwhile(self, monkeypatch):
        numbers = iter([2, 1, 1, 1])
        monkeypatch.setattr(system, "n_threads", lambda: next(numbers))
        done = []
        system.run_blocks(lambda start, stop: done.append(start), 90)
        assert sorted(done) == [0, 45]

    def test_a_part_is_not_split_again(self):
        threads, meeting = {}, threading.Barrier(3, timeout=10)

        def work(start, stop):
            meeting.wait()
            system.run_blocks(
                lambda *rows: threads.setdefault(start, []).append((rows, threading.get_ident())),
                60,
            )

        system.run_blocks(work, 3)
        assert all(parts == [((0, 60), parts[0][1])] for parts in threads.values())
        assert len({parts[0][1] for parts in threads.values()}) == 3
        system.run_blocks(lambda *rows: threads.setdefault("after", []).append(rows), 60)
        assert len(threads["after"]) == 3

    def test_callers_in_several_threads_share_the_helpers(self):
        totals = []

        def caller(seed):
            for size in range(seed, 200, 7):
                done = np.zeros(size, dtype=int)
                system.run_blocks(lambda a, b, done=done: done[a:b].__iadd__(1), size)
                totals.append((done == 1).all())

        callers = [
            threading.Thread(target=caller, args=(seed,), daemon=True) for seed in range(1, 5)
        ]
        for one in callers:
            one.start()
        for one in callers:
            one.join(30)
        assert all(totals)
        assert len(totals) == sum(len(range(seed, 200, 7)) for seed in range(1, 5))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_forked_process_has_threads_of_its_own(self):
        system.run_blocks(lambda start, stop: None, 3)
        child = os.fork()
        if child == 0:
            done = []
            system.run_blocks(lambda start, stop: done.append(start), 3)
            os._exit(len(done))
        deadline = time.monotonic() + 20
        while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        assert os.waitstatus_to_exitcode(found[1]) == 3


class TestMemory:
    @pytest.mark.parametrize(
        ("size", "shown"),
        [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (13_500_000_000, "13.5 GB"),
            (2_000_000, "2.0 MB"),
            (4e12, "4.0 TB"),
            (5e15, "5000.0 TB"),
        ],
    )
    def test_format(self, size, shown):
        assert system.format_bytes(size) == shown

    def test_available(self):
        assert system.available_memory() > 1_000_000

    def test_available_without_proc(self, monkeypatch):
        def missing(*args, **options):
            raise FileNotFoundError

        with monkeypatch.context() as patch:
            patch.setattr(system, "_container_memory", lambda: None, raising=False)
            patch.setattr("builtins.open", missing)
            total = system.available_memory()
            patch.delattr("os.sysconf")
            unknown = system.available_memory()
        assert total > 1_000_000
        assert unknown is None

    def test_enough(self, monkeypatch):
        monkeypatch.setattr(system, "available_memory", lambda: 1000)
        system.require_memory(1000, "This", "Do that.")

    def test_too_little(self, monkeypatch):
        monkeypatch.setattr(system, "available_memory", lambda: 2_000_000)
        with pytest.raises(ValueError, match="memory") as caught:
            system.require_memory(3_000_000_000, "A matrix of that size", "Take fewer rows.")
        assert str(caught.value) == (
            "A matrix of that size needs 3.0 GB of memory, but only 2.0 MB is available. Take "
            "fewer rows."
        )

    def test_unknown(self, monkeypatch):
        monkeypatch.setattr(system, "available_memory", lambda: None)
        system.require_memory(10**18, "This", "Do that.")
