"""Reading in processes that were forked from one that had read: the workers of a pool."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from command_line import write_shop

SECONDS = 120  # of a pool that hangs

POOL = """
import json, multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import entrenous

def trained(seed):
    return entrenous.run("fpl", DATA, split="random-80-20", rounds=1, seed=seed).metrics

def refused(read):
    try:
        read()
    except entrenous.InputError as error:
        return str(error)

def file():
    return refused(lambda: entrenous.load(sys.argv[1]))

def frame():
    return refused(lambda: entrenous.from_frame({"user": [1, 1, 2], "item": [1, 2, 3]}))

if __name__ == "__main__":
    DATA = entrenous.load(sys.argv[1])
    here = trained(3)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        there = pool.submit(trained, 3).result(60)
        errors = [pool.submit(read).result(60) for read in (file, frame)]
    print(json.dumps({"same": here == there, "errors": errors}))
"""

LATE = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import polars as pl

pl.DataFrame({"a": [1, 2]}).select(pl.col("a").sum())

def refused(path):
    import entrenous
    try:
        entrenous.load(path)
    except entrenous.InputError as error:
        return str(error)

with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    print(pool.submit(refused, sys.argv[1]).result(60))
"""


def ended(program: str, file: Path) -> str:
    """What a program in a new interpreter prints; it is ended if it hangs."""
    command = [sys.executable, "-c", program, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_worker_trains_on_its_parents_rows_and_reads_none(tmp_path: Path) -> None:
    """It waited for ever for the threads of polars, which a fork does not copy."""
    said = json.loads(ended(POOL, write_shop(tmp_path / "shop.csv")))
    assert said["same"] is True
    for error in said["errors"]:
        assert "forked" in error and "get_context('spawn')" in error and "before the fork" in error


def test_polars_may_have_been_at_work_before_we_were_imported(tmp_path: Path) -> None:
    """Its threads belong to the parent then, too."""
    said = ended(LATE, write_shop(tmp_path / "shop.csv"))
    assert "was forked from one that had read data before" in said
