"""Which rows are for training and which for the test."""

from pathlib import Path

import numpy as np

from .._types import Array
from ._catalog import Split
from ._reading import LabelledRows


def split_rows(rows: LabelledRows, split: Split, seed: int, path: Path) -> tuple[Array, Array]:
    """Return the numbers of the training rows and of the test rows.

    A random split leaves its rows in random order: files often hold one class after another.
    """
    if split == "own":
        if rows.train is None or rows.test is None:
            raise ValueError(
                f"{path} does not say which rows are test rows: it needs the arrays 'train_idx' "
                "and 'test_idx'"
            )
        return rows.train, rows.test
    n_rows = len(rows.y)
    n_train = 7 * n_rows // 10  # the paper's 70 %, rounded down: 6,575 of tdt30's 9,394
    if not 0 < n_train < n_rows:
        raise ValueError(f"{path} has {n_rows} rows: too few to split into training and test")
    if split == "stratified":
        from sklearn.model_selection import train_test_split

        try:
            train, test = train_test_split(
                np.arange(n_rows), train_size=n_train, random_state=seed, stratify=rows.y
            )
        except ValueError as error:
            raise ValueError(f"{path} cannot be split class by class: {error}") from None
        return train, test
    order = np.arange(n_rows)
    if split == "random":
        order = np.random.default_rng(seed).permutation(n_rows)
    return order[:n_train], order[n_train:]
