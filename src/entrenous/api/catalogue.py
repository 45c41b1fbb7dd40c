"""Lists of what is installed, `algorithms`, `datasets` and `metrics`; and `explain`, an algorithm's
own account of what leaves a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

from typing_extensions import TypedDict

from ..core.contract.declared import declared, fields_of
from ..core.contract.settings import Settings
from ..core.printed import summary_of
from ..core.values import SettingValue
from ..data.dataset import datasets as known_datasets
from ..evaluation.metric_kinds import Metric, better_of
from ..evaluation.metric_kinds import metrics as known_metrics
from ..privacy import evidence, told
from ..runs.plan import tested
from ..systems.named import algorithms as makers
from ..systems.named import kind_of, maker_of
from .arguments import FrameT, in_python
from .results import Report

FEDERATIONS: Final = (900, 9000)  # users, for whom sets of the profile `private` are shown


class AlgorithmEntry(NamedTuple):
    """An algorithm that is installed."""

    name: str
    kind: str
    """central, federated (with a server) or gossip (without one)."""
    summary: str
    preset: Mapping[str, SettingValue]
    """Settings that differ from the defaults of its class."""


class DatasetEntry(NamedTuple):
    """A data set that has a name."""

    name: str
    summary: str
    present: bool
    """True if it can be loaded without a network."""
    terms: str
    """The permitted use."""


class MetricEntry(NamedTuple):
    """A metric that every run has where its data allow it."""

    name: str
    better: str
    """higher, lower, or "" where neither is better."""
    summary: str


class ExplainedSetting(TypedDict):
    """A setting of an algorithm."""

    name: str
    default: str
    """As the command line takes it."""
    description: str


class ExplainedFound(TypedDict):
    """An algorithm's account of itself."""

    name: str
    kind: str
    """central, federated or gossip."""
    summary: str
    preset: Mapping[str, SettingValue]
    received: list[dict[str, str]]
    """`name` and `shape` of each array that a device receives."""
    kept: list[dict[str, str]]
    """The same of those that it keeps."""
    leaves_the_device: list[dict[str, str]]
    """`name`, `shape`, `when`, `reveals` and `measured` of each array that it sends."""
    measured: list[dict[str, str]]
    """`profile`, and what audits under it have `said`."""
    people: dict[str, told.Account]
    """By profile: what is guessable of people anyway, and what is known because they took part."""
    settings: list[ExplainedSetting]
    private_set: dict[str, dict[str, SettingValue]]
    """Settings that the profile `private` brings, since they were tested together, by the number of
    users; {} = none."""


@final
class Explanation(Report[ExplainedFound, FrameT]):
    """An algorithm's account of itself. `table()` has a row for each array that leaves a device."""

    of_rows = "leaves_the_device"

    def _caption(self) -> str:
        found = self.found
        sends = "what leaves a device" if found["leaves_the_device"] else "nothing is on a device"
        return f"{found['name']} ({found['kind']}): {found['summary']} Below: {sends}."


def algorithms() -> list[AlgorithmEntry]:
    """The installed algorithms, those of other packages too, in alphabetical order."""
    return [entry(name) for name in makers()]


def datasets() -> list[DatasetEntry]:
    """The data sets that `load` knows by name."""
    return [
        DatasetEntry(known.name, known.summary, known.present(), known.terms)
        for known in known_datasets().values()
    ]


def metrics() -> list[MetricEntry]:
    """The metrics, by the names to which a run adds the cutoff, as in ndcg@10."""
    return [
        MetricEntry(name, better_of(metric), summary_of(_function_of(metric).__doc__))
        for name, metric in known_metrics().items()
    ]


def explain(algorithm: str) -> Explanation:
    """Explain an algorithm: what a device receives, keeps and sends, what that reveals, and the
    settings.

    algorithm: a name of `algorithms()`, or the place of the user's own class. Raises InputError for
    an unknown name.
    """
    with in_python():
        return Explanation(explained(algorithm))


def explained(algorithm: str) -> ExplainedFound:
    """As `explain`, as the command prints it with --json."""
    about = entry(algorithm)
    made = maker_of(algorithm)()
    measured = [
        {"profile": figure["profile"], "said": told.said(figure)}
        for figure in evidence.measured(algorithm)
    ]
    declaration = declared(made)
    return {
        "name": about.name,
        "kind": about.kind,
        "summary": about.summary,
        "preset": about.preset,
        "received": _states(declaration.receives, "received"),
        "kept": _states(declaration.keeps, "kept"),
        "leaves_the_device": _sent(made, algorithm),
        "measured": measured,
        "people": told.of_profiles(algorithm),
        "settings": settings_of(kind_of(algorithm)[0], about.preset),
        "private_set": {str(users): tested(algorithm, users) for users in FEDERATIONS},
    }


def entry(name: str) -> AlgorithmEntry:
    """An algorithm by its name or place."""
    kind, preset = kind_of(name)
    of_kind = declared(maker_of(name)()).kind
    return AlgorithmEntry(name, of_kind, summary_of(kind.__doc__), preset)


def settings_of(kind: type[Settings], preset: Mapping[str, SettingValue]) -> list[ExplainedSetting]:
    """The settings of a class; a value of the preset stands for the default."""
    settings: list[ExplainedSetting] = []
    for name, field in kind.model_fields.items():
        default = as_typed(preset.get(name, field.default))
        description = field.description or ""
        settings.append({"name": name, "default": default, "description": description})
    return settings


def as_typed(value: SettingValue) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def _states(state: type | None, part: str) -> list[dict[str, str]]:
    """The arrays of a state of a device, as the algorithm declares them."""
    if state is None:
        return []
    return [{"name": field.name, "shape": field.said} for field in fields_of(state, part)]


def _sent(algorithm: Any, name: str) -> list[dict[str, str]]:
    """The arrays that leave a device, as the algorithm declares them, each with the findings of
    audits.
    """
    arrays = []
    for sent in declared(algorithm).sends:
        array = {"name": sent.name, "shape": sent.said, "when": sent.when, "reveals": sent.reveals}
        array["measured"] = evidence.of_array(name, sent.name)
        arrays.append(array)
    return arrays


def _function_of(metric: Metric) -> Any:
    """The function of a metric, without the arguments that are fixed in it."""
    return getattr(metric.value, "func", metric.value)
