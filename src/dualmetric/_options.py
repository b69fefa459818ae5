"""Options of estimators, declared once: type, range, default and help text.

The constructor, the validation, the documentation and the command-line flag all follow from the
declaration. An estimator is a dataclass whose fields are made by `option`, so that scikit-learn,
editors and type checkers see ordinary keyword arguments.
"""

from dataclasses import dataclass, field, fields
from inspect import cleandoc
from numbers import Integral, Real
from reprlib import repr as brief
from textwrap import fill
from typing import Any, TypeVar, dataclass_transform

import numpy as np

_T = TypeVar("_T", bound=type)
_MOST = 2**31 - 1  # of a whole number
_KINDS: dict[str, tuple[Any, str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a finite number"),
    "bool": ((bool, np.bool_), "True or False"),
    "str": (str, "a string"),
}

_SECTIONS = """Parameters
    ----------
    {parameters}

    Attributes
    ----------
    metric_ : Metric
        The learned metric, which can be saved and applied elsewhere.
    components_ : ndarray of shape (n_directions, n_features_in_)
        Its directions, one per row; with a lift, they are over its landmarks.
    n_rows_used_, n_rows_in_ : int
        How many rows were learned from, and how many were given.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if all names in X are strings."""


@dataclass(frozen=True)
class Option:
    """What is known about an option besides its name and default."""

    kind: str  # type of its values; those of "object" are checked by the estimator, or by ``each``
    help: str  # what it does, in the words of the documentation
    low: float | None = None  # smallest value
    high: float | None = None  # largest value
    above: bool = False  # whether ``low`` itself is excluded
    choices: tuple[Any, ...] | None = None  # every value that is allowed
    optional: bool = False  # whether None is allowed
    type: str = ""  # type as the documentation shows it; derived where it is empty
    flag: str = ""  # one line for the command line; empty where there is no flag
    each: "Option | None" = None  # what each value of a sequence of candidates may be

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that is not allowed, naming the option, the value and what is allowed."""
        if value is None and self.optional:
            return
        if self.each is not None:
            if isinstance(value, str) or not np.ndim(value) or not len(value):
                raise ValueError(f"{name} must be a sequence of candidates; got {value!r}")
            for one in value:
                self.each.check(f"each of {name}", one)
        if self.kind == "object":
            return
        problem = f"{name} must be {self._allowed()}; got {brief(value)}"
        if self.choices is not None:
            if not any(isinstance(value, type(one)) and value == one for one in self.choices):
                raise ValueError(problem)
            return
        wrong_bool = isinstance(value, bool | np.bool_) and self.kind != "bool"
        if wrong_bool or not isinstance(value, _KINDS[self.kind][0]):
            raise TypeError(problem)
        if isinstance(value, np.number) and value.dtype.itemsize < 4:
            raise ValueError(
                f"{problem} of type {value.dtype}, which is too narrow: convert it with "
                f"{'int' if self.kind == 'int' else 'float'}()"
            )
        if self.kind in ("int", "float"):
            with np.errstate(over="ignore"):
                number = float(value) if abs(value) < 1e300 else np.inf
            low = -np.inf if self.low is None else self.low
            high = np.inf if self.high is None else self.high
            if self.kind == "int" and number > _MOST:
                raise ValueError(f"{problem}, which is above {_MOST:,}")
            if not (np.isfinite(number) and low <= number <= high) or (
                self.above and number == low
            ):
                raise ValueError(problem)

    def _allowed(self) -> str:
        if self.choices is not None:
            return "one of " + ", ".join(map(repr, self.choices))
        words = _KINDS[self.kind][1]
        if self.low is not None:
            words += f" {'above' if self.above else 'of at least'} {self.low:g}"
        if self.high is not None:
            words += f" and at most {self.high:g}"
        return words + (", or None" if self.optional else "")

    def type_in_words(self) -> str:
        """Type as numpydoc shows it."""
        if self.type:
            return self.type
        if self.choices is not None:
            return "{" + ", ".join(_quoted(choice) for choice in self.choices) + "}"
        return self.kind + (" or None" if self.optional else "")


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def option(kind: str, *, default: Any, kw_only: bool = True, **more: Any) -> Any:
    """A field of an estimator: its default, and an `Option` that says what it may be."""
    declared = Option(kind, **{"optional": default is None, **more})
    return field(default=default, kw_only=kw_only, metadata={"option": declared})


def options_of(owner: Any) -> dict[str, Option]:
    """Options of an estimator or its class, by name, in the order of its constructor."""
    ordered = sorted(fields(owner), key=lambda entry: bool(entry.kw_only))
    return {entry.name: entry.metadata["option"] for entry in ordered}


def check_options(owner: Any) -> None:
    """Check every option of an estimator."""
    for name, declared in options_of(owner).items():
        declared.check(name, getattr(owner, name))


@dataclass_transform(kw_only_default=True, field_specifiers=(option,))
def with_options(cls: _T) -> _T:
    """Make the constructor of an estimator, and complete its docstring."""
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    if made.__doc__ is not None:  # there is none under python -OO
        # without indentation, as Python 3.13 and later have it
        sections = cleandoc(_SECTIONS + getattr(made, "_attributes", ""))
        text = cleandoc(made.__doc__).replace("{sections}", sections)
        made.__doc__ = text.replace("{parameters}", _parameters(made))
    return made


def _parameters(cls: Any) -> str:
    """The section Parameters of a docstring."""
    lines = []
    for name, declared in options_of(cls).items():
        default = getattr(cls, name)
        shown = f"{default:_}" if type(default) is int else _quoted(default)
        lines.append(f"{name} : {declared.type_in_words()}, default={shown}")
        lines.append(fill(declared.help, 96, initial_indent=" " * 4, subsequent_indent=" " * 4))
    return "\n".join(lines)


# --- options that several estimators share ---------------------------------------------------


def tol_option() -> Any:
    """``tol`` of the estimators that solve a dual problem."""
    return option(
        "float",
        default=None,
        help="Stop earlier, when the duality gap is at most ``tol`` times the primal objective.",
        low=0,
    )


def max_rows_option() -> Any:
    """How many rows are learned from."""
    return option(
        "int",
        default=50_000,
        help="At most this many rows are learned from, chosen at random and evenly over all rows. "
        "Rows that y names, as triplets, pairs or judgements do, are always used, and a few more "
        "of rare classes. None learns from all rows.",
        low=2,
        optional=True,
        flag="Learn from at most this many rows (default 50,000); none means all.",
    )


def distance_option(
    default: str = "euclidean", note: str = "The choice does not affect learning."
) -> Any:
    """How transformed rows are compared."""
    return option(
        "str",
        default=default,
        help='With "cosine", transformed rows are centred and scaled to length one: often better '
        f"for text and embeddings. A metric with a single direction always uses the Euclidean "
        f"distance, because its cosine could only be 1 or −1. {note}",
        choices=("euclidean", "cosine"),
        flag="How vectors are compared: euclidean or cosine.",
    )


def n_components_option(default_help: str) -> Any:
    """Rank of the metric."""
    return option(
        "int",
        default=None,
        help="Rank of the metric: how many directions are kept, the most important first. "
        + default_help,
        low=1,
        flag="Dimension of the learned vectors; search is faster if it is small.",
    )


def lift_option(note: str = "") -> Any:
    """Whether rows are mapped to kernel features first."""
    return option(
        "str",
        default=None,
        help='With "rbf", rows are first mapped to up to 2,000 kernel features, and the metric is '
        "learned on these. It is then not linear in the features, and often far better on images "
        f"and embeddings. Sparse rows may have up to 4,000 features. See `dualmetric.lift`{note}.",
        choices=(None, "rbf"),
        flag="rbf learns a distance that is not linear; none learns a linear one.",
    )


def scale_option() -> Any:
    """Whether results depend on the unit of X."""
    return option(
        "bool",
        default=True,
        help="Measure distances relative to their root mean square over the training rows, so "
        "that the result does not depend on the unit of X. The paper uses False.",
    )


def random_state_option(purpose: str) -> Any:
    """Seed of everything random."""
    return option("object", default=None, help=purpose, type="int, RandomState instance or None")


def verbose_option(purpose: str) -> Any:
    """What is printed."""
    return option("int", default=0, help=purpose, low=0)
