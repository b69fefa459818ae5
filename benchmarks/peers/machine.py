"""What a run was measured on, and how much memory it takes."""

import contextlib
import ctypes
import gc
import os
import platform
import resource
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Processor, cores and memory of this machine."""
    model = platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_gb": round(memory / 1e9, 1),
        "system": platform.system(),
    }


def threads() -> int:
    """Threads that BLAS and OpenMP may use in this process."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() else (os.cpu_count() or 1)


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of the packages that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("numpy", "scipy", *packages):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def limit_memory(share: float = 0.75) -> None:
    """Let an allocation beyond the memory that is free fail, so that it does not end others."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                size = int(share * int(line.split()[1]) * 1024)
                resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def start_peak() -> float:
    """Forget the peak so far; returns the megabytes in use now."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what is free but kept would hide what a fit takes
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def peak() -> float:
    """Most megabytes in use since `start_peak`, or since the process began where that failed."""
    return _status("VmHWM")


def process_peak() -> float:
    """Most megabytes as the system counts them for the whole process."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _status(key: str) -> float:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024 / 1e6
    return process_peak()  # not Linux
