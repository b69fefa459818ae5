"""What a data set is to the benchmark."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Data:
    """Training and test rows with their labels, in float32, dense or CSR."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
