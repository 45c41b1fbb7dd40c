"""The files that rows pass through from a CSV file to a list of recommendations, in order: python tests/csv_to_recommendation.py

The way of `run("fpl", "ratings.csv").recommend("u1")`: each function is called by one before it, and no other file of the package lies
between them but those of core/ (the language it is written in) and the executor that hands out blocks of devices. What a function asks
beside the way is not counted: usual column names, encodings, dates, options, metrics, the store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src" / "entrenous"
MOST = 15
WAY = (
    ("runs/pipeline.py", "run"),  # what is to be done: a plan, then load, split, train, evaluate
    ("data/load.py", "load"),  # a path or a name
    ("data/files.py", "read_table"),  # the file's bytes
    ("data/text.py", "read_text"),  # lines and columns
    ("data/assemble.py", "assemble"),  # which column is which; repeated pairs
    ("data/table.py", "ids"),  # external ids to numbers
    ("data/interactions.py", "build"),  # rows by user
    ("split/protocol.py", "splits"),  # a protocol's name
    ("split/leave_one_out.py", "sampled"),  # what is held out
    ("runs/train.py", "train"),  # who trains
    ("federation/rounds.py", "advance"),  # a round around the server
    ("federation/shard.py", "work"),  # the devices of the round
    ("algorithms/fpl.py", "local_sum"),  # what a device does
    ("runs/recommenders.py", "fitted"),  # what training ends with
    ("evaluate/recommend.py", "recommendations"),  # the n best
)
BETWEEN = ("core/", "federation/executors.py")  # not counted


def callers(act: Callable[[], Any]) -> dict[tuple[str, str], set[str]]:
    """{(file, function): the files of the package whose functions called it, next to it but for BETWEEN} of all that `act` calls."""
    seen: dict[tuple[str, str], set[str]] = {}

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (name := _file(frame)):
            seen.setdefault((name, frame.f_code.co_name), set()).add(_caller(frame))

    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
    return seen


def _file(frame: FrameType) -> str:
    """The file of a function of the package; "" for others."""
    path = Path(frame.f_code.co_filename)
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else ""


def _caller(frame: FrameType) -> str:
    """The nearest file of the package from which a function is called; "" if it is called from outside."""
    above = frame.f_back
    while above is not None and (not (name := _file(above)) or name.startswith(BETWEEN)):
        above = above.f_back
    return "" if above is None else _file(above)


def main() -> None:
    """Prints a line for each file of the way."""
    for number, (file, function) in enumerate(WAY, 1):
        print(f"{number:2} {file:25} {function:16} {len((SOURCE / file).read_text(encoding='utf-8').splitlines()):4} lines")


if __name__ == "__main__":
    main()
