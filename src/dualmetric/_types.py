"""Names for the kinds of array that functions take and return."""

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# One example per row: a dense array of any library, or a CSR matrix with sorted indices. The type
# checker knows neither SciPy's sparse types nor the array API.
Matrix: TypeAlias = Any
