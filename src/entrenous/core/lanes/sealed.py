"""The one form in which compiled kernels receive arrays that they only read: C-contiguous, not to
be written to.

numba compiles a kernel anew for each combination of types, and to numba an array that may be
written to, one that may not, and one with other strides are three types. A kernel's door, the plain
function that calls it, seals what the kernel reads, so that there is one compiled form of it,
wherever the arrays come from: a server's state, a frame from a network, a mapped file.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)


def view_only(array: NDArray[Number]) -> NDArray[Number]:
    """Returns a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def sealed(array: NDArray[Number]) -> NDArray[Number]:
    """Returns the numbers of an array, C-contiguous and not to be written to. Copies them only if
    they are not contiguous.

    >>> sealed(np.zeros((2, 3)).T).flags.c_contiguous, sealed(np.zeros(2)).flags.writeable
    (True, False)
    """
    return view_only(np.ascontiguousarray(array))
