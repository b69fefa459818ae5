"""What each data set is, and where it comes from: ``catalog.toml``, read into `CATALOG`."""

import tomllib
from importlib.resources import files
from typing import Any, NamedTuple

DATA_VARIABLE = "DUALMETRIC_DATA"


class File(NamedTuple):
    """A file of a public source, downloaded from ``url``."""

    name: str
    folder: str = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
    sha256: str | None = None  # where one is known

    @property
    def url(self) -> str:
        return self.folder + self.name


class Entry(NamedTuple):
    """A data set: what it is, its public files, and how they are processed."""

    note: str  # what it is, in one line
    # One file, or that of the training rows and that of the test rows. A file <name>.npz in the
    # data folder is preferred.
    files: tuple[File, ...] = ()
    # "own": the file says which rows are test rows, or there are two files. "random", "stratified"
    # and "contiguous" hold out 30 % of the rows: random ones, 30 % of each class, or the last.
    # "any" is "own" if the file says which rows are test rows, else "stratified".
    split: str = "own"
    text: bool = False  # whether rows are word counts, to be reduced to principal components
    n_classes: int | None = None  # only rows of this many largest classes are kept
    unit: bool = False  # whether rows are scaled to length one: embeddings stored as integers
    stand_in_for: str | None = None  # the set of the paper that it replaces
    absent: str = ""  # remark for the error if there is no file and no public source


def _entry(files: Any = (), **fields: Any) -> Entry:
    return Entry(files=tuple(File(**file) for file in files), **fields)


_TEXT = files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8")
CATALOG = {name: _entry(**fields) for name, fields in tomllib.loads(_TEXT).items()}
