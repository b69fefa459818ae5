"""``.npy`` and ``.npz`` files from any source: what they declare is checked before it is used."""

import math
import os
from typing import Any, BinaryIO
from zipfile import ZipFile

import numpy as np
import scipy.sparse as sp

from .._arrays.system import format_bytes
from .._types import Array
from ._forms import FileError, check_unpacked

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_PARTS = {  # arrays of each form of sparse matrix, in the order that SciPy takes them in
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def read_npy(stream: BinaryIO, size: int | None = None, what: str = "it does not hold") -> Array:
    """Read an array from a stream of ``size`` bytes (the size of its file if None); never a pickle.

    If the stream is too short for the array, it is refused before memory is allocated.
    """
    size = os.fstat(stream.fileno()).st_size if size is None else size
    begin = stream.tell()
    if stream.read(6) != np.lib.format.MAGIC_PREFIX:
        raise FileError(f"{what} an array of plain numbers or text, and pickles are not read")
    stream.seek(begin)
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise FileError(
            "it holds a structured array, which is not supported: save a plain array of numbers"
        )
    shape, _, dtype = _HEADERS[version](stream)
    needed, held = math.prod(shape) * dtype.itemsize, size - (stream.tell() - begin)
    if min(shape, default=0) < 0 or (needed > held and not dtype.hasobject):
        raise FileError(
            f"it declares an array of shape {shape}, {format_bytes(needed)}, but holds "
            f"{format_bytes(held)}: write it again"
        )
    stream.seek(begin)
    found: Array = np.lib.format.read_array(stream, allow_pickle=False)
    return found


class Archive:
    """Arrays of an ``.npz`` file, by name; each is read when it is asked for."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._zip = ZipFile(stream)
        entries = self._zip.infolist()
        check_unpacked(sum(entry.file_size for entry in entries), limit)
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Array:
        if name not in self:
            raise FileError(f"it has no array {name!r}; it has {self._listed()}")
        entry = self._entries[name]
        with self._zip.open(entry) as stream:
            what = f"{name!r} in it is not"
            return read_npy(stream, entry.file_size, what)  # type: ignore[arg-type]

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return list(self._entries)

    def _listed(self) -> str:
        return ", ".join(self._entries) or "nothing"

    def sparse(self) -> Any:
        """A sparse matrix as ``scipy.sparse.save_npz`` writes it; CSR where it names no form."""
        form = "csr"
        if "format" in self:
            form = str(self["format"].astype(np.str_))
            if form not in _PARTS:
                raise FileError(f"it holds a sparse matrix of form {form!r}: save it as csr")
        elif "indptr" not in self:
            raise FileError(
                "it holds neither an array 'X' nor the parts of a sparse matrix; it has "
                + self._listed()
            )
        data, *places = (self[name] for name in _PARTS[form])
        shape = tuple(map(int, self["shape"].tolist()))
        if form == "coo":
            return sp.coo_matrix((data, tuple(places)), shape=shape)
        return getattr(sp, f"{form}_matrix")((data, *places), shape=shape)
