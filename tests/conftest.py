"""What holds for every test."""

from __future__ import annotations

import os
import sys

import pytest

if (
    "hypothesis" in sys.modules
):  # as a rule it is, as a plugin of pytest; it takes a second to import, so it is not where nobody needs it
    import properties  # noqa: F401


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means: half as many workers again as cores, since tests of networks wait for a quarter of their time."""
    cores = os.cpu_count() or 1
    return cores + (cores + 1) // 2
