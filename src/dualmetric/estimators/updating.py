"""``partial_fit``, ``forget``, ``decay`` and ``rebase`` of DuRP and DuOri."""

import os
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from .. import settling, updating
from .._arrays import ops
from .._arrays.namespace import in_full_precision, require_host, to_numpy
from .._options import check_options
from .._rows import Rows, choose_rows, open_rows
from .._types import Array, Matrix
from ..losses import get_loss
from ..prior import check_prior
from ..problem import DualOptions
from ..supervision import Comparisons, Labels
from ..updating import Base, Kept
from .base import LearnedMetricEstimator, check_two_rows, generator, open_training


class State:
    """What an update continues from: the attribute ``updating_``."""

    def __init__(self, base: Base, kept: Kept) -> None:
        self.base, self.kept = base, kept

    def __repr__(self) -> str:
        return f"<{len(self.kept):,} comparisons of {self.kept.raw.shape[0]:,} rows>"


class Updating(LearnedMetricEstimator, DualOptions):
    """The methods, for estimators that rebuild the metric in the original space."""

    _updating_attributes = """
    updating_ : State
        After `partial_fit`: what the next update continues from. The row numbers in
        ``comparisons_`` then refer to ``rows_``.
    rows_ : array or CSR matrix of shape (n_named, n_features_in_)
        After `partial_fit`: the rows that comparisons name.
    ids_ : tuple
        After `partial_fit`: the id of each comparison.
    distance_bound_ : float
        After `partial_fit`: bound on the Frobenius distance between the matrix of the metric and
        that of a fit from scratch on the same comparisons, in the space and unit in which the
        problem is solved. For DuRP, that space is the projection."""

    updating_: State

    def partial_fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Add supervision to what was learned before.

        The dual variables are kept, and learning continues from them until the duality gap is
        small: the metric is that of a fit from scratch on all comparisons so far, within
        ``distance_bound_``. The first call also learns what stays fixed: the centre and unit of
        length, whitening and the random projection. Pass many rows to the first call. `rebase`
        learns the fixed parts again.

        `partial_fit` cannot continue from `fit`: call it on a new estimator, which may have the
        metric of another estimator as its prior.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Rows. Rows that were used before are recognised by their values.
        y : array-like of shape (n_samples,), str or Supervision, optional
            What is known about these rows, as in `fit`. Without it, the first call only learns what
            stays fixed, and the metric is the prior.
        ids : str, int, or a sequence of these, optional
            Id of all comparisons of this call, or one id for each triplet or comparison; `forget`
            takes ids. Several comparisons may share one. Default: the number of the update, from 0.

        Returns
        -------
        self
            The fitted estimator. A call that fails leaves it as it was.
        """
        _check_updatable(self)
        state: State | None = getattr(self, "updating_", None)
        if state is None and hasattr(self, "metric_"):
            raise ValueError(
                f"{type(self).__name__} was fitted by fit, and partial_fit cannot continue from "
                "that: call partial_fit on a new estimator, or use prior=model.metric_ there"
            )
        return self._partial_fit(X, y, ids, state)

    @in_full_precision
    def _partial_fit(self, X: Any, y: Any, ids: Any, state: State | None) -> Self:
        known = None if state is None else state.base.first
        rng = generator(self.random_state)
        if state is not None:  # a stream of its own for each update
            rng = np.random.default_rng([int(rng.integers(2**31)), state.kept.n_updates])
        if y is None:
            if state is not None:
                raise ValueError(
                    "y is None, which only the first partial_fit allows: pass labels, or an object "
                    "of dualmetric.supervision"
                )
            rows, _ = open_rows(X)
            check_two_rows(rows, type(self).__name__)
            X = self._some_of(rows, rng)
            base = self._make_base(X, None, rng, rows.names)
            counts = {"used": X.shape[0], "given": rows.shape[0]}
            return self._settle(State(base, updating.nothing(X, base)), rng, rows, counts)
        training = open_training(self, X, y, rng, known)
        places = _places_kept(y)
        X = _on_host(training.X)
        if state is None:
            base = self._make_base(X, training.supervision, rng, training.rows.names)
            state = State(base, updating.nothing(X, base))
        raw, given = _compared(X, training.supervision, state.base, self, rng)
        named = _ids(ids, given, places, state.kept.n_updates)
        kept = updating.add(state.kept, state.base, raw, given, named, self)
        return self._settle(State(state.base, kept), rng, training.rows, training.counts)

    def forget(self, ids: Any) -> Self:
        """Remove comparisons and all that was learned from them.

        Rows that no other comparison names are removed from the state as well.

        Parameters
        ----------
        ids : str, int, or a sequence of these
            As they were given to `partial_fit`, or as in ``ids_``.

        Returns
        -------
        self
            The fitted estimator.
        """
        state = _state_of(self, "forget")
        if not isinstance(ids, str | Integral | Iterable):
            raise TypeError(f"ids must be a str, an int or a sequence of these; got {ids!r}")
        wanted = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else [ids]
        missing = set(wanted) - set(state.kept.ids)
        if missing:
            raise ValueError(
                f"ids: no comparison has the id {min(missing, key=str)!r}; ids_ lists all ids"
            )
        chosen = set(wanted)
        places = [place for place, name in enumerate(state.kept.ids) if name in chosen]
        return self._resettle(updating.remove(state.kept, state.base, np.array(places, int)))

    def decay(self, half_life: float) -> Self:
        """Let comparisons count less the older they are.

        The weight of a comparison becomes the weight it was given times 2^(−age/half_life). Its age
        is the number of updates since it was added. Weights do not change by themselves: call this
        again after later updates. Each call starts from the given weights.

        Parameters
        ----------
        half_life : float
            Age at which a comparison counts half as much, in updates; infinity restores the given
            weights.

        Returns
        -------
        self
            The fitted estimator.
        """
        state = _state_of(self, "decay")
        if not isinstance(half_life, Real) or not half_life > 0:
            raise ValueError(f"half_life must be a number above 0; got {half_life!r}")
        kept = state.kept
        age = kept.n_updates - 1 - kept.born
        weight = kept.given * np.exp2(-age / float(half_life))
        return self._resettle(updating.reweigh(kept, weight, get_loss(self.loss)))

    def rebase(self, X: Any = None) -> Self:
        """Learn again what updates leave fixed: centre, unit, whitening and projection.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source}, optional
            Rows to learn them from; the rows of the comparisons if None. Whitening uses the
            differences of rows that should be close or, without comparisons, the scatter of X.

        Returns
        -------
        self
            The fitted estimator.
        """
        state = _state_of(self, "rebase")
        _check_updatable(self)
        kept, first = state.kept, state.base.first
        rng = generator(self.random_state)
        if X is None and len(kept) == 0:
            raise ValueError(
                "there are no comparisons yet, so rebase has no rows to learn from: pass X"
            )
        rows: Matrix = kept.raw
        if X is not None:
            opened, _ = open_rows(X, names=first.feature_names, width=first.n_features)
            opened.check_width(first.n_features, type(self).__name__)
            check_two_rows(opened, type(self).__name__)
            rows = self._some_of(opened, rng)
        near = kept.comparisons if len(kept) else None
        if near is not None and X is not None:
            near = Comparisons(kept.index + rows.shape[0], kept.margin, kept.weight)
            rows = ops.stacked([rows, kept.raw])
        base = self._make_base(rows, near, rng, first.feature_names)
        return self._resettle(updating.based_on(kept, base), base)

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the state of the updates to a safetensors file.

        An existing file is replaced atomically. The file holds the rows of the comparisons.
        `load_state` reads it.

        Parameters
        ----------
        path : str or path
            File to write; its folder must exist.
        """
        from ..io import state_file

        state = _state_of(self, "save_state")
        state_file.save(path, type(self).__name__, self.get_params(deep=False), state)

    @classmethod
    def load_state(cls, path: str | os.PathLike[str]) -> Self:
        """Return the estimator that `save_state` wrote. Nothing in the file is executed.

        Parameters
        ----------
        path : str or path
            A file that `save_state` wrote.

        Returns
        -------
        estimator
            The fitted estimator, which further updates can continue from.
        """
        from ..io import state_file

        method, parameters, base, kept = state_file.load(path)
        if method != cls.__name__:
            raise ValueError(
                f"{path} holds the state of {method}, not of {cls.__name__}: use "
                f"{method}.load_state"
            )
        try:
            model: Any = cls(**parameters)
            check_options(model)
            model.updating_ = State(base, kept)
            model.n_features_in_ = base.first.n_features
            model.n_rows_used_ = model.n_rows_in_ = kept.raw.shape[0]
            return model._resettle(kept)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}; save it again") from None

    # --- parts -------------------------------------------------------------------------------

    def _some_of(self, rows: Rows, rng: np.random.Generator) -> Matrix:
        """At most ``max_rows`` rows, chosen evenly."""
        return _on_host(rows.take(choose_rows(rows.shape[0], self.max_rows, rng)))

    def _make_base(self, X: Matrix, supervision: Any, rng: np.random.Generator, names: Any) -> Base:
        check_prior(self, X.shape[1])
        if supervision is None:  # whitening then takes the scatter of all rows
            supervision = Labels(np.zeros(X.shape[0], int)).check(X.shape[0])
        return updating.make_base(X, supervision, self, rng, names)

    def _resettle(self, kept: Kept, base: Base | None = None) -> Self:
        seed = int(generator(self.random_state).integers(2**31))
        rng = np.random.default_rng([seed, kept.n_updates])
        base = base or self.updating_.base
        counts = {"used": self.n_rows_used_, "given": self.n_rows_in_}
        return self._settle(State(base, kept), rng, None, counts)

    def _settle(self, state: State, rng: np.random.Generator, rows: Any, counts: Any) -> Self:
        """Solve, rebuild the metric, and store all: nothing changes where that fails."""
        done = settling.settle(state.kept, state.base, self, rng)
        info = {**self._described(), "rows": counts, "comparisons": len(state.kept)}
        metric, residual = settling.metric_of(done, state.base, self, rng, info)
        if rows is None:
            rows = _Width(self.n_features_in_, state.base.first.feature_names)
        return self._store(
            rows,
            counts,
            metric_=metric,
            updating_=State(state.base, done.kept),
            rows_=done.kept.raw,
            ids_=done.kept.ids,
            comparisons_=done.kept.comparisons,
            dual_coef_=done.kept.beta,
            history_=[done.epoch],
            duality_gap_=done.epoch.gap,
            distance_bound_=done.bound,
            n_iter_=done.epoch.epoch,
            residual_=residual,
        )


class _Width:
    """Width and names of rows that are not opened again."""

    def __init__(self, n_features: int, names: Any) -> None:
        self.n_features, self.names = n_features, names


def _state_of(model: Any, what: str) -> State:
    if not hasattr(model, "updating_"):
        raise ValueError(f"{what} needs an estimator fitted by partial_fit: call partial_fit first")
    state: State = model.updating_
    return state


def _check_updatable(model: Any) -> None:
    check_options(model)
    unused = {"lift": model.lift is None, "blocks": model.blocks is None}
    for name, is_unused in (unused | {"all_rows": not model.all_rows}).items():
        if not is_unused:
            raise ValueError(f"{name} cannot be used with partial_fit: leave it out, or use fit")
    if model.shrinkage < 1.0 and model.prior != "whitening":
        raise ValueError(
            f"shrinkage={model.shrinkage:g} can be used with partial_fit only if "
            "prior='whitening': set that prior, or use fit"
        )


def _on_host(X: Matrix) -> Matrix:
    require_host(X, "updating")
    return X


def _places_kept(y: Any) -> tuple[int, Array] | None:
    """How many triplets or comparisons there are, and which their check does not leave out."""
    if not isinstance(y, Comparisons):
        return None
    index = np.asarray(to_numpy(y.index))
    n = len(index)
    weight = np.ones(n) if y.weight is None else np.broadcast_to(to_numpy(y.weight), (n,))
    pairs = np.sort(y._pairs(index).reshape(-1, 2, 2), axis=2)
    silent = (pairs[:, 0] == pairs[:, 1]).all(axis=1) | (weight == 0)
    return n, np.flatnonzero(~silent)


def _compared(
    X: Matrix, supervision: Any, base: Base, options: Any, rng: np.random.Generator
) -> tuple[Matrix, Comparisons]:
    """Rows that comparisons name, as they were given, and the comparisons over them."""
    if isinstance(supervision, Comparisons):
        named = supervision.rows()
        taken = supervision.take(named)
        return ops.take_rows(X, named), taken.compare(X, 0, "", 0.0, rng)
    rows, prior = base.first.apply(X), base.prior
    threshold = options.margin * base.unit**2
    if prior is not None:
        threshold = options.margin / prior.scale
        if prior.factor is not None and not prior.omega:
            rows = ops.dot(rows, prior.factor)
    found = supervision.compare(rows, options.n_triplets, options.sampler, threshold, rng)
    named = found.rows()
    return ops.take_rows(X, named), found.take(named)


def _ids(
    ids: Any, given: Comparisons, places: tuple[int, Array] | None, n_updates: int
) -> Sequence[str | int]:
    """One id for each comparison."""
    if ids is None:
        ids = n_updates
    if isinstance(ids, str | Integral) and not isinstance(ids, bool):
        return [ids if isinstance(ids, str) else int(ids)] * len(given)
    found = np.asarray(ids, dtype=object)
    if places is None or found.ndim != 1:
        raise ValueError(
            "ids must be one name (a str or an int) for all comparisons of this call"
            + ("" if places is None else ", or a sequence with one for each")
        )
    wrong = [name for name in found if not isinstance(name, str | Integral)]
    if wrong:
        raise ValueError(f"ids must be str or int; got {wrong[0]!r}")
    n, chosen = places
    if len(found) != n:
        raise ValueError(f"ids has {len(found)} names for {n} comparisons: give one for each")
    return [name if isinstance(name, str) else int(name) for name in found[chosen]]
