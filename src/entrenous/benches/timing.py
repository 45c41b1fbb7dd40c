"""How benches measure: processor seconds and wall seconds of repeated calls, the best of several, peak memory of the process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple


class Cost(NamedTuple):
    """Of one call: wall seconds, and processor seconds over all threads."""

    wall: float
    cpu: float


def cost(call: Callable[[], object]) -> Cost:
    """What one call costs."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(repeats: int, *calls: Callable[[], object]) -> list[list[Cost]]:
    """The costs of several calls taken in turn, so that a machine's moods meet all alike; the first turn warms up and is dropped."""
    turns = [[cost(call) for call in calls] for _ in range(repeats + 1)][1:]
    return [list(costs) for costs in zip(*turns, strict=True)]


def peak_rss_mb() -> float:
    """The most memory this process has held, in MB (2^20 bytes)."""
    import resource

    unit = 1024 if sys.platform == "darwin" else 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit / 1024
