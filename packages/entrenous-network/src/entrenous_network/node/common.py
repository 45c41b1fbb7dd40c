"""The things that the nodes of one process share, as those of a shop do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

from ..secure_sum.primitives import VerifiedOnce


@final
class Common:
    """Verifies each signature once. A node that is alone in its process has one to itself.

    clock: seconds since 1970, by which answers come free.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.verify = VerifiedOnce()
