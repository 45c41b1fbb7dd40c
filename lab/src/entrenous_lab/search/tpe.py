"""Choosing settings on validation rows by search: each trial is drawn where earlier ones were good
(TPE, by Optuna).

Trial n is a function of the search's seed, n and the trials before it; with several at once, of
those before its batch. So a search that was killed and goes on from its file ends as if nothing had
happened, and one with more trials begins with the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast, final

import optuna
from typing_extensions import TypedDict

from entrenous.core.contract.declared import is_central
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.core.keywords import at_least
from entrenous.core.values import SettingValue
from entrenous.evaluation.protocol import Goal
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import check
from entrenous.runs.tuning.grid import (
    AboutTuning,
    Each,
    FailedSettings,
    Task,
    Tried,
    TriedSettings,
    TuneRequest,
    attempt,
    begin,
    described,
    failed,
    made,
    ordered,
    refuse_both,
    rows_of,
    trying,
)

from .space import Choices, Range, read_space
from .trials import TuningTrial, append, begin_file, check_file

# The number of trials if none is given.
TRIALS = 30
# Trials that are drawn at random before there is anything to learn from.
RANDOM = 10
# Finished trials before one is stopped early.
COMPLETE = 5
# A trial is stopped after this part of its rounds at the earliest: a third.
WARM = 3
# The value of a failed trial where errors are compared.
LARGE = 1e3

Space = Mapping[str, Range | Choices]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SearchRequest(TuneRequest):
    """Everything that a search takes."""

    space: Mapping[str, str] = field(default_factory=dict)
    """The range of each setting: a..b, a..b:log or value,value,..."""
    trials: int = TRIALS
    """How many settings are tried."""
    search_seed: int = 0
    """The seed of the draws. The trainings have the seeds from `split_seed` on."""
    out: Path | None = None
    """A file (.jsonl) that gets a line for each finished trial."""
    resume: bool = False
    """Continues the search in the file of `out`."""
    first: Mapping[str, SettingValue] | None = None
    """The settings of trial 0; None = they are drawn as the others are."""
    split_seed: int = 0
    """The first of the `seeds` seeds."""
    looks: int = 0
    """Looks at validation in each training, in the place of `every`."""

    @property
    def plan(self) -> RunPlan:
        return replace(super().plan, seed=self.split_seed)


class SearchedSettings(TriedSettings):
    """Settings that a search tried to the end, with their metrics on validation rows."""

    trial: int
    """The number of the trial."""


class StoppedTrial(TypedDict):
    """A trial that was stopped early."""

    trial: int
    settings: dict[str, SettingValue]
    rounds: int


class SearchFound(AboutTuning):
    """The report of a search."""

    rows: list[SearchedSettings]
    """The best first."""
    stopped: list[StoppedTrial]
    failed: list[FailedSettings]
    trials: int
    search: dict[str, str]
    """The space."""
    seed: int
    workers: int
    sampler: str


class Told(NamedTuple):
    """The inputs of a search."""

    space: Space
    fixed: Mapping[str, Any]
    """Settings that are the same for all trials."""
    seed: int
    """The seed of the draws."""
    at_once: int
    """The number of trials in a batch."""
    goal: Goal
    first: Mapping[str, Any] | None = None
    """The settings of trial 0; None = they are drawn."""


def try_space(asked: SearchRequest) -> SearchFound:
    """Trains `trials` settings of `space`, each over seeds 0 .. seeds - 1; the best on validation
    comes first.

    With looks at validation, a trial that is worse in seed 0 than the median of those before it at
    the same round is stopped there. Trials of several workers are a batch: they are drawn after the
    batches before, and the next batch begins when this one has ended. So the trials depend on the
    number of workers as on the other options, and on nothing else. Returns {"rows": [{"trial",
    "settings", "rounds": of the best look, "validation"}], "stopped": [..], "failed": [..], ...}.
    """
    fixed = dict(asked.settings)
    trials = asked.trials
    seed = asked.search_seed
    out = asked.out
    at_least("--workers", asked.workers, 1)
    at_least("--trials", trials, 1)
    at_least("--search-seed", seed, 0)
    # What can be refused is refused before data is read.
    check(asked.plan)
    choose_from = read_space(asked.algorithm, asked.space, fixed)
    refuse_both(fixed, asked.space, "--search")
    check_file(out, asked.resume)
    task = _begun(asked)
    told = Told(choose_from, fixed, seed, asked.workers or 1, task.goal, asked.first)
    draws = {"search": dict(asked.space), "seed": seed, "workers": told.at_once}
    about = {**_identity(task), "settings": fixed, **draws}
    if asked.first is not None:
        about["first"] = dict(asked.first)
    # A search that was killed goes on after the trials in its file.
    past = begin_file(out, about, asked.resume)
    with trying(asked.workers, task) as each:
        while len(past) < trials:
            asked.progress(len(past), trials, _so_far(past, task.goal))
            for trial in _batch(each, told, list(past), trials):
                past.append(trial)
                if out is not None:
                    append(out, trial)
                asked.progress(len(past), trials, _so_far(past, task.goal))
    asked.progress(trials, trials, "done")
    sampler = f"optuna {optuna.__version__} TPE"
    found = {**described(task), **draws, "sampler": sampler, **_summary(past, fixed, task.goal)}
    return cast(SearchFound, found)


def _begun(asked: SearchRequest) -> Task:
    """Loads and splits as a grid does. Returns the task with its rounds between looks."""
    task = begin(asked)
    algorithm: Any = made(task, {})
    # A centralised algorithm is looked at once.
    if not asked.looks or is_central(algorithm):
        return task
    rounds = task.plan.rounds or algorithm.default_rounds(task.rows.catalogue)
    # Rounded up, so that there are at most so many looks.
    return replace(task, every=-(-rounds // asked.looks))


def _identity(task: Task) -> dict[str, Any]:
    """The inputs that must be the same for a search to continue from its file."""
    digests = []
    for part in task.parts:
        digests += [part.train.sha256(), part.validation.rows.sha256()]
    return {
        **described(task),
        "rounds": task.plan.rounds,
        "every": task.every,
        "rows_sha256": digests,
    }


def _summary(past: list[TuningTrial], fixed: Mapping[str, Any], goal: Goal) -> dict[str, Any]:
    """The results of a search; settings that were drawn again count once, as their first trial."""
    once: dict[str, TuningTrial] = {}
    for trial in past:
        once.setdefault(json.dumps(trial.settings), trial)
    rows: list[SearchedSettings] = []
    stopped = []
    reasons = []
    for trial in once.values():
        settings = {**fixed, **trial.settings}
        reasons.append((settings, trial.reason))
        if trial.stopped:
            rounds = max(trial.curve(goal))
            stopped.append({"trial": trial.trial, "settings": settings, "rounds": rounds})
        elif not trial.reason:
            best = ordered(rows_of(settings, Tried(trial.looks)), goal)[0]
            rows.append({**best, "trial": trial.trial})
    return {
        "trials": len(past),
        "failed": failed(reasons, "trials"),
        "rows": sorted(rows, key=lambda row: (goal.key(row["validation"]), row["rounds"])),
        "stopped": stopped,
    }


def _so_far(past: list[TuningTrial], goal: Goal) -> str:
    """The best trial so far, in the words of the progress bar."""
    complete = [trial for trial in past if not trial.stopped and not trial.reason]
    looks = [best_look(trial, goal) for trial in complete]
    if not looks:
        return "trials"
    best = min(looks, key=goal.key)
    return f"trials, best {goal.metric} {best[goal.metric]:.4f}"


# ---- one trial -----------------------------------------------------------------------------------


def _batch(each: Each, told: Told, past: list[TuningTrial], until: int) -> Iterator[TuningTrial]:
    """The trials after `past` to the end of its batch, or to `until`, in their order, each as soon
    as those before it are there.
    """
    # The batch is drawn whole, from what is known of the batches before it. A search that was
    # killed within a batch draws the same, and its file has the first of them already.
    batches = len(past) // told.at_once
    before = past[: batches * told.at_once]
    size = min(told.at_once, until - len(before))
    drawn = []
    for draw in _asked(told, before, size):
        settings = {name: choice.rounded(draw.params[name]) for name, choice in told.space.items()}
        drawn.append(settings)
    if told.first is not None and not before:
        drawn[0] = dict(told.first)
    # Settings that were tried before are not trained again.
    known: dict[str, Tried] = {}
    for trial in past:
        earlier = Tried(trial.looks, trial.stopped, trial.reason)
        known.setdefault(json.dumps(trial.settings), earlier)
    missing = range(len(past) - len(before), len(drawn))
    identities = [json.dumps(settings) for settings in drawn]
    # Of equal settings in one batch the first is trained.
    new = []
    for place in missing:
        if identities[place] not in known and drawn.index(drawn[place]) == place:
            new.append(place)
    ended = each(_tried, [(told, before, place, drawn[place]) for place in new])
    for place in missing:
        # Workers end in any order; trials are yielded in the order in which they were drawn.
        while identities[place] not in known:
            number, tried = next(ended)
            known[identities[new[number]]] = tried
        result = known[identities[place]]
        yield TuningTrial(trial=len(before) + place, settings=drawn[place], **result._asdict())


def _tried(
    task: Task, told: Told, before: list[TuningTrial], place: int, settings: Mapping[str, Any]
) -> Tried:
    """Trains the trial in this place of the batch after `before`."""
    together = {**told.fixed, **settings}
    try:
        made(task, together)
    except InputError as refused:
        # Settings that are allowed one by one may not go together.
        return Tried([], reason=str(refused))
    # A worker draws the trial again, so that Optuna can judge its looks there.
    draw = _asked(told, before, place + 1)[place]
    return attempt(task, together, partial(_worse, draw))


def _asked(told: Told, before: list[TuningTrial], many: int) -> list[Any]:
    """Optuna's first `many` trials of the batch after `before`. Trials of a batch are drawn with
    knowledge of each other's settings, not of each other's results.
    """
    study = _study(told, before)
    space = {name: _distribution(choice) for name, choice in told.space.items()}
    with _quiet():
        return [study.ask(space) for _ in range(many)]


def _worse(draw: Any, number: int, until: int, value: float) -> bool:
    """Reports a look, and returns True where Optuna's median rule gives the trial up."""
    draw.report(value, number)
    # At the last round there is nothing left to save.
    may_stop = until // WARM <= number < until
    return bool(may_stop and draw.should_prune())


def _study(told: Told, past: list[TuningTrial]) -> Any:
    """Optuna's study of `past`, with separate randomness for each batch: nothing else is
    remembered from batch to batch.
    """
    # Optuna's generator takes 32 bits.
    seed = int(key(told.seed, "search", len(past))) & 0xFFFFFFFF
    # The "constant liar" keeps the trials of one batch apart.
    sampler = optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=RANDOM, constant_liar=told.at_once > 1
    )
    pruner = optuna.pruners.MedianPruner(n_startup_trials=COMPLETE)
    directions = optuna.study.StudyDirection
    direction = directions.MINIMIZE if told.goal.lower else directions.MAXIMIZE
    with _quiet():
        study = optuna.create_study(direction=direction, sampler=sampler, pruner=pruner)
    # Earlier trials are told anew: the study has no memory of its own.
    study.add_trials([_frozen(told.space, trial, told.goal) for trial in past])
    return study


def _frozen(space: Space, trial: TuningTrial, goal: Goal) -> Any:
    """A trial in Optuna's form. A failed trial has the worst value instead of none, so that the
    search keeps away from its settings.
    """
    if trial.reason:
        value = LARGE if goal.lower else 0.0
        curve: dict[int, float] = {}
    else:
        value = best_look(trial, goal)[goal.metric]
        curve = trial.curve(goal)
    states = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state=states.PRUNED if trial.stopped else states.COMPLETE,
        value=value,
        params={name: trial.settings[name] for name in space},
        distributions={name: _distribution(choice) for name, choice in space.items()},
        intermediate_values=curve,
    )


def best_look(trial: TuningTrial, goal: Goal) -> dict[str, float]:
    """The best look of a trial that did not fail, mean over seeds."""
    rows = rows_of(trial.settings, Tried(trial.looks))
    return min((row["validation"] for row in rows), key=goal.key)


def _distribution(choice: Range | Choices) -> Any:
    if isinstance(choice, Choices):
        return optuna.distributions.CategoricalDistribution(choice.values)
    if choice.whole:
        return optuna.distributions.IntDistribution(
            int(choice.low), int(choice.high), log=choice.log
        )
    return optuna.distributions.FloatDistribution(choice.low, choice.high, log=choice.log)


@contextmanager
def _quiet() -> Iterator[None]:
    """A context without the line that Optuna logs for every study."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
