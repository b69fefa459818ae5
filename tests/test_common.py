"""scikit-learn's own checks of every estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualmetric import SPCA, SRP, DuOri, DuRP, Euclidean

DUAL = {"n_triplets": 500, "random_state": 0}

# name of a check: why it cannot hold. None is needed.
EXPECTED_FAILURES: dict[str, str] = {}


@pytest.mark.filterwarnings("ignore:.* active triplets were found where:UserWarning")
@parametrize_with_checks(
    [DuRP(**DUAL), DuOri(**DUAL), SRP(**DUAL), SPCA(**DUAL), Euclidean()],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
