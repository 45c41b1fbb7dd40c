"""Short names for the array types in signatures. Inside the package, users and items are dense
indices 0..n-1; external ids appear at its edges alone.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
BoolArray: TypeAlias = NDArray[np.bool_]
Float32Array: TypeAlias = NDArray[np.float32]
Float64Array: TypeAlias = NDArray[np.float64]
Int8Array: TypeAlias = NDArray[np.int8]
Int32Array: TypeAlias = NDArray[np.int32]
Int64Array: TypeAlias = NDArray[np.int64]
UInt64Array: TypeAlias = NDArray[np.uint64]
