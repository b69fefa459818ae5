"""Names for the kinds of array that functions take and give."""

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Data with one example a row: a dense array, or a CSR matrix with sorted indices. SciPy's sparse
# types carry no annotations, so the checker cannot tell them from anything else.
Rows: TypeAlias = Any
