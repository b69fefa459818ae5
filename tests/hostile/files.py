"""Damaged files: each reader returns finite rows or a metric, or refuses the file by its name."""

import bz2
import gzip
import io
import tempfile
import warnings
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dualmetric import DuOri, Matcher, Metric
from dualmetric._rows import open_rows
from dualmetric.io.rowfiles import read_lines, read_rows, write_rows
from dualmetric.supervision import Pairs, Triplets
from dualmetric.teach import judgements
from makers import make_classes, make_metric

REFUSED = (ValueError, OSError)
X, Y = make_classes(12, 5, seed=0)
S = sp.csr_matrix(np.where(np.abs(X) > 1, X, 0))


# --- whole files ----------------------------------------------------------------------------


def _saved(write):
    """Bytes of a file that a function writes."""

    def make(name):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            write(path)
            return path.read_bytes()

    return make


def _table(path, **more):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({**{f"x{i}": X[:, i] for i in range(5)}, **more}), path)


def _sparse(form):
    return _saved(lambda path: sp.save_npz(path, S.asformat(form)))


_TEXT = ",".join("abcde") + ",label\n"
_TEXT += "\n".join(",".join([*map(str, row), f"c{y}"]) for row, y in zip(X, Y, strict=True))
_SVM = "\n".join(
    f"{y} " + " ".join(f"{i + 1}:{v}" for i, v in enumerate(row))
    for row, y in zip(X, Y, strict=True)
).encode()


def _read_rows(path):
    found = read_rows(path)
    held, _ = open_rows(found.X)
    return held.take()


def _read_labels(path):
    rows = path.with_name("rows.npy")
    np.save(rows, X)
    return read_rows(rows, labels=path).X


def _read_known(flag):
    def read(path):
        from dualmetric.cli._known import read_known

        rows, _ = open_rows(X)
        read_known((flag, path), path.parent, None, rows)
        return X

    return read


def _known(path):
    np.save(path, np.column_stack([np.arange(10), np.arange(1, 11), np.arange(10) % 2]))


_JUDGEMENTS = b"".join(
    b'{"query": %d, "row": %d, "right": %s}\n' % (q, q + 1, word)
    for q, word in enumerate((b"true", b"false", b"true"))
)
_CHECK = (
    b'{"check": {"query": 5, "rows": [6, 7], "plain": [1, 2], "taught": [1, 3], "earlier": [2, 1]}}'
    b'\n{"query": 5, "row": 6, "right": true, "asked": "random"}\n{"undo": 3}\n'
)


def _read_session(path):
    from dualmetric.teach.session import Session

    session = Session(X, path=path)
    session.reading()
    session.log.close()
    return session.metric()


def _matcher(path):
    index = [(i, j) for i in range(8) for j in range(i)]
    same = [Y[i] == Y[j] for i, j in index]
    Matcher(make_metric()).fit(X, Pairs(index, same)).save(path)


def _state(path):
    model = DuOri(prior="identity", random_state=0)
    model.partial_fit(X, Triplets([[0, 1, 2], [3, 4, 5]]), ids=["a", "b"]).save_state(path)


def _read_state(path):
    return DuOri.load_state(path).metric_


# One line per kind of file: its name, who reads it, and who writes it.
READERS = {
    "npz": ("a.npz", _read_rows, _saved(lambda path: write_rows(path, X, Y))),
    "npz, not packed": ("a.npz", _read_rows, _saved(lambda path: np.savez(path, X=X, y=Y))),
    "npz, texts": (
        "a.npz",
        _read_rows,
        _saved(
            lambda path: np.savez(
                path, X=X, y=Y, class_names=["a", "b", "c"], train_idx=[0, 1], test_idx=[2], ids=Y
            )
        ),
    ),
    **{
        f"npz, {form}": ("a.npz", _read_rows, _sparse(form))
        for form in ("csr", "csc", "coo", "bsr", "dia")
    },
    "npy": ("a.npy", _read_rows, _saved(lambda path: np.save(path, X))),
    "npy, float32": ("a.npy", _read_rows, _saved(lambda path: np.save(path, X.astype("f4")))),
    "svmlight": ("a.svm", _read_rows, lambda name: _SVM),
    "svmlight, gz": ("a.svm.gz", _read_rows, lambda name: gzip.compress(_SVM, mtime=0)),
    "svmlight, bz2": ("a.bz2", _read_rows, lambda name: bz2.compress(_SVM)),
    "csv": ("a.csv", _read_rows, lambda name: _TEXT.encode()),
    "csv, gz": ("a.csv.gz", _read_rows, lambda name: gzip.compress(_TEXT.encode(), mtime=0)),
    "parquet": ("a.parquet", _read_rows, _saved(lambda path: _table(path, label=Y, id=Y))),
    "parquet, vectors": ("a.parquet", _read_rows, _saved(lambda path: write_rows(path, X, Y))),
    "labels, npy": ("y.npy", _read_labels, _saved(lambda path: np.save(path, Y))),
    "labels, text": ("y.txt", _read_labels, lambda name: b"\n".join(b"c%d" % y for y in Y)),
    "labels, npz": ("y.npz", _read_labels, _saved(lambda path: np.savez(path, y=Y))),
    "lines": ("a.txt", lambda path: read_lines(path) and X, lambda name: "grün\n赤\n".encode()),
    "pairs": ("p.npy", _read_known("pairs"), _saved(_known)),
    "triplets": ("t.csv", _read_known("triplets"), lambda name: b"a,b,c\n0,1,2\n3,4,5\n"),
    "relevance": ("r.csv", _read_known("relevance"), lambda name: b"0,1,2\n3,4,1\n"),
    "metric": ("m.safetensors", Metric.load, _saved(lambda path: make_metric().save(path))),
    "metric, cosine": (
        "m.safetensors",
        Metric.load,
        _saved(lambda path: make_metric("cosine, centred", names=tuple("abcde")).save(path)),
    ),
    "metric, lift": (
        "m.safetensors",
        Metric.load,
        _saved(lambda path: make_metric(n_landmarks=4).save(path)),
    ),
    "metric, identity": (
        "m.safetensors",
        Metric.load,
        _saved(lambda path: make_metric(rank=None, idf=True).save(path)),
    ),
    "matcher": ("m.safetensors", lambda path: Matcher.load(path).metric, _saved(_matcher)),
    "state": ("s.safetensors", _read_state, _saved(_state)),
    "judgements": ("j.jsonl", lambda path: judgements.read(path) and X, lambda name: _JUDGEMENTS),
    "session": (
        "j.jsonl",
        lambda path: _read_session(path).transform(X),
        lambda name: _JUDGEMENTS + _CHECK,
    ),
}


KINDS = [kind for kind in READERS if "parquet" not in kind or find_spec("pyarrow")]


# --- damage ---------------------------------------------------------------------------------


def _span(draw, content):
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + draw.choice((1, 2, 4, 8, 16, 64, 256, len(content))))


def _replaced(draw, content, new):
    start, stop = _span(draw, content)
    return content[:start] + new(content[start:stop]) + content[stop:]


def flip_bits(draw, content):
    """Change some bits."""
    found = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        if found:
            found[draw.randrange(len(found))] ^= 1 << draw.randrange(8)
    return bytes(found)


def put_number(draw, content):
    """Overwrite some bytes by a number that readers stumble over."""
    value = draw.choice(
        (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63)
    )
    size = draw.choice((1, 2, 4, 8))
    place = draw.randrange(len(content) + 1)
    raw = (value % 2 ** (8 * size)).to_bytes(size, draw.choice(("little", "big")))
    return content[:place] + raw + content[place + size :]


def put_text(draw, content):
    """Replace a number or a name in text by another."""
    words = (
        b"nan",
        b"-inf",
        b"1e400",
        b"9" * 400,
        b"-1",
        b"0",
        b"",
        b"NULL",
        b'"',
        b"\x00",
        b",",
        b"\n",
        b"1:1",
        b"0:1",
        b"4294967296:1",
        b"99999999999999999999:1",
        b"\xff",
        b"{",
        b"[",
        b"[" * 3000,
        b"1" * 3000 + b"x",
        b" " * 3000 + b"x",
        b"#",
        b"(2, 3)",
        b"(-1,)",
        b"'O'",
        b"'V99'",
        b"True",
        b"\r",
        b"\xef\xbb\xbf",
        b"1_0",
        b"0x10",
        b"shape",
        b"checksum",
    )
    return _replaced(draw, content, lambda old: draw.choice(words))


MUTATIONS = {
    "bits": flip_bits,
    "number": put_number,
    "text": put_text,
    "cut": lambda draw, c: c[: draw.randrange(len(c) + 1)],
    "head": lambda draw, c: c[draw.randrange(len(c) + 1) :],
    "removed": lambda draw, c: _replaced(draw, c, lambda old: b""),
    "zeros": lambda draw, c: _replaced(draw, c, lambda old: bytes(len(old))),
    "ones": lambda draw, c: _replaced(draw, c, lambda old: b"\xff" * len(old)),
    "noise": lambda draw, c: _replaced(draw, c, lambda old: draw.randbytes(len(old))),
    "twice": lambda draw, c: _replaced(draw, c, lambda old: old * 2),
    "reversed": lambda draw, c: _replaced(draw, c, lambda old: old[::-1]),
    "more": lambda draw, c: c + draw.randbytes(draw.choice((1, 100, 5000))),
    "swapped": lambda draw, c: c[len(c) // 2 :] + c[: len(c) // 2],
    "empty": lambda draw, c: b"",
}


def _inside_zip(draw, content, change):
    """Change one entry and pack it again, so that the checks of the archive still pass."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = draw.choice(old.namelist())
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, change(draw, part) if name == chosen else part)
    return out.getvalue()


def damaged(draw, name, content):
    """Damage a file: as it is, or what is packed in it; the words say how."""
    kinds = [draw.choice(list(MUTATIONS)) for _ in range(draw.choice((1, 1, 1, 2, 3)))]

    def change(draw, part):
        for kind in kinds:
            part = MUTATIONS[kind](draw, part)
        return part

    inside = draw.random() < 0.5
    if inside and name.endswith(".npz"):
        return f"inside: {kinds}", _inside_zip(draw, content, change)
    if inside and name.endswith(".gz"):
        return f"inside: {kinds}", gzip.compress(change(draw, gzip.decompress(content)), mtime=0)
    if inside and name.endswith(".bz2"):
        return f"inside: {kinds}", bz2.compress(change(draw, bz2.decompress(content)))
    return str(kinds), change(draw, content)


class Damage:
    """A case: a damaged file and its reader."""

    def __init__(self, draw):
        self.kind = draw.choice(KINDS)
        self.name, self.read, write = READERS[self.kind]
        self.whole = write(self.name)
        self.how, self.content = damaged(draw, self.name, self.whole)

    def __repr__(self):
        return f"{self.kind}, {self.how}: {self.content!r}"

    def run(self):
        """Outcome: "works", "refused", or what is wrong, and what there is to say about it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.name
            path.write_bytes(self.content)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                try:
                    found = self.read(path)
                except REFUSED as error:
                    named = self.name in str(error) or getattr(error, "filename", None)
                    return ("refused" if named else "names no file"), str(error)
                except Exception as error:
                    return "undocumented error", repr(error)
                if numerical := [one for one in said if issubclass(one.category, RuntimeWarning)]:
                    return "numerical warning", str(numerical[0].message)
            if isinstance(found, Metric):
                return self.check_metric(found, path, said)
        values = found.data if sp.issparse(found) else found
        return ("works", "") if np.isfinite(values).all() else ("not finite", "")

    def check_metric(self, found, path, said):
        """A metric is what was saved, or there is a warning that nothing could be checked."""
        path.write_bytes(self.whole)
        original = self.read(path)
        mapped = found.transform(np.ones((1, found.n_features)))
        if not np.isfinite(np.asarray(mapped)).all():
            return "not finite", ""
        if any("no checksum" in str(one.message) for one in said):
            return "works", "without a checksum"
        same = found.info == original.info and np.array_equal(
            mapped, original.transform(np.ones((1, original.n_features)))
        )
        return ("works", "") if same else ("another metric", "")
