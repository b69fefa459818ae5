"""MetricCV: a metric and its settings, chosen on held-out rows."""

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arrays.namespace import to_numpy
from .._options import (
    Option,
    check_options,
    max_rows_option,
    option,
    options_of,
    random_state_option,
    verbose_option,
    with_options,
)
from .._types import Array
from ..intervals import best_of_interval
from ..problem import length_unit
from ..scatter import DENSE_LIMIT
from ..supervision import Labels, Supervision
from ..supervision.sampling import n_triplets_option
from ._candidates import Candidate, fixed_options, n_groups, score_candidates
from .base import Euclidean, LearnedMetricEstimator, Training, generator, open_training, seed_of
from .dual import DuOri, DuRP
from .whitening import Whitening

# On documents that were not judged, a metric may be worse than the plain distance by two points at
# most, and by three standard errors: chosen on scifact and stackfaq.
_MOST_LOST, _MOST_ERRORS = 0.02, 3.0
_ENOUGH = 100  # held-out queries to tell settings apart by
_FEW_PER_CLASS = 50  # rows of a class, below which a prior is tried for labels, too
_ESTIMATORS: dict[str, Any] = {kind.__name__: kind for kind in (DuRP, DuOri, Whitening, Euclidean)}
_SCORES = {
    "map": "mAP",
    "knn": "right neighbours",
    "agreement": "agreement",
    "average_precision": "average precision",
    "ndcg": "nDCG@10",
    "recall": "recall@10",
    "precision": "precision@10",
    "hit_rate": "hit rate@10",
}


def _candidates_option(parameter: str, default: Any, note: str = "") -> Any:
    text = f"Candidates for ``{parameter}``{note or '.'}"
    each = options_of(DuRP)[parameter]
    return option("object", default=default, help=text, type="sequence", each=each)


@with_options
class MetricCV(LearnedMetricEstimator):
    """The metric and the settings that do best on held-out rows, as `RidgeCV` chooses a penalty.

    The plain Euclidean and cosine distance, `Whitening` (up to 1,000 features) and `DuRP` are tried
    with every combination of the settings. Each is scored on training rows that it was not learned
    from, and the best is learned again from all. What combinations have in common is computed once.

    Metrics with a prior are tried, too, for every kind of supervision but many labels: `DuOri` with
    ``prior="identity"`` or ``"whitening"`` up to 1,000 features, `DuRP` above, with several λ.

    Where no learned metric is better than the better plain distance by more than chance (a
    bootstrap interval over held-out queries), the plain distance is kept: see ``recommend()``.

    {sections}
    best_estimator_ : DuRP, DuOri, Whitening or Euclidean
        What learned it.
    best_params_ : dict
        Its parameters: ``type(best_estimator_)(**best_params_).fit(X, y)`` gives the same metric.
    best_score_ : float
        Its score on held-out rows.
    scoring_ : str
        The score that was compared.
    cv_results_ : dict of ndarrays
        As in `GridSearchCV`: ``params``, ``param_*``, ``split*_test_score``, ``mean_test_score``,
        ``std_test_score``, ``rank_test_score``, ``mean_fit_time`` (of the part that settings
        share), ``mean_score_time``; and ``estimator``, the name of the class.
    best_plain_ : tuple of (str, float)
        The better plain distance, and its score.
    best_index_ : int
        Place of the choice in ``cv_results_``.
    refit_time_ : float
        Seconds of learning the chosen metric from all rows.
    gain_interval_ : tuple of float
        95 % interval of how much the best learned metric scores above the better plain distance,
        on queries other than those it was the best of.
    new_documents_ : tuple of float or None
        With judgements and ``cv=None``: the scores of the choice and of the better plain distance
        on queries about documents that were not judged in training.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualmetric import MetricCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = MetricCV(n_triplets=5000, random_state=0).fit(X, y)
    >>> bool(search.best_score_ > max(search.cv_results_["mean_test_score"][:2]))  # the plain ones
    True
    """

    scoring: str | None = option(
        "str",
        default=None,
        help='What is to be good. For labels: "map", the ranking of held-out rows (mean average '
        'precision, the default), or "knn", the share of the right class among their five nearest '
        'training rows. For triplets and comparisons: "agreement", the share of held-out ones that '
        'are satisfied. For pairs: "average_precision". For positives and relevance: "ndcg" (the '
        'default), "map", "recall", "precision" or "hit_rate", of the first ten documents.',
        choices=(None, *_SCORES),
        type="str or None",
        flag="map, knn, agreement, average_precision, ndcg, recall, precision or hit_rate.",
    )
    cv: Any = option(
        "object",
        default=None,
        help="How to hold out. None holds out the last quarter of each class (of triplets or "
        "comparisons: a random quarter) and, while these are few or leave in doubt whether any "
        "metric is better than the plain distances, another quarter, up to all four. A number is "
        'that of folds, as in scikit-learn. "classes" holds out one half of the classes, then the '
        "other: choose it where the metric will meet classes that it has not seen. For judgements, "
        '"queries" holds out queries at random, and "documents" those about documents that no '
        "other query is about; None chooses the best on the first among those that are not worse "
        "than the plain distance on the second. With groups, whole groups are held out.",
        type="str, int, cross-validation generator, iterable or None",
    )
    shrinkages: Any = _candidates_option(
        "shrinkage",
        None,
        ". None tries 1, 0.84, 0.5, 0.1, 0.03 and 0.01; above 4,000 features 1, 0.92, 0.84 and "
        "0.7.",
    )
    ranks: Any = _candidates_option(
        "n_components",
        None,
        ". None tries the number of classes minus one, 50, and all that are positive (up to 1,000 "
        "features).",
    )
    powers: Any = _candidates_option(
        "power",
        (-0.25, 0.0, 0.25, 0.5),
        ". Those below 0 are tried with the smallest rank only.",
    )
    distances: Any = _candidates_option("distance", ("euclidean", "cosine"))
    samplers: Any = _candidates_option("sampler", ("active",))
    lifts: Any = _candidates_option("lift", (None, "rbf"), "; sparse rows are not lifted.")
    regs: Any = _candidates_option("reg", (None,))
    priors: Any = option(
        "object",
        default=None,
        help='Candidates for ``prior``: None, "identity" or "whitening". By default "identity" for '
        "pairs, positives and relevance, all three for triplets, comparisons, few labels and new "
        "classes, and None alone for many labels.",
        type="sequence",
        each=Option("str", "", choices=(None, "identity", "whitening")),
    )
    blocks: Any = option(
        "object",
        default=None,
        help="As in `DuRP`: blocks of features, each with a weight of its own. Only the plain "
        'distances and ``prior="identity"`` are then tried.',
        type="list or dict",
    )
    n_projections: int = option("int", default=50, help="As in `DuRP`; 400 with a prior.", low=1)
    n_triplets: int = n_triplets_option()
    max_epochs: int = option("int", default=3, help="As in `DuRP`.", low=1)
    max_rows: int | None = max_rows_option()
    random_state: Any = random_state_option("Seed of everything. The same seed, the same choice.")
    verbose: int = verbose_option("Above 0, print the choice; above 1, each group as it is scored.")

    def fit(
        self, X: Any, y: Any = None, *, callback: Callable[[int, int], object] | None = None
    ) -> Self:
        """Choose the settings and learn the metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Training rows; at most ``max_rows`` of them are learned from.
        y : array-like of shape (n_samples,), str, Triplets or Comparisons
            Labels, the name of their column in a data frame, or triplets or comparisons of row
            numbers.
        callback : callable, optional
            Called with the number of groups of candidates that are scored and the number of all,
            for progress.

        Returns
        -------
        MetricCV
            Itself.
        """
        check_options(self)
        seed = seed_of(self.random_state)
        # the rows that the chosen estimator, which gets this seed, will choose as well
        training = open_training(self, X, y, generator(seed))
        rows, supervision = to_numpy(training.X), training.supervision
        scoring = supervision.scorings[0] if self.scoring is None else self.scoring
        if scoring not in supervision.scorings:
            raise ValueError(
                f"scoring={scoring!r} does not apply to {type(supervision).__name__.lower()}: use "
                + " or ".join(map(repr, supervision.scorings))
            )
        length_unit(rows)  # refuses rows that are all the same, and numbers out of range
        n_classes = len(np.unique(supervision.y)) if isinstance(supervision, Labels) else None
        families = self._families(supervision, rows.shape[1])
        found: list[list[Candidate]] = []
        guards: list[list[Candidate]] = []
        distance, names = None, training.rows.names
        for split in supervision.splits(rows, self.cv, scoring, seed):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the refit warns about the choice itself
                candidates: list[Candidate] = []
                groups = score_candidates(
                    rows, split, self, families, n_classes, distance, names, seed
                )
                for done, group in enumerate(groups, start=1):
                    candidates += group
                    if self.verbose > 1:
                        spent = group[0].fit_time + sum(one.score_time for one in group)
                        print(f"[MetricCV] {len(group)} × {group[0].method}: {spent:.2f} s")
                    if callback is not None:
                        callback(done, n_groups(rows, self, families))
            distance = distance or max(candidates[:2], key=lambda c: c.mean).params["distance"]
            if split.guard:
                guards.append(candidates)
                continue
            found.append(candidates)
            choice = _choose(found, guards)
            low, high = choice["gain_interval_"]
            scored = sum(len(part[0].scores) for part in found)
            if self.cv is None and scored >= _ENOUGH and not low <= 0.0 <= high:
                break  # no doubt is left whether a learned metric is better
        return self._refit(training, choice, scoring, seed)

    def _families(self, supervision: Supervision, n_features: int) -> list[str]:
        """What is tried besides the plain distances."""
        families = list(supervision.families)
        if self.blocks is not None:
            return ["identity"]
        if self.priors is not None:
            families = [name for name in families if name == "scatter"]
            return families + ["dual" if prior is None else prior for prior in self.priors]
        if isinstance(supervision, Labels):
            known = supervision.y[supervision.known_rows()]
            few = np.median(np.unique(known, return_counts=True)[1]) < _FEW_PER_CLASS
            if n_features > DENSE_LIMIT or not (few or isinstance(self.cv, str)):
                families = ["scatter", "dual"]
        return families

    def recommend(self) -> str:
        """Explain the choice in a sentence."""
        check_is_fitted(self)
        name = _SCORES.get(self.scoring_, self.scoring_)
        plain = f"the plain {self.best_plain_[0]} distance"
        low, high = (100 * end for end in self.gain_interval_)
        method = type(self.best_estimator_).__name__
        if method == "Euclidean":
            return (
                f"Keep {plain}: no learned metric is better beyond the noise on held-out rows "
                f"({name} {100 * self.best_score_:.1f} %; the best learned one differs by "
                f"{low:+.1f} to {high:+.1f} points)."
            )
        chosen = ", ".join(f"{key}={value!r}" for key, value in self.best_params_.items())
        return (
            f"Use {method}({chosen}): {name} {100 * self.best_score_:.1f} % on held-out rows, "
            f"where {plain} has {100 * self.best_plain_[1]:.1f} % (a gain of {low:.1f} to "
            f"{high:.1f})."
        )

    def _refit(self, training: Training, choice: dict[str, Any], scoring: str, seed: int) -> Self:
        kept: Candidate = choice.pop("kept")
        kind = _ESTIMATORS[kept.method]
        more = {**fixed_options(self), "max_rows": self.max_rows, "random_state": seed}
        known = options_of(kind).keys() - kept.params.keys()
        params = kept.params | {name: more[name] for name in more if name in known}
        begin = perf_counter()
        model = kind(**params).fit(training.rows, training.whole)
        choice["refit_time_"] = perf_counter() - begin
        chosen_by = f"MetricCV, scoring={scoring!r}"
        choice["metric_"] = model.metric_.with_info(chosen_by=chosen_by, held_out_score=kept.mean)
        choice |= {"best_estimator_": model, "best_params_": params, "scoring_": scoring}
        self._store(training.rows, training.counts, **choice)
        if self.verbose:
            print(f"[MetricCV] {self.recommend()}")
        return self


def _not_worse(guards: list[list[Candidate]], n: int) -> tuple[list[Candidate], Array]:
    """Candidates on the guard splits, and which are not clearly worse than the plain distance."""
    merged = [Candidate.merged(same) for same in zip(*guards, strict=True)]
    if not merged:
        return [], np.ones(n, dtype=bool)
    plain = max((c for c in merged if c.method == "Euclidean"), key=lambda c: c.mean)
    differences = np.array([c.scores - plain.scores for c in merged])
    error = differences.std(axis=1) / np.sqrt(differences.shape[1])
    mean = differences.mean(axis=1)
    return merged, (mean >= -_MOST_LOST) & (mean + _MOST_ERRORS * error >= 0.0)


def _choose(found: list[list[Candidate]], guards: list[list[Candidate]]) -> dict[str, Any]:
    """Compare the candidates over all splits; returns what becomes fitted attributes."""
    merged = [Candidate.merged(same) for same in zip(*found, strict=True)]
    guarded, allowed = _not_worse(guards, len(merged))
    scores = np.array([candidate.mean for candidate in merged])
    plain = [c for c in merged if c.method == "Euclidean"]
    best_plain = max(plain, key=lambda c: c.mean)
    learned = [c for c, ok in zip(merged, allowed, strict=True) if c.method != "Euclidean" and ok]
    gain = (0.0, 0.0)
    kept = best_plain
    if learned:
        gain = best_of_interval(np.array([c.scores for c in learned]), best_plain.scores)
        kept = max(learned, key=lambda c: c.mean) if gain[0] > 0 else best_plain
    place = merged.index(kept)
    new = None
    if guarded:
        plain_there = max(c.mean for c in guarded if c.method == "Euclidean")
        new = guarded[place].mean, plain_there
    keys = sorted({key for candidate in merged for key in candidate.params})
    by_split = np.array([[c.mean for c in part] for part in found])
    results = {
        "estimator": np.array([c.method for c in merged]),
        "params": [c.params for c in merged],
        **{
            f"param_{key}": np.ma.array(
                [c.params.get(key) for c in merged],
                mask=[key not in c.params for c in merged],
                dtype=object,
            )
            for key in keys
        },
        **{f"split{i}_test_score": row for i, row in enumerate(by_split)},
        "mean_test_score": scores,
        "std_test_score": by_split.std(axis=0),
        "rank_test_score": (scores[None, :] > scores[:, None]).sum(axis=1) + 1,
        "mean_fit_time": np.array([c.fit_time for c in merged]),
        "mean_score_time": np.array([c.score_time for c in merged]),
    }
    return {
        "kept": kept,
        "best_score_": kept.mean,
        "best_index_": place,
        "new_documents_": new,
        "best_plain_": (best_plain.params["distance"], best_plain.mean),
        "gain_interval_": gain,
        "cv_results_": results,
    }
