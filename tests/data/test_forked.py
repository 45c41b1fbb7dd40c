"""Reading in processes that were forked from one that had read: the workers of a pool."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import write_shop

from entrenous.core.errors import EntrenousError, InputError
from entrenous.data import forked, table
from entrenous.data.options import LoadOptions

SECONDS = 120  # of a pool that hangs

POOL = """
import json, multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
import numpy as np
import entrenous
from entrenous.data.kept import arrays_of_rows

PATH, FEATURES = sys.argv[1:]

def digest(data):
    return {name: array.tobytes().hex() for name, array in arrays_of_rows(data).items()}

def trained(seed):
    data = entrenous.load(PATH, min_rows=2, scale=(1, 5), items=FEATURES)
    run = entrenous.run("fpl", data, split="random-80-20", rounds=1, seed=seed)
    best = run.recommend(n=2).rows()
    new = run.recommend_for([data.items[0]], n=2).rows()
    page = run.report(f"{os.getpid()}.html", user=data.users[0]).read_text(encoding="utf-8")
    return [digest(data), run.metrics, best, new, run.per_user().rows(), "i1" in page]

def refused(how):
    try:
        if how == "file":
            entrenous.load(Path("no-such.csv"))
        elif how == "frame":
            entrenous.from_frame({"user": [1, 1, 2], "item": [1, 2, 3]})
        else:
            entrenous.run("popular", RUN.train, split=how)
    except entrenous.core.errors.EntrenousError as error:
        return str(error)

if __name__ == "__main__":
    here = trained(3)
    RUN = entrenous.run("popular", entrenous.load(PATH), split="random-80-20")
    errors = [refused("file")]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        there = pool.submit(trained, 3).result(60)
        errors += pool.map(refused, ["file", "frame"], timeout=60)
    print(json.dumps({"same": json.dumps(here) == json.dumps(there), "errors": errors}))
"""

BY_HAND = """
import os, sys
import entrenous

rows = len(entrenous.load(sys.argv[1]))
child = os.fork()
if child == 0:
    os._exit(0 if len(entrenous.load(sys.argv[1])) == rows else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

LATE = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import polars as pl

pl.DataFrame({"a": [1, 2]}).select(pl.col("a").sum())

def refused(path):
    import entrenous
    entrenous.load(path)
    try:
        entrenous.from_frame({"user": [1, 1, 2], "item": [1, 2, 3]})
    except entrenous.InputError as error:
        return str(error)

with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    print(pool.submit(refused, sys.argv[1]).result(60))
"""


def ended(program: str, *arguments: Path) -> str:
    """What a program in a new interpreter prints; it is ended if it hangs."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    folder = arguments[0].parent
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_pool_of_forked_workers_reads_trains_and_recommends_as_its_parent(tmp_path: Path) -> None:
    """It waited for ever for the threads of polars, which a fork does not copy."""
    features = tmp_path / "items.csv"
    features.write_text("item_id,title,category\ni1,Überall,a|b\ni2,,c\n", encoding="utf-8")
    said = json.loads(ended(POOL, write_shop(tmp_path / "shop.csv"), features))
    assert said["same"] is True
    parents, childs, frame = said["errors"]
    assert parents == childs and "no-such.csv" in parents
    assert "forked" in frame and "get_context('spawn')" in frame and "before the fork" in frame


def test_a_process_that_was_forked_by_hand_reads(tmp_path: Path) -> None:
    assert ended(BY_HAND, write_shop(tmp_path / "shop.csv")) == "0\n"


def test_polars_may_have_been_at_work_before_we_were_imported(tmp_path: Path) -> None:
    """Its threads belong to the parent then, too."""
    said = ended(LATE, write_shop(tmp_path / "shop.csv"))
    assert "was forked from one that had read data before" in said


def test_no_process_reads_elsewhere_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not table.is_without_threads()
    monkeypatch.setattr(table, "is_without_threads", lambda: True)
    # An embedded Python has no interpreter to start.
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(InputError, match="read the data before the fork, or start the pool with"):
        forked.load_elsewhere("ml-100k", LoadOptions(), fetch=False, part=False)


def test_a_reader_that_dies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "PROGRAM", "raise SystemExit(7)")
    with pytest.raises(EntrenousError, match=r"shop\.csv: .* ended with 7"):
        options = LoadOptions()
        forked.load_elsewhere(Path("shop.csv"), options, fetch=False, part=False)
