"""The runs of a report: their groups (runs that may stand in one table), their labels, and the
ranking of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple, final

from ..core.errors import InputError, one_line
from ..core.registry.discover import short
from ..evaluation.metric_kinds import ListMetric, RatingMetric, metrics
from ..runs.store import StoredRun, protocol_of
from ..systems.named import algorithms
from .markup import Html, join, tag

# The metric of figures and tests if a run has it; of runs that predict ratings the first of ERRORS.
MAIN = "ndcg@10"
ERRORS = ("rmse", "mae")
# Characters of settings that every label has room for, and of a whole label.
SHORT = 24
LONG = 60
# The best known metrics, which come first.
FIRST = (
    *ERRORS,
    "ndcg@10",
    "hr@10",
    "recall@10",
    "precision@10",
    "f1@10",
    "map@10",
    "mrr@10",
    "auc",
)


@final
@dataclass(frozen=True, eq=False)
class ShownRun:
    """A run of a report."""

    run: StoredRun
    label: str
    number: int
    """The place of the run in its group, which gives its colour."""

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the stored run."""
        return self.run.manifest

    @property
    def sampled(self) -> bool:
        """True if `metrics` and the per-user values are of sampled candidates, not of the full
        ranking.
        """
        return "full_ranking" in self.manifest

    @property
    def ranking(self) -> str:
        """The ranking of `metrics` in words."""
        return "sampled ranking" if self.sampled else "full ranking"

    @property
    def device_rounds(self) -> int:
        """The sum over rounds of the devices that took part."""
        return int(self.manifest["ledger"]["device_rounds"])

    @property
    def gossips(self) -> bool:
        """True if nodes sent to each other, without a server."""
        return bool(self.manifest["ledger"].get("messages"))

    def named(self) -> Html:
        """The run's label after a spot of the run's colour, as HTML."""
        spot = tag("i", class_=f"spot s{self.number % 8}", aria_hidden="true")
        return tag("span", join(spot, self.label), class_="run")


class Group(NamedTuple):
    """Runs on the same rows under the same protocol."""

    title: str
    slug: str
    """The start of the ids of its sections and figures."""
    runs: tuple[ShownRun, ...]

    @property
    def ranking(self) -> str:
        """The ranking of `metrics` and per-user values of its runs."""
        return self.runs[0].ranking

    @property
    def order(self) -> list[str]:
        """The labels of all runs, which give each its colour in every figure."""
        return [shown.label for shown in self.runs]


def groups(runs: Sequence[StoredRun]) -> list[Group]:
    """Runs grouped by data and protocol, both in the order given; a run given twice counts once.
    Raises InputError for a run that is not finished, and for one without figures.
    """
    by_path = {run.path.resolve(): run for run in runs}
    distinct = list(by_path.values())
    if not distinct:
        raise InputError(
            "report", "no runs", expected="one run or several", fix="see `entrenous runs`"
        )
    for run in distinct:
        if run.manifest.get("status") != "finished":
            raise InputError(
                str(run.path),
                "this run is not finished",
                fix=f"`entrenous run --resume {run.path}` continues it",
            )
        if not run.manifest["metrics"]:
            problem = "nothing was evaluated: a recommender was fitted to all rows"
            raise InputError(str(run.path), problem, expected="a run, of `entrenous run`")
    # Numbers of other rows or protocols must not stand in one table.
    alike: dict[tuple[Any, ...], list[StoredRun]] = {}
    for run in distinct:
        alike.setdefault(_same_rows(run.manifest), []).append(run)
    return [_group(same, f"g{number}") for number, same in enumerate(alike.values(), start=1)]


def _group(runs: list[StoredRun], slug: str) -> Group:
    shown = tuple(map(ShownRun, runs, labels(runs), range(len(runs))))
    manifest = runs[0].manifest
    return Group(f"{data_name(manifest)}, {protocol_of(manifest)}", slug, shown)


def listed(runs: Sequence[ShownRun]) -> list[Html]:
    """The labels of runs, separated by commas."""
    return [join(", " if place else None, shown.named()) for place, shown in enumerate(runs)]


def _same_rows(manifest: dict[str, Any]) -> tuple[Any, ...]:
    """The common properties of runs in one table: rows, protocol, and the code that trained and
    evaluated them.
    """
    return (
        manifest["data_sha256"],
        protocol_of(manifest),
        manifest["given"],
        "full_ranking" in manifest,
        manifest.get("program_sha256"),
    )


def data_name(manifest: Mapping[str, Any]) -> str:
    """The data set, or the name of its file or folder."""
    return PurePath(str(manifest["data"])).name


def labels(runs: Sequence[StoredRun]) -> list[str]:
    """Short names that distinguish the runs: the algorithm and its settings, then other
    differences, at last a number.
    """
    parts: list[Callable[[StoredRun], str]] = [
        lambda run: f"seed {run.manifest['seed']}",
        lambda run: f"{run.manifest['rounds']} rounds",
        lambda run: f"code {run.manifest.get('algorithm_sha256', 'unknown')[:6]}",
        lambda run: str(run.manifest["run"]),
    ]
    algorithms = [short(str(run.manifest["algorithm"])) for run in runs]
    settings = [given_settings(run) for run in runs]
    # A profile brings settings too, which alone would not say that it is another profile.
    names = _extended(algorithms, [_profile(run) for run in runs])
    # Settings that are too long for a label are added only to tell runs apart.
    if all(len(text) <= SHORT for text in settings):
        names = [
            f"{algorithm} {text}{name.removeprefix(algorithm)}".strip()
            for algorithm, text, name in zip(algorithms, settings, names, strict=True)
        ]
    else:
        parts.insert(0, given_settings)
    for part in parts:
        names = _extended(names, [part(run) for run in runs])
    names = [one_line(name, LONG) for name in names]
    # Names that are equal even so get the number of their run.
    numbered = []
    for number, name in enumerate(names, start=1):
        taken = name in names[: number - 1]
        numbered.append(f"{name} ({number})" if taken else name)
    return numbered


def _profile(run: StoredRun) -> str:
    """The profile of a run in words."""
    # Manifests of earlier versions have none.
    profile = str(run.manifest.get("profile", ""))
    return "as published" if profile == "paper" else profile


def given_settings(run: StoredRun) -> str:
    """The settings that a run was given, and those of its network, such as "pi=0.3, factors=20"."""
    given = {**run.manifest["settings"], **run.manifest.get("network", {})}
    return ", ".join(f"{name}={value}" for name, value in given.items())


def _extended(names: list[str], parts: list[str]) -> list[str]:
    """The names, each with its part if another run has the same name and another part."""
    parts_of: dict[str, set[str]] = {}
    for name, part in zip(names, parts, strict=True):
        parts_of.setdefault(name, set()).add(part)
    return [
        f"{name} {part}".strip() if len(parts_of[name]) > 1 else name
        for name, part in zip(names, parts, strict=True)
    ]


# ---- metrics -------------------------------------------------------------------------------------


def of_lists(name: str) -> bool:
    """True for a metric of all lists together (coverage, Gini), always of the full ranking."""
    return isinstance(metrics().get(kind(name)), ListMetric)


def kind(name: str) -> str:
    """The name of a metric without its cutoff: "ndcg" for "ndcg@10"."""
    return name.split("@")[0]


def is_main(name: str) -> bool:
    """True for metrics of the main table: those at 10, and those without a cutoff."""
    return name.endswith("@10") or "@" not in name


def in_order(names: Sequence[str]) -> list[str]:
    """Names of metrics sorted for a report: the best known first, the others by name and length."""
    place = {name: number for number, name in enumerate(FIRST)}

    def sort_key(name: str) -> tuple[int, str, int]:
        return place.get(name, len(place)), kind(name), _length(name)

    return sorted(dict.fromkeys(names), key=sort_key)


def _length(name: str) -> int:
    """The length of the lists of a metric, as a number, so that @5 comes before @10."""
    tail = name.partition("@")[2]
    # A plug-in's metric may have anything after the @.
    return int(tail) if tail.isdigit() else 0


def main_of(group: Group) -> str:
    """The first per-user metric that all runs of a group have; MAIN if there is none."""
    for name in in_order(list(group.runs[0].run.users)):
        if name != "user" and all(name in shown.run.users for shown in group.runs):
            return name
    return MAIN


def leading(group: Group) -> list[str]:
    """The two most important metrics of a group: errors if all runs predict ratings."""
    measured = [shown.manifest["metrics"] for shown in group.runs]
    common = [name for name in FIRST if all(name in metrics for metrics in measured)]
    return common[:2]


def is_error(name: str) -> bool:
    """True for a metric of predicted ratings, of which lower is better."""
    return isinstance(metrics().get(kind(name)), RatingMetric)


def kind_of(algorithm: str) -> tuple[Any, dict[str, Any]]:
    """The settings class of an algorithm and the presets of its name; (None, {}) if this version
    does not know it.
    """
    # A report never runs the file of a user's own algorithm.
    maker = algorithms().get(algorithm)
    if isinstance(maker, partial):
        return maker.func, dict(maker.keywords)
    return maker, {}
