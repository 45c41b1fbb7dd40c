"""How benches measure: processor seconds and wall seconds of repeated calls, the best of several,
peak memory of the process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple


class Cost(NamedTuple):
    """The cost of one call: wall seconds, and processor seconds over all threads."""

    wall: float
    cpu: float


def cost(call: Callable[[], object]) -> Cost:
    """The wall and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(turns: int, *calls: Callable[[], object], each: int = 4) -> list[list[Cost]]:
    """The costs of several calls taken in turns, so that a machine's moods meet all alike.

    A turn is `each` calls of one after a call that is not counted: threads that take turns too
    quickly end up on one core, and the one that comes second is made to look slow.
    """
    found: list[list[Cost]] = [[] for _ in calls]
    for _ in range(turns):
        for costs, call in zip(found, calls, strict=True):
            call()
            costs.extend(cost(call) for _ in range(each))
    return found


def peak_rss_mb() -> float:
    """The peak memory of this process, in MB (2^20 bytes)."""
    import resource

    unit = 1024 if sys.platform == "darwin" else 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit / 1024
