"""`attack`: colluding devices or peers against a federation, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..audit.plan import AttackPlan
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
        protocol, refit, rounds, seed, seeds, k, load: as `audit.plan.AttackPlan` describes them;
            targets may also be the ids of items.

    Returns: What `entrenous attack --json` prints: `rows` has one entry for each defence, with
        `hr@10`, `hr@10_attacked` and `er@10`.

    Raises:
        InputError: for what cannot be run, in one line.
    """
    with in_python(), asked_progress(progress) as shown:
        name, own = algorithm_asked(algorithm)
        rows = data_asked(data)
        targets = further.pop("targets", 1)
        if not isinstance(targets, int):
            further["target"] = tuple(targets)
            targets = 1
        further["defences"] = tuple(further.get("defences", ()))
        plan = AttackPlan(
            algorithm=name,
            data=rows if isinstance(rows, str) else rows.name,
            attack=attack,
            share=share,
            settings={**own, **(settings or {})},
            targets=targets,
            **further,
        )
        return measured(plan, None if isinstance(rows, str) else rows, progress=shown)
