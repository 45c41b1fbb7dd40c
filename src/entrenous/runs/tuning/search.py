"""Choosing settings on validation rows by search: each trial is drawn where earlier ones were good
(TPE, by Optuna).

Trial n is a function of the search's seed, n and the trials before it; with several at once, of
those before its batch. So a search that was killed and goes on from its file ends as if nothing had
happened, and one with more trials begins with the same ones.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...core.errors import InputError, at_least
from ...core.keys import key
from ...core.keywords import called_with
from ...evaluate.protocol import Goal
from ..plan import check
from .grid import (
    Each,
    Task,
    Tried,
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

TRIALS = 30  # when their number is not given
RANDOM = 10  # trials drawn at random before there is anything to learn from
COMPLETE = 5  # finished trials before one is stopped early
WARM = 3  # and not before a third of its rounds
LARGE = 1e3  # what a failed trial counts as where errors are compared

Space = Mapping[str, Range | Choices]


class Told(NamedTuple):
    """The inputs of a search. fixed: settings that are the same for all trials; seed: of the draws;
    at_once: trials of a batch; first: the settings of trial 0, None = drawn."""

    space: Space
    fixed: Mapping[str, Any]
    seed: int
    at_once: int
    goal: Goal
    first: Mapping[str, Any] | None = None


def try_space(asked: TuneRequest) -> dict[str, Any]:
    """Trains `trials` settings of `space`, each over seeds 0 .. seeds - 1; the best on validation
    comes first.

    With looks at validation, a trial that is worse in seed 0 than the median of those before it at
    the same round is stopped there. Trials of several workers are a batch: they are drawn after the
    batches before, and the next batch begins when this one has ended. So the trials depend on the
    number of workers, and on nothing else that was not named before. Returns {"rows": [{"trial",
    "settings", "rounds": of the best look, "validation"}], "stopped": [..], "failed": [..], ...}.
    """
    fixed = dict(asked.settings)
    trials = TRIALS if asked.trials is None else asked.trials
    seed = asked.search_seed or 0
    out = None if asked.out is None else Path(asked.out)
    engine = asked.engine
    engine.check()
    if asked.ray is not None and asked.workers is None:
        raise InputError(
            "--workers",
            "it is not given",
            expected="how many trials at once",
            fix="what a search draws depends on it",
        )
    at_least("--trials", trials, 1)
    at_least("--search-seed", seed, 0)
    check(asked.plan)
    choose_from = read_space(asked.algorithm, asked.space, fixed)
    refuse_both(fixed, asked.space, "--search")
    check_file(out, asked.resume)
    optuna = _optuna()
    task = begin(asked)
    told = Told(choose_from, fixed, seed, asked.workers or 1, task.goal, asked.first)
    draws = {"search": dict(asked.space), "seed": seed, "workers": told.at_once}
    about = {**_identity(task), "settings": fixed, **draws}
    if asked.first is not None:
        about["first"] = dict(asked.first)
    past = begin_file(out, about, asked.resume)
    with trying(engine, task, told.at_once) as each:
        while len(past) < trials:
            asked.progress(len(past), trials, _so_far(past, task.goal))
            for trial in _batch(each, optuna, told, list(past), trials):
                past.append(trial)
                if out is not None:
                    append(out, trial)
                asked.progress(len(past), trials, _so_far(past, task.goal))
    asked.progress(trials, trials, "done")
    return {
        **described(task),
        **draws,
        "sampler": f"optuna {optuna.__version__} TPE",
        **_summary(past, fixed, task.goal),
    }


@called_with(TuneRequest)
def search(asked: TuneRequest) -> dict[str, Any]:
    """Makes a request of its keywords, and searches its space."""
    return try_space(asked)


def _identity(task: Task) -> dict[str, Any]:
    """What must be the same for a search to go on."""
    digests = [rows.sha256() for part in task.parts for rows in (part.train, part.validation.rows)]
    return {
        **described(task),
        "rounds": task.plan.rounds,
        "every": task.every,
        "rows_sha256": digests,
    }


def _summary(past: list[TuningTrial], fixed: Mapping[str, Any], goal: Goal) -> dict[str, Any]:
    """What was found; a setting that came again counts once."""
    once = list({json.dumps(trial.settings): trial for trial in reversed(past)}.values())[::-1]
    rows = [
        {
            "trial": trial.trial,
            **ordered(rows_of({**fixed, **trial.settings}, Tried(trial.looks)), goal)[0],
        }
        for trial in once
        if not trial.reason and not trial.stopped
    ]
    stopped = [
        {"trial": t.trial, "settings": {**fixed, **t.settings}, "rounds": max(t.curve(goal))}
        for t in once
        if t.stopped
    ]
    return {
        "trials": len(past),
        "failed": failed([({**fixed, **trial.settings}, trial.reason) for trial in once], "trials"),
        "rows": ordered(rows, goal),
        "stopped": stopped,
    }


def _so_far(past: list[TuningTrial], goal: Goal) -> str:
    looks = [best_look(trial, goal) for trial in past if not (trial.stopped or trial.reason)]
    return (
        f"trials, best {goal.metric} {min(looks, key=goal.key)[goal.metric]:.4f}"
        if looks
        else "trials"
    )


# ---- one trial -----------------------------------------------------------------------------------


def _batch(
    each: Each, optuna: Any, told: Told, past: list[TuningTrial], until: int
) -> Iterator[TuningTrial]:
    """The trials after `past` to the end of its batch, or to `until`, in their order, each as soon
    as those before it are there.
    """
    before = past[: len(past) // told.at_once * told.at_once]
    asked = _asked(optuna, told, before, min(told.at_once, until - len(before)))
    drawn = [
        {name: choice.rounded(one.params[name]) for name, choice in told.space.items()}
        for one in asked
    ]
    if told.first is not None and not before:
        drawn[0] = dict(told.first)
    known = {
        json.dumps(trial.settings): Tried(trial.looks, trial.stopped, trial.reason)
        for trial in reversed(past)
    }
    own = range(len(past) - len(before), len(drawn))
    new = [
        place
        for place in own
        if json.dumps(drawn[place]) not in known and drawn.index(drawn[place]) == place
    ]
    ended, number = each(_tried, [(told, before, place, drawn[place]) for place in new]), len(past)
    while number < len(before) + len(drawn):
        settings = drawn[number - len(before)]
        while json.dumps(settings) not in known:
            place, tried = next(ended)
            known[json.dumps(drawn[new[place]])] = tried
        yield TuningTrial(trial=number, settings=settings, **known[json.dumps(settings)]._asdict())
        number += 1


def _tried(
    task: Task, told: Told, before: list[TuningTrial], place: int, settings: Mapping[str, Any]
) -> Tried:
    """The trial in this place of the batch after `before`."""
    every = {**told.fixed, **settings}
    try:
        made(task, every)
    except InputError as refused:  # settings that are fine one by one, and not together
        return Tried([], reason=str(refused))
    asked = _asked(_optuna(), told, before, place + 1)[place]
    return attempt(task, every, partial(_worse, asked))


def _asked(optuna: Any, told: Told, before: list[TuningTrial], many: int) -> list[Any]:
    """Optuna's first `many` trials of the batch after `before`. Those of a batch know what the
    others draw, not what comes of it.
    """
    study = _study(optuna, told, before)
    with _quiet(optuna):
        return [
            study.ask({name: _distribution(optuna, choice) for name, choice in told.space.items()})
            for _ in range(many)
        ]


def _worse(asked: Any, number: int, until: int, value: float) -> bool:
    """Whether Optuna's median rule gives the trial up at this look."""
    asked.report(value, number)
    return bool(until // WARM <= number < until and asked.should_prune())


def _study(optuna: Any, told: Told, past: list[TuningTrial]) -> Any:
    """Optuna's study of `past`, with randomness of its own for the next batch: nothing else is
    remembered from batch to batch.
    """
    own, space, goal = (
        int(key(told.seed, "search", len(past))) & 0xFFFFFFFF,
        told.space,
        told.goal,
    )  # as much as its generator takes
    sampler = optuna.samplers.TPESampler(
        seed=own, n_startup_trials=RANDOM, constant_liar=told.at_once > 1
    )
    pruner = optuna.pruners.MedianPruner(n_startup_trials=COMPLETE)
    with _quiet(optuna):
        study = optuna.create_study(
            direction="minimize" if goal.lower else "maximize", sampler=sampler, pruner=pruner
        )
    study.add_trials([_frozen(optuna, space, trial, goal) for trial in past])
    return study


def _frozen(optuna: Any, space: Space, trial: TuningTrial, goal: Goal) -> Any:
    """A trial as Optuna knows it. One that failed is worth nothing rather than unknown, so that the
    search keeps away from there.
    """
    worthless = LARGE if goal.lower else 0.0
    state = optuna.trial.TrialState.PRUNED if trial.stopped else optuna.trial.TrialState.COMPLETE
    return optuna.trial.create_trial(
        state=state,
        value=worthless if trial.reason else best_look(trial, goal)[goal.metric],
        params={name: trial.settings[name] for name in space},
        distributions={name: _distribution(optuna, choice) for name, choice in space.items()},
        intermediate_values=trial.curve(goal) if not trial.reason else {},
    )


def best_look(trial: TuningTrial, goal: Goal) -> dict[str, float]:
    """The best look of a trial that did not fail, mean over seeds."""
    return min(
        (row["validation"] for row in rows_of(trial.settings, Tried(trial.looks))), key=goal.key
    )


def _distribution(optuna: Any, choice: Range | Choices) -> Any:
    if isinstance(choice, Choices):
        return optuna.distributions.CategoricalDistribution(choice.values)
    if choice.whole:
        return optuna.distributions.IntDistribution(
            int(choice.low), int(choice.high), log=choice.log
        )
    return optuna.distributions.FloatDistribution(choice.low, choice.high, log=choice.log)


def _optuna() -> Any:
    try:
        return importlib.import_module("optuna")
    except ImportError:
        raise InputError(
            "entrenous tune --search",
            "optuna is not installed",
            fix='pip install "entrenous[tune]"',
        ) from None


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Without the line that Optuna logs for every study."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
