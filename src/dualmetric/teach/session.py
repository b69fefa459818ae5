"""One person teaching one distance: what is known, and what each step does to it."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import settling, updating
from .._arrays import ops
from .._arrays.system import single_blas_thread
from .._types import Array, Matrix
from .._version import __version__
from ..metric import Metric
from ..supervision import Comparisons, Labels
from . import judgements as judging
from . import meter, policy
from .judgements import Groups, Judgement, Log
from .live import DENSE_LIMIT, Dense, Wide

REG = 0.03
"""λ; this, the margin and the weight of the prior: chosen by ``benchmarks/teaching.py choose``."""

MARGIN = 2.0

PRIOR_COUNTS = 800
"""How many comparisons the plain distance is worth: λ is larger while there are few."""

PRIOR_QUERIES = 4
"""The same in queries: judgements of one query are about one group, and say little of others."""

TOLERANCE = 1e-3
"""Duality gap after a click, relative to the objective; a saved metric is solved further."""

EARLIER = 50
"""Judgements ago, for the meter: whether the last ones still helped."""


class Session:
    """Rows, judgements, and the metric that they give.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
        Checked rows.
    distance : {"cosine", "euclidean"}
        The plain distance, which is kept wherever judgements do not contradict it.
    path : Path, optional
        File of judgements. Those in it are learned from again; new ones are appended.
    feature_names : sequence of str, optional
        For the metric that is saved.
    seed : int
        Of what is asked.
    reg, margin : float
        λ, and how much closer right rows must be.
    """

    def __init__(
        self,
        X: Matrix,
        *,
        distance: str = "cosine",
        path: Path | None = None,
        feature_names: Sequence[str] | None = None,
        seed: int = 0,
        reg: float = REG,
        margin: float = MARGIN,
    ) -> None:
        from ..estimators import DuOri

        self.X, self.reg = X, reg
        self.lock = threading.RLock()
        self.options: Any = DuOri(
            prior="identity", distance=distance, reg=reg, margin=margin, tol=TOLERANCE
        )
        n = X.shape[0]
        if n < 3:
            raise ValueError(f"teaching needs at least 3 rows; got {n}")
        self.seed, self.rng = seed, np.random.default_rng(seed)
        nothing_known = Labels(np.zeros(n, dtype=int)).check(n)
        self.base = updating.make_base(X, nothing_known, self.options, self.rng, feature_names)
        self.live: Any
        if X.shape[1] <= DENSE_LIMIT:
            self.live = Dense(ops.to_dense(self.base.first.apply(X)), self.base)
        else:
            self.live = Wide(X, self.base, lambda updated: self.rebuilt(updated, quick=True))
        self.kept = updating.nothing(X, self.base)
        self.judgements: list[Judgement] = []
        self.groups = Groups()
        self.checks: list[meter.Check] = []
        self.snapshots: list[tuple[int, Any]] = [(0, 0)]  # number of judgements, metric
        self.n_asked = self.version = 0
        self._plain: tuple[int, int, Any] = (-1, 0, None)
        self._reading: tuple[Any, Any] = (None, None)
        self.notes: list[str] = []
        self.log: Log | None = None
        if path is not None:
            self._open(path)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    # --- judgements ----------------------------------------------------------------------------

    def judge(self, query: int, row: int, right: bool, asked: str = "own") -> None:
        """Write a judgement down, and learn from it."""
        with self.lock:
            for number in (query, row):
                if not 0 <= number < self.n_rows:
                    raise ValueError(
                        f"there is no row {number}: row numbers go from 0 to {self.n_rows - 1}"
                    )
            if query == row:
                raise ValueError("a row cannot be judged against itself: choose another")
            judgement = Judgement(int(query), int(row), bool(right), asked)
            if self.log is not None:
                self.log.write(judgement._asdict())
            self._note_answer(judgement)
            self._add([judgement])

    def undo(self) -> Judgement | None:
        """Take the last judgement back, with all that was learned from it."""
        with self.lock:
            if not self.judgements:
                return None
            if self.log is not None:
                self.log.write({"undo": len(self.judgements) - 1})
            last = self.judgements.pop()
            self.groups = Groups(self.judgements)
            gone = [p for p, name in enumerate(self.kept.ids) if name == len(self.judgements)]
            self.kept = updating.remove(self.kept, self.base, np.array(gone, dtype=np.int64))
            for check in self.checks:
                if check.query == last.query:
                    check.answers.pop(last.row, None)
            self._settle(changed=True)
            return last

    def _add(self, new: Sequence[Judgement]) -> None:
        """Learn from judgements; ids of their comparisons are the numbers of the judgements."""
        with single_blas_thread():  # threads would slow down products this small
            self._learn(new)

    def _learn(self, new: Sequence[Judgement]) -> None:
        removed = False
        for judgement in new:
            number = len(self.judgements)
            rng = np.random.default_rng(number)
            most = judging.n_comparisons_of(number)
            index = judging.comparisons_of(self.groups, judgement, most, rng)
            self.groups.add(judgement)
            self.judgements.append(judgement)
            if not len(index):
                continue
            beyond = len(self.kept) + len(index) - judging.MOST_COMPARISONS
            if beyond > 0:
                gone = rng.choice(len(self.kept), size=beyond, replace=False)
                self.kept = updating.remove(self.kept, self.base, gone)
                removed = True
            named = np.unique(index)
            ones = np.ones(len(index))
            given = Comparisons(np.searchsorted(named, index), ones, ones)
            raw = ops.take_rows(self.X, named)
            ids = [number] * len(index)
            self.kept = updating.add(self.kept, self.base, raw, given, ids, self.options)
        self._settle(removed)

    def _settle(self, changed: bool) -> None:
        n_queries = len({judgement.query for judgement in self.judgements})
        reg = self.reg * (1.0 + PRIOR_COUNTS / max(len(self.kept), 1))
        reg *= 1.0 + PRIOR_QUERIES / max(n_queries, 1)
        self.options.set_params(reg=reg)
        self.updated = settling.settle(self.kept, self.base, self.options, self.rng)
        self.kept = self.updated.kept
        self.live.follow(self.updated, changed)
        n = len(self.judgements)
        self.snapshots = [(at, M) for at, M in self.snapshots if at <= n]
        if not self.snapshots or n >= self.snapshots[-1][0] + EARLIER // 5:
            self.snapshots = [*self.snapshots[-6:], (n, self.live.snapshot())]
        self.version += 1

    def _open(self, path: Path) -> None:
        """Learn again from the judgements in a file, and append to it from now on."""
        mark = judging.fingerprint(self.X)
        self.log = Log(path)
        try:
            self._read(path, mark)
            self.log.begin(mark)
        except BaseException:
            self.log.close()
            raise

    def _read(self, path: Path, mark: str) -> None:
        if path.stat().st_size:
            found = judging.read(path, self.n_rows)
            if found.fingerprint not in (None, mark):
                raise ValueError(
                    f"{path} has judgements about other rows: the rows have changed since, or come "
                    "from another file. Name another file for the judgements"
                )
            left_out = {
                "could not be read": found.dropped,
                "name rows that are not there": found.outside,
            }
            for why, n in left_out.items():
                if n:
                    self.notes.append(
                        f"{path}: {n} {'line' if n == 1 else 'lines'} left out ({why})"
                    )
            if found.judgements:
                self._add(found.judgements)
            self._open_checks(found.checks)

    def _open_checks(self, entries: Sequence[tuple[int, Any]]) -> None:
        """The meter as it was: each check, and the answers that came after it."""
        for start, entry in entries:
            check = meter.from_entry(entry)
            if check is None:
                continue
            for judgement in self.judgements[start:]:
                if judgement.asked == "random" and judgement.query == check.query:
                    check.answers.setdefault(judgement.row, judgement.right)
            self.checks.append(check)
        self.n_asked = len(self.checks)

    # --- what is shown -------------------------------------------------------------------------

    def nearest(self, query: int, k: int = 10) -> tuple[Array, Array]:
        """Nearest rows now, and under the plain distance."""
        with self.lock:
            if self._plain[:2] != (query, k):  # judgements do not change these
                self._plain = query, k, self.live.nearest_plain(query, k)[0]
            return self.live.nearest(query, k)[0], self._plain[2]

    def ask(self) -> policy.Question:
        """Choose the next question; the distances of a random one are noted for the meter."""
        with self.lock:
            question = policy.ask(
                self.n_asked, self.live, self.n_rows, self.judgements, self.groups, self.rng
            )
            self.n_asked += 1
            if question.asked == "random" and len(question.rows):
                _, earlier = self.snapshots[0]
                distances = {
                    name: self.live.distances(question.query, question.rows, M)
                    for name, M in (("plain", 0), ("taught", None), ("earlier", earlier))
                }
                check = meter.Check(question.query, question.rows, distances, {})
                self.checks.append(check)
                if self.log is not None:
                    self.log.write({"check": meter.as_entry(check)})
            return question

    def _note_answer(self, judgement: Judgement) -> None:
        last = self.checks[-1] if self.checks else None
        if judgement.asked == "random" and last is not None and last.query == judgement.query:
            last.answers.setdefault(judgement.row, judgement.right)

    def reading(self) -> meter.Reading:
        """The meter."""
        with self.lock:
            answers = [len(check.answers) for check in self.checks]
            if self._reading[0] != answers:
                self._reading = answers, meter.read(self.checks)
            reading: meter.Reading = self._reading[1]
            return reading

    # --- the metric ----------------------------------------------------------------------------

    def rebuilt(self, updated: settling.Updated, quick: bool = False) -> Metric:
        """The metric of dual variables, as a fit rebuilds it."""
        info = {
            "version": __version__,
            "method": "teach",
            "judgements": len(self.judgements),
            "contradictions": self.groups.contradictions,
            "reg": self.options.reg,
            "margin": self.options.margin,
        }
        rng = np.random.default_rng(self.seed)
        return settling.metric_of(updated, self.base, self.options, rng, info, quick=quick)[0]

    def metric(self) -> Metric:
        """The metric taught so far, solved to a small gap."""
        from sklearn.base import clone

        with self.lock:
            tight: Any = clone(self.options).set_params(tol=None)
            return self.rebuilt(settling.settle(self.kept, self.base, tight, self.rng))
