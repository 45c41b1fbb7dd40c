"""A federation to which a stream happens, and the same rounds in one process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from entrenous_network.operate.plans import TrialPlan

from entrenous.core.contract.protocols import Progress


def stream_again(threads: int, progress: Progress) -> dict[str, Any]:
    """`entrenous federation try` on MovieLens-100K in 6 windows, made again in one process: whether
    the models are the same, bit for bit.
    """
    from ..trials.repeated import carry_out  # with the network's libraries

    with tempfile.TemporaryDirectory(prefix="entrenous-") as folder:
        plan = TrialPlan(rounds=6).complete()
        lived = carry_out(Path(folder) / "f", plan, lambda line: progress(0, 1, line))
    return {
        "same": lived.same,
        "lost": lived.lost,
        "drawn": lived.again.drawn,
        "late": lived.again.late,
    }


BENCHES = {"stream-again": stream_again}
