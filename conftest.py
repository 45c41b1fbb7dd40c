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

MANY = 200  # open files, after which those of nodes that no test holds any more are closed


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
