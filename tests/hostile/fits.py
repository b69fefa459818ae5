"""One hostile fit: it works, or it is refused in words that name the argument."""

import re
import warnings

import numpy as np
from sklearn.base import clone

import dualmetric
from dualmetric._options import options_of

from . import inputs

REFUSED = (ValueError, TypeError)  # NotFittedError and FileError are ValueErrors
ARGUMENTS = (
    *("X", "y", "queries", "query", "index", "triplets", "comparisons", "pairs", "positives"),
    *("same", "margin", "weight", "groups", "grades", "relevance", "labels?", "unknown", "target"),
    *("sample", "documents?"),  # scikit-learn's words for rows, and ours for those of X
)


class Fit:
    """A case: an estimator with its settings, rows and what is known about them."""

    def __init__(self, draw):
        names = [name for name in inputs.ESTIMATORS if name not in inputs.RARE]
        weighted = names * 5 + list(inputs.RARE)
        self.name = draw.choice(weighted)
        made = getattr(dualmetric, self.name)
        self.settings = inputs.parameters(draw, made, self.name)
        n, d = draw.choice(inputs.SIZES), draw.choice(inputs.WIDTHS)
        plain_rows, plain_y = draw.choice(
            ((True, True), (True, False), (False, True)) * 3 + ((False, False),)
        )
        n = draw.choice((6, 12, 30, 60)) if plain_rows or plain_y else n
        self.of_rows, self.X = inputs.rows(draw, n, d, plain_rows)
        self.of_y, self.y = inputs.supervision(draw, n, d, plain_y)
        self.of_others, self.others = inputs.rows(draw, d=draw.choice((d, d, d, 1)))
        self.twice = draw.random() < 0.3
        self.words = [*options_of(made), *ARGUMENTS]
        self.made = made

    def __repr__(self):
        settings = ", ".join(f"{key}={value!r}"[:60] for key, value in self.settings.items())
        return f"{self.name}({settings}).fit({self.of_rows}; {self.of_y}); then {self.of_others}"

    def run(self):
        """Outcome: "works", "refused", or what is wrong, and what there is to say about it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            estimator = self.made(**self.settings)
            before = dict(vars(estimator))
            try:
                estimator.fit(self.X, self.y)
            except Exception as error:
                if vars(estimator).keys() != before.keys():
                    return "state changed by a failed fit", repr(error)
                return self.judge(error)
            return self.check(estimator)

    def judge(self, error):
        """Whether an error is one that a user can act on."""
        if isinstance(error, RuntimeWarning):
            return "numerical warning", repr(error)
        if not isinstance(error, REFUSED):
            return "undocumented error", repr(error)
        message = str(error)
        if not re.search(rf"\b({'|'.join(self.words)})\b", message):
            return "names no argument", message
        return "refused", message

    def check(self, estimator):
        """Whether what was learned is finite, positive semi-definite and the same again."""
        if self.name == "QueryMetric":
            return ("works", "") if np.isfinite(estimator.weights_).all() else ("not finite", "")
        metric = estimator.metric_
        try:
            mapped = estimator.transform(self.X)
        except Exception as error:
            if "too large" in str(error):
                return "refused", str(error)
            return "cannot transform its own rows", repr(error)
        if not finite(mapped):
            return "not finite", ""
        if metric.lift is None and metric.n_features <= 60 and metric.before is None:
            try:
                M = metric.matrix().astype(np.float64)
            except ValueError as error:
                return "refused", str(error)
            size = np.abs(M).max()
            if not np.isfinite(size):
                return "not finite", "matrix()"
            if size > 0 and np.linalg.eigvalsh(M / size).min() < -1e-5:
                return "not positive semi-definite", ""
        if self.twice and isinstance(estimator.get_params().get("random_state", 0), int):
            again = clone(estimator).fit(self.X, self.y).transform(self.X)
            if not same(mapped, again):
                return "not deterministic", ""
        try:
            if not finite(estimator.transform(self.others)):
                return "not finite", "other rows"
        except Exception as error:
            outcome, said = self.judge(error)
            return ("works", "") if outcome == "refused" else (f"transform: {outcome}", said)
        return "works", ""


def finite(A):
    """Whether all numbers of an array, dense or sparse, are finite."""
    return bool(np.isfinite(getattr(A, "data", A) if hasattr(A, "indptr") else np.asarray(A)).all())


def same(A, B):
    """Whether two arrays, dense or sparse, are equal to the last bit."""
    if hasattr(A, "indptr"):
        A, B = A.toarray(), B.toarray()
    return np.array_equal(np.asarray(A), np.asarray(B))
