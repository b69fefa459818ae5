"""The 8 × 8 digits that come with scikit-learn."""

import numpy as np

from ._data import Data

NAMES = ("digits",)


def load(name: str) -> Data:
    """Two thirds of the rows for training, one for testing, the same share of each class."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X.astype(np.float32), y, test_size=1 / 3, random_state=0, stratify=y
    )
    return Data(name, X, y, X_test, y_test)
