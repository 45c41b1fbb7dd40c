"""`entrenous check` compares an algorithm with its own declaration, `entrenous leakcheck` compares
an experiment with chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.errors import CheckFailed, one_line
from ..runs.options import LeakcheckOptions
from .console import announce_compilation, emit_json, progress_bar, say, table, tell
from .options import Set, assignments, takes


def check(algorithm: str, /, *, settings: Set = None, json: bool = False) -> None:
    """Check that an algorithm does what it declares: run a few rounds on small made-up data and
    compare each with the declaration.

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
    from ..systems.named import kind_of

    kind, preset = kind_of(algorithm)
    configured = kind.parse({**preset, **assignments(settings)})
    announce_compilation(algorithm)
    report = _conformed(configured)
    if json:
        emit_json({"algorithm": kind.__name__, "passed": True, **report})
        return
    tell(f"{kind.__name__}, {report['kind']}, keeps to what it declares. Checked on made-up data:")
    for rule in report["checked"]:
        tell(f"- {rule}")


def _conformed(algorithm: Any) -> dict[str, Any]:
    """Returns the kind of an algorithm and the rules that it was checked for. Raises CheckFailed
    for the first rule that it breaks, and for an error of the user's code."""
    from ..core.contract.declared import ContractError, declared
    from ..core.errors import EntrenousError, NonFiniteError
    from ..core.registry.own import own_error
    from ..runs.conformance import CHECKED, conform

    try:
        conform(algorithm)
        kind = declared(algorithm).kind
        return {"kind": kind, "checked": list(CHECKED[kind])}
    except (ContractError, NonFiniteError) as broken:
        raise CheckFailed(str(broken)) from None
    except EntrenousError:
        raise
    except Exception as bug:
        # An error outside the user's own file is ours, and `main` reports it as such.
        said = own_error(bug)
        if not said:
            raise
        raise CheckFailed(one_line(said)) from None


@takes(LeakcheckOptions)
def leakcheck(algorithm: str = "fpl", /, *, json: bool = False, **options: Any) -> int:
    """Check that an experiment does not leak the answers: models that each user trains alone must
    score like chance.

    Exit code 1 if they do not. Example: entrenous leakcheck fedavg-gmf --data ml-100k --protocol
    loo-99. A program in any language: write the rows with `entrenous split`, run the program on one
    user's training rows at a time, and read its scores with `entrenous evaluate`.

    Parameters
    ----------
    algorithm:
        The algorithm that each user trains alone, one with a server: its name, or the place of your
        own class (./my_algo.py).
    json:
        Print one JSON object on stdout.
    """
    from ..runs.leakcheck import leakcheck as checked

    # Allowed, since it shows what the check finds: the mistake of some published code.
    if options.get("negatives") == "leaky":
        say("warning: negatives avoid held-out items too; figures made in this way mean nothing")
    with progress_bar() as progress:
        report = checked(algorithm=algorithm, progress=progress, **options)
    if json:
        emit_json(report)
    else:
        _show_leaks(report)
    return 0 if report["passed"] else 1


def _show_leaks(report: Mapping[str, Any]) -> None:
    """Prints the checks as a table."""
    names = ("metric", "obtained", "chance", "standard_errors")
    rows = []
    for check in report["checks"]:
        verdict = "ok" if check["passed"] else "LEAK"
        rows.append([*(check[name] for name in names), verdict])
    about = (
        f"purely local models of {report['algorithm']} on {report['data']}, {report['protocol']},"
        f" negatives: {report['negatives']}"
    )
    headers = ["metric", "obtained", "chance", "standard errors from chance", "verdict"]
    table(headers, rows, title=about)
