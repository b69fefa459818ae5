"""Options of the estimators: declared once, checked in ``fit``, documented, and kept."""

import dataclasses
import inspect
import re
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone

from dualmetric import (
    LMNN,
    OASIS,
    SPCA,
    SRP,
    DuOri,
    DuRP,
    Euclidean,
    Metric,
    MetricCV,
    RidgeMetric,
    Whitening,
)
from dualmetric._options import Option, check_options, option, options_of, with_options
from dualmetric.losses import LOSSES
from makers import make_classes

ESTIMATORS = [DuRP, DuOri, SRP, SPCA, OASIS, LMNN, RidgeMetric, Whitening, Euclidean, MetricCV]
CASES = [(estimator, name) for estimator in ESTIMATORS for name in options_of(estimator)]
IDS = [f"{estimator.__name__}.{name}" for estimator, name in CASES]

# values of the type "object", which the estimators check themselves: valid and wrong ones
OBJECTS = {
    "random_state": ([None, 3, np.random.RandomState(0)], ["x", -1]),
    "prior": ([None, "identity"], ["plain", 1.0, np.eye(12)]),
    "blocks": ([None, [12], [5, 7], [slice(0, 12)]], [12, "all", [], [5, 6], [[0, 1]], [1.0]]),
    "cv": ([None, 2], ["rows", 1]),
    "shrinkages": ([None, (0.5,)], [0.5, (), (0.0,), "0.5", (True,)]),
    "ranks": ([None, (2,)], [2, (), (0,), (1.5,)]),
    "powers": ([(0.0,), [0.5]], [None, (), 0.5, (-2.0,), (np.inf,)]),
    "distances": ([("cosine",)], [None, (), "cosine", ("l1",)]),
    "samplers": ([("active",)], [None, (), "active", ("all",)]),
    "lifts": ([(None,)], [None, (), "rbf", ("poly",)]),
    "alphas": ([None, (0.1, 1.0)], [1.0, (), (0.0,), "auto"]),
    "regs": ([(None, 0.1)], [None, (), 0.1, (0.0,)]),
    "priors": ([None, (None,), ("identity", "whitening")], [(), "identity", ("plain",)]),
}


def valid_and_wrong(declared, default):
    """Values that an option must accept, and values with the error that they must raise."""
    if declared.choices is not None:
        return list(declared.choices), [("x", ValueError), (7, ValueError), ([], ValueError)]
    if declared.kind == "bool":
        return [True, False, np.True_], [(1, TypeError), ("yes", TypeError), (None, TypeError)]
    whole = declared.kind == "int"
    step = 1 if whole else 1e-3
    low, high = declared.low, declared.high
    valid = [default] if default is not None else []
    wrong = [("x", TypeError), (True, TypeError), ([1], TypeError), (1j, TypeError)]
    if whole:
        wrong += [(1.0, TypeError), (np.float64(2), TypeError), (Fraction(3, 2), TypeError)]
    else:
        wrong += [(np.nan, ValueError), (np.inf, ValueError), (-np.inf, ValueError)]
    if low is not None:
        low = int(low) if whole else low
        wrong += [(low - step, ValueError), (-(10**400), ValueError)]
        if declared.above:
            wrong.append((low, ValueError))
            valid.append(low + step)
        else:
            valid += [low, np.int32(low) if whole else np.float32(low)]
    if high is not None:
        wrong.append((high + step, ValueError))
        valid.append(high)
    (valid if declared.optional else wrong).append(None if declared.optional else (None, TypeError))
    return valid, wrong


# --- every option of every estimator --------------------------------------------------------


@pytest.mark.parametrize(("estimator", "name"), CASES, ids=IDS)
def test_values_out_of_range_are_refused_by_name(estimator, name):
    declared = options_of(estimator)[name]
    X, y = make_classes()
    if declared.kind == "object":
        for value in OBJECTS[name][1]:
            message = "[sS]eed" if name == "random_state" else name
            with pytest.raises((ValueError, TypeError), match=message):
                estimator(**{name: value}).fit(X, y)
        return
    default = estimator().get_params()[name]
    for value, error in valid_and_wrong(declared, default)[1]:
        with pytest.raises(error) as caught:
            estimator(**{name: value}).fit(X, y)
        assert str(caught.value).startswith(f"{name} must be ")
        assert "; got " in str(caught.value)
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize(("estimator", "name"), CASES, ids=IDS)
def test_values_in_range_are_accepted(estimator, name):
    declared = options_of(estimator)[name]
    default = estimator().get_params()[name]
    valid = OBJECTS[name][0] if declared.kind == "object" else valid_and_wrong(declared, default)[0]
    assert valid
    for value in valid:
        check_options(estimator(**{name: value}))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_nothing_is_checked_before_fit(estimator):
    """As scikit-learn's conventions have it: ``set_params`` may pass through wrong states."""
    wrong = dict.fromkeys(options_of(estimator), object)
    model = estimator(**wrong)
    assert model.get_params(deep=False) == wrong
    first = next(iter(options_of(estimator)))
    with pytest.raises((TypeError, ValueError), match=first):
        model.fit(*make_classes())


@pytest.mark.parametrize(("estimator", "name"), CASES, ids=IDS)
def test_the_docstring_lists_every_option_with_its_default(estimator, name):
    default = inspect.signature(estimator).parameters[name].default
    section = re.search(r"Parameters\n-+\n(.*?)\n\n[A-Z]\w+", estimator.__doc__, re.DOTALL)
    lines = section[1].split("\n")
    found = [line for line in lines if line.startswith(f"{name} : ")]
    assert len(found) == 1
    shown = found[0].split("default=", 1)[1]
    assert eval(shown) == default
    assert type(eval(shown)) is type(default)
    text = lines[lines.index(found[0]) + 1]
    assert text.startswith(" " * 4)
    assert text.strip()[0].isupper() or text.strip()[0] in "\"'`λμsC"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_docstring_is_complete(estimator):
    assert "{parameters}" not in estimator.__doc__
    assert "{sections}" not in estimator.__doc__
    for line in estimator.__doc__.split("\n"):
        assert len(line) <= 100
    assert inspect.signature(estimator).parameters.keys() == options_of(estimator).keys()


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if e is not MetricCV])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings(
    "ignore:.*(active triplets were found|no direction (separates|has)):UserWarning"
)
def test_the_docstring_lists_every_fitted_attribute(estimator):
    seed = {"random_state": 0} if "random_state" in options_of(estimator) else {}
    model = estimator(**seed).fit(*make_classes())
    section = re.search(r"Attributes\n-+\n(.*?)(?:\n\n|$)", estimator.__doc__, re.DOTALL)[1]
    listed = re.findall(r"^((?:\w+, )*\w+) : ", section, re.MULTILINE)
    names = {name for line in listed for name in line.split(", ")}
    fitted = {name for name in vars(model) if name.endswith("_")}
    assert fitted <= names
    updated = {"updating_", "rows_", "ids_", "distance_bound_"}  # after partial_fit
    for name in names - {"feature_names_in_", "block_weights_"} - updated:
        assert hasattr(model, name)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_help_texts_are_sentences(estimator):
    for declared in options_of(estimator).values():
        assert declared.help.endswith(".")
        assert "  " not in declared.help
        assert "\n" not in declared.flag
        assert not declared.flag or declared.flag.endswith(".")


# --- the constructor ------------------------------------------------------------------------


def other_values(estimator):
    """A value for each parameter that is not its default, of the very object given."""
    found = {}
    for name, declared in options_of(estimator).items():
        default = inspect.signature(estimator).parameters[name].default
        if declared.kind == "object":
            candidates = OBJECTS[name][0][::-1]
        else:
            candidates = valid_and_wrong(declared, default)[0][::-1]
        found[name] = next(value for value in candidates if value is not default)
    return found


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_constructor_keeps_parameters(estimator):
    values = other_values(estimator)
    model = estimator(**values)
    for name, value in values.items():
        assert getattr(model, name) is value
        assert model.get_params(deep=False)[name] is value
    assert set(vars(model)) == set(values)
    copy = clone(model)
    assert type(copy) is estimator
    for name, value in values.items():
        kept = getattr(copy, name)
        assert kept is value or type(kept) is type(value)
    changed = estimator().set_params(**values)
    assert changed.get_params(deep=False).keys() == values.keys()
    for name, value in values.items():
        assert getattr(changed, name) is value


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_unknown_parameters_are_refused(estimator):
    with pytest.raises(TypeError, match="n_componets"):
        estimator(n_componets=3)
    with pytest.raises(ValueError, match="n_componets"):
        estimator().set_params(n_componets=3)


@pytest.mark.parametrize(
    ("estimator", "first"),
    [
        (DuRP, "n_projections"),
        (SRP, "n_projections"),
        (SPCA, "n_projections"),
        (OASIS, "aggressiveness"),
        (LMNN, "n_components"),
        (Whitening, "shrinkage"),
        (Euclidean, "distance"),
    ],
)
def test_only_the_first_parameter_is_positional(estimator, first):
    assert getattr(estimator(7), first) == 7
    with pytest.raises(TypeError, match="positional"):
        estimator(7, 7)


@pytest.mark.parametrize("estimator", [DuOri, MetricCV])
def test_others_take_keywords_only(estimator):
    with pytest.raises(TypeError, match="positional"):
        estimator(7)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_text_shows_what_differs_from_the_defaults(estimator):
    assert repr(estimator()) == f"{estimator.__name__}()"
    text = repr(estimator(**dict.fromkeys(list(options_of(estimator))[:1], 7)))
    assert text == f"{estimator.__name__}({next(iter(options_of(estimator)))}=7)"
    assert estimator() != estimator()  # models are not equal because their parameters are


def test_estimators_share_no_parameters_between_instances():
    first, second = MetricCV(), MetricCV()
    first.set_params(powers=[0.5], max_rows=10)
    assert second.get_params() == MetricCV().get_params()


# --- the options that the documentation promises --------------------------------------------


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if e is not Euclidean])
def test_every_estimator_that_learns_has_max_rows(estimator):
    declared = options_of(estimator)["max_rows"]
    assert estimator().max_rows == 50_000
    assert declared.optional
    assert declared.low == 2


@pytest.mark.parametrize("estimator", [DuRP, DuOri, SRP, SPCA])
def test_losses_are_those_that_exist(estimator):
    assert options_of(estimator)["loss"].choices == tuple(LOSSES)


def test_priors():
    assert "prior" in options_of(DuRP)
    assert "prior" in options_of(DuOri)
    assert not {"prior"} & {*options_of(SRP), *options_of(SPCA)}
    metric = Metric(np.eye(12))
    assert clone(DuRP(prior=metric)).prior.matrix().tolist() == np.eye(12).tolist()


# --- Option ---------------------------------------------------------------------------------


@with_options
class Example:
    """An example.

    Parameters
    ----------
    {parameters}

    Notes
    -----
    None.
    """

    count: int = option("int", default=3, help="How many.", low=1, high=2000)
    share: float = option("float", default=0.5, help="How much.", low=0, high=1, above=True)
    size: int | None = option("int", default=None, help="How large.", kw_only=False)
    kind: str = option("str", default="a", help="Which.", choices=("a", "b"))
    flag: bool = option("bool", default=False, help="Whether.")
    large: int = option("int", default=50_000, help="Large.", flag="Large.")
    text: str = option("str", default="", help="Any text.")


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        (
            "count",
            0,
            ValueError,
            "a whole number of at least 1 and at most 2000; got 0",
        ),
        ("count", 2001, ValueError, "at most 2000; got 2001"),
        ("count", 2.0, TypeError, "count must be a whole number .*; got 2.0"),
        ("count", None, TypeError, "got None"),
        ("share", 0, ValueError, "share must be a finite number above 0 and at most 1; got 0"),
        ("share", np.nan, ValueError, "got nan"),
        ("share", 10**400, ValueError, r"got 10+\.\.\.0+"),
        ("size", "x", TypeError, "size must be a whole number, or None; got 'x'"),
        ("kind", "c", ValueError, "kind must be one of 'a', 'b'; got 'c'"),
        ("kind", np.zeros(2), ValueError, "kind must be one of 'a', 'b'; got array"),
        ("flag", 1, TypeError, "flag must be True or False; got 1"),
        ("text", 1, TypeError, "text must be a string; got 1"),
        ("text", "x" * 1000, None, ""),
    ],
)
def test_messages(name, value, error, message):
    example = Example(**{name: value})
    if error is None:
        check_options(example)
        return
    with pytest.raises(error, match=message) as caught:
        check_options(example)
    assert len(str(caught.value)) < 150


def test_documentation_of_options():
    lines = Example.__doc__.split("\n")
    start = lines.index("size : int or None, default=None")  # positional ones come first
    assert lines[start : start + 14] == [
        "size : int or None, default=None",
        "    How large.",
        "count : int, default=3",
        "    How many.",
        "share : float, default=0.5",
        "    How much.",
        'kind : {"a", "b"}, default="a"',
        "    Which.",
        "flag : bool, default=False",
        "    Whether.",
        "large : int, default=50_000",
        "    Large.",
        'text : str, default=""',
        "    Any text.",
    ]


def test_options_are_in_the_order_of_the_constructor():
    assert list(options_of(Example)) == list(inspect.signature(Example).parameters)
    assert options_of(Example()) == options_of(Example)
    for field in dataclasses.fields(Option):
        assert hasattr(options_of(Example)["count"], field.name)
