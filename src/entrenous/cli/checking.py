"""`entrenous check` and `leakcheck`: an algorithm held against its own declaration, and an
experiment held against chance.
"""

from __future__ import annotations

from typing import Any

from ..core.errors import CheckFailed, one_line
from ..runs.options import LeakcheckOptions
from .console import announce_compilation, emit_json, progress_bar, say, table, tell
from .options import Set, assignments, takes


def check(algorithm: str, /, *, settings: Set = None, json: bool = False) -> None:
    """Check that an algorithm does what it declares: a few rounds of small made-up data, every
    round held against its declaration.

    Exit code 1 if a rule is broken, with one line that names the algorithm, the array and the rule.
    Example: entrenous check ./my_algo.py --set factors=8

    Parameters
    ----------
    algorithm:
        The place of your own class (./my_algo.py, ./my_algo.py:MyAlgorithm or
        my_module:MyAlgorithm), or a name of `entrenous algorithms`.
    settings:
        A setting of the algorithm, name=value; may be repeated.
    json:
        Print one JSON object on stdout.
    """
    from ..algorithms.named import kind_of

    kind, preset = kind_of(algorithm)
    made = kind.parse({**preset, **assignments(settings)})
    announce_compilation(algorithm)
    found = _conformed(made)
    if json:
        emit_json({"algorithm": kind.__name__, "passed": True, **found})
        return
    tell(f"{kind.__name__}, {found['kind']}, keeps to what it declares. Checked on made-up data:")
    for rule in found["checked"]:
        tell(f"- {rule}")


def _conformed(algorithm: Any) -> dict[str, Any]:
    """The kind of an algorithm and what was checked. Raises CheckFailed for the first rule that it
    breaks, and for an error of the user's code."""
    from ..core.contract.declared import ContractError, declared
    from ..core.errors import EntrenousError, NonFiniteError
    from ..core.registry.own import own_line
    from ..runs.conformance import CHECKED, conform

    try:
        conform(algorithm)
        kind = declared(algorithm).kind
        return {"kind": kind, "checked": list(CHECKED[kind])}
    except (ContractError, NonFiniteError) as broken:
        raise CheckFailed(str(broken)) from None
    except EntrenousError:
        raise
    except Exception as wrong:
        where = own_line(wrong)
        if not where:
            raise
        raise CheckFailed(
            one_line(f"{where}: {type(wrong).__name__}: {one_line(str(wrong), 300)}")
        ) from None


@takes(LeakcheckOptions)
def leakcheck(algorithm: str = "fpl", /, *, json: bool = False, **options: Any) -> int:
    """Check that an experiment does not tell the model the answer: purely local models must score
    like chance.

    Exit code 1 if they do not. Example: entrenous leakcheck fedavg-gmf --data ml-100k --protocol
    loo-99

    Parameters
    ----------
    algorithm:
        The algorithm that each user trains alone, one with a server: its name, or the place of your
        own class (./my_algo.py).
    json:
        Print one JSON object on stdout.
    """
    from ..runs.leakcheck import leakcheck as checked

    if options.get("negatives") == "leaky":
        say("warning: negatives avoid held-out items too; figures made in this way mean nothing")
    with progress_bar() as progress:
        found = checked(algorithm=algorithm, progress=progress, **options)
    if json:
        emit_json(found)
    else:
        _show_leaks(found)
    return 0 if found["passed"] else 1


def _show_leaks(found: dict[str, Any]) -> None:
    """The checks as a table."""
    names = ("metric", "obtained", "chance", "standard_errors")
    rows = [
        [*(check[name] for name in names), "ok" if check["passed"] else "LEAK"]
        for check in found["checks"]
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
