"""DuRPCV: the settings of a metric, chosen on held-out rows."""

import warnings
from numbers import Integral
from time import perf_counter
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state, check_scalar

from .._types import Array, Rows
from .._validation import check_labels
from ..comparison import best_of_interval
from ..recovery import DENSE_LIMIT
from ._base import Euclidean, LinearMetricLearner
from ._candidates import Candidate, Settings, score_candidates
from ._dual import SPAN_LIMIT
from ._folds import held_out_parts
from .dual import DuRP
from .whitened import Whitening

_ENOUGH = 100  # held-out rows to tell settings apart by

_AXES = {
    "shrinkages": "shrinkage",
    "powers": "power",
    "distances": "distance",
    "samplers": "sampler",
    "lifts": "lift",
    "regs": "reg",
}


_SHRINKAGES = (1.0, 0.84, 0.5, 0.1, 0.03, 0.01)
# many features vary too little to be whitened strongly, and each step down costs more
_WIDE_SHRINKAGES = (1.0, 0.92, 0.84, 0.7)


class DuRPCV(LinearMetricLearner):
    """DuRP with its settings chosen on held-out rows, as `RidgeCV` chooses the penalty.

    Every combination of the settings is scored on training rows that it was not learned from, and
    the best is learned anew from all. What combinations have in common is done once: triplets for
    each sampler, kernel features for each lift, the scatter within classes; all ranks, powers and
    distances are read off one set of directions.

    `Whitening` is tried with each shrinkage, too, up to 1,000 features.

    The plain Euclidean and cosine distance are always among the candidates. Where none is better
    than the better of them by more than chance (a bootstrap interval over held-out queries), the
    plain distance is kept: see ``recommend()``.

    Parameters
    ----------
    scoring : {"map", "knn"}, default="map"
        What is to be good: "map", the ranking of held-out rows (mean average precision), or "knn",
        their five nearest training rows: what counts is the share of the right class, which is
        surer to tell settings apart than the vote.
    cv : {None, "classes"}, int, cross-validation generator or iterable, default=None
        How rows are held out. None holds out the last quarter of each class and, while these are
        few or leave in doubt whether any metric is better than the plain distances, the quarter
        before it, up to all four; a number is that of stratified folds, in the order of the rows as
        scikit-learn has them; "classes" holds out one half of the classes, then the other: choose
        it where the metric will meet classes that it has not seen.
    shrinkages : sequence of float, or None, default=None
        Candidates for ``shrinkage``. None tries 1, 0.84, 0.5, 0.1, 0.03 and 0.01; above 4,000
        features 1, 0.92, 0.84 and 0.7.
    powers, distances, samplers, lifts, regs : sequence
        Candidates for the parameters of `DuRP` of these names, in the singular. A lift is left out
        for sparse rows, and powers below 0 with any but the smallest of the ranks.
    ranks : sequence of int, or None, default=None
        Candidates for ``n_components``. None tries the number of classes less one, 50, and all
        that are positive (up to 1,000 features).
    n_projections, n_triplets, max_epochs : int
        As in `DuRP`.
    random_state : int, RandomState instance or None, default=None
        Seed of everything. The same seed gives the same choice.
    verbose : int, default=0
        Above 0, print the choice; above 1, each part as it is scored.

    Attributes
    ----------
    metric_ : Metric
        The chosen metric, learned from all rows.
    best_params_ : dict
        Its settings: parameters of `DuRP`; ``shrinkage`` and ``distance`` alone for `Whitening`,
        and ``distance`` alone where the plain distance is kept.
    best_score_ : float
        Its score on held-out rows.
    best_estimator_ : DuRP, Whitening or Euclidean
        What learned it.
    cv_results_ : dict of ndarrays
        As `GridSearchCV` has it: ``params``, ``param_*``, ``split*_test_score``,
        ``mean_test_score``, ``std_test_score``, ``rank_test_score``, ``mean_fit_time`` (of the
        part that settings share), ``mean_score_time``.
    refit_time_ : float
        Seconds of learning the chosen metric from all rows.
    gain_interval_ : tuple of float
        95 % interval of how much the best learned metric scores above the better plain distance,
        on queries other than those it was the best of.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X had names that are all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualmetric import DuRPCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = DuRPCV(n_triplets=5000, random_state=0).fit(X, y)
    >>> bool(search.best_score_ > max(search.cv_results_["mean_test_score"][:2]))  # the plain ones
    True
    """

    scale = True  # as `DuRP` has it by default

    def __init__(
        self,
        *,
        scoring: str = "map",
        cv: Any = None,
        shrinkages: Any = None,
        ranks: Any = None,
        powers: Any = (-0.25, 0.0, 0.25, 0.5),
        distances: Any = ("euclidean", "cosine"),
        samplers: Any = ("active",),
        lifts: Any = (None, "rbf"),
        regs: Any = (None,),
        n_projections: int = 50,
        n_triplets: int = 100_000,
        max_epochs: int = 3,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.scoring = scoring
        self.cv = cv
        self.shrinkages = shrinkages
        self.ranks = ranks
        self.powers = powers
        self.distances = distances
        self.samplers = samplers
        self.lifts = lifts
        self.regs = regs
        self.n_projections = n_projections
        self.n_triplets = n_triplets
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the settings and learn the metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Training rows; of a memory map or another source of more than 50,000 rows, as many are
            chosen at random.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        DuRPCV
            Itself.
        """
        self._check_parameters()
        if y is None:
            raise ValueError(
                "DuRPCV requires y to be passed, but the target y is None; with triplets only, "
                "use DuRP, whose settings are then yours to choose"
            )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        X, y, _, _ = self._read(self._rows(X), y, None, np.random.default_rng(seed))
        labels = check_labels(y, X.shape[0])
        self._length_unit(X)  # refuses rows that are all the same, and numbers out of range
        codes = np.unique(labels, return_inverse=True)[1]
        settings = self._settings(*X.shape)
        say = print if self.verbose > 1 else None
        found: list[list[Candidate]] = []
        for part in held_out_parts(X, codes, self.cv, seed):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what there is to say is said of the choice
                found.append(score_candidates(X, codes, part, settings, seed, say))
            self._choose(found)
            low, high = self.gain_interval_
            scored = sum(len(candidates[0].scores) for candidates in found)
            if self.cv is None and scored >= _ENOUGH and not low <= 0.0 <= high:
                break  # no doubt is left whether a learned metric is better
        return self._learn(X, labels, seed)

    def recommend(self) -> str:
        """Explain the choice in a sentence."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        name = {"map": "mAP", "knn": "right neighbours"}[self.scoring]
        plain = f"the plain {self._best_plain.params['distance']} distance"
        low, high = (100 * end for end in self.gain_interval_)
        if self.best_params_.keys() == {"distance"}:
            return (
                f"Keep {plain}: no learned metric is better beyond the noise on held-out rows "
                f"({name} {100 * self.best_score_:.1f} %; the best learned one differs by "
                f"{low:+.1f} to {high:+.1f} points)."
            )
        chosen = ", ".join(f"{key}={value!r}" for key, value in self.best_params_.items())
        method = type(self.best_estimator_).__name__
        return (
            f"Use {method}({chosen}): {name} {100 * self.best_score_:.1f} % on held-out rows, "
            f"where {plain} has {100 * self._best_plain.mean:.1f} % (a gain of {low:.1f} to "
            f"{high:.1f})."
        )

    def _check_parameters(self) -> None:
        if self.scoring not in ("map", "knn"):
            raise ValueError(f"scoring must be 'map' or 'knn'; got {self.scoring!r}")
        for name, parameter in {**_AXES, "ranks": "n_components"}.items():
            values = getattr(self, name)
            if values is None and name in ("shrinkages", "ranks"):
                continue
            if isinstance(values, str) or not np.size(values):
                raise ValueError(f"{name} must be a sequence of candidates; got {values!r}")
            for value in values:  # DuRP knows what is allowed
                DuRP(**{parameter: value})._check_parameters()
        for name in ("n_projections", "n_triplets", "max_epochs"):
            check_scalar(getattr(self, name), name, Integral, min_val=1)

    def _settings(self, n: int, d: int) -> Settings:
        axes = {parameter: getattr(self, name) for name, parameter in _AXES.items()}
        if axes["shrinkage"] is None:
            is_wide = d > DENSE_LIMIT and n >= SPAN_LIMIT
            axes["shrinkage"] = _WIDE_SHRINKAGES if is_wide else _SHRINKAGES
        return Settings(
            axes, self.ranks, self.scoring, self.n_projections, self.n_triplets, self.max_epochs
        )

    def _choose(self, found: list[list[Candidate]]) -> None:
        """Compare the candidates over all parts that were held out."""
        merged = [Candidate.merged(same) for same in zip(*found, strict=True)]
        scores = np.array([candidate.mean for candidate in merged])
        plain = [c for c in merged if c.is_plain]
        learned = [c for c in merged if not c.is_plain]
        self._best_plain = max(plain, key=lambda c: c.mean)
        best = max(learned, key=lambda c: c.mean)
        every = np.array([c.scores for c in learned])
        self.gain_interval_ = best_of_interval(every, self._best_plain.scores)
        kept = best if self.gain_interval_[0] > 0 else self._best_plain
        self.best_index_ = next(i for i, c in enumerate(merged) if c is kept)
        self.best_params_, self.best_score_ = kept.params, kept.mean
        keys = sorted({key for candidate in merged for key in candidate.params})
        by_part = np.array([[c.mean for c in part] for part in found])
        self.cv_results_ = {
            "params": [candidate.params for candidate in merged],
            **{
                f"param_{key}": np.ma.array(
                    [c.params.get(key) for c in merged],
                    mask=[key not in c.params for c in merged],
                    dtype=object,
                )
                for key in keys
            },
            **{f"split{i}_test_score": row for i, row in enumerate(by_part)},
            "mean_test_score": scores,
            "std_test_score": by_part.std(axis=0),
            "rank_test_score": (scores[None, :] > scores[:, None]).sum(axis=1) + 1,
            "mean_fit_time": np.array([c.fit_time for c in merged]),
            "mean_score_time": np.array([c.score_time for c in merged]),
        }

    def _learn(self, X: Rows, labels: Array, seed: int) -> Self:
        if self.best_params_.keys() == {"distance"}:
            model: Any = Euclidean(**self.best_params_)
        elif self.best_params_.keys() == {"distance", "shrinkage"}:
            model = Whitening(random_state=seed, **self.best_params_)
        else:
            model = DuRP(
                n_projections=self.n_projections,
                n_triplets=self.n_triplets,
                max_epochs=self.max_epochs,
                random_state=seed,
                **self.best_params_,
            )
        begin = perf_counter()
        self.best_estimator_ = model.fit(X, labels)
        self.refit_time_ = perf_counter() - begin
        names = getattr(self, "feature_names_in_", None)
        self.metric_ = model.metric_.replaced(
            feature_names=None if names is None else tuple(names),
            info={
                **model.metric_.info,
                "chosen_by": f"DuRPCV, scoring={self.scoring!r}",
                "held_out_score": self.best_score_,
            },
        )
        if self.verbose:
            print(f"[DuRPCV] {self.recommend()}")
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
