"""Choosing settings on validation rows: one setting tried, and a grid of them. The test rows are
never opened here; of a stream only the first half is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Protocol, final

from typing_extensions import TypedDict

from ...core.contract.protocols import Progress, silent
from ...core.errors import EntrenousError, InputError, NonFiniteError
from ...core.keywords import at_least, called_with
from ...core.values import SettingValue
from ...data.interactions import Interactions
from ...data.split.stream import first_half
from ...data.split.types import Held, Split
from ...evaluation.protocol import Goal, look
from ...federation.shard import Threads, cores
from ...systems.named import maker_of
from ..manifest import mean_of
from ..options import RunPlan, TuneOptions
from ..pipeline import material
from ..plan import check, make, usual_protocol
from ..recommenders import Fitted, Standing, Trained, check_trainable, federated, fitted
from ..stream import check_stream, stream
from ..train import Periodic, Setup, Watch, advance, federation_of, fit_central
from ..wanted import goal_asked

# {round: {metric: value on the validation rows}}; round 0 of a central algorithm.
Looks = dict[int, dict[str, float]]
# (round, of how many, the goal's metric) -> True if this training is not worth going on with.
Stop = Callable[[int, int, float], bool]


class TriedSettings(TypedDict):
    """Settings that were tried, with their metrics on validation rows, mean over seeds."""

    settings: dict[str, SettingValue]
    rounds: int
    validation: dict[str, float]


class FailedSettings(TypedDict):
    """Settings that could not be trained."""

    settings: dict[str, SettingValue]
    reason: str


class AboutTuning(TypedDict):
    """The conditions of a choice of settings."""

    algorithm: str
    data: str
    protocol: str | None
    seeds: int
    selected_by: str
    """The metric, such as validation ndcg@10."""


class TuningFound(AboutTuning):
    """The report of a choice of settings."""

    rows: list[TriedSettings]
    """The best first."""
    failed: list[FailedSettings]


class TuningPart(NamedTuple):
    """The rows of a split that tuning may use: all but its test rows."""

    train: Interactions
    validation: Held
    weighting: Held | None
    """The nodes' weighting sets, where the protocol defines them."""
    stream: Split | None = None
    """Of a stream: its first half, each row of which is tested before it is learnt."""


@final
@dataclass(frozen=True, kw_only=True)
class Task:
    """The data and the options with which every candidate setting is tried."""

    plan: RunPlan
    """All options of the run but the settings."""
    rows: Interactions
    parts: list[TuningPart]
    """Training and validation rows for seeds 0, 1, .."""
    every: int
    """Rounds between two looks at validation."""
    threads: int

    goal: Goal
    """The validation metric by which settings are chosen."""


class Tried(NamedTuple):
    """The result of one candidate setting."""

    looks: list[Looks]
    """Validation metrics, by seed."""
    stopped: bool = False
    """True if `stop` ended the training early."""
    reason: str = ""
    """The error of a training that failed, else ""."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TuneRequest(TuneOptions):
    """Everything that a grid takes."""

    algorithm: str = field(kw_only=False)
    """A name of `entrenous algorithms`, or the place of the user's own class."""
    data: str | Interactions = field(default="ml-100k", kw_only=False)
    """The name of a data set, a file or folder, or rows in memory."""
    progress: Progress = silent

    @property
    def plan(self) -> RunPlan:
        """The plan of each training, without the settings that are chosen. It is not checked
        yet.
        """
        return RunPlan(
            algorithm=self.algorithm,
            data=self.data if isinstance(self.data, str) else self.data.name,
            protocol=self.protocol or usual_protocol(self.data, self.algorithm),
            rounds=self.rounds,
            load=self.load,
        )


def try_grid(asked: TuneRequest) -> TuningFound:
    """Trains every combination of `grid` over seeds 0 .. seeds - 1; the best on validation comes
    first. Workers never change a result.

    Returns {"rows": [{"settings", "rounds", "validation": {metric: mean over seeds}}], "failed":
    [{"settings", "reason"}], ...}; a combination whose training diverges is among the failed.
    Raises InputError when all are.
    """
    at_least("--workers", asked.workers, 1)
    grid = {name: list(values) for name, values in asked.grid.items()}
    if not grid or not all(grid.values()):
        raise InputError(
            "--grid",
            "there is nothing to choose from",
            expected="name=value,value,...",
            fix="for example --grid factors=20,50",
        )
    refuse_both(asked.settings, grid, "--grid")
    combinations = []
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        combinations.append({**asked.settings, **chosen})
    # All of them are checked before any is trained: first without the data, then with it.
    for settings in combinations:
        check(replace(asked.plan, settings=settings))
    task = begin(asked)
    for place, settings in enumerate(combinations):
        typed = vars(made(task, settings))
        # A command types "16"; what is told and trained has the value in its type.
        plain = {
            name: typed[name] for name in settings if isinstance(typed[name], str | int | float)
        }
        combinations[place] = {**settings, **plain}
    tries = dict[int, Tried]()
    count = len(combinations)
    asked.progress(0, count, asked.algorithm)
    with trying(asked.workers, task) as each:
        for place, tried in each(attempt, [(settings,) for settings in combinations]):
            tries[place] = tried
            asked.progress(len(tries), count, asked.algorithm)
    asked.progress(count, count, "done")
    # Workers end in any order; the report is in that of the grid.
    rows: list[TriedSettings] = []
    reasons = []
    for place, settings in enumerate(combinations):
        tried = tries[place]
        reasons.append((settings, tried.reason))
        if not tried.reason:
            rows += rows_of(settings, tried)
    return {
        **described(task),
        "rows": ordered(rows, task.goal),
        "failed": failed(reasons, "combinations"),
    }


@called_with(TuneRequest)
def tune(asked: TuneRequest) -> TuningFound:
    """Makes a request of its keywords, and tries its grid."""
    return try_grid(asked)


# ---- one setting ---------------------------------------------------------------------------------


def refuse_both(fixed: Mapping[str, Any], chosen: Mapping[str, Any], where: str) -> None:
    """Refuses a setting that is fixed and to be chosen."""
    for name in fixed.keys() & chosen.keys():
        raise InputError(
            f"{where} {name}", "it is fixed with --set too", fix="leave one of the two out"
        )


def begin(asked: TuneRequest) -> Task:
    """Loads and splits once for each seed, from the plan's on. Raises InputError for what cannot be
    trained on, or chosen on.
    """
    at_least("--seeds", asked.seeds, 1)
    at_least("--every", asked.every, 0)
    at_least("--threads", asked.threads, 0)
    plan = asked.plan
    goal = goal_asked(asked.metric, maker_of(plan.algorithm)())
    rows_given = None if isinstance(asked.data, str) else asked.data
    first = material(plan, rows_given)
    parts = []
    for seed in range(plan.seed, plan.seed + asked.seeds):
        # The rows are loaded once; each seed splits them in its own way.
        of_seed = first
        if seed != plan.seed:
            of_seed = material(replace(plan, seed=seed), first.whole or first.rows)
        split = of_seed.parts[0]
        if split.windows is not None:
            for option, given in (("--every", asked.every), ("--metric", asked.metric)):
                if given:
                    problem = f"each row of protocol {split.name} is a look at ndcg@10"
                    raise InputError(option, problem, fix="leave it out")
            half = first_half(split)
            # Each of its rows is validation until it is learnt.
            parts.append(TuningPart(half.train, Held(half.train), None, half))
            continue
        if split.validation is None:
            problem = "there are no validation rows to choose on"
            raise InputError(
                f"protocol {split.name}", problem, fix="use a protocol that holds some out"
            )
        check_trainable(split.train)
        parts.append(TuningPart(split.train, split.validation, split.weighting_sets))
    return Task(
        plan=plan,
        rows=first.rows,
        parts=parts,
        goal=goal,
        every=asked.every,
        threads=asked.threads,
    )


def made(task: Task, settings: Mapping[str, Any]) -> Any:
    """The algorithm with `settings`. Raises InputError for those that do not fit the data."""
    return make(replace(task.plan, settings=settings), task.rows)


def never(number: int, until: int, value: float) -> bool:
    """A `Stop` that never ends a training early."""
    return False


def attempt(task: Task, settings: Mapping[str, Any], stop: Stop = never) -> Tried:
    """Trains one candidate setting on the training rows of every seed, and evaluates it on
    validation rows. `stop` is asked after each evaluation of seed 0.

    A training that diverges is a result with a reason. Raises InputError as `made` does.
    """
    algorithm = made(task, settings)
    looks = list[Looks]()
    seeds = range(len(task.parts))
    try:
        if task.parts[0].stream is not None:
            return Tried([_of_stream(task, algorithm, seed) for seed in seeds])
        if not federated(algorithm):
            return Tried([{0: _central(task, algorithm, seed)} for seed in seeds])
        until = task.plan.rounds or algorithm.default_rounds(task.parts[0].train.catalogue)
        for seed in seeds:
            # A setting is given up in its first training or not at all.
            of_seed = _looks(task, algorithm, seed, until, never if seed else stop)
            looks.append(of_seed)
            if until not in of_seed:
                return Tried(looks, stopped=True)
    except NonFiniteError as diverged:
        return Tried(looks, reason=str(diverged))
    return Tried(looks)


def _of_stream(task: Task, algorithm: Any, seed: int) -> Looks:
    """The metrics over the first half of a stream, of the rounds after each of its windows."""
    part = task.parts[seed]
    assert part.stream is not None
    check_stream(task.plan, algorithm, part.stream.name)
    plan = replace(task.plan, seed=seed)
    watch = Watch(executor=Threads(task.threads), progress=silent)
    _, found = stream(plan, algorithm, part.stream, watch, [])
    return {task.plan.rounds or 1: found.metrics}


def _central(task: Task, algorithm: Any, seed: int) -> dict[str, float]:
    trained = fit_central(algorithm, task.parts[seed].train, seed)
    return _validation(task, seed, trained)


def _looks(task: Task, algorithm: Trained, seed: int, until: int, stop: Stop) -> Looks:
    """Validation metrics by round of one training; without the last round if it was stopped."""
    part = task.parts[seed]
    # Tuning trains as the paper does, without protection and workers.
    setup = Setup(seed=seed, executor=Threads(task.threads), weighting=part.weighting)
    rounds = federation_of(algorithm, part.train, setup)
    looks: Looks = {}

    def act(now: Standing) -> bool:
        metrics = _validation(task, seed, fitted(rounds, now))
        looks[now.round] = metrics
        return stop(now.round, until, metrics[task.goal.metric])

    # Without looks there is one, at the end.
    every = task.every or until
    advance(rounds, rounds.start(), until, [Periodic(every, act)])
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
def trying(workers: int | None, task: Task) -> Iterator[Each]:
    """Yields a function that trains candidates: one after the other in this process, or as many at
    once as there are workers, each in another process.

    The functions that it calls must be importable in the workers.
    """
    if workers is None:
        yield partial(_one_by_one, task)
        return
    threads = task.threads or max(1, cores() // workers)
    # A fork would copy locks of threads that it does not copy.
    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent
    )
    try:
        yield partial(_at_once, pool, replace(task, threads=threads))
    finally:
        pool.shutdown(cancel_futures=True)


def _one_by_one(
    task: Task, function: Callable[..., Tried], arguments: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Tried]]:
    """Is an `Each` without workers."""
    for place, of_candidate in enumerate(arguments):
        yield place, function(task, *of_candidate)


def _at_once(
    pool: ProcessPoolExecutor,
    task: Task,
    function: Callable[..., Tried],
    arguments: Sequence[tuple[Any, ...]],
) -> Iterator[tuple[int, Tried]]:
    """Is an `Each` with workers. Raises EntrenousError if one of them dies."""
    places: dict[Future[Tried], int] = {}
    for place, of_candidate in enumerate(arguments):
        places[pool.submit(function, task, *of_candidate)] = place
    try:
        for ended in as_completed(places):
            yield places[ended], ended.result()
    except BrokenProcessPool:
        raise EntrenousError(
            "--workers: a worker died; expected that it ends its work; ask for fewer if memory ran"
            " out, and let a script call this under `if __name__ == '__main__'`"
        ) from None


def _end_with_parent() -> None:
    """Lets a worker end with the process that it works for, however that one ends, and at once
    when its terminal interrupts both.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


# ---- reports -------------------------------------------------------------------------------------


def described(task: Task) -> AboutTuning:
    """A description of a tuning task (algorithm, data, protocol, seeds, metric), to be stored with
    its results.
    """
    return {
        "algorithm": task.plan.algorithm,
        "data": task.plan.data,
        "protocol": task.plan.protocol,
        "seeds": len(task.parts),
        "selected_by": f"validation {task.goal.metric}",
    }


def rows_of(settings: Mapping[str, SettingValue], tried: Tried) -> list[TriedSettings]:
    """A row for each look, with the mean over seeds."""
    rows: list[TriedSettings] = []
    for number in tried.looks[0]:
        of_seeds = [looks[number] for looks in tried.looks]
        metrics = mean_of(of_seeds)
        rows.append({"settings": dict(settings), "rounds": number, "validation": metrics})
    return rows


def ordered(rows: list[TriedSettings], goal: Goal) -> list[TriedSettings]:
    """Best first; of equals the one with fewer rounds."""
    return sorted(rows, key=lambda row: (goal.key(row["validation"]), row["rounds"]))


def failed(
    reasons: Sequence[tuple[Mapping[str, SettingValue], str]], what: str
) -> list[FailedSettings]:
    """The settings that could not be trained, each with its reason. Raises InputError when none
    could be.
    """
    failures: list[FailedSettings] = [
        {"settings": dict(settings), "reason": reason} for settings, reason in reasons if reason
    ]
    # There is nothing to choose from.
    if len(failures) == len(reasons):
        raise InputError(
            "entrenous tune",
            f"none of the {len(failures)} {what} could be trained",
            fix=f"the first: {failures[0]['reason']}",
        )
    return failures
