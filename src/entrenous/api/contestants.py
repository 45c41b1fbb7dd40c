"""`Contestant`: an algorithm with its settings over several seeds, or finished runs, that is
compared with others under one label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.errors import InputError
from ..core.registry.discover import short
from ..core.values import SettingValue
from .arguments import algorithm_asked
from .run import Run

# Entries that are the same in the manifests of runs that can be compared.
SAME = ("data_sha256", "protocol", "negatives", "refit")


class Contestant(NamedTuple):
    """One line of a comparison."""

    label: str
    """Its name in tables."""
    name: str
    """The algorithm's name or place."""
    settings: dict[str, SettingValue]
    runs: tuple[Run[Any], ...] = ()
    """Finished runs, one for each seed; () = they are to be trained."""


def contestants(
    asked: Sequence[Any], settings: Mapping[str, Mapping[str, SettingValue]]
) -> list[Contestant]:
    """The contestants that a caller names, in the order of their first mention.

    asked: names, places, `label=name`, classes, instances, and runs. Runs of one algorithm with one
    choice of settings and different seeds are one contestant. settings: {label: {setting: value}},
    on top of those of an instance.

    Raises InputError for fewer than two, for one label twice, for settings of an unknown label, and
    for runs on other data or protocols.
    """
    runs = [each for each in asked if isinstance(each, Run)]
    of_runs = {contestant.label: contestant for contestant in _of_runs(runs)}
    # A contestant of several runs stands where the first of them is named.
    every = []
    for each in asked:
        if not isinstance(each, Run):
            every.append(_named(each))
            continue
        label = _label_of_run(each)
        if label in of_runs:
            every.append(of_runs.pop(label))
    labels = [contestant.label for contestant in every]
    different = set(labels)
    if len(different) < 2 or len(different) != len(labels):
        named = [each if isinstance(each, str) else f"{each!r:.40}" for each in asked]
        raise InputError(
            "entrenous compare",
            f"got {named}",
            expected="two or more different algorithms",
            fix="name a second one of an algorithm LABEL=NAME" if len(labels) > 1 else "",
        )
    unknown = settings.keys() - different
    if unknown:
        raise InputError(
            f"--set {min(unknown)}", "is none of what is compared", expected=", ".join(labels)
        )
    with_settings = []
    for contestant in every:
        changed = {**contestant.settings, **settings.get(contestant.label, {})}
        with_settings.append(contestant._replace(settings=changed))
    return with_settings


def _named(asked: Any) -> Contestant:
    """A contestant that is to be trained; the settings of an instance are part of its label."""
    if isinstance(asked, str):
        # A label tells two choices of settings of one algorithm apart.
        label, equals, name = asked.partition("=")
        return Contestant(label, name, {}) if equals else Contestant(short(asked), asked, {})
    name, settings = algorithm_asked(asked)
    return Contestant(_label(name, settings), name, settings)


def _label(name: str, settings: Mapping[str, SettingValue]) -> str:
    words = [f"{setting}={value}" for setting, value in settings.items()]
    return " ".join([short(name), *words])


def _label_of_run(run: Run[Any]) -> str:
    return _label(run.manifest["algorithm"], run.manifest["settings"])


def _of_runs(runs: Sequence[Run[Any]]) -> list[Contestant]:
    """Finished runs by algorithm and settings. Raises InputError for those that cannot stand in one
    table.
    """
    same_rows([run.manifest for run in runs])
    by_label: dict[str, list[Run[Any]]] = {}
    for run in runs:
        if "folds" in run.manifest:
            raise InputError(
                "entrenous compare",
                "a run of several folds keeps the users of the first alone",
                fix="train it again here",
            )
        by_label.setdefault(_label_of_run(run), []).append(run)
    contestants = []
    seeds = set()
    for label, of_label in by_label.items():
        # In the order of seeds, so that columns of contestants belong together.
        of_label.sort(key=lambda run: int(run.manifest["seed"]))
        seeds.add(tuple(run.manifest["seed"] for run in of_label))
        name = of_label[0].manifest["algorithm"]
        contestants.append(Contestant(label, name, {}, tuple(of_label)))
    # Each seed is another split, so values are paired by seed.
    if len(seeds) > 1:
        raise InputError(
            "entrenous compare",
            "runs of different seeds",
            expected="the same seeds of each, since seeds name the split",
        )
    return contestants


def same_rows(manifests: Sequence[Mapping[str, Any]]) -> None:
    """Raises InputError for runs on other rows or under other protocols, whose numbers cannot stand
    in one table.
    """
    first = manifests[0] if manifests else {}
    for manifest in manifests:
        for name in SAME:
            if manifest.get(name) != first.get(name):
                raise InputError(
                    "entrenous compare",
                    f"runs differ in {name}",
                    expected="runs on one data set under one protocol",
                )
