"""Matcher: whether two rows are the same, with a probability and thresholds that hold."""

import os
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._arrays.namespace import to_numpy
from .._types import Array
from .._validation import check_whole
from ..io import metric_file
from ..metric import Metric
from . import _calibration
from ._bounds import odds_scale
from ._calibration import FORMS, Calibration, MatchScores
from ._input import check_share, distance_of, distances, labelled_pairs, metric_of
from ._search import close_pairs
from ._thresholds import RATES, Evidence, Threshold, find_threshold
from .duplicates import (
    LINKAGES,
    Duplicates,
    clusters_of,
    pair_distances,
    pairs_within,
    vectors_of,
    warn_of_other_pairs,
)


class Band(NamedTuple):
    """Pairs that a person should look at: neither surely the same nor surely different.

    Attributes
    ----------
    same : Threshold
        Pairs up to this distance are accepted without review.
    different : Threshold
        Pairs beyond this distance are rejected without review.
    share : float
        Share of pairs like the labelled ones between the two; with ``prevalence``, as in use.
    """

    same: Threshold
    different: Threshold
    share: float


class Matcher(BaseEstimator):
    """Decide whether two rows are the same, from their distance.

    It is fitted to labelled pairs that the metric was *not* learned from: pairs that were learned
    from are closer together than others, so probabilities and guarantees would be too good.

    Parameters
    ----------
    metric : Metric or fitted estimator
        The distance. It is used as it is, and not learned again.
    calibration : {"auto", "logistic", "squared", "isotonic"}, default="auto"
        How the distance becomes a probability: by logistic regression of the distance or of its
        square, or by isotonic regression. "auto" takes the one with the smallest log loss on pairs
        of held-out entities.

    Attributes
    ----------
    metric_ : Metric
        The metric that was used.
    calibration_ : dualmetric.matching.Calibration
        The form and its numbers.
    log_loss_ : dict
        Held-out log loss of each form that was tried.
    pairs_ : dualmetric.matching.Evidence
        Distance, label and entities of each labelled pair, the closest first.
    prevalence_ : float or None
        The share of same pairs in use that was given.
    has_groups_ : bool
        Whether entities were given; otherwise each row is one.

    Examples
    --------
    >>> import numpy as np
    >>> from dualmetric import Matcher, Metric, Pairs
    >>> rng = np.random.default_rng(0)
    >>> things = rng.normal(size=(400, 5))
    >>> X = np.vstack([things, things + 0.1 * rng.normal(size=(400, 5))])
    >>> i = np.arange(400)
    >>> index = np.vstack([np.c_[i, 400 + i], np.c_[i, 400 + (i + 1) % 400]])
    >>> matcher = Matcher(Metric(None, 5)).fit(X, Pairs(index, np.repeat([True, False], 400)))
    >>> matcher.predict(X[:1], X[400:401])
    array([ True])
    >>> print(matcher.threshold(precision=0.95))  # doctest: +ELLIPSIS
    distance ≤ ...: precision ≥ 0.9...
    """

    def __init__(self, metric: Any, calibration: str = "auto") -> None:
        self.metric = metric
        self.calibration = calibration

    def fit(self, X: Any, y: Any, groups: Any = None, prevalence: float | None = None) -> Self:
        """Learn the probability of a match from labelled pairs.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Rows in the features of the metric.
        y : Pairs
            Pairs of both kinds, drawn as those in use will be. Repeated pairs count once, pairs
            that are given as both are left out with a warning, and weights are not used.
        groups : array-like of shape (n_rows,), optional
            The entity of each row; by default that of ``y``, or else each row is an entity. Pairs
            that share an entity are not independent evidence.
        prevalence : float, optional
            Share of same pairs among those in use, where it differs from that among the labelled
            pairs. Distances of same and of different pairs are taken to be distributed alike in
            both.

        Returns
        -------
        self
        """
        metric = metric_of(self.metric)
        if self.calibration not in ("auto", *FORMS):
            raise ValueError(
                "calibration must be 'auto', 'logistic', 'squared' or 'isotonic'; got "
                f"{self.calibration!r}"
            )
        if prevalence is not None:
            check_share(prevalence, "prevalence")
        found = labelled_pairs(metric, X, y, groups)
        distance, same, entity = found.distance, found.same, found.entity
        if distance.max() == distance.min():
            raise ValueError(
                f"all {len(distance):,} pairs are at the same distance, {distance[0]:.4g}: this "
                "metric cannot tell them apart"
            )
        losses: dict[str, float] = {}
        if self.calibration == "auto":
            fitted, losses = _calibration.choose_calibration(distance, same, entity)
        else:
            fitted = _calibration.fit_calibration(self.calibration, distance, same)
        self.metric_, self.calibration_, self.log_loss_ = metric, fitted, losses
        self.pairs_ = Evidence.of(distance, same, entity)
        self.prevalence_ = None if prevalence is None else float(prevalence)
        self.has_groups_ = found.has_groups
        self.n_features_in_ = metric.n_features
        return self

    def distance(self, A: Any, B: Any) -> Array:
        """Distance between each row of A and the same row of B."""
        self._check()
        return np.asarray(to_numpy(self.metric_.distance(A, B)), dtype=np.float64)

    def decision_function(self, A: Any, B: Any) -> Array:
        """Log-odds of each row of A and the same row of B being the same, in use."""
        return self.log_odds(self.distance(A, B))

    def log_odds(self, distance: Any) -> Array:
        """Log-odds of pairs at these distances being the same, in use."""
        self._check()
        return self.calibration_.log_odds(np.asarray(distance)) + np.log(self.odds_scale_)

    def predict_proba(self, A: Any, B: Any) -> Array:
        """Probability of being different (first column) and of being the same (second).

        Parameters
        ----------
        A, B : {array-like, sparse matrix, data frame} of shape (n_pairs, n_features)
            Rows that are compared one by one.
        """
        same = expit(self.decision_function(A, B))
        return np.column_stack([1.0 - same, same])

    def predict(self, A: Any, B: Any, threshold: Threshold | float | None = None) -> Array:
        """Whether each row of A and the same row of B are the same.

        With a threshold, those at most so far apart; else those whose probability is at least ½.
        """
        distance = self.distance(A, B)
        if threshold is None:
            return self.log_odds(distance) >= 0.0
        return distance <= distance_of(threshold)

    def threshold(
        self,
        *,
        precision: float | None = None,
        recall: float | None = None,
        fpr: float | None = None,
        confidence: float = 0.95,
        hubs: bool = False,
    ) -> Threshold:
        """Distance up to which pairs can be accepted with a guarantee.

        Parameters
        ----------
        precision, recall, fpr : float, optional
            Exactly one; by default ``precision=0.99``. At least this share of the accepted pairs is
            the same; at least this share of the same pairs is accepted; at most this share of the
            different pairs is accepted. The threshold is the loosest that is known to do so (for
            the recall, the strictest).
        confidence : float, default=0.95
            Over many draws of labelled pairs, at least this share of thresholds keeps what it
            promises, for pairs that are drawn as the labelled ones were (with ``prevalence``, of
            either kind).
        hubs : bool, default=False
            Whether to allow for entities that are close to all others, none of which was labelled
            by chance. It matters where entities have several labelled pairs each, and then needs
            more pairs. Without it, ``bound_with_hubs`` of the result says what would hold.

        Returns
        -------
        Threshold
            Pass it to `predict` or `duplicates`, or use its ``distance``.

        Raises
        ------
        NotEnoughPairsError
            Where the labelled pairs cannot support the claim. It says how many more would be
            needed.
        """
        self._check()
        given = {"precision": precision, "recall": recall, "fpr": fpr}
        asked = {name: value for name, value in given.items() if value is not None}
        if not asked:
            asked = {"precision": 0.99}
        if len(asked) > 1:
            raise ValueError(
                f"give one of {', '.join(RATES)}; got {' and '.join(asked)}: for two thresholds, "
                "use review_band"
            )
        ((target, value),) = asked.items()
        check_share(value, target, len(self.pairs_.same))
        check_share(confidence, "confidence")
        return find_threshold(self.pairs_, target, value, confidence, self.prevalence_, hubs)

    def review_band(
        self,
        *,
        precision: float = 0.99,
        recall: float = 0.99,
        confidence: float = 0.95,
        hubs: bool = False,
    ) -> Band:
        """Two thresholds: surely the same, surely different, and between them pairs to look at.

        Up to the first, at least ``precision`` of the pairs are the same. Beyond the second lie at
        most 1 − ``recall`` of the same pairs. Each holds with this confidence; ``hubs`` is as in
        `threshold`.
        """
        same = self.threshold(precision=precision, confidence=confidence, hubs=hubs)
        different = self.threshold(recall=recall, confidence=confidence, hubs=hubs)
        pairs = self.pairs_
        between = (pairs.distance > same.distance) & (pairs.distance <= different.distance)
        share = float(np.mean(between[pairs.same]))
        other = float(np.mean(between[~pairs.same]))
        q = float(np.mean(pairs.same)) if self.prevalence_ is None else self.prevalence_
        return Band(same, different, q * share + (1.0 - q) * other)

    def worth_labelling(self, X: Any, index: Any, band: Band | None = None, n: int = 20) -> Array:
        """Places of the pairs that are most worth labelling next, the first one most.

        They are those in the review band whose probability is nearest to ½. Pairs that share a row
        with one chosen already come after all others, since they say less.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
        index : array-like of shape (n_pairs, 2)
            Row numbers of pairs without a label, such as ``duplicates(X, …).pairs``.
        band : Band, optional
            As `review_band` gives it; None considers all pairs.
        n : int, default=20
            How many.
        """
        self._check()
        check_whole(n, "n")
        rows = self.metric_.open_rows(X)
        index = np.asarray(index, dtype=np.int64).reshape(-1, 2)
        distance = distances(self.metric_, rows, index)
        places = np.arange(len(index))
        if band is not None:
            inside = (distance > band.same.distance) & (distance <= band.different.distance)
            places = np.flatnonzero(inside)
        order = places[np.argsort(np.abs(self.log_odds(distance[places])), kind="stable")]
        seen: set[int] = set()
        first: list[int] = []
        later: list[int] = []
        for place in order.tolist():
            pair = set(index[place].tolist())
            (later if pair & seen else first).append(place)
            seen |= pair
            if len(first) == n:
                break
        return np.array((first + later)[:n], dtype=np.int64)

    def duplicates(
        self,
        X: Any,
        threshold: Threshold | float | None = None,
        *,
        k: int = 10,
        clusters: str = "components",
    ) -> Duplicates:
        """Find rows of X that are the same.

        All rows are compared with all others, exactly, in blocks of bounded memory: the transformed
        rows, and at most k pairs per row, are held.

        Guarantees of a threshold are about pairs drawn as the labelled ones. Among all pairs of
        rows, far fewer are the same: label pairs that this method returns, or give ``prevalence``.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Rows in the features of the metric.
        threshold : Threshold or float, optional
            Largest distance of duplicates; by default ``threshold(precision=0.99)``.
        k : int, default=10
            Pairs are kept that are among the k nearest of one of their rows.
        clusters : {"components", "complete"}, default="components"
            "components" joins rows that a chain of pairs connects; "complete" only rows that are
            all within the threshold of each other.

        Returns
        -------
        Duplicates
            Pairs, clusters, and estimates of their precision.
        """
        self._check()
        check_whole(k, "k")
        if clusters not in LINKAGES:
            raise ValueError(f"clusters must be 'components' or 'complete'; got {clusters!r}")
        threshold = self.threshold() if threshold is None else threshold
        limit = distance_of(threshold)
        vectors = vectors_of(self.metric_, X)
        index, distance, n_full = close_pairs(vectors, limit, k)
        n = (vectors if isinstance(vectors, np.ndarray) else vectors.positive).shape[0]
        cluster = clusters_of(index, n, vectors, limit, clusters)
        within, of, weight = pairs_within(cluster)
        probability = expit(self.log_odds(pair_distances(vectors, within)))
        n_clusters = int(cluster.max()) + 1
        totals = np.bincount(of, weight, n_clusters)
        sums = np.bincount(of, weight * probability, n_clusters)
        each = np.divide(sums, totals, out=np.full(n_clusters, np.nan), where=totals > 0)
        found = expit(self.log_odds(distance))
        warn_of_other_pairs(threshold, found)
        return Duplicates(
            index,
            distance,
            found,
            cluster,
            each,
            float(found.mean()) if len(found) else np.nan,
            float(sums.sum() / totals.sum()) if totals.sum() else np.nan,
            threshold,
            n_full,
        )

    def evaluate(self, X: Any, y: Any, groups: Any = None) -> MatchScores:
        """Score probabilities on other pairs.

        Parameters
        ----------
        X, y, groups
            As in `fit`. Where groups were given to both, entities that were fitted to are refused.

        With ``prevalence``, same and different pairs are weighted so that scores are those in use.
        """
        self._check()
        found = labelled_pairs(self.metric_, X, y, groups)
        distance, same, entity = found.distance, found.same, found.entity
        if found.has_groups and self.has_groups_:
            known = np.intersect1d(entity, self.pairs_.entity)
            if len(known):
                raise ValueError(
                    f"{len(known):,} of {len(np.unique(entity)):,} entities of these pairs are "
                    "among those that the matcher was fitted to: their scores would be too good. "
                    "Split pairs by entity"
                )
        return _calibration.scores_of(self.log_odds(distance), distance, same, self.prevalence_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write metric and matcher to one safetensors file, which `Metric.load` reads, too."""
        self._check()
        calibration = self.calibration_
        described = {
            "form": calibration.form,
            "prevalence": self.prevalence_,
            "groups": self.has_groups_,
        }
        arrays = {"table": calibration.table, "distances": self.pairs_.distance}
        arrays["same"] = self.pairs_.same.astype(np.float64)
        arrays["entities"] = self.pairs_.entity.astype(np.float64)
        metric_file.save(path, self.metric_, (described, arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Matcher":
        """Read a matcher from a file that `save` wrote. Nothing in the file is executed."""
        metric, part = metric_file.load_with_matching(path, Metric)
        if part is None:
            raise ValueError(
                f"{path} holds a metric without a matcher: fit one to labelled pairs, with "
                "Matcher(metric).fit or dualmetric match"
            )
        described, arrays = part
        new = cls(metric)
        new.metric_, new.log_loss_ = metric, {}
        new.calibration_ = Calibration(described["form"], arrays["table"])
        same, entities = arrays["same"] > 0, arrays["entities"].astype(np.int64)
        new.pairs_ = Evidence(arrays["distances"], same, entities)
        new.prevalence_, new.has_groups_ = described["prevalence"], described["groups"]
        new.n_features_in_ = metric.n_features
        return new

    @property
    def odds_scale_(self) -> float:
        """Odds of a match in use, over those among the labelled pairs."""
        return odds_scale(self.prevalence_, float(np.mean(self.pairs_.same)))

    def _check(self) -> None:
        """Refuse a matcher that is not fitted, or whose metric has changed since."""
        check_is_fitted(self, "pairs_")
        if metric_of(self.metric) is not self.metric_:
            raise ValueError(
                "the metric was fitted again after this matcher: its distances have another "
                "meaning now. Fit the matcher again"
            )
