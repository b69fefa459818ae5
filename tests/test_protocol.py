"""The verification protocol: thresholds from other entities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dualmetric import Pairs
from dualmetric.evaluation import verification_by_entity
from dualmetric.matching._calibration import entity_folds


def records(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(n, 3)), 2, axis=0) + 0.3 * rng.normal(size=(2 * n, 3))
    entity = np.repeat(np.arange(n), 2)
    index = np.column_stack(np.triu_indices(2 * n, 1))
    return X, Pairs(index, entity[index[:, 0]] == entity[index[:, 1]], groups=entity)


def test_rates_by_hand():
    X, pairs = records()
    found = verification_by_entity(X, pairs, [0.1, 0.01, 1e-6], n_folds=5, seed=3)
    distance = np.linalg.norm(X[pairs.index[:, 0]] - X[pairs.index[:, 1]], axis=1)
    tar, far = [], []
    for train, test in entity_folds(pairs.groups[pairs.index], 5, 3):
        others = np.sort(distance[train & ~pairs.same])
        limit = others[int(0.01 * len(others))]  # the first that may not be accepted
        tar.append(np.mean(distance[test & pairs.same] < limit))
        far.append(np.mean(distance[test & ~pairs.same] < limit))
    assert found.tar[1] == pytest.approx(np.mean(tar))
    assert found.far[1] == pytest.approx(np.mean(far))
    assert found.tar_error[1] == pytest.approx(np.std(tar, ddof=1) / np.sqrt(5))
    assert np.isnan([found.tar[2], found.far[2], found.tar_error[2]]).all()
    assert found.thresholds.shape == (5, 3)
    assert found.tar[0] > found.tar[1]


def test_every_pair_is_tested_and_true_pairs_once():
    _, pairs = records(30)
    entity = pairs.groups[pairs.index]
    tested = np.zeros(len(entity), dtype=int)
    for train, test in entity_folds(entity, 4):
        assert_array_equal(train, ~test)
        tested += test
    assert (tested >= 1).all()
    assert (tested[pairs.same] == 1).all()


def test_rates_are_those_of_use():
    """The false accept rate on new entities is about what was asked for."""
    X, pairs = records(120)
    found = verification_by_entity(X, pairs, 0.05)
    assert_allclose(found.far, 0.05, atol=0.01)


def test_without_groups_each_row_is_an_entity():
    X, pairs = records(40)
    plain = Pairs(pairs.index, pairs.same)
    assert verification_by_entity(X, plain, 0.1, n_folds=3).tar[0] > 0.5


def test_refusals():
    X, pairs = records(10)
    with pytest.raises(ValueError, match="n_folds must be at least 2"):
        verification_by_entity(X, pairs, n_folds=1)
    with pytest.raises(ValueError, match="far must hold rates above 0"):
        verification_by_entity(X, pairs, far=0)
    with pytest.raises(ValueError, match="fewer than two folds"):
        verification_by_entity(X, Pairs([[0, 1], [0, 2]], [True, False]))
    with pytest.raises(TypeError, match="pairs must be Pairs"):
        verification_by_entity(X, [[0, 1]])
