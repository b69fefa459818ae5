"""Matcher: whether two rows are the same, with probabilities and guaranteed thresholds."""

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
from ..supervision import Pairs
from ..supervision._checks import check_index
from . import _calibration
from ._bounds import odds_scale
from ._calibration import FORMS, Calibration, MatchScores
from ._found import Threshold
from ._input import check_share, distance_of, distances, labelled_pairs, metric_of
from ._search import close_pairs, pair_distances
from ._thresholds import RATES, Evidence, find_threshold
from .duplicates import (
    LINKAGES,
    Duplicates,
    clusters_of,
    pairs_within,
    vectors_of,
    warn_of_other_pairs,
)


class Band(NamedTuple):
    """The band of distances in which a person should decide whether a pair is the same.

    Attributes
    ----------
    same : Threshold
        Pairs up to this distance are accepted without review.
    different : Threshold
        Pairs beyond this distance are rejected without review.
    share : float
        Estimated share of the target pairs that lie between the two.
    """

    same: Threshold
    different: Threshold
    share: float


class Matcher(BaseEstimator):
    """Decide whether two rows are the same, from their distance.

    A matcher turns distances into probabilities of a match, and finds thresholds with a guarantee.
    The labelled pairs must *not* be those that the metric was learned from. Among the pairs that a
    metric was learned from, those that are the same are closer than such pairs usually are: the
    probabilities would be too high, and the guarantee would not hold.

    Parameters
    ----------
    metric : Metric or fitted estimator
        The distance. It is used as it is, and not learned again.
    calibration : {"auto", "logistic", "squared", "isotonic"}, default="auto"
        How the distance becomes a probability: by logistic regression on the distance or on its
        square, or by isotonic regression on the distance. "auto" chooses the one with the smallest
        log loss on pairs of held-out entities.

    Attributes
    ----------
    metric_ : Metric
        The metric that was used.
    calibration_ : dualmetric.matching.Calibration
        The fitted function from distance to probability.
    log_loss_ : dict
        Held-out log loss of each kind of regression; empty unless ``calibration="auto"``.
    pairs_ : dualmetric.matching.Evidence
        Distance, label and entities of each labelled pair, the closest first.
    prevalence_ : float or None
        The ``prevalence`` given to ``fit``.
    has_groups_ : bool
        Whether entities were given to ``fit``; otherwise each row is an entity of its own.
    odds_scale_ : float
        Odds of a match among the target pairs, divided by those among the labelled pairs.
    n_features_in_ : int
        Number of features of the metric.

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
            Labelled pairs, both same and different. They should be drawn in the same way as the
            target pairs: the pairs that the matcher will be applied to. A repeated pair counts
            once. A pair that is given both as same and as different is left out, with a warning.
            Weights are not used.
        groups : array-like of shape (n_rows,), optional
            The entity of each row. Pairs that share an entity are not independent evidence. By
            default ``y.groups``; without these, each row is an entity of its own.
        prevalence : float, optional
            Share of the target pairs that are the same, if it differs from this share of the
            labelled pairs. Apart from that, the distances of same pairs are assumed to have the
            same distribution in both, and so are those of different pairs.

        Returns
        -------
        self
            The fitted matcher.
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
                "metric cannot tell them apart; use another metric"
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
        """Distance between each row of A and the corresponding row of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix, data frame} of shape (n_pairs, n_features)
            Each row of A is compared with the corresponding row of B.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Distances.
        """
        self._check()
        return np.asarray(to_numpy(self.metric_.distance(A, B)), dtype=np.float64)

    def decision_function(self, A: Any, B: Any) -> Array:
        """Log-odds of a match between each row of A and the corresponding row of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix, data frame} of shape (n_pairs, n_features)
            Each row of A is compared with the corresponding row of B.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Logarithm of the odds among the target pairs (see `fit`); above 0, a match is more
            likely than not.
        """
        return self.log_odds(self.distance(A, B))

    def log_odds(self, distance: Any) -> Array:
        """Log-odds of a match for pairs at the given distances.

        Parameters
        ----------
        distance : array-like of shape (n_pairs,)
            Distances by the metric of this matcher.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Logarithm of the odds among the target pairs (see `fit`).
        """
        self._check()
        return self.calibration_.log_odds(np.asarray(distance)) + np.log(self.odds_scale_)

    def predict_proba(self, A: Any, B: Any) -> Array:
        """Probability of a match between each row of A and the corresponding row of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix, data frame} of shape (n_pairs, n_features)
            Each row of A is compared with the corresponding row of B.

        Returns
        -------
        ndarray of shape (n_pairs, 2)
            Probability that the rows are different (first column) or the same (second column).
        """
        same = expit(self.decision_function(A, B))
        return np.column_stack([1.0 - same, same])

    def predict(self, A: Any, B: Any, threshold: Threshold | float | None = None) -> Array:
        """Predict whether each row of A matches the corresponding row of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix, data frame} of shape (n_pairs, n_features)
            Each row of A is compared with the corresponding row of B.
        threshold : Threshold or float, optional
            Rows up to this distance are the same. By default, rows are the same if the probability
            of a match is at least ½.

        Returns
        -------
        ndarray of bool of shape (n_pairs,)
            True for rows that are the same.
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
            The rate to guarantee. Give only one of them; without any, ``precision=0.99`` is used.
            ``precision``: at least this share of the accepted pairs is the same. ``recall``: at
            least this share of the pairs that are the same is accepted. ``fpr``: at most this share
            of the different pairs is accepted. The result is the loosest threshold that is known to
            meet the target (for ``recall``, the strictest).
        confidence : float, default=0.95
            If labelled pairs were drawn many times, at least this share of the thresholds would
            keep the guarantee. It holds for target pairs that are drawn in the same way as the
            labelled pairs (with ``prevalence``, as the labelled pairs of each kind).
        hubs : bool, default=False
            Whether to allow for hubs: entities that are close to all others. By chance, the
            labelled pairs may contain none of them. This matters if entities have several labelled
            pairs each; more pairs are then needed. With False, ``bound_with_hubs`` of the result
            says what would be guaranteed if hubs are missing.

        Returns
        -------
        Threshold
            Pass it to `predict` or `duplicates`, or use its ``distance``.

        Raises
        ------
        NotEnoughPairsError
            If the labelled pairs cannot support the guarantee. The error says about how many more
            are needed.

        Examples
        --------
        >>> import numpy as np
        >>> from dualmetric import Matcher, Metric, Pairs
        >>> X = np.r_[np.arange(0.0, 400.0), np.arange(0.1, 400.0)].reshape(-1, 1)
        >>> i = np.arange(400)
        >>> index = np.vstack([np.c_[i, 400 + i], np.c_[i, 400 + (i + 1) % 400]])
        >>> matcher = Matcher(Metric(None, 1)).fit(X, Pairs(index, np.repeat([True, False], 400)))
        >>> found = matcher.threshold(recall=0.9)
        >>> matcher.predict(X[:2], X[400:402], threshold=found)
        array([ True,  True])
        """
        self._check()
        given = {"precision": precision, "recall": recall, "fpr": fpr}
        asked = {name: value for name, value in given.items() if value is not None}
        if not asked:
            asked = {"precision": 0.99}
        if len(asked) > 1:
            raise ValueError(
                f"give only one of {', '.join(RATES)}; got {' and '.join(asked)}. For two "
                "thresholds, use review_band"
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
        """Two thresholds, to accept and to reject pairs; a person reviews those between them.

        Parameters
        ----------
        precision : float, default=0.99
            At least this share of the pairs up to the first threshold is the same.
        recall : float, default=0.99
            At least this share of the pairs that are the same lies within the second threshold.
        confidence : float, default=0.95
            Confidence of each of the two guarantees.
        hubs : bool, default=False
            As in `threshold`.

        Returns
        -------
        Band
            Both thresholds, and the estimated share of the pairs between them.

        Raises
        ------
        NotEnoughPairsError
            If the labelled pairs cannot support one of the guarantees.
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
        """Choose the pairs that are most worth labelling next.

        These are the pairs in the review band whose probability is nearest to ½. A pair that shares
        a row with a pair chosen before says less, so it comes after all others.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Rows in the features of the metric.
        index : array-like of shape (n_pairs, 2)
            Row numbers of pairs without a label, such as ``duplicates(X, …).pairs``.
        band : Band, optional
            The result of `review_band`. By default, all pairs are considered.
        n : int, default=20
            How many pairs to choose, at most.

        Returns
        -------
        ndarray of int of shape (n_chosen,)
            Positions in ``index``, the pair that is most worth labelling first.
        """
        self._check()
        check_whole(n, "n")
        rows = self.metric_.open_rows(X)
        if isinstance(index, Pairs):
            index = index.index
        if not hasattr(index, "__len__") or len(index):
            index = check_index(index, ("a", "b"), "index", rows.shape[0])
        if band is not None and not isinstance(band, Band):
            raise TypeError(
                f"band must be a Band, as review_band returns it, or None; got {band!r}"
            )
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
            if pair & seen:
                later.append(place)
                continue
            first.append(place)
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

        Each row is compared exactly with all others, in blocks. Memory holds the transformed rows
        and at most k pairs per row.

        The guarantee holds only for pairs that are drawn in the same way as the labelled pairs.
        Among all pairs of rows, the share of same pairs is usually far smaller. So label pairs that
        this method returns, or give ``prevalence`` to `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Rows in the features of the metric.
        threshold : Threshold or float, optional
            Largest distance of duplicates; by default ``matcher.threshold(precision=0.99)``. For
            another guarantee, pass ``matcher.threshold(precision=0.7)``, for example.
        k : int, default=10
            A pair is kept if one of its rows is among the k nearest rows of the other.
        clusters : {"components", "complete"}, default="components"
            "components" joins rows that are connected by a chain of pairs. "complete" joins rows
            only if all of them are within the threshold of each other.

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
        """Score the probabilities on pairs that the matcher was not fitted to.

        If ``prevalence`` was given to `fit`, same and different pairs are weighted so that the
        scores are those of the target pairs.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Rows in the features of the metric.
        y : Pairs
            Labelled pairs, both same and different.
        groups : array-like of shape (n_rows,), optional
            The entity of each row, as in `fit`. If groups were given to `fit` too, an entity that
            occurs in both raises a ValueError.

        Returns
        -------
        MatchScores
            Log loss, calibration error and average precision.
        """
        self._check()
        found = labelled_pairs(self.metric_, X, y, groups)
        distance, same, entity = found.distance, found.same, found.entity
        if found.has_groups and self.has_groups_:
            known = np.intersect1d(entity, self.pairs_.entity)
            if len(known):
                raise ValueError(
                    f"{len(known):,} of {len(np.unique(entity)):,} entities of these pairs are "
                    "among those that the matcher was fitted to, so the scores would be too "
                    "optimistic: split pairs by entity"
                )
        return _calibration.scores_of(self.log_odds(distance), distance, same, self.prevalence_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write metric and matcher to one safetensors file, which `Metric.load` can also read.

        Parameters
        ----------
        path : str or path
            File to write; its folder must exist.
        """
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
        """Read a matcher from a file that `save` wrote. Nothing in the file is executed.

        Parameters
        ----------
        path : str or path
            A file that `save` or ``dualmetric match`` wrote.

        Returns
        -------
        Matcher
            The fitted matcher.
        """
        metric, part = metric_file.load_with_matching(path, Metric)
        if part is None:
            raise ValueError(
                f"{path} holds a metric without a matcher: fit a matcher to labelled pairs, with "
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
        """Odds of a match among the target pairs, divided by those among the labelled pairs."""
        return odds_scale(self.prevalence_, float(np.mean(self.pairs_.same)))

    def _check(self) -> None:
        """Refuse a matcher that is not fitted, or whose metric has changed since."""
        check_is_fitted(self, "pairs_")
        if metric_of(self.metric) is not self.metric_:
            raise ValueError(
                "the metric was refitted after this matcher, so its distances have changed: "
                "fit the matcher again"
            )
