"""Time for workers to start on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from entrenous_ray import actors, crew

PATIENCE = 240.0  # seconds


@pytest.fixture(autouse=True, scope="module")
def _workers_may_start_slowly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(crew, "READY", PATIENCE)
        patched.setattr(actors, "READY", PATIENCE)
        yield
