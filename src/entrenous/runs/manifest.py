"""The manifest of a run: its options, its results, the notes without which the figures must not be
read, and the settings, code and libraries behind them. A later use is refused where today's differ.
"""

from __future__ import annotations

import platform
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, NotRequired

import numpy as np
from pydantic import JsonValue
from typing_extensions import TypedDict

from .. import __version__
from ..core.contract.declared import declared, is_central, is_federated, is_gossip
from ..core.contract.protocols import Catalogue, model_sha256
from ..core.errors import InputError
from ..core.registry.discover import short
from ..core.registry.program import program_sha256, source_sha256
from ..data.interactions import Interactions
from ..data.reading import Reading
from ..data.split.types import Split
from ..evaluation.metrics.defined import fairness
from ..evaluation.protocol import Evaluation
from ..federation.shard import Ledger
from ..privacy import evidence
from ..privacy.protection import PAPER, epsilon_in_words
from .options import RunPlan
from .recommenders import Algorithm, Fitted, federated

# The code behind every result is this module and what it imports.
TRAINS = "entrenous.runs.train"
LIBRARIES = ("numpy", "numba", "polars")
TODAY = "run it again, or say --todays-code to use today's"
ALGORITHM = "algorithm_sha256"
TRAINING = "program_sha256"


class TrainedPart(TypedDict):
    """The entries of every training."""

    algorithm: str
    """The name, or the place of the user's own class."""
    seed: int
    rounds: int


class Look(TypedDict):
    """A look at validation during a training."""

    phase: str
    """The training that was looked at, such as fold0-select."""
    round: int
    seconds: float
    bytes_up: int
    bytes_down: int
    validation: dict[str, float]
    """The metrics on validation rows; of a stream, on the rows of the window."""
    until: NotRequired[str]
    """The end of the window of a stream."""
    rows: NotRequired[int]
    """The rows of the window; users and items: those that there are at its end."""
    users: NotRequired[int]
    items: NotRequired[int]


class SpentPrivacy(TypedDict):
    """The differential privacy that a training has spent of each user."""

    epsilon: float
    """By PLD."""
    epsilon_exchanged: float
    """The same, where one user is exchanged for another."""
    budget: float
    delta: float
    noise_multiplier: float
    rate: float
    """The chance that a user is in a sum."""
    releases: int
    stopped: bool
    """True if the budget ended the training."""


class Manifest(TrainedPart):
    """The manifest of a finished run: its options, its results, and what is behind them."""

    run: str | None
    """The name of the run's folder; None if it is not stored."""
    format: NotRequired[int]
    """The version of the folder's format."""
    data: str
    protocol: str
    """How rows are held out."""
    load: dict[str, JsonValue]
    given: str | None
    refit: bool | None
    network: dict[str, JsonValue]
    profile: str
    protect: dict[str, JsonValue]
    settings: dict[str, JsonValue]
    """Those that were asked for."""
    settings_in_force: dict[str, JsonValue]
    """All settings, the defaults too."""
    settings_in_memory: list[str]
    """Settings that JSON cannot hold."""
    patience: int
    every: int
    negatives: str
    rounds_asked: int | None
    data_by_name: bool
    """False for rows that were in memory."""
    data_sha256: str
    split_sha256: NotRequired[str]
    """Of the split that is kept with rows that were in memory."""
    catalogue: dict[str, JsonValue]
    """Numbers of users, items and rows, and the scale of ratings."""
    status: str
    started: str
    command: str
    algorithm_sha256: str
    program_sha256: str
    versions: dict[str, str]
    metrics: dict[str, float]
    """Means over users (and folds) under the protocol."""
    full_ranking: NotRequired[dict[str, float]]
    """The same of the full ranking, where the protocol samples candidates."""
    fairness: dict[str, float]
    fairness_full_ranking: NotRequired[dict[str, float]]
    folds: NotRequired[list[dict[str, float]]]
    """The metrics of each fold, where there are several."""
    privacy: NotRequired[SpentPrivacy]
    forget_devices: NotRequired[bool]
    """True of a run whose folder is to hold nothing of single devices."""
    of_people: NotRequired[list[str]]
    """Files of its folder that are of single people, with the names of their arrays."""
    by_category: dict[str, JsonValue]
    seconds: dict[str, float]
    bytes: dict[str, int]
    ledger: dict[str, int]
    model_sha256: str
    users_evaluated: int
    protocol_text: list[str]
    """The protocol in sentences."""
    reading: list[dict[str, JsonValue]]
    """What loading read, assumed and left out."""
    notes: list[str]
    """Sentences without which the figures must not be read."""


class Fold(NamedTuple):
    """The training and evaluation of one split, with the training rows and the seconds of both."""

    fitted: Fitted
    evaluation: Evaluation
    train: Interactions
    train_seconds: float
    evaluate_seconds: float


def opening(plan: RunPlan, rows: Interactions, by_name: bool) -> dict[str, Any]:
    """The manifest of a run before it is trained. Settings that are neither numbers nor text (a
    Choice, say) are described.
    """
    asked = asdict(plan)
    rounds = asked.pop("rounds")
    # A run with such a setting cannot be repeated from its manifest.
    in_memory = [
        name
        for name, value in {**plan.settings, **plan.network}.items()
        if not isinstance(value, str | int | float)
    ]
    return {
        "run": None,
        "algorithm": asked.pop("algorithm"),
        "data": asked.pop("data"),
        **asked,
        "settings": described(plan.settings),
        "network": described(plan.network),
        "protect": described(plan.protect),
        "data_by_name": by_name,
        "settings_in_memory": in_memory,
        "rounds_asked": rounds,
        "status": "running",
        "catalogue": catalogue_sizes(rows.catalogue),
        "data_sha256": rows.sha256(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def catalogue_sizes(catalogue: Catalogue) -> dict[str, Any]:
    """Returns the numbers of a catalogue. The features of its items stay with the data."""
    sizes = catalogue._asdict()
    del sizes["features"]
    return sizes


def described(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that JSON can hold: an object in memory is described."""
    return {
        name: value if isinstance(value, str | int | float) else str(value)
        for name, value in settings.items()
    }


def ignored(plan: RunPlan, algorithm: Algorithm) -> list[str]:
    """Notes on options that were given and mean nothing to a centralised algorithm."""
    given = [name for name in ("rounds", "every", "patience") if getattr(plan, name)]
    if federated(algorithm) or not given:
        return []
    # They are no error, so that one command line fits all algorithms of a comparison.
    options = ", ".join(f"--{name}" for name in given)
    return [f"{short(plan.algorithm)} is trained in one place, without rounds; ignored: {options}"]


def between(network: Mapping[str, Any], algorithm: Algorithm, split: Split) -> list[str]:
    """Notes on the network between peers, and on the rows by which peers judge models; none for an
    algorithm that does not gossip.
    """
    if not is_gossip(algorithm):
        return []
    given = ", ".join(f"{name}={value}" for name, value in network.items())
    notes = [
        f"between the nodes: {given or 'all nodes push at once, and every message arrives at once'}"
    ]
    if declared(algorithm).traits.holds_out_own:
        rows = "rows of their own that they do not train on"
        if split.weighting:
            rows = "the validation rows"
        notes.append(f"nodes weigh the models they receive by {rows}")
    return notes


def spent(privacy: Mapping[str, Any]) -> list[str]:
    """Notes on the spent differential privacy: the people and the data that it covers, and the
    figures that it does not.
    """
    if not privacy:
        return []
    exchanged = privacy["epsilon_exchanged"]
    epsilon = epsilon_in_words(privacy["epsilon"], privacy["delta"], exchanged=exchanged)
    sums = (
        f"{privacy['releases']} noisy sums, noise {privacy['noise_multiplier']:.3f} x clip, each"
        f" user sampled at {privacy['rate']:.3f}"
    )
    return [
        f"differential privacy, for the model and all sums: {epsilon};"
        f" {sums}; figures on held-out rows are not covered"
    ]


def unopened(ledger: Ledger) -> list[str]:
    """Notes on the rounds of a training whose sums were not opened."""
    if not ledger.unopened:
        return []
    return [
        f"rounds without a sum: {ledger.unopened}, as fewer people offered to be in it than"
        " `people` asks for; nothing left a device in them, and the model stayed"
    ]


def closing(
    parts: list[Split], folds: list[Fold], leak: list[str], notes: list[str]
) -> dict[str, Any]:
    """The entries that a finished run adds to its manifest: means over folds, sums of bytes and
    seconds.

    leak: notes that come first. notes: notes that come after those of the data.
    """
    first = folds[0]
    evaluations = [fold.evaluation for fold in folds]
    # Costs are sums over folds, figures are means.
    ledger = Ledger()
    for fold in folds:
        ledger = ledger.plus(fold.fitted.ledger)
    # Kernels as plain Python count in NumPy's integers, which JSON does not know.
    ledger = Ledger(*map(int, ledger))
    seconds = {
        "train": sum(fold.train_seconds for fold in folds),
        "evaluate": sum(fold.evaluate_seconds for fold in folds),
    }
    entries: dict[str, Any] = {
        "status": "finished",
        "rounds": first.fitted.rounds,
        "metrics": mean_of([evaluation.metrics for evaluation in evaluations]),
    }
    # There is a full ranking where `metrics` are of sampled candidates.
    full = [each.full_ranking for each in evaluations if each.full_ranking is not None]
    if full:
        entries["full_ranking"] = mean_of(full)
    entries |= _fairness(evaluations)
    # Without folds the entry would repeat `metrics`.
    if len(folds) > 1:
        entries["folds"] = [evaluation.metrics for evaluation in evaluations]
    if first.fitted.privacy:
        entries["privacy"] = dict(first.fitted.privacy)
    # What was done when the data was read, and by the protocol.
    readings = _readings(parts[0])
    of_data = [*(line for reading in readings for line in reading.sentences), *parts[0].notes]
    return {
        **entries,
        "by_category": first.evaluation.by_category,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "bytes": {"up": ledger.bytes_up, "down": ledger.bytes_down},
        "ledger": ledger._asdict(),
        "model_sha256": model_sha256(first.fitted.arrays),
        "users_evaluated": len(first.evaluation.user),
        "protocol_text": [*leak, *first.evaluation.protocol],
        "reading": [reading.as_json() for reading in readings],
        "notes": [
            *leak,
            *of_data,
            *notes,
            *unopened(ledger),
            *spent(first.fitted.privacy),
        ],
    }


def of_fit(plan: RunPlan, rows: Interactions, algorithm: Any, fitted: Fitted) -> dict[str, Any]:
    """The manifest of a training on all rows, of which nothing was evaluated."""
    return {
        **opening(replace(plan, data=rows.name), rows, by_name=False),
        **pins(algorithm),
        "status": "finished",
        "rounds": fitted.rounds,
        "metrics": {},
        "seconds": {},
        "bytes": {"up": fitted.ledger.bytes_up, "down": fitted.ledger.bytes_down},
        "model_sha256": model_sha256(fitted.arrays),
        "notes": rows.notes,
    }


def _readings(split: Split) -> list[Reading]:
    """The reports of reading the parts of a split, each once: those of one file are the same."""
    parts = [split.train, split.test.rows]
    if split.validation is not None:
        parts.insert(1, split.validation.rows)
    return list(dict.fromkeys(part.reading for part in parts))


def _fairness(evaluations: list[Evaluation]) -> dict[str, dict[str, float]]:
    """The spread of NDCG over users, of the ranking behind `metrics` and, where that is sampled, of
    the full ranking; means over folds.
    """
    ranked = []
    full = []
    for each in evaluations:
        # The values of users are of the sampled ranking where there is one.
        ranking = each.ranking if each.candidates_ranking is None else each.candidates_ranking
        ranked.append(fairness(each.per_user, ranking).named())
        if each.per_user_full is not None:
            full.append(fairness(each.per_user_full, each.ranking).named())
    entries = {"fairness": mean_of(ranked)}
    if full:
        entries["fairness_full_ranking"] = mean_of(full)
    return entries


def mean_of(metrics: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each metric over folds or seeds."""
    return {name: float(np.mean([of_fold[name] for of_fold in metrics])) for name in metrics[0]}


def gives_away(plan: RunPlan, algorithm: Algorithm) -> str:
    """The line with which a run begins if no protection limits its messages: the measured leak of
    the algorithm, or the way to measure it. "" where a protection limits messages, or nothing
    leaves a device.
    """
    if plan.profile != PAPER or plan.protect or is_central(algorithm):
        return ""
    name = short(plan.algorithm)
    measured = evidence.gives_away(name)
    if not measured:
        measured = f"`entrenous audit {name}` measures what that gives away"
    limited = "; --profile private limits it" if is_federated(algorithm) else ""
    read = "profile paper: each message of a device can be read by who receives it"
    return f"{read}; {measured}{limited}"


# ---- the code, settings and libraries behind a run -----------------------------------------------


def pins(algorithm: Any) -> dict[str, Any]:
    """The entries of a manifest that tie its result to settings, code and libraries.

    algorithm: the instance that is trained. Returns settings_in_force: every setting with its
    value, defaults too; algorithm_sha256: of the source of the algorithm and of the modules of this
    package that it imports; program_sha256: of the code that trains and evaluates; versions: of
    Python and the libraries; command: the command as it was typed, without folders.
    """
    return {
        "settings_in_force": in_force(algorithm),
        ALGORITHM: source_sha256(type(algorithm)),
        TRAINING: program_sha256(TRAINS),
        "versions": versions(),
        "command": command(sys.argv),
    }


def versions() -> dict[str, str]:
    """The versions of this package, Python, the machine's architecture and the libraries that
    compute.
    """
    here = {
        "entrenous": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    # A new version of a library may round differently.
    return here | {name: version(name) for name in LIBRARIES if find_spec(name)}


def command(arguments: Sequence[str]) -> str:
    """A command line as it can be typed again, the program without its folder; "" in Python, where
    none was typed.
    """
    program = Path(arguments[0]).name if arguments else ""
    # The name of another script, such as a notebook's, says nothing about the run.
    if program not in ("entrenous", "__main__.py"):
        return ""
    return shlex.join(["entrenous", *arguments[1:]])


def check_algorithm(
    manifest: Mapping[str, Any], algorithm: Any, where: str, todays_code: bool = False
) -> None:
    """Refuses to use a stored model with an algorithm whose code or settings have changed since it
    was trained, unless `todays_code`.

    where: the run, for errors.
    """
    if todays_code:
        return
    if ALGORITHM not in manifest:
        problem = "the run does not say by which code it was made: it is of an earlier version"
        raise InputError(where, problem, expected=f"{ALGORITHM} in its manifest", fix=TODAY)
    if manifest[ALGORITHM] != source_sha256(type(algorithm)):
        raise InputError(
            where,
            f"the code of {manifest['algorithm']} has changed since the run",
            expected="the same",
            fix=TODAY,
        )
    # Under the same code a setting may have another value, if its default comes from elsewhere.
    now = in_force(algorithm)
    for name, value in _entries(manifest, "settings_in_force", where).items():
        if now.get(name) != value:
            problem = f"the setting {name} is no longer what it was in the run"
            raise InputError(where, problem, expected="the same", fix=TODAY)


def check_program(manifest: Mapping[str, Any], where: str, todays_code: bool = False) -> None:
    """Refuses to continue a run with other code or other libraries than it began with, unless
    `todays_code`.
    """
    if todays_code:
        return
    if manifest.get(TRAINING) != program_sha256(TRAINS):
        raise InputError(
            where,
            "the code that trains has changed since the run began",
            expected="the same",
            fix=TODAY,
        )
    now = versions()
    for name, begun in _entries(manifest, "versions", where).items():
        if begun != now.get(name):
            problem = f"{name} was {begun} when the run began and is {now.get(name)}"
            raise InputError(where, problem, expected="the same", fix=TODAY)


def in_force(algorithm: Any) -> dict[str, Any]:
    """Every setting of an algorithm with its value, defaults too, as a manifest has it."""
    return {name: _plain(value) for name, value in algorithm.model_dump().items()}


def _entries(manifest: Mapping[str, Any], part: str, where: str) -> dict[str, Any]:
    """A part of a manifest that has entries by name. Raises InputError for a manifest without."""
    entries = manifest.get(part)
    if not isinstance(entries, dict):
        raise InputError(
            f"{where}/manifest.json",
            f"'{part}' is {type(entries).__name__}",
            expected="entries by name",
            fix=TODAY,
        )
    return entries


def _plain(value: Any) -> Any:
    """A setting as JSON has it; an object that is neither number nor text is described."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
