"""The methods of ``dualmetric fit``, and which options go with which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..learners._base import MetricLearner

METHODS = {
    "auto": "DuRPCV",
    "durp": "DuRP",
    "duori": "DuOri",
    "srp": "SRP",
    "spca": "SPCA",
    "oasis": "OASIS",
    "lmnn": "LMNN",
    "euclidean": "Euclidean",
}
DEFAULT_METHOD = "auto"
WITHOUT_TRIPLETS = ("lmnn", "euclidean")

_PARAMETERS = {
    "--rank": "n_components",
    "--shrinkage": "shrinkage",
    "--distance": "distance",
    "--projections": "n_projections",
    "--sampler": "sampler",
    "--power": "power",
    "--lift": "lift",
}
# what is left open is chosen
_CANDIDATES = {
    "--rank": "ranks",
    "--shrinkage": "shrinkages",
    "--distance": "distances",
    "--sampler": "samplers",
    "--power": "powers",
    "--lift": "lifts",
}
_LIFTS = {"none": None, "rbf": "rbf"}


def build_learner(method: str, options: dict[str, Any], seed: int) -> MetricLearner:
    """Estimator of a method; an option that was given and does not go with it is refused.

    With "auto", an option that was given is not chosen but taken.
    """
    from .. import learners

    if method not in METHODS:
        raise ValueError(f"--method: {method!r} is not known; known: {', '.join(METHODS)}")
    kind = getattr(learners, METHODS[method])
    accepted = kind().get_params()
    parameters: dict[str, Any] = {"random_state": seed} if "random_state" in accepted else {}
    for option, value in options.items():
        if value is None:
            continue
        if option == "--lift":
            if value not in _LIFTS:
                raise ValueError(f"--lift: {value!r} is not known; known: {', '.join(_LIFTS)}")
            value = _LIFTS[value]
        if method == "auto" and option in _CANDIDATES:
            parameters[_CANDIDATES[option]] = [value]
            continue
        if _PARAMETERS[option] not in accepted:
            raise ValueError(f"{option} does not go with --method {method}: leave it out")
        parameters[_PARAMETERS[option]] = value
    learner: MetricLearner = kind(**parameters)
    return learner
