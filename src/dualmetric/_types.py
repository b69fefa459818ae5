"""Names for the kinds of array that functions take and give."""

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Rows: TypeAlias = Array | sp.csr_matrix | sp.csr_array
"""Data with one example a row: dense, or CSR with sorted indices."""
