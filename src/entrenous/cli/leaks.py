"""`entrenous leakcheck`: whether an experiment tells the model the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runs.options import Negatives
from .console import emit_json, say, table
from .options import Load, Set, assignments


def leakcheck(
    algorithm: str = "fpl",
    /,
    *,
    data: str = "ml-100k",
    protocol: str = "loo-99",
    settings: Set = None,
    seed: int = 0,
    rounds: int = 30,
    given: Path | None = None,
    load: Load = None,
    negatives: Negatives = "train",
    json: bool = False,
) -> int:
    """Check that an experiment does not tell the model the answer: purely local models must score
    like chance.

    Exit code 1 if they do not. Example: entrenous leakcheck fedavg-gmf --data ml-100k --protocol
    loo-99

    Parameters
    ----------
    algorithm:
        What each user trains alone: an algorithm with a server, by its name or, one of one's own,
        by its place (./my_algo.py).
    data:
        A data set, file or folder.
    protocol:
        How rows are held out: {protocols}.
    settings:
        A setting of the algorithm, name=value; may be repeated.
    seed:
        Of split, candidates and training.
    rounds:
        Rounds of local training; a leak grows with them.
    given:
        The folder of a given split, for --protocol given.
    negatives:
        What devices draw as negatives: train = what is not among their training rows; leaky = nor
        among held-out rows, as the field's leaky samplers do, to see the check fail.
    json:
        Print one JSON object on stdout.
    """
    from ..api.progress import progress_bar
    from ..runs.leakcheck import leakcheck as check

    if negatives == "leaky":
        say("warning: negatives avoid held-out items too; figures made in this way mean nothing")
    with progress_bar() as progress:
        found = check(
            data,
            protocol,
            algorithm=algorithm,
            settings=assignments(settings),
            seed=seed,
            rounds=rounds,
            given=None if given is None else str(given),
            load=assignments(load, "--load"),
            negatives=negatives,
            progress=progress,
        )
    if json:
        emit_json(found)
    else:
        _show(found)
    return 0 if found["passed"] else 1


def _show(found: dict[str, Any]) -> None:
    """The checks as a table."""
    names = ("metric", "obtained", "chance", "standard_errors")
    rows = [
        [*(one[name] for name in names), "ok" if one["passed"] else "LEAK"]
        for one in found["checks"]
    ]
    about = (
        f"purely local models of {found['algorithm']} on {found['data']}, {found['protocol']},"
        f" negatives: {found['negatives']}"
    )
    table(
        ["metric", "obtained", "chance", "standard errors from chance", "verdict"],
        rows,
        title=about,
    )
