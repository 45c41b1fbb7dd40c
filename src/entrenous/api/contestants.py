"""`Contestant`: what is compared under one label: an algorithm with its settings over several
seeds, or runs that are there already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.registry.own import short
from ..core.types import Float64Array, Int64Array
from .asked import algorithm_asked
from .result import Run

SAME = (
    "data_sha256",
    "protocol",
    "negatives",
    "refit",
)  # in the manifests of runs that can be compared


class Contestant(NamedTuple):
    """One line of a comparison. label: what tables call it. name, settings: of the algorithm. runs:
    finished ones, one a seed, or ().
    """

    label: str
    name: str
    settings: dict[str, Any]
    runs: tuple[Run, ...] = ()


class JudgedFold(NamedTuple):
    """The evaluation of a finished run. user: int64 [m]; per_user: {metric: float64 [m]}; metrics:
    means by name.
    """

    user: Int64Array
    per_user: Mapping[str, Float64Array]
    metrics: Mapping[str, float]


class Judged(NamedTuple):
    """A finished run as the statistics see it, in the form of `runs.pipeline.RunResult`."""

    metrics: Mapping[str, float]
    manifest: Mapping[str, Any]
    evaluations: tuple[JudgedFold, ...]


def contestants(
    asked: Sequence[Any], settings: Mapping[str, Mapping[str, Any]]
) -> list[Contestant]:
    """The contestants that a caller names.

    Args: asked: names, places, `label=name`, classes, instances, and runs. Runs of one algorithm
        with one choice of settings and different
            seeds are one contestant.
        settings: {label: {setting: value}}, on top of those of an instance.

    Raises: InputError: for fewer than two, for one label twice, for settings of an unknown label,
        and for runs on other data or protocols.
    """
    trained = [_named(one) for one in asked if not isinstance(one, Run)]
    of_runs = _of_runs([one for one in asked if isinstance(one, Run)])
    order = [_label_of_run(one) if isinstance(one, Run) else _named(one).label for one in asked]
    found = sorted(trained + of_runs, key=lambda one: order.index(one.label))
    labels = [one.label for one in found]
    if len(set(labels)) < 2 or len(set(labels)) != len(labels):
        said = [one if isinstance(one, str) else f"{one!r:.40}" for one in asked]
        fix = "name a second one of an algorithm LABEL=NAME" if len(labels) > 1 else ""
        raise InputError(
            "entrenous compare", f"got {said}", expected="two or more different algorithms", fix=fix
        )
    if unknown := settings.keys() - set(labels):
        raise InputError(
            f"--set {min(unknown)}", "is none of what is compared", expected=", ".join(labels)
        )
    return [one._replace(settings={**one.settings, **settings.get(one.label, {})}) for one in found]


def _named(asked: Any) -> Contestant:
    """A contestant that is to be trained; the settings of an instance are part of its label."""
    if isinstance(asked, str):
        label, equals, name = asked.partition("=")
        return Contestant(label if equals else short(asked), name if equals else asked, {})
    name, settings = algorithm_asked(asked)
    return Contestant(_label(name, settings), name, settings)


def _label(name: str, settings: Mapping[str, Any]) -> str:
    return " ".join([short(name), *(f"{setting}={value}" for setting, value in settings.items())])


def _label_of_run(run: Run) -> str:
    return _label(run.manifest["algorithm"], run.manifest["settings"])


def _of_runs(runs: Sequence[Run]) -> list[Contestant]:
    """Finished runs by algorithm and settings. Raises InputError for those that cannot stand in one
    table.
    """
    same_rows([one.manifest for one in runs])
    for one in runs:
        if "folds" in one.manifest:
            raise InputError(
                "entrenous compare",
                "a run of several folds keeps the users of the first alone",
                fix="train it again here",
            )
    labels = dict.fromkeys(_label_of_run(one) for one in runs)
    found = []
    for label in labels:
        own = [one for one in runs if _label_of_run(one) == label]
        found.append(
            Contestant(
                label,
                own[0].manifest["algorithm"],
                {},
                tuple(sorted(own, key=lambda one: int(one.manifest["seed"]))),
            )
        )
    if len({tuple(one.manifest["seed"] for one in some.runs) for some in found}) > 1:
        raise InputError(
            "entrenous compare",
            "runs of different seeds",
            expected="the same seeds of each, since seeds name the split",
        )
    return found


def same_rows(manifests: Sequence[Mapping[str, Any]]) -> None:
    """Raise InputError for runs on other rows or under other protocols, whose numbers cannot stand
    in one table.
    """
    for manifest in manifests:
        if other := [name for name in SAME if manifest.get(name) != manifests[0].get(name)]:
            raise InputError(
                "entrenous compare",
                f"runs differ in {other[0]}",
                expected="runs on one data set under one protocol",
            )


def judged(run: Run) -> Judged:
    """A finished run for the statistics."""
    users = {name: np.asarray(values) for name, values in run.users.items()}
    fold = JudgedFold(users.pop("user"), users, run.metrics)
    return Judged(run.metrics, run.manifest, (fold,))
