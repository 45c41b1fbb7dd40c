"""A federation to which a stream happens ends with the model of one process, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from entrenous_lab.trials.repeated import carry_out
from events_file import write_events
from short_stream import events, plan

pytest.importorskip("uvicorn")


@pytest.mark.parametrize("algorithm", ["fcf", "fpl"])
def test_the_same_rounds_in_one_process_end_with_the_same_bytes(
    tmp_path: Path, algorithm: str
) -> None:
    """Devices of FPL keep vectors, which are the beginning's after everything was forgotten."""
    path = write_events(events(), tmp_path / "events.csv")
    lived = carry_out(tmp_path / "f", plan(path, algorithm=algorithm), lambda line: None)
    assert lived.same and lived.lost == 0
    # Nobody is asked by name: the lots of those who are there say who answers.
    assert 0 <= lived.again.late < lived.again.drawn
