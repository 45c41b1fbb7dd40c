"""A server's record of how good its nodes' lists are: what each secure sum said of tests of new
rows.
"""

from __future__ import annotations

from pathlib import Path

from ..agreement.files import read_json, write_json
from ..frames.row_tests import Accuracy, SummedTests, accuracy_of

TESTS = "accuracy.json"
KEPT = 10_000  # rounds, the newest
WINDOWS = 20  # of rounds, in a curve
NEWEST = 20  # rounds of the rate that a status tells


def note_tests(folder: Path, tests: SummedTests) -> list[SummedTests]:
    """Stores the tests of a round, and returns those of all that are stored. A round that is summed
    again after a restart is stored once.
    """
    before = [one for one in noted_tests(folder) if one.round != tests.round]
    newest = [*before, tests][-KEPT:]
    write_json(folder / TESTS, {"fields": SummedTests._fields, "rounds": newest})
    return newest


def noted_tests(folder: Path) -> list[SummedTests]:
    """Returns the tests of all rounds that are stored, in their order."""
    path = folder / TESTS
    if not path.exists():
        return []
    return [SummedTests(*numbers) for numbers in read_json(path)["rounds"]]


def newest_rate(tests: list[SummedTests]) -> float | None:
    """Returns HR@10 in the tests of the newest rounds; None where too few people had new rows."""
    newest = tests[-NEWEST:]
    return accuracy_of(newest).hit_rate if newest else None


def curve(tests: list[SummedTests], windows: int = WINDOWS) -> list[Accuracy]:
    """Returns the accuracy over time, of at most so many windows of rounds that follow each
    other.
    """
    size = -(-len(tests) // windows)
    starts = range(0, len(tests), max(1, size))
    return [accuracy_of(tests[start : start + size]) for start in starts]
