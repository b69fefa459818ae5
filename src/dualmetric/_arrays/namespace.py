"""The library and the device of an array, and conversion between host and device.

NumPy arrays and CSR matrices are on the host. Arrays of PyTorch, CuPy or any other library that
follows the array API are on a device, which may be the same machine. No library is imported to tell
them apart.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace, to_device

from .._types import Array, Matrix
from .system import available_memory, require_memory, shared

_T = TypeVar("_T")

_HOST_BLOCK = 2**24  # bytes of a temporary array on the host: it stays near the caches
_DEVICE_BLOCK = 2**30


@cache
def _library(kind: type) -> str:
    """First part of the module that a type comes from; "numpy" where its arrays are on the host.

    Not all arrays of PyTorch and CuPy name their namespace, and subclasses count as their parents.
    """
    homes = {base.__module__.split(".")[0] for base in kind.__mro__}
    for name in ("torch", "cupyx", "cupy"):  # cupyx has the sparse matrices
        if name in homes:
            return name
    if homes & {"numpy", "dask"} or not hasattr(kind, "__array_namespace__"):
        return "numpy"
    return kind.__module__.split(".")[0]


def library(X: object) -> str:
    """Name of the library that X is an array of: "numpy", "torch", "cupy", and so on."""
    kind: Any = type(X)
    return _library(kind)


def is_device_array(X: object) -> bool:
    """Whether X is an array of PyTorch, CuPy or another library of the array API."""
    return library(X) != "numpy"


def namespace(X: object) -> Any:
    """Array API functions for arrays like X; NumPy's for everything on the host."""
    return array_namespace(X if is_device_array(X) else np.empty(0))


def device_of(X: Any) -> Any:
    """Device that X is on; None for the host."""
    return X.device if is_device_array(X) else None


def to_numpy(X: Any) -> Any:
    """X on the host: a copy of a device array; anything else unchanged."""
    if not is_device_array(X):
        return X
    if library(X) == "torch":
        return X.detach().cpu().numpy()
    if library(X).startswith("cupy"):
        return X.get()
    devices = namespace(X).__array_namespace_info__().devices()
    host = next(device for device in devices if "cpu" in str(device).lower())
    return np.asarray(to_device(X, host))


def precision(X: Any) -> np.dtype[Any]:
    """NumPy's name for the type of X's floats."""
    if not is_device_array(X):
        return X.dtype
    return np.dtype(np.float32 if X.dtype == namespace(X).float32 else np.float64)


def like(values: Any, X: Any) -> Any:
    """The values as an array of the library, the device and the precision of X."""
    if not is_device_array(X):
        return np.asarray(values, dtype=X.dtype)
    xp = namespace(X)
    if is_device_array(values):
        return xp.astype(values, X.dtype, copy=False)
    # a copy: PyTorch accepts no negative strides
    return xp.asarray(np.array(values, dtype=precision(X), order="C"), device=X.device)


def indices_like(numbers: Array, X: Any) -> Any:
    """Row numbers, which are on the host, as X's library takes them."""
    if not is_device_array(X):
        return numbers
    return namespace(X).asarray(np.array(numbers, dtype=np.int64, order="C"), device=X.device)


def check_same_device(A: Any, B: Any, names: str = "A and B") -> None:
    """Refuse arrays that are on different devices."""
    if (library(A), device_of(A)) != (library(B), device_of(B)):
        raise ValueError(
            f"{names} are on different devices, {_place(A)} and {_place(B)}: move them to one "
            "library and device"
        )


def _place(X: Any) -> str:
    return f"{library(X)} on {device_of(X) or 'cpu'}"


def require_host(X: Any, purpose: str) -> None:
    """Refuse an array on a device."""
    if is_device_array(X):
        raise ValueError(
            f"{purpose} works on the host, but X is {_place(X)}: pass a NumPy array or a SciPy "
            "matrix"
        )


def check_device_rows(X: Any, name: str = "X") -> Any:
    """Device array as float32 or float64: half floats become float32, whole numbers float64.

    Sparse arrays, arrays that are not two-dimensional and empty arrays are refused.
    """
    layout = str(getattr(X, "layout", "torch.strided"))  # of PyTorch
    if library(X) == "cupyx" or layout != "torch.strided":
        raise ValueError(
            f"{name} is a sparse matrix on a device, which is not supported: pass it dense, or as "
            "a SciPy matrix"
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array: {name} must have shape (n_samples, n_features); got "
            f"{tuple(X.shape)}. Reshape it with reshape(-1, 1) or reshape(1, -1)"
        )
    if 0 in X.shape:
        raise ValueError(f"{name} is empty: its shape is {tuple(X.shape)}")

    if hasattr(X, "detach"):
        X = X.detach()
    xp = namespace(X)
    if X.dtype in (xp.float32, xp.float64):
        return X
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported: {name} has dtype {X.dtype}")
    is_whole = xp.isdtype(X.dtype, ("bool", "integral"))
    require_memory_beside(
        X,
        math.prod(X.shape) * (8 if is_whole else 4),
        f"converting {name} from {X.dtype}",
        f"Pass it in parts, or as float32: {name}.to(torch.float32) in PyTorch.",
    )
    return xp.astype(X, xp.float64 if is_whole else xp.float32)


def is_finite(X: Any) -> bool:
    """Whether no entry is NaN or infinite."""
    if not is_device_array(X):
        return bool(np.isfinite(X).all())
    if 0 in X.shape:
        return True
    xp = namespace(X)  # the extremes take one pass, and no array of truth values is written
    low, high = X.aminmax() if hasattr(X, "aminmax") else (xp.min(X), xp.max(X))
    return bool(np.isfinite(float(low)) and np.isfinite(float(high)))


def require_finite(X: Any, name: str = "X") -> None:
    """Refuse NaN and infinity, as scikit-learn does."""
    if not is_finite(X):
        raise ValueError(
            f"Input {name} contains NaN or infinity: replace these entries, or drop their rows"
        )


def free_memory(X: Any) -> int | None:
    """Bytes that can be allocated where X is; None where that is not known."""
    if library(X) == "torch" and X.device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(X.device)
        held = torch.cuda.memory_reserved(X.device) - torch.cuda.memory_allocated(X.device)
        return int(free + held)
    if library(X) == "cupy":
        import cupy

        with X.device:
            return int(
                cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
            )
    return available_memory()


def require_memory_beside(X: Any, size: int, purpose: str, remedy: str) -> None:
    """Raise a ValueError when ``size`` bytes for ``purpose`` would not fit where X is."""
    if is_device_array(X):
        where = f" on {_place(X)}"
        require_memory(size, purpose, remedy, available=free_memory(X), where=where)
    else:
        require_memory(size, purpose, remedy)


def blocks_of(
    X: Any, total: int, bytes_each: int, *, least: int = 1, most: int | None = None
) -> Iterator[slice]:
    """Slices of ``range(total)`` that need little temporary memory on the device of X."""
    room = _HOST_BLOCK
    if is_device_array(X):
        available = free_memory(X)
        room = _DEVICE_BLOCK if available is None else min(_DEVICE_BLOCK, available // 16)
    step = max(least, room // max(1, bytes_each))
    step = step if most is None else min(step, most)
    for start in range(0, total, step):
        yield slice(start, min(start + step, total))


def full_precision(X: Matrix) -> AbstractContextManager[None]:
    """Multiply float32 in full precision on a device; TF32, if enabled, keeps only three digits.

    CuPy uses it only where the environment says ``CUPY_TF32=1``, which is the user's decision.
    """
    return shared(_torch_without_tf32) if library(X) == "torch" else nullcontext()


@contextmanager
def _torch_without_tf32() -> Iterator[None]:
    import torch

    matmul = torch.backends.cuda.matmul
    # before PyTorch 2.9 the setting had another name
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    before = getattr(matmul, name)
    setattr(matmul, name, "ieee" if name == "fp32_precision" else False)
    yield
    setattr(matmul, name, before)


def in_full_precision(method: Callable[..., _T]) -> Callable[..., _T]:
    """Run a method of X, its first argument, in `full_precision`."""

    @wraps(method)
    def run(self: Any, X: Any, *args: Any, **kwargs: Any) -> _T:
        with full_precision(X):
            return method(self, X, *args, **kwargs)

    return run
