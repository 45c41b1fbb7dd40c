"""Settings chosen on validation rows before a run: a search of the space that the algorithm
declares, begun with its defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ...core.contract.declared import search_space
from ...core.errors import InputError
from ...core.registry.discover import short
from ..pipeline import RunRequest
from ..plan import algorithm_of, usual_protocol
from ..recommenders import federated
from .grid import TuneRequest
from .search import try_space
from .space import Choices, Range, read_space

# Looks at validation in each training.
LOOKS = 10
# Options of a run under which other trainings than its own would choose its settings.
NOT_TUNED = ("given", "patience", "network", "profile", "protect", "negatives", "workers", "ray")


class ChosenBefore(NamedTuple):
    """A run with the settings that a search chose for it."""

    request: RunRequest
    """The request, with settings that were fixed and settings that were chosen, and with the best
    number of rounds (None of a centralised algorithm)."""
    told: dict[str, Any]
    """The results of the search: see `chosen_before`."""


def space_of(algorithm: str, fixed: Mapping[str, Any]) -> dict[str, str]:
    """The search space that an algorithm declares, without settings that are fixed, and without
    settings whose present value lies outside it (`alpha` of fcf-huawei).

    Raises InputError for an algorithm that declares nothing, and where nothing is left.
    """
    made: Any = algorithm_of(algorithm, fixed)
    present = dict(made)
    declared = search_space(made)
    if not declared:
        raise InputError(
            "--tune",
            f"{short(algorithm)} declares no search space",
            expected="an algorithm with `search_space`",
            fix=f"entrenous tune {short(algorithm)} --search name=a..b",
        )
    left = {}
    for name, text in declared.items():
        if name in fixed:
            continue
        choice = read_space(algorithm, {name: text}, {})[name]
        # A value outside the space was chosen on purpose, by a preset.
        if _holds(choice, present[name]):
            left[name] = text
    if not left:
        raise InputError(
            "--tune", "all that is searched for is fixed with --set", fix="leave --tune out"
        )
    return left


def _holds(choice: Range | Choices, value: Any) -> bool:
    """Returns True for a value that the range or the choices have."""
    if isinstance(choice, Choices):
        return str(value) in choice.values
    return bool(choice.low <= value <= choice.high)


def _refuse_others(asked: RunRequest) -> None:
    """Refuses options under which other trainings than the run's own would choose its settings."""
    defaults = {option.name: option.default for option in fields(RunRequest)}
    # The default of a mapping is a factory; an empty one is as if it were not given.
    changed = [name for name in NOT_TUNED if getattr(asked, name) not in (defaults[name], {})]
    if asked.parts:
        changed.insert(0, "split")
    for name in changed:
        here = ", in this process" if name == "workers" else ""
        raise InputError(
            f"--{name}",
            f"it does not go with --tune, which trains as --profile paper does{here}",
            fix="choose settings with `entrenous tune`, then name them with --set",
        )


def chosen_before(asked: RunRequest, trials: int) -> ChosenBefore:
    """The best of `trials` settings on the validation rows of the run's split: the defaults, with
    the settings that the request fixes, then those of a search of the space that the algorithm
    declares. The rounds of the request are the most; their best number is chosen with the rest.

    Finished trials are kept in the folder `out` of the request, in a file named after the search:
    the same call continues with it. told: {"trials", "selected_by", "changed": {name: [default,
    chosen]}, "rounds", "validation": {"default", "chosen"}, "file"}. Raises InputError as `search`
    does, and for options that do not go with a search.
    """
    _refuse_others(asked)
    fixed = dict(asked.settings)
    space = space_of(asked.algorithm, fixed)
    made: Any = algorithm_of(asked.algorithm, fixed)
    # The defaults, with which the search begins: all of them lie in the space.
    defaults = dict(made)
    first = {name: defaults[name] for name in space}
    protocol = asked.protocol or usual_protocol(asked.data, asked.algorithm)
    file = None
    if asked.out is not None:
        identity = {
            "space": space,
            "settings": fixed,
            "rounds": asked.rounds,
            "load": dict(asked.load),
            "first": first,
        }
        file = Path(asked.out) / _file_name(asked, protocol, identity)
        # The folder of runs may not be there yet.
        file.parent.mkdir(parents=True, exist_ok=True)
    found = try_space(
        TuneRequest(
            asked.algorithm,
            asked.data,
            protocol=protocol,
            space=space,
            trials=trials,
            first=first,
            split_seed=asked.seed,
            settings=fixed,
            rounds=asked.rounds,
            looks=LOOKS,
            load=asked.load,
            threads=asked.threads,
            out=file,
            resume=file is not None and file.exists(),
            progress=asked.progress,
        )
    )
    told = _told(found, first, made, file)
    settings = dict(found["rows"][0]["settings"])
    request = replace(asked, settings=settings, rounds=told["rounds"])
    return ChosenBefore(request, told)


def _file_name(asked: RunRequest, protocol: str, identity: Mapping[str, Any]) -> str:
    """The name of the file of a search: another search has another."""
    rows = Path(asked.data).stem if isinstance(asked.data, str) else asked.data.name
    text = json.dumps(identity, sort_keys=True, default=str)
    digest = sha256(text.encode()).hexdigest()[:8]
    return f"tune-{short(asked.algorithm)}-{rows}-{protocol}-seed{asked.seed}-{digest}.jsonl"


def _told(
    found: Mapping[str, Any], first: Mapping[str, Any], made: Any, file: Path | None
) -> dict[str, Any]:
    """The results of a search for people: see `chosen_before`."""
    best = found["rows"][0]
    metric = found["selected_by"].removeprefix("validation ")
    # No row has trial 0 where the training with the defaults diverged.
    usual = next((row for row in found["rows"] if row["trial"] == 0), None)
    changed = {}
    for name, default in first.items():
        chosen = best["settings"][name]
        if chosen != default:
            changed[name] = [default, chosen]
    return {
        "trials": found["trials"],
        "selected_by": found["selected_by"],
        "changed": changed,
        "rounds": best["rounds"] if federated(made) else None,
        "validation": {
            "default": usual and usual["validation"][metric],
            "chosen": best["validation"][metric],
        },
        "file": None if file is None else str(file),
    }


def sentences(told: Mapping[str, Any]) -> list[str]:
    """Sentences on the settings that a search before a run changed."""
    usual, chosen = told["validation"].values()
    changes = [f"{name} {old} -> {new}" for name, (old, new) in told["changed"].items()]
    rounds = []
    if told["rounds"] is not None:
        rounds = [f"{told['rounds']} rounds"]
    before = "the defaults diverged"
    if usual is not None:
        before = f"{usual:.4f} by default"
    changed = ", ".join([*(changes or ["the defaults stay"]), *rounds])
    return [
        f"tuned in {told['trials']} trials: {changed}",
        f"{told['selected_by']} {chosen:.4f}, {before}; the figures of a run are of rows that chose"
        " nothing",
    ]
