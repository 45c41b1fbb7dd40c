"""`entrenous check`: an algorithm held against its own declaration."""

from __future__ import annotations

from typing import Any

from ..core.errors import CheckFailed, one_line
from .console import announce_compilation, emit_json, tell
from .options import Set, assignments


def check(algorithm: str, /, *, settings: Set = None, json: bool = False) -> None:
    """Check that an algorithm does what it declares: a few rounds of small made-up data, every
    round held against its declaration.

    Exit code 1 if a rule is broken, with one line that names the algorithm, the array and the rule.
    Example: entrenous check ./my_algo.py --set factors=8

    Parameters
    ----------
    algorithm:
        The place of a class of one's own (./my_algo.py, ./my_algo.py:MyAlgorithm or
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
    breaks, and for an error of its own code."""
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
