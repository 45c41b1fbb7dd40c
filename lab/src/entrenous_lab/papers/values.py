"""What papers printed, what validation rows chose, how much is trained and what findings say:
`printed`, `tuned`, `trained`, `words`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from entrenous.systems.named import algorithms

Settings = dict[str, Any]
Printed = Mapping[tuple[str, str, str], float]  # {(data, system, metric): what was printed}
PLAIN = {"server_rate_item": 1.0}  # the mean of FedAvg's algorithm 1 as it stands


class Tuned(NamedTuple):
    """settings: where they differ from the defaults. rounds: of federated training. by: the search,
    in words; "" = the defaults.
    """

    settings: Mapping[str, Any] = {}  # nobody changes it
    rounds: int | None = None
    by: str = ""


@cache
def stored(folder: str, name: str) -> dict[str, Any]:
    """The content of `<folder>/<name>.toml` beside this file."""
    return tomllib.loads((files(__package__) / folder / f"{name}.toml").read_text(encoding="utf-8"))


def tuples(value: Any) -> Any:
    """What TOML holds with its lists as tuples.

    >>> tuples({"vae": [[200, 100], []]})
    {'vae': ((200, 100), ())}
    """
    if isinstance(value, dict):
        return {name: tuples(inner) for name, inner in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def printed(paper: str, *sections: str) -> dict[tuple[str, str, str], float]:
    """What sections of `printed/<paper>.toml` hold; percentages as shares.

    >>> printed("cali3f", "table3")["ml-1m", "ditto-neumf", "std_ndcg@10"]
    0.33
    """
    found, whole = dict[tuple[str, str, str], float](), stored("printed", paper)
    for section in map(whole.__getitem__, sections):
        for data, systems in section["values"].items():
            for system, values in systems.items():
                for metric, value in zip(section["metrics"], values, strict=True):
                    found[data, system, metric] = (
                        round(value / 100, 4) if section.get("percent") else float(value)
                    )
    return found


@cache
def read_tuned(name: str) -> Mapping[tuple[str, str], Tuned]:
    """{(data, system): what was chosen} of `tuned/<name>.toml`: ncf, rating or pepper."""
    return {
        (entry["data"], system): Tuned(entry.get("settings", {}), entry.get("rounds"), entry["by"])
        for entry in stored("tuned", name)["tuned"]
        for system in entry["systems"]
    }


def tuned(family: str, data: str, system: str) -> Tuned:
    """What validation chose for a system on a data set, or for the one that it follows; empty where
    nothing was searched, and for the family "", whose systems have their defaults."""
    if not family:
        return Tuned()
    follows = stored("tuned", family).get("follows", {})  # {system: the one whose settings it has}
    return read_tuned(family).get((data, follows.get(system, system)), Tuned())


def settings_of_cali3f(data: str, algorithm: str) -> Tuned:
    """Cali3F's settings for another federated algorithm over the same model: "the same
    hyper-parameter setting" (section IV-D).

    What only that algorithm has (Ditto's reg_global) stays as it was chosen for it, and the mean of
    what devices learnt is the plain one of its paper. The number of rounds is its own."""
    model, made = algorithm.partition("-")[2], algorithms()
    theirs = made[f"cali3f-{model}"](**tuned("ncf", data, f"cali3f-{model}").settings).model_dump()
    usual, alike = made[algorithm]().model_dump(), made[f"fedavg-{model}"]().model_dump()
    common = {
        name: value
        for name, value in theirs.items()
        if name in alike and name != "rounds" and value != usual[name]
    }
    own = {
        name: value
        for name, value in tuned("ncf", data, algorithm).settings.items()
        if name not in alike
    }
    return Tuned({**common, **PLAIN, **own}, by="Cali3F's settings")


def said(settings: Mapping[str, Any]) -> str:
    """Settings in words.

    >>> said({"factors": 8, "pi": 0.5})
    'factors 8, pi 0.5'
    """
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in settings.items()
    )


def worded(paper: str, finding: str, /, *numbers: float, **more: Any) -> str:
    """A finding in the words of `words/<paper>.toml`, with what was computed in their {fields}."""
    words: str = stored("words", paper)[finding]
    return words.format(*numbers, **more)


def listed(values: Mapping[Any, float], form: str) -> str:
    """Names and numbers in words.

    >>> listed({"a": 0.5, "b": 1}, ".2f")
    'a 0.50, b 1.00'
    """
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())
