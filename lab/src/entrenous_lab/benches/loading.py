"""How long a large file of ratings takes to load, and how much memory."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.data.load import load

from .timing import Cost, interleaved

# MovieLens-25M has so many users, items and rows; its file has them by user and item. A file of
# fewer rows has fewer users.
USERS, ITEMS, ROWS = 162_541, 59_047, 25_000_095
AIM = 3.0  # times as long as polars takes to split the file
MEMORY_AIM_MB = 3_072

# Loads a file in a process of its own, and prints its peak memory in MB.
LOADS = """
import sys
from entrenous.data.load import load
from entrenous_lab.benches.timing import peak_rss_mb
rows = len(load(sys.argv[1]))
print(rows, peak_rss_mb())
"""


def loading(threads: int, progress: Progress, rows: int = 5_000_000) -> dict[str, Any]:
    """`load` of a made file of MovieLens-25M's form, against `polars.read_csv` of the same file by
    as many threads in the same process; and its peak memory in a process of its own.
    """
    import polars as pl

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "ratings.csv"
        progress(0, 3, f"a file of {rows:,} rows")
        made = write_ratings(path, rows)
        progress(1, 3, "in turns with polars")
        ours, theirs = interleaved(1, lambda: load(path), lambda: pl.read_csv(path), each=2)
        progress(2, 3, "memory")
        loaded, peak = _alone(path)
    progress(3, 3, "measured")
    if loaded != made:
        raise ValueError(f"{loaded} rows were loaded of {made}")
    return {
        "rows": made,
        "seconds": round(_median(ours, "wall"), 2),
        "cpu_seconds": round(_median(ours, "cpu"), 2),
        "ratio": round(_median(ours, "wall") / _median(theirs, "wall"), 2),
        "cpu_ratio": round(_median(ours, "cpu") / _median(theirs, "cpu"), 2),
        "peak_mb": round(peak),
        "threads": pl.thread_pool_size(),
        "against": (
            f"polars.read_csv by as many threads: {_median(theirs, 'wall'):.2f} s,"
            f" {_median(theirs, 'cpu'):.2f} CPU s; aims: {AIM:g} times as long,"
            f" {MEMORY_AIM_MB:,} MB (POLARS_MAX_THREADS sets the threads of both)"
        ),
    }


def write_ratings(path: Path, rows: int) -> int:
    """Writes ratings by user, then item, as MovieLens publishes them; each pair once. Returns their
    number, a little less than `rows`.
    """
    import polars as pl

    drawn = np.random.default_rng(25)
    users = max(2, USERS * rows // ROWS)
    user = drawn.integers(1, users + 1, rows)
    # A few items have most of the ratings.
    item = 1 + (ITEMS * drawn.random(rows) ** 3).astype(np.int64)
    pairs = np.unique(user * (ITEMS + 1) + item)
    columns = {
        "userId": pairs // (ITEMS + 1),
        "movieId": pairs % (ITEMS + 1),
        "rating": drawn.integers(1, 11, len(pairs)) / 2,
        "timestamp": drawn.integers(789_652_009, 1_574_327_703, len(pairs)),
    }
    pl.DataFrame(columns).write_csv(path)
    return len(pairs)


def _alone(path: Path) -> tuple[int, float]:
    """The number of rows and the peak memory of a process that loads a file."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADS, str(path)], capture_output=True, text=True, check=True
    )
    rows, peak = ran.stdout.split()
    return int(rows), float(peak)


def _median(costs: list[Cost], kind: str) -> float:
    return statistics.median(getattr(cost, kind) for cost in costs)


BENCHES = {"load": loading, "load-ml-1m": partial(loading, rows=1_000_209)}
