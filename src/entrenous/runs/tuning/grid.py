"""Choosing settings on validation rows: one setting tried, and a grid of them. The test rows are
never opened here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from ...algorithms.named import maker_of
from ...core.contract.declared import is_central
from ...core.contract.protocols import Progress, silent
from ...core.errors import InputError, NonFiniteError, at_least
from ...data.interactions import Interactions
from ...data.split.types import Held
from ...evaluate.protocol import Goal, goal_of, look
from ...federation.executors import EngineOptions, Threads
from ...federation.workers.calls import prepare, spread
from ...federation.workers.crew import About, about_here
from ...federation.workers.engine import crew
from ..options import RunPlan
from ..pipeline import material
from ..plan import check, make, usual_protocol
from ..recommenders import Fitted, Standing, Trained, check_trainable, federated, fitted
from ..train import Periodic, advance, federation_of, fit_central

Looks = dict[
    int, dict[str, float]
]  # {round: {metric: value on the validation rows}}; round 0 for a central algorithm
Stop = Callable[
    [int, int, float], bool
]  # (round, of how many, the goal's metric): is this training not worth going on with?


class TuningPart(NamedTuple):
    """The rows of a split that tuning may use, without its test rows. weighting: the nodes'
    weighting sets, where the protocol defines them."""

    train: Interactions
    validation: Held
    weighting: Held | None


@final
@dataclass(frozen=True, kw_only=True)
class Task:
    """What every candidate setting is tried on. parts: training and validation rows for seeds 0, 1,
    ..; plan: all other options of the run; every: rounds between two evaluations, as in `tune`."""

    plan: RunPlan
    rows: Interactions
    parts: list[TuningPart]
    every: int
    threads: int

    @property
    def goal(self) -> Goal:
        """The validation metric by which this task chooses settings."""
        return goal_of(maker_of(self.plan.algorithm)())


class Tried(NamedTuple):
    """The result of one candidate setting: its validation metrics by seed, whether `stop` ended it
    early, and why it failed ("" if it did not)."""

    looks: list[Looks]
    stopped: bool = False
    reason: str = ""


def tune(
    algorithm: str,
    data: str | Interactions = "ml-100k",
    *,
    protocol: str | None = None,
    grid: Mapping[str, Sequence[str]],
    settings: Mapping[str, Any] | None = None,
    seeds: int = 1,
    rounds: int | None = None,
    every: int = 0,
    load: Mapping[str, Any] | None = None,
    threads: int = 0,
    workers: int | None = None,
    ray: str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Every combination of `grid` over seeds 0 .. seeds - 1, best on validation first.

    settings: what is the same for all. every: rounds between looks at validation, so that the
    number of rounds is chosen too (0 = at the end of training alone). workers, ray: combinations
    tried at once, as in `experiment.run`; they never change a result. Returns {"rows":
    [{"settings", "rounds", "validation": {metric: mean over seeds}}], "failed": [{"settings",
    "reason"}], ...}; a combination whose training diverges is among the failed. Raises InputError
    when all are.
    """
    fixed, asked = dict(settings or {}), EngineOptions(workers, ray, threads)
    asked.check()
    if not grid or not all(grid.values()):
        raise InputError(
            "--grid",
            "there is nothing to choose from",
            expected="name=value,value,...",
            fix="for example --grid factors=20,50",
        )
    refuse_both(fixed, grid, "--grid")
    combinations = [
        {**fixed, **dict(zip(grid, values, strict=True))} for values in product(*grid.values())
    ]
    plan = planned(algorithm, data, protocol, rounds, load)
    for one in combinations:  # all of them before any is trained
        check(replace(plan, settings=one))
    task = begin(plan, data, seeds=seeds, every=every, threads=threads)
    for one in combinations:
        made(task, one)
    tries = dict[int, Tried]()
    progress(0, len(combinations), algorithm)
    with trying(asked, task, len(combinations)) as each:
        for place, tried in each(attempt, [(one,) for one in combinations]):
            tries[place] = tried
            progress(len(tries), len(combinations), algorithm)
    progress(len(combinations), len(combinations), "done")
    found = [(one, tries[place]) for place, one in enumerate(combinations)]
    return {
        **described(task),
        "rows": ordered(
            [row for one, tried in found if not tried.reason for row in rows_of(one, tried)],
            task.goal,
        ),
        "failed": failed([(one, tried.reason) for one, tried in found], "combinations"),
    }


# ---- one setting, for the grid and for the search ------------------------------------------------


def planned(
    algorithm: str,
    data: str | Interactions,
    protocol: str | None,
    rounds: int | None,
    load: Mapping[str, Any] | None,
) -> RunPlan:
    """The plan without settings. It is not checked yet."""
    name = data if isinstance(data, str) else data.name
    protocol = protocol or usual_protocol(data, algorithm)
    return RunPlan(
        algorithm=algorithm, data=name, protocol=protocol, rounds=rounds, load=load or {}
    )


def refuse_both(fixed: Mapping[str, Any], chosen: Mapping[str, Any], where: str) -> None:
    """Refuses a setting that is fixed and to be chosen."""
    for name in fixed.keys() & chosen.keys():
        raise InputError(
            f"{where} {name}", "it is fixed with --set too", fix="leave one of the two out"
        )


def begin(
    plan: RunPlan, data: str | Interactions, *, seeds: int, every: int, threads: int, looks: int = 0
) -> Task:
    """Loads and splits once for each seed, from the plan's on. looks: at validation in each
    training, in the place of `every`. Raises InputError for what cannot be trained on, or chosen
    on.
    """
    for option, value, least in (
        ("--seeds", seeds, 1),
        ("--every", every, 0),
        ("--threads", threads, 0),
    ):
        at_least(option, value, least)
    found, parts = material(plan, None if isinstance(data, str) else data), []
    for seed in range(plan.seed, plan.seed + seeds):
        split = (
            found if seed == plan.seed else material(replace(plan, seed=seed), found.rows)
        ).parts[0]
        if split.validation is None:
            problem = "there are no validation rows to choose on"
            raise InputError(
                f"protocol {split.name}", problem, fix="use a protocol that holds some out"
            )
        check_trainable(split.train)
        parts.append(TuningPart(split.train, split.validation, split.weighting_sets))
    return Task(
        plan=plan,
        rows=found.rows,
        parts=parts,
        every=_apart(plan, found.rows, looks) if looks else every,
        threads=threads,
    )


def _apart(plan: RunPlan, rows: Interactions, looks: int) -> int:
    """Rounds between looks; 0 of a centralised algorithm."""
    algorithm = make(plan, rows)
    return (
        0
        if is_central(algorithm)
        else -(-(plan.rounds or algorithm.default_rounds(rows.catalogue)) // looks)
    )  # type: ignore[union-attr]


def made(task: Task, settings: Mapping[str, Any]) -> Any:
    """The algorithm with `settings`. Raises InputError for those that do not fit the data."""
    return make(replace(task.plan, settings=settings), task.rows)


def never(number: int, until: int, value: float) -> bool:
    """A `Stop` that never ends a training early."""
    return False


def attempt(task: Task, settings: Mapping[str, Any], stop: Stop = never) -> Tried:
    """Train one candidate setting on the training rows of every seed, and evaluate it on validation
    rows. `stop` is asked after each evaluation of seed 0.

    A training that diverges is a result with a reason. Raises InputError as `made` does.
    """
    algorithm, looks = made(task, settings), list[Looks]()
    try:
        if not federated(algorithm):
            return Tried([{0: _central(task, algorithm, seed)} for seed in range(len(task.parts))])
        until = task.plan.rounds or algorithm.default_rounds(task.parts[0].train.catalogue)
        for seed in range(len(task.parts)):
            looks.append(_looks(task, algorithm, seed, until, never if seed else stop))
            if until not in looks[-1]:
                return Tried(looks, stopped=True)
    except NonFiniteError as diverged:
        return Tried(looks, reason=str(diverged))
    return Tried(looks)


def _central(task: Task, algorithm: Any, seed: int) -> dict[str, float]:
    return _validation(task, seed, fit_central(algorithm, task.parts[seed].train, seed))


def _looks(task: Task, algorithm: Trained, seed: int, until: int, stop: Stop) -> Looks:
    """Validation metrics by round of one training; without the last round if it was stopped."""
    part, executor = task.parts[seed], Threads(task.threads)
    rounds = federation_of(
        algorithm, part.train, seed=seed, executor=executor, weighting=part.weighting
    )
    looks: Looks = {}

    def act(now: Standing) -> bool:
        looks[now.round] = _validation(task, seed, fitted(rounds, now))
        return stop(now.round, until, looks[now.round][task.goal.metric])

    advance(rounds, rounds.start(), until, [Periodic(task.every or until, act)])
    return looks


def _validation(task: Task, seed: int, now: Fitted) -> dict[str, float]:
    part = task.parts[seed]
    return look(
        task.goal,
        now.recommender,
        part.train,
        part.validation,
        label=task.plan.algorithm,
        seed=seed,
    )


# ---- here, or in workers -------------------------------------------------------------------------


class Each(Protocol):
    """(place in `arguments`, result) of `function(task, *arguments[place])` for each place, in the
    order in which they end.
    """

    def __call__(
        self, function: Callable[..., Tried], arguments: Sequence[tuple[Any, ...]], /
    ) -> Iterator[tuple[int, Tried]]: ...


@contextmanager
def trying(asked: EngineOptions, task: Task, most: int) -> Iterator[Each]:
    """A function that trains candidates, one after the other in this process or at once in workers,
    at most `most` unless their number was given.

    The functions it is called with must be importable in the workers.
    """
    if not asked:
        yield lambda function, arguments: (
            (place, function(task, *those)) for place, those in enumerate(arguments)
        )
        return
    with crew(asked, TrialHand, most) as hired:
        first = prepare(hired, ("hold", replace(task, threads=hired.threads)))
        yield lambda function, arguments: spread(
            hired, first, "do", [(function, *those) for those in arguments]
        )


@final
class TrialHand:
    """The object in a worker process that trains the candidates of one tuning task."""

    def about(self) -> About:
        """The process id, the machine's name and the library versions of this worker."""
        return about_here()

    def hold(self, task: Task) -> None:
        """Takes the task, with arrays that may be written to, as in one process: compiled code is
        another for those that may not.
        """
        self.task = copy.deepcopy(task)

    def do(self, function: Callable[..., Tried], *arguments: Any) -> Tried:
        """Call a function with this worker's task and the given arguments."""
        return function(self.task, *arguments)


# ---- what is told about it -----------------------------------------------------------------------


def described(task: Task) -> dict[str, Any]:
    """A description of a tuning task (algorithm, data, protocol, seeds, metric), to be stored with
    its results.
    """
    plan, seeds = task.plan, len(task.parts)
    about = {
        "algorithm": plan.algorithm,
        "data": plan.data,
        "protocol": plan.protocol,
        "seeds": seeds,
    }
    return {**about, "selected_by": f"validation {task.goal.metric}"}


def rows_of(settings: Mapping[str, Any], tried: Tried) -> list[dict[str, Any]]:
    """A row for each look: the mean over seeds."""
    return [
        {
            "settings": dict(settings),
            "rounds": at,
            "validation": _mean([of[at] for of in tried.looks]),
        }
        for at in tried.looks[0]
    ]


def ordered(rows: list[dict[str, Any]], goal: Goal) -> list[dict[str, Any]]:
    """Best first; of equals the one with fewer rounds."""
    return sorted(rows, key=lambda row: (goal.key(row["validation"]), row["rounds"]))


def failed(reasons: Sequence[tuple[Mapping[str, Any], str]], what: str) -> list[dict[str, Any]]:
    """The settings that could not be trained, each with its reason. Raises InputError when none
    could be.
    """
    found = [
        {"settings": dict(settings), "reason": reason} for settings, reason in reasons if reason
    ]
    if len(found) == len(reasons):
        raise InputError(
            "entrenous tune",
            f"none of the {len(found)} {what} could be trained",
            fix=f"the first: {found[0]['reason']}",
        )
    return found


def _mean(metrics: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in metrics])) for name in metrics[0]}
