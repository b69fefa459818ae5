"""The methods of ``dualmetric fit`` and their flags, which follow from the estimators' options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from .._options import Option

_CLASSES = (
    "DuRP",
    "DuOri",
    "SRP",
    "SPCA",
    "OASIS",
    "LMNN",
    "RidgeMetric",
    "Whitening",
    "Euclidean",
)
METHODS = {"auto": "MetricCV"} | {name.lower().removesuffix("metric"): name for name in _CLASSES}
# methods that learn from labels only, or not at all
NEED_LABELS = ("lmnn", "ridge", "euclidean")
_CVS = {"labels": ("classes",)} | dict.fromkeys(
    ("--positives", "--relevance"), ("queries", "documents")
)
# flags with another name than their option
_SHORT_NAMES = {
    "n_components": "rank",
    "n_projections": "projections",
    "n_triplets": "triplets",
    "require": "for",
}


def _options_of(method: str) -> dict[str, Option]:
    from .. import estimators
    from .._options import options_of

    return options_of(getattr(estimators, METHODS[method]))


def estimator_options() -> dict[str, Option]:
    """Options of all methods that have a flag, by name; the first method describes each."""
    found: dict[str, Option] = {}
    # the flags of "auto" alone come last in the help
    for method in sorted(METHODS, key=lambda method: method == "auto"):
        for name, option in _options_of(method).items():
            if option.flag:
                found.setdefault(name, option)
    return found


def with_estimator_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, with a flag (of text) for every option of the estimators that has one."""
    parameters = list(inspect.signature(command).parameters.values())
    for name, option in estimator_options().items():
        flag = typer.Option(
            f"--{_flag_name(name)}",
            metavar="NUMBER" if option.kind in ("int", "float") else "NAME",
            help=option.flag,
            rich_help_panel="Options of the method",
        )
        keyword = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        parameters.append(keyword.replace(annotation=Annotated[str | None, flag]))

    @wraps(command)
    def complete(**given: Any) -> None:
        command(**given)

    complete.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return complete


def _flag_name(option: str) -> str:
    return _SHORT_NAMES.get(option, option).replace("_", "-")


def build_estimator(method: str, given: dict[str, str | None], seed: int) -> Any:
    """Estimator of a method, with the options that were given."""
    from .. import estimators

    if method not in METHODS:
        raise ValueError(f"--method: {method!r} is not known; use one of {', '.join(METHODS)}")
    accepted = _options_of(method)
    parameters: dict[str, Any] = {"random_state": seed} if "random_state" in accepted else {}
    for name, option in estimator_options().items():
        text, flag = given.get(name), _flag_name(name)
        if text is None:
            continue
        declared = accepted.get(name, option)
        if declared.kind == "object":  # what it may be is declared with the candidates of "auto"
            declared = getattr(_options_of("auto").get(f"{flag}s"), "each", None) or declared
        if name in accepted:
            parameters[name] = _value(text, declared, f"--{flag}")
        elif f"{flag}s" in accepted:  # of "auto": the only candidate
            parameters[f"{flag}s"] = [_value(text, declared, f"--{flag}")]
        else:
            raise ValueError(f"--{flag} does not apply to --method {method}: leave it out")
    return getattr(estimators, METHODS[method])(**parameters)


def options_in_words(estimator: Any) -> str:
    """Options of an estimator that are not at their defaults, as in "rank 9, distance cosine"."""
    from .._options import options_of

    silent = ("max_rows", "random_state", "verbose")
    found = []
    for name in options_of(type(estimator)):
        value = getattr(estimator, name)
        if name in silent or value is None or value == getattr(type(estimator), name):
            continue
        shown = f"{value:.3g}" if isinstance(value, float) else value
        if isinstance(value, int) and value >= 10_000:
            shown = f"{value:,}"
        found.append(f"{_flag_name(name).replace('-', ' ')} {shown}")
    return ", ".join(found) or "default settings"


def in_flags(message: str) -> str:
    """An error of an estimator, with flags in place of its options."""
    names = "|".join((*estimator_options(), "cv"))

    def flag(found: re.Match[str]) -> str:
        value = found[2].strip("'")
        return f"--{_flag_name(found[1])} {'none' if value == 'None' else value}"

    message = message.replace("use cv=None", "leave --cv out")
    # a flag gives "auto" its only candidate
    candidates = "|".join(name for name, one in _options_of("auto").items() if one.each is not None)
    message = re.sub(
        rf"\b({candidates})(?= has no effect|$)", lambda found: f"--{found[1][:-1]}", message
    )
    message = re.sub(rf"\b({names})=('[^']*'|[-\w.]*\w)", flag, message)
    message = re.sub(r"(?<!--)\bshrinkage\b", "--shrinkage", message)
    message = re.sub(
        r"\b(max_components|time_limit)\b", lambda found: f"--{_flag_name(found[1])}", message
    )
    message = re.sub(r"\bMetricCV\b", "--method auto", message)
    message = re.sub(r"\bRidgeMetric\b(?!\()", "--method ridge", message)
    return re.sub(r"\b([uU]se) DuRP\b(?!\()", r"\1 --method durp", message)


def read_cv(text: str, method: str, known: str) -> int | str:
    """What ``--cv`` says, for labels or another kind of what is ``known``."""
    if method != "auto":
        raise ValueError(f"--cv does not apply to --method {method}: leave it out")
    if text.isdecimal() and int(text) >= 2:
        return int(text)
    allowed = _CVS.get(known, ())
    if text not in allowed:
        words = ", ".join(map(repr, allowed)) + (" or " if allowed else "")
        raise ValueError(
            f"--cv must be {words}a number of folds of 2 or more when learning from {known}; got "
            f"{text!r}"
        )
    return text


def _value(text: str, option: Option, flag: str) -> Any:
    """Value of an option, checked by its declaration."""
    value: Any = None if text.lower() == "none" else text
    if option.kind == "bool":
        value = {"true": True, "false": False}.get(text.lower(), value)
    elif option.kind in ("int", "float"):
        with suppress(ValueError):  # text is refused below, in the same words as a wrong number
            value = int(text) if option.kind == "int" else float(text)
    try:
        option.check(flag, value)
    except (TypeError, ValueError) as error:
        message = str(error)
        if "none" in option.flag:
            message = message.replace("of None, ", "of 'none', ").replace("or None;", "or none;")
        else:  # it is enough to leave the flag out
            message = message.replace("of None, ", "of ").replace(", or None;", ";")
        raise ValueError(message) from None
    return value
