"""MetricCV: a metric and its settings, chosen on held-out rows."""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from numbers import Integral
from time import perf_counter
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arrays import ops
from .._arrays.namespace import to_numpy
from .._arrays.system import blas_threads_for
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
from .._rows import open_rows
from .._validation import warn
from ..learn import PRIOR_REG
from ..problem import length_unit
from ..supervision import Labels, Split, Supervision
from ._candidates import (
    FEW_LABELS,
    JUDGED_EPOCHS,
    LABEL_PROJECTIONS,
    PRIOR_PROJECTIONS,
    TRIPLETS_PER_ROW,
    Field,
    families_of,
    fixed_options,
    is_too_wide,
    n_groups,
    predicts_classes,
    refuse_unused,
    run_candidates,
)
from ._choice import best_of_families, choose, drop_worse, on_guard, results, still_worse, unusual
from ._estimate import Estimate, estimate_dual
from ._race import Candidate, Race, better_plain, is_default_ridge
from .base import Euclidean, LearnedMetricEstimator, Training, generator, open_training, seed_of
from .dual import DuOri, DuRP
from .ridge import RidgeMetric
from .whitening import Whitening

_ENOUGH = 100  # held-out queries to tell settings apart by
_RACE_SHARE = 0.5  # of the time limit: the rest is for the fit from all rows
_ESTIMATORS: dict[str, Any] = {
    kind.__name__: kind for kind in (DuRP, DuOri, RidgeMetric, Whitening, Euclidean)
}
RIDGE_REASON = "So few labels cannot show a gain, but ridge regression has one on most data."
NEW_CLASSES_REASON = (
    "It is the default for new classes; those held out do not show that another metric is better."
)
_PLAIN = {"euclidean": "Euclidean", "cosine": "cosine"}
SCORES = {
    "map": "mAP",
    "knn": "right neighbours",
    "both": "mean of mAP and right neighbours",
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
    """Choose a metric and its settings on held-out rows, as `RidgeCV` chooses a penalty.

    The plain Euclidean and cosine distance, `Whitening` (up to 1,000 features), `RidgeMetric` and
    `DuRP` are tried with many settings, over the features and over kernel features (a lift). Each
    is scored on training rows that it was not learned from. For every kind of supervision except
    labels of known classes, metrics with ``prior="identity"`` or ``"whitening"`` and several λ are
    also tried: `DuOri` up to 1,000 features (100 for labels), and `DuRP` above that. If
    shrinkages, ranks, powers, samplers or regs are given, `RidgeMetric` is not tried.

    Candidates race: each is scored on some held-out queries first, and drops out if it is clearly
    behind the best so far. Work that candidates share is done once. Shrinkages are tried from the
    middle outwards, as long as scores improve.

    Of the candidates within one standard error of the best, the simplest is chosen (linear before
    lifted, whitening before ridge before DuRP, few directions before many), and learned again from
    all rows. If none is significantly better than the better plain distance (by a bootstrap
    interval over held-out queries), the plain distance is kept: see ``recommend()``. There are
    three exceptions, where so little is known that a gain can rarely be significant:

    - With 40 to 1,000 labels, `RidgeMetric` with default settings, which gains on most data, is
      taken in place of the plain distance if it predicts the classes better than chance, unless it
      seems to lose.
    - For positives and relevance, metrics with a prior, which makes large losses unlikely, are
      tested on their own (one-sided, with 95 % confidence), not together with all others.
    - With ``cv="classes"`` and up to 4,000 features, only metrics with a prior and `Whitening` are
      tried, unless ``max_components`` is given. The default, ``prior="whitening"``
      (``"identity"`` above 1,000 features) with λ = 0.01, is taken, unless another metric or the
      plain distance is significantly better over the held-out classes.

    Candidates that cannot be fitted are left out, with a warning. An error is raised if none can.

    {sections}
    best_estimator_ : DuRP, DuOri, RidgeMetric, Whitening or Euclidean
        The estimator that was chosen, fitted to all rows.
    best_params_ : dict
        Its parameters: ``type(best_estimator_)(**best_params_).fit(X, y)`` gives the same metric.
    best_score_ : float
        Its score on held-out rows. It is a little too high: the best was chosen by these rows.
    expected_score_ : float
        An estimate without this bias, for new rows: the candidate that is best on some of the
        held-out queries is judged on the others.
    scoring_ : str
        The score that was compared.
    other_scores_ : dict
        With labels: "map" and "knn" of the choice and of the better plain distance, if these scores
        were not used to choose.
    families_ : list of dict
        The best candidate of each family: its name, its score, and the 95 % interval of the score.
    held_out_ : str
        What was held out: "rows", "classes", "pairs", "queries" or "comparisons".
    cv_results_ : dict of ndarrays
        As in `GridSearchCV`: ``params``, ``param_*``, ``split*_test_score``, ``mean_test_score``,
        ``std_test_score``, ``rank_test_score``, ``mean_fit_time`` (of a fit with these settings
        alone), ``mean_score_time``; ``estimator``, the name of the class; ``dropped``, whether it
        dropped out of the race; and ``n_queries`` that it was scored on. A candidate that dropped
        out has NaN for later splits, and its mean is that of the best plus its mean difference.
    best_plain_ : tuple of (str, float)
        The better plain distance, and its score.
    best_index_ : int
        Place of the choice in ``cv_results_``.
    refit_time_ : float
        Seconds that learning the chosen metric from all rows took.
    gain_interval_ : tuple of float
        Interval of the gain of the chosen family over the better plain distance (if that is kept,
        of the family with the highest lower end). It holds with at least 95 % confidence. In each
        draw, the best candidate of the family is judged on queries that it was not chosen by. The
        lower bounds of all families hold simultaneously. Where the default for new classes, or the
        plain distance in its place, is chosen, it is Student's interval for this default. NaN if no
        candidate was left to compare: there was no time, or all dropped out.
    out_of_time_ : bool
        Whether ``time_limit`` left no learned metric to choose.
    ended_early_ : bool
        Whether ``time_limit`` ended the comparison before all candidates were tried.
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
        help='The score to choose by. For labels: "map", the ranking of held-out rows (mean '
        'average precision, the default), "knn", the share of the right class among their five '
        'nearest training rows, or "both", the mean of the two, a compromise between them. For '
        'triplets and comparisons: "agreement", the share of held-out ones that are satisfied. '
        "For pairs: "
        '"average_precision". For positives and relevance: "ndcg" (the default), "map", "recall", '
        '"precision" or "hit_rate", of the first ten documents.',
        choices=(None, *SCORES),
        type="str or None",
        flag="For auto, the score to choose by: map, knn, both, agreement, average_precision, "
        "ndcg, recall, precision or hit_rate.",
    )
    cv: Any = option(
        "object",
        default=None,
        help="What is held out. None holds out the last quarter of each class (for triplets or "
        "comparisons, a random quarter). If there are few rows, or it is in doubt whether any "
        "metric is better than the plain distances, further quarters follow, up to all four. A "
        'number is the number of folds, as in scikit-learn. "classes" holds out a third of the '
        "classes, then the others (halves of fewer than six classes; with fewer than twelve, "
        "random splits are repeated): choose it if the metric will be used for classes that it has "
        "not seen. Each class then has the same weight. "
        'For judgements, "queries" holds out queries at random, and "documents" '
        "holds out queries about documents that no other query is about. None uses both: it "
        'discards metrics that are worse than the plain distance with "documents", and chooses the '
        'best of the rest with "queries". With groups, whole groups are held out; "classes" does '
        "not allow groups.",
        type="str, int, cross-validation generator, iterable or None",
    )
    shrinkages: Any = _candidates_option(
        "shrinkage",
        None,
        ". None begins at 0.1 and goes to 0.001 or to 1 while that is better; above 4,000 features "
        "it begins at 0.84, and goes to 0.7 or to 1. All of a given sequence are tried.",
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
    distances: Any = _candidates_option(
        "distance",
        ("euclidean", "cosine"),
        " of learned metrics. Both plain distances are always compared.",
    )
    samplers: Any = _candidates_option("sampler", ("active",))
    lifts: Any = _candidates_option(
        "lift", (None, "rbf"), "; sparse rows with more than 4,000 features are not lifted."
    )
    regs: Any = _candidates_option("reg", (None,))
    priors: Any = option(
        "object",
        default=None,
        help='Candidates for ``prior``: None, "identity" or "whitening". By default None and '
        '"identity" for pairs, positives and relevance ("identity" alone above 1,000 features), '
        'all three for triplets and comparisons, "identity" and "whitening" for new classes '
        '(``cv="classes"``; None as well if ``max_components`` is given), and None alone for other '
        "labels.",
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
    n_projections: int = option(
        "int",
        default=50,
        help="As in `DuRP`. Candidates with a prior use "
        f"{PRIOR_PROJECTIONS} ({LABEL_PROJECTIONS} for labels) instead.",
        low=1,
    )
    n_triplets: int = option(
        "int",
        default=100_000,
        help="How many triplets to sample from labels: at most this many, and, for candidates "
        f"without a prior, at most {TRIPLETS_PER_ROW} for each row.",
        low=1,
    )
    max_epochs: int = option(
        "int",
        default=3,
        help=f"As in `DuRP`. Candidates with a prior use at most {JUDGED_EPOCHS} for positives and "
        "relevance.",
        low=1,
    )
    max_rows: int | None = max_rows_option()
    require: str | None = option(
        "str",
        default=None,
        help='What the metric must be: "linear", "explainable" (`Metric.explain`) or "faiss" '
        '(``to_faiss``). All three leave out lifts; "faiss" also refuses ``blocks``.',
        choices=(None, "linear", "explainable", "faiss"),
        type="str or None",
        flag="For auto: what the metric must be or work with: faiss, linear or explainable.",
    )
    max_components: int | None = option(
        "int",
        default=None,
        help="The most directions that the metric may have, such as the width of a vector "
        "database. None allows all.",
        low=1,
        flag="For auto: the largest dimension that learned vectors may have.",
    )
    time_limit: float | None = option(
        "float",
        default=None,
        help="Seconds after which no more candidates are tried; None tries all. The group of "
        "candidates under way is finished. The choice is learned from all rows, so candidates are "
        "left out whose fit takes longer than the time that is left, or, if that is more, than a "
        "tenth of the limit.",
        low=0,
        above=True,
        flag="For auto: seconds after which no more settings are tried.",
    )
    random_state: Any = random_state_option(
        "Seed of everything random. The same seed gives the same choice."
    )
    verbose: int = verbose_option("Above 0, print the choice; above 1, each group as it is scored.")

    def fit(
        self, X: Any, y: Any = None, *, callback: Callable[[int, int], object] | None = None
    ) -> Self:
        """Choose the settings and learn the metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Training rows; at most ``max_rows`` of them are learned from.
        y : array-like of shape (n_samples,), str or supervision
            Labels, the name of their column in a data frame, or what is known in another form:
            pairs, positives, relevance, triplets, comparisons (see `dualmetric.supervision`).
        callback : callable, optional
            Called with the number of groups of candidates scored so far and the number of all
            groups, to show progress. The latter grows if more rows are held out than planned.

        Returns
        -------
        self
            The fitted estimator.
        """
        begin = perf_counter()
        check_options(self)
        if isinstance(self.cv, Integral) and (isinstance(self.cv, bool) or self.cv < 2):
            raise ValueError(
                "cv must be None, a number of folds (at least 2), a splitter, or a name such as "
                f"'classes'; got {self.cv!r}"
            )
        seed = seed_of(self.random_state)
        # the rows that the chosen estimator, which gets this seed, will choose as well
        training = open_training(self, X, y, generator(seed))
        supervision = training.supervision
        # held-out rows are ranked where they are; other kinds are scored on the host
        rows = training.X if isinstance(supervision, Labels) else to_numpy(training.X)
        scoring = supervision.scorings[0] if self.scoring is None else self.scoring
        if scoring not in supervision.scorings:
            raise ValueError(
                f"scoring={scoring!r} does not apply to {type(supervision).__name__.lower()}: use "
                + " or ".join(map(repr, supervision.scorings))
            )
        length_unit(rows)  # refuses rows that are all the same, and numbers out of range
        n_classes = None
        if isinstance(supervision, Labels):
            n_classes = len(np.unique(supervision.y[supervision.known_rows()]))
        search = self._with_lists()
        families = families_of(search, supervision, rows.shape[1])
        refuse_unused(search, families, rows.shape[1])
        most = self._most_components(rows.shape[1])
        self._check_requirements(supervision, families, most)
        default_ridge = self._tries_default_ridge(rows, supervision, families)
        deadline = np.inf if self.time_limit is None else begin + _RACE_SHARE * self.time_limit
        race, guards = Race(deadline, most_components=most), []
        distance: str | None = None
        n_splits = int(self.cv) if isinstance(self.cv, Integral) else 1  # as far as is known
        n_done, settled = 0, False
        choice: dict[str, Any] | None = None

        def run(current: Race, split: Split, n_left: int = 1) -> None:
            nonlocal n_done
            current.start(split)
            field = Field(
                search,
                families,
                split,
                ops.take_rows(rows, split.train_rows),
                ops.take_rows(rows, split.test_rows),
                n_classes,
                training.rows.names,
                seed,
                rows.shape[0],
                current,
                default_ridge,
            )
            # of few rows, most products and decompositions are small, however many features
            with warnings.catch_warnings(), blas_threads_for(rows.shape[0]):
                warnings.simplefilter("ignore")  # the refit warns about the choice itself
                n_done = self._run(field, distance, callback, n_done, n_left)

        def chosen() -> dict[str, Any]:
            race.bar_slow(self._seconds_left(begin))
            return choose(race)

        for number, split in enumerate(supervision.splits(rows, self.cv, scoring, seed)):
            if split.guard:
                guards.append(split)
            elif not settled:
                run(race, split, n_splits - number)
                if distance is None:
                    plain = race.candidates[better_plain(race.scores())]
                    distance = plain.params["distance"]
                race.finish()
                settled = race.out_of_time
                choice = None
                if not settled and self.cv is None and race.n_queries >= _ENOUGH:
                    choice = chosen()
                    low, high = choice["gain_interval_"]
                    settled = low > 0.0 or high < 0.0  # whether a learned metric is better
        if not race.candidates:
            raise ValueError(f"cv={self.cv!r} holds out nothing: give at least one split")
        _warn_of_failures(race)
        choice = choice or chosen()
        if self.time_limit is not None:  # half of what is left before the refit
            deadline += 0.5 * (1.0 - _RACE_SHARE) * self.time_limit
        guard = Race(deadline)
        while guards:  # until the choice is not worse than the plain distance there
            guard = Race(deadline, race.with_fit_of(choice["kept"]))
            for split in guards:
                run(guard, split)
                drop_worse(guard)
            worse = still_worse(guard)
            if choice["kept"].key not in worse or not race.may_spare(worse):
                break
            race.bar(worse)
            choice = chosen()
        if callback is not None:
            callback(n_done, n_done)
        choice["ended_early_"] = race.out_of_time
        choice["out_of_time_"] = self._is_out_of_time(race, choice)
        if guards:
            self._warn_of_guard(guard, choice["kept"], len(guards))
        choice |= {
            "cv_results_": results(race),
            "families_": best_of_families(race),
            "held_out_": "classes" if self.cv == "classes" else supervision.held_out,
            "new_documents_": on_guard(guard, choice["kept"]) if guard.candidates else None,
        }
        return self._refit(training, choice, scoring, seed)

    def _is_out_of_time(self, race: Race, choice: dict[str, Any]) -> bool:
        """Whether the time limit left no learned metric to choose; then a warning says so."""
        late = bool(race.late) if race.candidates[2:] else race.out_of_time
        if self.time_limit is None or not late or not np.isnan(choice["gain_interval_"][0]):
            return False
        warn(
            f"time_limit={self.time_limit:g} is too short to learn a metric: the plain "
            "distance is returned; increase time_limit, or pass fewer rows"
        )
        return True

    def _warn_of_guard(self, guard: Race, kept: Candidate, n_guards: int) -> None:
        """Warn where the choice was not compared on documents without judgements."""
        n_checked = {one.key: len(one.parts) for one in guard.candidates}
        if guard.out_of_time and n_checked.get(kept.key, 0) < n_guards:
            warn(
                f"time_limit={self.time_limit:g} left too little time to compare the choice with "
                "the plain distance on documents without judgements: increase time_limit, or set "
                "cv='queries' to skip this comparison"
            )

    def _tries_default_ridge(
        self, rows: Any, supervision: Supervision, families: Sequence[str]
    ) -> bool:
        """Whether the labels are few, the classes will stay the same, and they can be predicted."""
        least, most = FEW_LABELS
        return (
            isinstance(supervision, Labels)
            and "ridge" in families
            and not isinstance(self.cv, str)
            and supervision.groups is None  # leave-one-out leaks within groups
            and least <= len(supervision.known_rows()) <= most
            and predicts_classes(rows, supervision)
        )

    def _with_lists(self) -> Self:
        """The same, with candidates that were given as arrays or tuples as lists."""
        new = copy(self)
        for name, declared in options_of(self).items():
            given = getattr(self, name)
            if declared.each is not None and given is not None:
                setattr(new, name, np.asarray(given, dtype=object).tolist())
        return new

    def _most_components(self, n_features: int) -> float:
        """Directions that the metric may have; infinity where even the plain distance has fewer."""
        most = np.inf if self.max_components is None else self.max_components
        return most if most < n_features else np.inf

    def _check_requirements(
        self, supervision: Supervision, families: Sequence[str], most: float
    ) -> None:
        """Refuse requirements that no candidate meets."""
        if self.require == "faiss" and self.blocks is not None:
            raise ValueError(
                "require='faiss' cannot be combined with blocks, because FAISS cannot scale "
                "blocks to length one: leave one of them out"
            )
        if np.isfinite(most) and "dual" not in families and "ridge" not in families:
            raise ValueError(
                f"max_components={most}: all metrics that are tried for "
                f"{type(supervision).__name__.lower()} have as many directions as features; use "
                "DuRP with n_components, or increase max_components"
            )

    def _seconds_left(self, begin: float) -> float:
        """Seconds that a fit may have taken so that there is time for another one on all rows.

        A tenth of the limit is always allowed, so that a choice is left where a group of candidates
        took too long.
        """
        if self.time_limit is None:
            return np.inf
        return max(self.time_limit - (perf_counter() - begin), 0.1 * self.time_limit)

    def _run(
        self,
        field: Field,
        distance: str | None,
        callback: Callable[[int, int], object] | None,
        n_before: int,
        n_left: int,
    ) -> int:
        """Score the candidates on one split of ``n_left``, given and returning the groups done."""
        total = n_groups(field)
        n_all = n_before + total * max(n_left, 1)
        begin = perf_counter()
        for done, name in enumerate(run_candidates(field, distance), start=1):
            if self.verbose > 1:
                print(
                    f"[MetricCV] {done} of at most {total}: {name}, {perf_counter() - begin:.1f} s"
                )
            if callback is not None:
                callback(n_before + done, n_all)
        if callback is not None:
            callback(n_before + total, n_all)
        return n_before + total

    def recommend(self) -> str:
        """Explain the choice in a sentence.

        Returns
        -------
        str
            What to use, with the parameters that differ from the defaults, the score to expect
            on new rows, and how much better it is than the plain distance.
        """
        check_is_fitted(self)
        early = ""
        if self.ended_early_ and not self.out_of_time_:
            early = " The time limit ended the comparison early."
        return self._recommendation() + early

    def _recommendation(self) -> str:
        name = SCORES.get(self.scoring_, self.scoring_)
        plain = f"the plain {_PLAIN[self.best_plain_[0]]} distance"
        score = f"{name} {100 * self.expected_score_:.1f} %"
        low, high = (100 * end for end in self.gain_interval_)
        method = type(self.best_estimator_).__name__
        if method == "Euclidean":
            if self.out_of_time_:
                tried = (self.cv_results_["estimator"] != "Euclidean").any()
                return (
                    f"No learned metric {'could be chosen' if tried else 'was tried'} within "
                    f"{self.time_limit:g} s; {plain} is kept ({score} on held-out "
                    f"{self.held_out_})."
                )
            compared = f"the best learned one differs by {low:+.1f} to {high:+.1f} points"
            if np.isnan(low):
                compared = "all learned ones that were tried are clearly worse"
                if (self.cv_results_["estimator"] == "Euclidean").all():
                    compared = "none was tried, because none could differ from it"
            return (
                f"Keep {plain}: no learned metric is significantly better on held-out "
                f"{self.held_out_} ({score}; {compared})."
            )
        chosen = ", ".join(unusual(self.best_estimator_, self.best_params_))
        if self._is_below_plain():
            return (
                f"Use {method}({chosen}): {score} on held-out {self.held_out_}. T{plain[1:]} is "
                f"significantly better ({100 * self.best_plain_[1]:.1f} %), but has more "
                f"directions than max_components={self.max_components} allows: increase "
                "max_components."
            )
        gain = f"a gain of {low:.1f} to {high:.1f} points"
        if low <= 0.0:
            gain = f"a difference of {low:+.1f} to {high:+.1f} points"
            gain += ", which may be due to chance" if high > 0.0 else ""
        why = ""
        if is_default_ridge(method, self.best_params_) and low <= 0.0:
            why = f" {RIDGE_REASON}"
        if self.cv == "classes" and self.best_params_.get("reg") == PRIOR_REG and low <= 0.0:
            why = f" {NEW_CLASSES_REASON}"
        return (
            f"Use {method}({chosen}): {score} on held-out "
            f"{self.held_out_}, where {plain} has {100 * self.best_plain_[1]:.1f} % ({gain}).{why}"
        )

    def _is_below_plain(self) -> bool:
        """Whether the choice is significantly worse than a distance that `max_components` bars."""
        return self.max_components is not None and self.gain_interval_[1] < 0.0

    def plot(self, ax: Any = None) -> Any:
        """Draw the best candidate of each family with the 95 % interval of its score.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure if None. Needs matplotlib.

        Returns
        -------
        matplotlib Axes
            With one line per family, the best on top.
        """
        check_is_fitted(self)
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 1 + 0.4 * len(self.families_)), layout="constrained").subplots()
        found = self.families_[::-1]
        for height, one in enumerate(found):
            ax.plot([100 * one["low"], 100 * one["high"]], [height, height], "-", color="C0")
            ax.plot(100 * one["score"], height, "o", color="C0")
        ax.set_yticks(range(len(found)), [one["name"] for one in found])
        ax.set_xlabel(f"{SCORES[self.scoring_]} on held-out {self.held_out_} (%)")
        return ax

    def estimate(self, X: Any, y: Any = None) -> Estimate:
        """Estimate what ``fit`` would need for X at most, from its shape and type alone.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Anything with a shape; without a ``dtype``, float64 is assumed.
        y : supervision, optional
            The y of ``fit``; labels make no difference.

        Returns
        -------
        Estimate
            Memory of the largest candidate, and work of all candidates together.
        """
        if not hasattr(X, "shape") or type(X).__module__.startswith("dask"):
            X = open_rows(X)[0]
        # about how many are tried of the default
        shrinkages = (0.1,) * 4 if self.shrinkages is None else self.shrinkages
        lifted = None if is_too_wide(X) or self.require is not None else "rbf"
        n_rows = X.shape[0] if self.max_rows is None else min(X.shape[0], self.max_rows)
        fixed = fixed_options(self, n_rows) | {"max_rows": self.max_rows}
        each = [
            estimate_dual(DuRP(lift=lift, shrinkage=min(shrinkages), **fixed), X, y)
            for lift in {None, lifted if lifted in self.lifts else None}
        ]
        largest = max(each, key=lambda one: one.memory)
        return largest._replace(work=sum((1 + len(shrinkages)) * one.work for one in each))

    def _refit(self, training: Training, choice: dict[str, Any], scoring: str, seed: int) -> Self:
        kept: Candidate = choice.pop("kept")
        kind = _ESTIMATORS[kept.method]
        fixed = fixed_options(self, training.X.shape[0])
        more = {**fixed, "max_rows": self.max_rows, "random_state": seed}
        known = options_of(kind).keys() - kept.params.keys()
        params = kept.params | {name: more[name] for name in more if name in known}
        if self.blocks is not None and kind is not Euclidean:
            params["blocks"] = self.blocks
        begin = perf_counter()
        model = kind(**params).fit(training.rows, training.whole)
        choice["refit_time_"] = perf_counter() - begin
        choice["metric_"] = model.metric_.with_info(
            chosen_by=f"MetricCV, scoring={scoring!r}",
            held_out_score=choice["best_score_"],
            families=choice["families_"],
        )
        choice |= {"best_estimator_": model, "best_params_": params, "scoring_": scoring}
        self._store(training.rows, training.counts, **choice)
        if self._is_below_plain():
            warn(self.recommend())
        if self.verbose:
            print(f"[MetricCV] {self.recommend()}")
        return self


def _warn_of_failures(race: Race) -> None:
    """Warn of candidates that could not be fitted; refuse rows from which none could be."""
    if not race.failures:
        return
    n, first = len(race.failures), race.failures[0]
    if not race.candidates[2:]:
        raise ValueError(f"no candidate could be fitted: {first}") from first
    groups = "1 group of candidates was" if n == 1 else f"{n} groups of candidates were"
    warn(f"{groups} left out, because they could not be fitted; the first error: {first}")
