"""Settings tried at once in workers: a grid is the same, and a worker that dies is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import write_shop
from process_tree import command_of, descendants, there, until

from entrenous.core.errors import EntrenousError, InputError
from entrenous.data.interactions import Interactions
from entrenous.runs.tuning.grid import TuneRequest, begin, trying, tune

GRID = {"factors": ["3", "6"], "learning_rate": ["0.1", "1e38"]}
PLAN: dict[str, Any] = {"protocol": "loo-20", "grid": GRID, "rounds": 4, "every": 2, "threads": 1}


def test_a_grid_is_the_same(data: Interactions) -> None:
    here = tune("fcf", data, **PLAN)
    there = tune("fcf", data, workers=2, **PLAN)
    assert here == there
    assert len(here["failed"]) == 2


@pytest.mark.parametrize("count", [0, -1])
def test_fewer_than_one_worker_is_one_line(data: Interactions, count: int) -> None:
    with pytest.raises(InputError, match=f"--workers: got {count}; expected a whole number from 1"):
        tune("fcf", data, workers=count, **PLAN)


def killed(task: Any, number: int) -> Any:
    """Is a trial that ends its worker."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_is_one_line(data: Interactions) -> None:
    task = begin(TuneRequest("fcf", data, **PLAN))
    with (
        trying(2, task) as each,
        pytest.raises(EntrenousError, match="--workers: a worker died") as said,
    ):
        list(each(killed, [(0,), (1,)]))
    assert "\n" not in str(said.value)


def test_no_worker_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    shop = write_shop(tmp_path / "shop.csv")
    words = ("tune", "fcf", "--data", str(shop), "--protocol", "loo-20", "--workers", "2")
    trials = ("--grid", "factors=3,6", "--rounds", "1000000", "--threads", "1")
    command = [sys.executable, "-m", "entrenous", *words, *trials]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        workers = until(lambda: two_workers(process.pid))
    finally:
        process.kill()
        process.wait()
    until(lambda: not any(map(there, workers)))


def two_workers(process: int) -> list[int]:
    """The workers of a process, once there are two."""
    workers = [one for one in descendants(process) if b"spawn_main" in command_of(one)]
    return workers if len(workers) == 2 else []
