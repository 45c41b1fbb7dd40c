"""`entrenous attack`: measures how far colluding devices or peers get against a federation, under
each defence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entrenous.cli.console import emit_json, progress_bar, table, tell
from entrenous.cli.options import takes

from ..plan import AttackOptions


@takes(AttackOptions)
def attack(
    algorithm: str,
    /,
    *,
    data: str = "ml-100k",
    json: bool = False,
    **options: Any,
) -> None:
    """Train a federation with and without colluding devices, and print how far the attack gets
    under each defence.

    Colluders are added to the users of the data; all figures are over the honest users. er@10 is
    the share of users without the target item whose top 10 contains it; hr@10 is the accuracy that
    honest users keep. Colluders send only valid messages, so no check of formats stops them.
    Defences need to see every update, so none can be combined with secure sums or noise: a
    federation with the profile `robust` lets its server read histories. docs/poisoning.md says what
    was measured, and what is not stopped.

    Example: entrenous attack pfpl+ --attack pip --share 0.1 --defence none --defence robust --set
    cohort=94 --set factors=20 --rounds 100

    Parameters
    ----------
    algorithm:
        An algorithm with a server or between peers, by its name or place (./my_algo.py).
    data:
        A data set, file or folder.
    json:
        Print one JSON object on stdout.
    """
    from ..python.attacking import AttackKeywords, attacked

    with progress_bar(algorithm) as progress:
        comparison = attacked(AttackKeywords(algorithm, data, progress=progress, **options))
    if json:
        emit_json(comparison)
    else:
        _show(comparison)


def _show(comparison: Mapping[str, Any]) -> None:
    """Prints the comparison as a table, then the attackers, their targets and their knowledge."""
    names = [
        "defence",
        "hr@10",
        "hr@10_attacked",
        "er@10_before",
        "er@10",
        "er@10_most",
        "refused",
    ]
    rows = [[row[name] for name in names] for row in comparison["rows"]]
    about = (
        f"{comparison['algorithm']} on {comparison['data']}, {comparison['protocol']},"
        f" {comparison['rounds']} rounds"
    )
    who = (
        f"{comparison['attack']}, {comparison['colluders']} colluders among"
        f" {comparison['honest']} honest users"
    )
    table(names, rows, title=f"{about}: {who}")
    targets = []
    for target in comparison["targets"]:
        targets.append(f"{target['item']} ({target['consumers']} consumers)")
    tell(f"- targets: {', '.join(targets)}")
    tell(f"- the attackers know: {comparison['knows']}; source: {comparison['source']}")
    tell("- a defence sees every single update: it cannot be combined with secure sums")
