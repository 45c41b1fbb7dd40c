"""`Rates`: how fast each of many may go on."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import final

RATE, BURST = 100.0, 200.0  # requests a second, and at once, of one node
STRANGERS = 10.0, 40.0  # the same of all strangers of one address
UNASKED = 1.0, 10.0  # answers of one node that nobody waits for: sent again, or a flood
KEPT = 16384  # of those that were seen last


@final
class Rates:
    """How fast each of many may go: `rate` a second, and `burst` at once. now: seconds that never
    run back.
    """

    def __init__(
        self, rate: float = RATE, burst: float = BURST, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._now = rate, burst, now
        self._left: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # what is left, as of when

    def allow(self, who: str) -> bool:
        """Whether `who` may send another request now."""
        now = self._now()
        left, when = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - when) * self._rate)
        self._left[who] = (left - 1.0 if left >= 1.0 else left, now)
        if len(self._left) > KEPT:
            self._left.popitem(last=False)
        return left >= 1.0

    def give(self, who: str) -> None:
        """Give `who` back what the last request took."""
        if who in self._left:
            left, when = self._left[who]
            self._left[who] = min(self._burst, left + 1.0), when
