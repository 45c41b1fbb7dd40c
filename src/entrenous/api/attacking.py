"""`attack`: colluding devices or peers against a federation, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..audit.robustness import attack as measured
from ..core.contract.protocols import Progress
from .asked import algorithm_asked, data_asked
from .progress import asked_progress
from .words import in_python


def attack(
    algorithm: Any,
    data: Any = "ml-100k",
    *,
    attack: str = "boost",
    share: float = 0.1,
    settings: Mapping[str, Any] | None = None,
    progress: bool | Progress | None = None,
    **further: Any,
) -> dict[str, Any]:
    """Train a federation with and without colluding devices, and measure what the attack reaches
    under each defence.

    Args: algorithm: a name, a place, a class or an instance, as of `entrenous.run`, with a server
        or between peers. data: as of `entrenous.run`. attack: a name that `entrenous attack --help`
        lists. share: of all devices that collude; they are added to the users of `data`. settings:
        of the algorithm, on top of an instance's. further: targets, defences, attack_settings,
        protocol, refit, rounds, seed, seeds, k, load: as `audit.robustness.attack` describes
            them.

    Returns: What `entrenous attack --json` prints: `rows` has one entry for each defence, with
        `hr@10`, `hr@10_attacked` and `er@10`.

    Raises:
        InputError: for what cannot be run, in one line.
    """
    with in_python(), asked_progress(progress) as shown:
        name, own = algorithm_asked(algorithm)
        fixed = {**own, **(settings or {})}
        return measured(
            name,
            data_asked(data),
            attack=attack,
            share=share,
            settings=fixed,
            progress=shown,
            **further,
        )
