"""`entrenous audit`: measures by attacks how much of users' histories the messages of their devices
give away.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from entrenous.cli.console import emit_json, progress_bar, say, table, tell
from entrenous.cli.options import Runs, takes
from entrenous.core.errors import InputError

from ..plan import AuditOptions

if TYPE_CHECKING:
    from ..examine import AuditFound


@takes(AuditOptions)
def audit(
    what: str | None = None,
    /,
    *,
    data: str | None = None,
    list_attacks: Annotated[bool, Parameter(name="--attacks")] = False,
    todays_code: bool = False,
    root: Runs = Path("runs"),
    json: bool = False,
    **options: Any,
) -> None:
    """Measure what an onlooker learns about users' histories: record exactly what it sees, run
    attacks on that alone, and compare their guesses with the truth.

    Verdicts: EXPOSED (histories can be read off), LEAKS (attacks learn more than popularity tells),
    NO ADVANTAGE FOUND BY THESE ATTACKS, NOT TRIED (there was nothing to attack); none says "safe".

    Example: entrenous audit pfpl+ --view sum --cohort 100 --rounds 60

    Parameters
    ----------
    what:
        An algorithm of `entrenous algorithms`, or the name or folder of a stored run.
    data:
        A data set, file or folder; default: ml-100k, or the data of the run. Of a stored run: the
        file or folder that has its rows today.
    list_attacks:
        List the attacks with their sources, and do nothing else.
    todays_code:
        Audit a stored run although the code of its algorithm has changed.
    root:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    if list_attacks:
        _list(json)
        return
    if what is None:
        raise InputError(
            "entrenous audit",
            "nothing was named",
            expected="an algorithm of `entrenous algorithms`, or a stored run",
            fix="try: entrenous audit pfpl+",
        )
    from ..python.auditing import AuditKeywords, audited_what

    with progress_bar() as progress:
        asked = AuditKeywords(
            what, data, root=root, todays_code=todays_code, progress=progress, **options
        )
        report = audited_what(asked, say)
    if json:
        emit_json(report)
    else:
        _show(report)


def _list(json: bool) -> None:
    from ..known import known

    attacks = [
        {"name": attack.name, "views": list(attack.views), "source": attack.source}
        for attack in known().values()
    ]
    if json:
        emit_json({"attacks": attacks})
        return
    rows = [[attack["name"], ", ".join(attack["views"]), attack["source"]] for attack in attacks]
    table(["attack", "needs the view", "source"], rows)


def _show(found: AuditFound) -> None:
    """Prints an audit as a table, then sentences on what its figures rest on."""
    from ..python.audit_tables import HEADERS, caption, cells, first_said, sentences

    for sentence in first_said(found):
        tell(sentence)
    table(HEADERS, cells(found), title=caption(found))
    for sentence in sentences(found):
        tell(f"- {sentence}")
