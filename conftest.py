"""What holds for every test."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

if "hypothesis" in sys.modules:
    # as a rule it is, as a plugin of pytest; it takes a second to import, so it is not where nobody
    # needs it
    import properties  # noqa: F401

# The order of the tests, by folder; a folder that is not named comes at FREE. Of two workers one
# begins at the start, with the algorithms, and compiles every kernel; the other one begins in the
# middle, with tests that need hardly any. So few kernels are compiled twice.
COMPILING = ("tests/algorithms", "tests/kernels")
COMPILED = ("tests/federation/workers", "tests/audit", "tests/deploy")
FREE = len(COMPILING + COMPILED)
LATER = ("tests/core", "tests/cli", "tests/golden", "tests/api", "tests/runs", "tests/federation")

MANY = 200  # open files, after which those of nodes that no test holds any more are closed


def pytest_collection_finish() -> None:
    """Lets the garbage collector run seldom, and never through what collection has made: it took a
    seventh of the time of tests that make no garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests in the order that shares their work best between two workers."""
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    """The place of a test's folder in the order; sorting leaves the order within a folder."""
    folders = (*COMPILING, *COMPILED, "", *LATER)
    places = [place for place, folder in enumerate(folders) if nodeid.startswith(f"{folder}/")]
    return min(places, default=FREE)


@pytest.fixture(autouse=True, scope="module")
def _files_of_former_tests_are_closed() -> Iterator[None]:
    """Nodes that a test leaves behind refer to themselves, so their stores stay open until Python
    collects cycles. It does that seldom where much else is in memory, and `select` takes no
    descriptor above 1,024."""
    yield
    if len(os.listdir("/proc/self/fd")) > MANY:
        gc.collect()


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of this test are forked instead of started: see tests/helpers/forked.py."""
    from forked import Forked

    monkeypatch.setattr(subprocess, "Popen", Forked)
