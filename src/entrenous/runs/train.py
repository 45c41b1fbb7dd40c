"""Training from start, or from a checkpoint, to the end: evaluation on validation rows,
checkpoints, early stopping.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

from ..core.contract.declared import bound, is_central, is_gossip
from ..core.contract.protocols import (
    Catalogue,
    CentralAlgorithm,
    FederatedAlgorithm,
    Progress,
    silent,
)
from ..core.keys import key
from ..core.registry.own import short
from ..data.interactions import Interactions
from ..data.split.types import Held, Split
from ..evaluate.metric_kinds import Metric
from ..evaluate.protocol import Goal, goal_of, look
from ..federation.executors import Executor, Threads
from ..federation.gossip import Gossip
from ..federation.network import Network
from ..federation.rounds import Rounds
from ..federation.workers.crew import Crew
from ..federation.workers.rounds import ShardedRounds
from ..privacy.accountant import SampledGaussian, multiplier_for
from ..privacy.budget import PrivacyBudget
from ..privacy.protection import Protection
from . import store
from .options import RunPlan
from .plan import leaky, network_of, protection_in
from .recommenders import (
    Algorithm,
    Federation,
    Fitted,
    Standing,
    Trained,
    checkpoint_arrays,
    fitted,
    fitted_central,
    restore_training,
)

OnRound: TypeAlias = Callable[[int, dict[str, float]], None]
Say: TypeAlias = Callable[[str], None]  # one line for who started a run
RELEASES = "releases"  # a file in a run's folder: one byte for each noisy sum that was released
PROGRESS_STEPS = 100  # how often a long training reports


def unsaid(line: str) -> None:
    """The Say that says nothing."""


@final
@dataclass(frozen=True, kw_only=True)
class Watch:
    """Settings of what happens beside the rounds of a training: looks at validation, early
    stopping, checkpoints.

    every: rounds between looks at validation, 0 = none. patience: looks without a better one after
    which training stops, 0 = never. checkpoint_every: rounds between checkpoints in `folder`, 0 =
    none. crew: workers that have the devices; None = they are here. say: is told a line that
    whoever started the run should read. metrics: further ones, by name. on_round: is told of each
    round, with the metrics of a look at validation if there was one.
    """

    every: int = 0
    patience: int = 0
    checkpoint_every: int | None = None
    folder: Path | None = None
    executor: Executor = field(default_factory=lambda: Threads(1))
    progress: Progress = silent
    say: Say = unsaid
    crew: Crew | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    on_round: OnRound | None = None


def train(
    plan: RunPlan,
    algorithm: Algorithm,
    split: Split,
    watch: Watch,
    trace: list[dict[str, Any]],
    fold: str,
) -> Fitted:
    """Trains the algorithm of a plan on a split: the one place where a run is trained, whatever the
    kind of algorithm.

    A centralised one is fitted. In rounds, with patience, a first training finds the best round on
    validation and a second one ends there; else one goes to the end. Both start from round 0 with
    the same seed, so without refitting the second repeats the first, to the bit. Looks at
    validation rows on which the final model trains say nothing of it: they are looks at a first
    training, too. trace: gets a line for each look at validation; fold: begins the names of the
    phases in it.
    """
    if is_central(algorithm):
        return fit_central(algorithm, split.final_train, plan.seed, watch.progress)
    assert not isinstance(algorithm, CentralAlgorithm)
    rows, until = (
        split.final_train,
        plan.rounds or algorithm.default_rounds(split.final_train.catalogue),
    )
    seen, avoid = (
        split.validation if not split.refit else None,
        split.all_rows if leaky(plan) else None,
    )
    run_phase = partial(
        train_phase,
        label=short(plan.algorithm),
        seed=plan.seed,
        avoid=avoid,
        network=network_of(plan),
        protection=protection_in(plan, algorithm),
        weighting=split.weighting_sets,
        watch=watch,
        trace=trace,
    )
    if plan.patience or (plan.every and split.refit and split.validation is not None):
        run_phase(
            algorithm, split.train, until, phase=f"{fold}-select", validation=split.validation
        )
        seen = None
    if plan.patience:
        until = best_round(trace, f"{fold}-select", goal_of(algorithm))
    return run_phase(algorithm, rows, until, phase=f"{fold}-final", validation=seen)


def _affordable(rounds: Federation, training: Standing, until: int, say: Say) -> int:
    """The round at which a training ends: the one asked for, or the last that the budget of
    differential privacy allows, with a line.
    """
    if (
        isinstance(rounds, Gossip)
        or rounds.budget is None
        or rounds.budget.left >= until - training.round
    ):
        return until
    last, budget = training.round + max(0, rounds.budget.left), rounds.budget
    say(
        f"differential privacy: training ends after round {last} of {until}, since another would"
        f" pass epsilon {budget.epsilon:g}"
    )
    return last


class Periodic(NamedTuple):
    """A callback for every `every` rounds, and after the last; `act` returns True to stop training
    there.
    """

    every: int
    act: Callable[[Standing], bool]


def train_phase(
    algorithm: Trained,
    data: Interactions,
    until: int,
    *,
    label: str,
    seed: int,
    phase: str = "final",
    validation: Held | None = None,
    avoid: Interactions | None = None,
    network: Network | None = None,
    weighting: Held | None = None,
    protection: Protection | None = None,
    watch: Watch,
    trace: list[dict[str, Any]],
) -> Fitted:
    """Trains `algorithm` until round `until` (or fewer with patience), continuing from the newest
    checkpoint of this `phase` if there is one.

    Appends one line for each look at validation to `trace`. avoid, protection: as in `Rounds`;
    network, weighting: as in `Gossip`."""
    rounds = federation_of(
        algorithm,
        data,
        seed=seed,
        executor=watch.executor,
        avoid=avoid,
        network=network,
        weighting=weighting,
        crew=watch.crew,
        protection=protection,
        until=until,
        folder=watch.folder,
    )
    training = _resumed(rounds, phase, watch, trace) or rounds.start()
    until = _affordable(rounds, training, until, watch.say)
    periodic = []
    between = max(1, until // 10) if watch.checkpoint_every is None else watch.checkpoint_every
    if validation is not None and watch.every:
        act = _Look(rounds, validation, label, phase, watch.patience, trace, time.perf_counter())
        periodic.append(Periodic(watch.every, act))
    if watch.folder is not None and between:
        periodic.append(Periodic(between, partial(_checkpoint, watch.folder, phase, trace)))
    if watch.on_round is not None:
        periodic.append(Periodic(1, partial(_told, watch.on_round, phase, trace)))
    if patience_is_over(
        trace, phase, watch.patience, goal_of(algorithm)
    ):  # it had stopped here before the interruption
        return fitted(rounds, training)
    return fitted(rounds, advance(rounds, training, until, periodic, watch.progress))


def federation_of(
    algorithm: Trained,
    data: Interactions,
    *,
    seed: int,
    executor: Executor | None = None,
    avoid: Interactions | None = None,
    network: Network | None = None,
    weighting: Held | None = None,
    block: int = 0,
    crew: Crew | None = None,
    protection: Protection | None = None,
    until: int = 0,
    folder: Path | None = None,
) -> Federation:
    """The simulation that trains an algorithm: rounds around a server (of which `block`, `crew` and
    `protection` are), or gossip between peers (`network` and `weighting`). until, folder: how many
    rounds are planned, and where releases are counted, which a protection with an epsilon needs."""
    if is_gossip(algorithm):
        return Gossip(
            algorithm,
            data,
            seed=seed,
            executor=executor,
            avoid=avoid,
            network=network,
            weighting=weighting,
        )
    protected, budget = budgeted(
        protection or Protection(), algorithm, data.catalogue, until, folder
    )
    if crew is not None:
        return ShardedRounds(
            crew, algorithm, data, seed=seed, avoid=avoid, protection=protected, budget=budget
        )
    return Rounds(
        algorithm,
        data,
        seed=seed,
        executor=executor,
        avoid=avoid,
        block=block,
        protection=protected,
        budget=budget,
    )


def budgeted(
    protection: Protection,
    algorithm: FederatedAlgorithm,
    catalogue: Catalogue,
    rounds: int,
    folder: Path | None,
) -> tuple[Protection, PrivacyBudget | None]:
    """A protection with its noise as a number, and the budget that its epsilon is; the noise is
    what `rounds` rounds need, unless it was given. folder: of the run, where releases are
    counted.
    """
    if protection.epsilon is None:
        return protection, None
    contract = bound(algorithm.configured(catalogue), catalogue)
    rate, epsilon, delta = (
        contract.cohort / contract.sizes["users"],
        protection.epsilon,
        protection.delta,
    )
    multiplier = protection.noise / protection.clip or multiplier_for(epsilon, delta, rate, rounds)
    journal = None if folder is None else folder / RELEASES
    budget = PrivacyBudget(SampledGaussian(multiplier, rate), epsilon, delta, rounds, journal)
    return protection.model_copy(update={"noise": multiplier * protection.clip}), budget


def advance(
    rounds: Federation,
    training: Standing,
    until: int,
    periodic: Sequence[Periodic] = (),
    progress: Progress = silent,
) -> Standing:
    """Runs `training` until round `until`, or until the round in which a callback says stop."""
    stride = max(1, until // PROGRESS_STEPS)
    if training.round < until:
        progress(
            training.round, until, "round"
        )  # before anything is compiled: what is asked for has been checked
    while training.round < until:
        marks = [
            training.round + step - training.round % step
            for step in (stride, *(task.every for task in periodic))
        ]
        # each federation its own
        training = rounds.advance(training, min(until, *marks))  # type: ignore[arg-type]
        progress(training.round, until, "round")
        due = [
            task for task in periodic if training.round % task.every == 0 or training.round == until
        ]
        if any([task.act(training) for task in due]):  # a list: every callback that is due acts
            break
    return training


def fit_central(
    algorithm: CentralAlgorithm, data: Interactions, seed: int, progress: Progress = silent
) -> Fitted:
    """Trains a centralised algorithm on `data`."""
    progress(0, 1, "training")
    return fitted_central(algorithm, algorithm.fit(data, key(seed, "fit"), progress), data)


def patience_is_over(trace: list[dict[str, Any]], phase: str, patience: int, goal: Goal) -> bool:
    """Whether a phase has looked `patience` times since its best look."""
    looks = [line["round"] for line in trace if line["phase"] == phase]
    return (
        bool(patience and looks)
        and sum(number > best_round(trace, phase, goal) for number in looks) >= patience
    )


def best_round(trace: list[dict[str, Any]], phase: str, goal: Goal) -> int:
    """The round of a phase whose look at validation was best; the earliest of equals."""
    looks = [line for line in trace if line["phase"] == phase]
    return int(min(looks, key=lambda line: (goal.key(line["validation"]), line["round"]))["round"])


@final
class _Look:
    """Evaluates on validation, writes a line to the trace, and says whether patience has run
    out.
    """

    def __init__(
        self,
        rounds: Federation,
        held: Held,
        label: str,
        phase: str,
        patience: int,
        trace: list[dict[str, Any]],
        began: float,
    ) -> None:
        self._rounds, self._held, self._label, self._phase = rounds, held, label, phase
        self._patience, self._trace, self._began = patience, trace, began

    def __call__(self, now: Standing) -> bool:
        rounds, goal = self._rounds, goal_of(self._rounds.algorithm)
        found = look(
            goal,
            fitted(rounds, now).recommender,
            rounds.data,
            self._held,
            label=self._label,
            seed=rounds.seed,
        )
        line = {
            "phase": self._phase,
            "round": now.round,
            "seconds": round(time.perf_counter() - self._began, 3),
            "bytes_up": now.ledger.bytes_up,
            "bytes_down": now.ledger.bytes_down,
            "validation": found,
        }
        self._trace.append(line)
        return patience_is_over(self._trace, self._phase, self._patience, goal)


def _told(on_round: OnRound, phase: str, trace: list[dict[str, Any]], now: Standing) -> bool:
    looked = bool(trace) and trace[-1]["phase"] == phase and trace[-1]["round"] == now.round
    on_round(now.round, trace[-1]["validation"] if looked else {})
    return False


def _checkpoint(folder: Path, phase: str, trace: list[dict[str, Any]], now: Standing) -> bool:
    own = [line for line in trace if line["phase"] == phase]
    if own:
        store.write_trace(folder, trace)
    store.write_checkpoint(folder, phase, now.round, checkpoint_arrays(now), trace=json.dumps(own))
    return False


def _resumed(
    rounds: Federation, phase: str, watch: Watch, trace: list[dict[str, Any]]
) -> Standing | None:
    """The training of the newest checkpoint of a phase, if there is one; `trace` gets the lines up
    to it.
    """
    found = store.newest_checkpoint(watch.folder, phase) if watch.folder is not None else None
    if found is None:
        return None
    trace.extend(json.loads(found.about["trace"]))
    return restore_training(rounds, found.round, found.arrays)
