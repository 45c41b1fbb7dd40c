"""`entrenous attack`: colluding devices or peers against a federation, and what each defence leaves
of it.
"""

from __future__ import annotations

from typing import Any

from ..audit.plan import AttackOptions
from .console import emit_json, progress_bar, table, tell
from .options import takes


@takes(AttackOptions)
def attack(
    algorithm: str,
    /,
    *,
    data: str = "ml-100k",
    json: bool = False,
    **options: Any,
) -> None:
    """Train a federation with and without colluding devices, and print what the attack reaches
    under each defence.

    Colluders are added to the users of the data; every figure is of the others. er@10 is the share
    of those without the target whose top 10 has it; hr@10 is what the honest lose or keep. All that
    colluders send is valid and signed where there are signatures: no check of formats stops them.
    Defences need to see every update, so none goes together with secure sums or noise: who chooses
    `robust` lets the server read histories. docs/poisoning.md says what was measured, and what is
    not stopped.

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
    from ..api.attacking import AttackKeywords, attacked

    with progress_bar(algorithm) as progress:
        found = attacked(AttackKeywords(algorithm, data, progress=progress, **options))
    if json:
        emit_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    """The comparison as a table, and who attacked what."""
    k = found["k"]
    names = [
        "defence",
        "hr@10",
        "hr@10_attacked",
        f"er@{k}_before",
        f"er@{k}",
        f"er@{k}_most",
        "rounds_to_half",
        "refused",
    ]
    rows = [["-" if row[name] is None else row[name] for name in names] for row in found["rows"]]
    about = (
        f"{found['algorithm']} on {found['data']}, {found['protocol']}, {found['rounds']} rounds"
    )
    who = f"{found['attack']}, {found['colluders']} colluders beside {found['honest']} honest users"
    table(names, rows, title=f"{about}: {who}")
    promoted = ", ".join(
        f"{one['item']} ({one['consumers']} consumers)" for one in found["targets"]
    )
    tell(f"- targets: {promoted}")
    tell(f"- the attackers know: {found['knows']}; source: {found['source']}")
    tell("- a defence sees every update singly: it cannot be had together with secure sums")
