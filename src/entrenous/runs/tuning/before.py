"""Settings chosen on validation rows before a run: a search of the space that the algorithm
declares, begun with its defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ...core.contract.declared import search_space
from ...core.contract.protocols import Progress, silent
from ...core.errors import InputError
from ...core.registry.own import short
from ...data.interactions import Interactions
from ..plan import algorithm_of, usual_protocol
from ..recommenders import federated
from .search import search
from .space import Choices, Range, read_space

LOOKS = 10  # at validation in each training


class ChosenBefore(NamedTuple):
    """What a run is to train with. settings: those that were fixed and those that were chosen;
    rounds: None of a centralised algorithm. told: what is said of it, see `chosen_before`."""

    settings: dict[str, Any]
    rounds: int | None
    told: dict[str, Any]


def space_of(algorithm: str, fixed: Mapping[str, Any]) -> dict[str, str]:
    """What a search of an algorithm chooses from, as it declares it: without settings that are
    fixed, and without those that its name sets to a value elsewhere (`alpha` of fcf-huawei).

    Raises InputError for an algorithm that declares nothing, and where nothing is left."""
    made: Any = algorithm_of(algorithm, fixed)
    declared, own = search_space(made), dict(made)
    around = {
        name: text
        for name, text in declared.items()
        if _holds(read_space(algorithm, {name: text}, {})[name], own[name])
    }
    left = {name: text for name, text in around.items() if name not in fixed}
    if not declared:
        problem, fix = (
            f"{short(algorithm)} declares no search space",
            f"entrenous tune {short(algorithm)} --search name=a..b",
        )
        raise InputError("--tune", problem, expected="an algorithm with `search_space`", fix=fix)
    if not left:
        raise InputError(
            "--tune", "all that is searched for is fixed with --set", fix="leave --tune out"
        )
    return left


def _holds(choice: Range | Choices, value: Any) -> bool:
    return (
        str(value) in choice.values
        if isinstance(choice, Choices)
        else choice.low <= value <= choice.high
    )


def refuse_beside(**others: Any) -> None:
    """Refuses options of a run under which its settings would be chosen by other trainings than its
    own. others: {option: its value, false where it is as usual}."""
    for name, value in others.items():
        if value:
            problem = (
                "it does not go with --tune, which trains as --profile paper"
                f" does{', in this process' if name == 'workers' else ''}"
            )
            raise InputError(
                f"--{name}",
                problem,
                fix="choose settings with `entrenous tune`, then name them with --set",
            )


def chosen_before(
    algorithm: str,
    data: str | Interactions,
    *,
    protocol: str | None,
    trials: int,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    rounds: int | None = None,
    load: Mapping[str, Any] | None = None,
    threads: int = 0,
    folder: Path | None = None,
    progress: Progress = silent,
) -> ChosenBefore:
    """The best of `trials` settings on the validation rows of the split of `seed`: the defaults
    (with `settings`, which stay), then those of a search of what the algorithm declares. `rounds`
    is the most; how many are best is chosen with the rest.

    folder: where finished trials are kept, in a file named after the search: the same call goes on
    with it. None = nowhere. told: {"trials", "selected_by", "changed": {name: [default, chosen]},
    "rounds", "validation": {"default", "chosen"}, "file"}. Raises InputError as `search` does.
    """
    fixed = dict(settings or {})
    space, made = space_of(algorithm, fixed), algorithm_of(algorithm, fixed)
    first = _first(space, made)
    protocol = protocol or usual_protocol(data, algorithm)
    named = {
        "space": space,
        "settings": fixed,
        "rounds": rounds,
        "load": dict(load or {}),
        "first": first,
    }
    file = None if folder is None else folder / _name(algorithm, data, protocol, seed, named)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    found = search(
        algorithm,
        data,
        protocol=protocol,
        space=space,
        trials=trials,
        first=first,
        split_seed=seed,
        settings=fixed,
        rounds=rounds,
        looks=LOOKS,
        load=load,
        threads=threads,
        out=file,
        resume=file is not None and file.exists(),
        progress=progress,
    )
    return _told(found, first, made, file)


def _first(space: Mapping[str, str], made: Any) -> dict[str, Any]:
    """The values that the algorithm has without a search, all of them in the space."""
    own = dict(made)
    return {name: own[name] for name in space}


def _name(
    algorithm: str, data: str | Interactions, protocol: str, seed: int, named: Mapping[str, Any]
) -> str:
    """The name of the file of a search: another search has another."""
    rows = Path(data).stem if isinstance(data, str) else data.name
    digest = sha256(json.dumps(named, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return f"tune-{short(algorithm)}-{rows}-{protocol}-seed{seed}-{digest}.jsonl"


def _told(
    found: Mapping[str, Any], first: Mapping[str, Any], made: Any, file: Path | None
) -> ChosenBefore:
    best, metric = found["rows"][0], found["selected_by"].removeprefix("validation ")
    usual = next(
        (row for row in found["rows"] if row["trial"] == 0), None
    )  # None: its training diverged
    rounds = best["rounds"] if federated(made) else None
    changed = {
        name: [value, best["settings"][name]]
        for name, value in first.items()
        if best["settings"][name] != value
    }
    told = {
        "trials": found["trials"],
        "selected_by": found["selected_by"],
        "changed": changed,
        "rounds": rounds,
        "validation": {
            "default": usual and usual["validation"][metric],
            "chosen": best["validation"][metric],
        },
        "file": None if file is None else str(file),
    }
    return ChosenBefore(dict(best["settings"]), rounds, told)


def sentences(told: Mapping[str, Any]) -> list[str]:
    """What a search before a run changed, in words."""
    metric, (usual, chosen) = told["selected_by"], told["validation"].values()
    changes = [f"{name} {old} -> {new}" for name, (old, new) in told["changed"].items()]
    rounds = [] if told["rounds"] is None else [f"{told['rounds']} rounds"]
    was = "the defaults diverged" if usual is None else f"{usual:.4f} by default"
    kept = (
        f"tuned in {told['trials']} trials:"
        f" {', '.join([*(changes or ['the defaults stay']), *rounds])}"
    )
    return [
        kept,
        f"{metric} {chosen:.4f}, {was}; the figures of a run are of rows that chose nothing",
    ]
