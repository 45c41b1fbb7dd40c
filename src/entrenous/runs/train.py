"""Training from start, or from a checkpoint, to the end: evaluation on validation rows,
checkpoints, early stopping.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

from ..core.compiling import warn_if_slow
from ..core.contract.declared import bound, is_central, is_gossip
from ..core.contract.protocols import (
    Catalogue,
    CentralAlgorithm,
    FederatedAlgorithm,
    Progress,
    silent,
)
from ..core.keys import key
from ..core.registry.discover import short
from ..data.interactions import Interactions
from ..data.split.types import Held, Split
from ..evaluation.protocol import Goal, goal_of, look
from ..federation.crew import HiredCrew
from ..federation.gossip import Gossip
from ..federation.network import Network
from ..federation.rounds import Rounds
from ..federation.shard import Executor, Threads
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
from .wanted import AS_USUAL, Wanted


class Round(NamedTuple):
    """A round of training that has ended."""

    phase: str
    """The training, as in `Run.curve()`: `fold0-select` finds the best round on validation rows,
    `fold0-final` is that of the final model."""
    round: int
    """Its number in this training, from 1."""
    metrics: dict[str, float]
    """Those of a look at validation after it, else {}."""


OnRound: TypeAlias = Callable[[Round], None]
# Takes one line for the person who started a run.
Say: TypeAlias = Callable[[str], None]
# A line for each look at validation.
Trace: TypeAlias = list[dict[str, Any]]
# A file in a run's folder with one byte for each noisy sum that was released.
RELEASES = "releases"
# The number of reports of a long training.
PROGRESS_STEPS = 100


@final
@dataclass(frozen=True, kw_only=True)
class Watch:
    """The work between the rounds of a training, and the place where devices are computed. None of
    it changes the model, except that patience ends the training.
    """

    every: int = 0
    """Rounds between looks at validation, 0 = none."""
    patience: int = 0
    """Looks without a better one after which training stops, 0 = never."""
    checkpoint_every: int | None = None
    """Rounds between checkpoints in `folder`, 0 = none, None = a tenth of the training."""
    folder: Path | None = None
    """The folder of the run; None = it is not stored."""
    executor: Executor = field(default_factory=lambda: Threads(1))
    progress: Progress = silent
    say: Say | None = None
    """Receives lines that the person who started the run should read; None = nobody reads them."""
    crew: HiredCrew | None = None
    """Workers that have the devices; None = they are here."""
    metrics: Wanted = AS_USUAL
    """The metrics of the evaluation."""
    on_round: OnRound | None = None
    """Called after each round."""


@final
@dataclass(frozen=True, kw_only=True)
class Setup:
    """The conditions under which devices train. Rounds around a server use `block`, `crew` and
    `protection`; gossip between peers uses `network` and `weighting`.
    """

    seed: int
    executor: Executor | None = None
    """The way in which devices are computed here; None = the usual one."""
    avoid: Interactions | None = None
    """Rows whose items are never drawn as negatives; None = those of the training rows."""
    network: Network | None = None
    weighting: Held | None = None
    """The rows by which peers weigh the models that they receive."""
    block: int = 0
    """Devices that are computed at once; 0 = as many as fill a block of memory."""
    crew: HiredCrew | None = None
    """Workers that have the devices; None = they are here."""
    protection: Protection | None = None
    """The limits on messages, in rounds around a server; None = none."""


class Phase(NamedTuple):
    """One training of a run: the search for the best round, or the final one."""

    name: str
    label: str
    """The algorithm's name, for errors."""
    trace: Trace
    """Gets a line for each look at validation."""
    validation: Held | None = None

    @property
    def looks(self) -> Trace:
        """The lines of this phase."""
        return [line for line in self.trace if line["phase"] == self.name]


def train(
    plan: RunPlan, algorithm: Algorithm, split: Split, watch: Watch, trace: Trace, fold: str
) -> Fitted:
    """Trains the algorithm of a plan on a split: the one place where a run is trained, whatever the
    kind of algorithm.

    A centralised algorithm is fitted. In rounds, with patience, a first training finds the best
    round on validation and a second one ends there; else one training goes to the end. Both start
    from round 0 with the same seed, so without refitting the second repeats the first, to the bit.
    A final model that trains on validation rows cannot be judged by them: its looks are at a first
    training, too. trace: gets a line for each look at validation; fold: begins the names of the
    phases in it.
    """
    warn_if_slow()
    if is_central(algorithm):
        return fit_central(algorithm, split.final_train, plan.seed, watch.progress)
    assert not isinstance(algorithm, CentralAlgorithm)
    # A default may depend on the size of the data.
    until = plan.rounds or algorithm.default_rounds(split.final_train.catalogue)
    setup = Setup(
        seed=plan.seed,
        executor=watch.executor,
        avoid=split.all_rows if leaky(plan) else None,
        network=network_of(plan) if is_gossip(algorithm) else None,
        weighting=split.weighting_sets,
        crew=watch.crew,
        protection=protection_in(plan, algorithm),
    )
    label = short(plan.algorithm)
    select = Phase(f"{fold}-select", label, trace, split.validation)
    final = Phase(f"{fold}-final", label, trace, None if split.refit else split.validation)
    looks_apart = plan.every and split.refit and split.validation is not None
    if plan.patience or looks_apart:
        train_phase(algorithm, split.train, until, setup, watch, select)
        # The looks are done; the final training goes to its round without any.
        final = final._replace(validation=None)
    if plan.patience:
        # The final training ends where the first one was best.
        until = best_round(trace, select.name, goal_of(algorithm))
    return train_phase(algorithm, split.final_train, until, setup, watch, final)


def _affordable(rounds: Federation, training: Standing, until: int, say: Say | None) -> int:
    """The round at which a training ends: the one asked for, or the last that the budget of
    differential privacy allows, with a line.
    """
    budget = None if isinstance(rounds, Gossip) else rounds.budget
    if budget is None or budget.left >= until - training.round:
        return until
    last = training.round + max(0, budget.left)
    if say is not None:
        say(
            f"differential privacy: training ends after round {last} of {until}, since another"
            f" would pass epsilon {budget.epsilon:g}"
        )
    return last


class Periodic(NamedTuple):
    """A callback for every `every` rounds, and after the last; `act` returns True to stop training
    there.
    """

    every: int
    act: Callable[[Standing], bool]


def train_phase(
    algorithm: Trained, data: Interactions, until: int, setup: Setup, watch: Watch, phase: Phase
) -> Fitted:
    """Trains `algorithm` until round `until`, or fewer rounds with patience, from the newest
    checkpoint of this phase if there is one.
    """
    rounds = federation_of(algorithm, data, setup, until=until, folder=watch.folder)
    training = _resumed(rounds, phase, watch) or rounds.start()
    until = _affordable(rounds, training, until, watch.say)
    # An interruption may have come between the look that used up the patience and the end.
    if patience_is_over(phase.trace, phase.name, watch.patience, goal_of(algorithm)):
        return fitted(rounds, training)
    periodic = []
    # A look comes before a checkpoint of its round, so that the checkpoint has the look.
    if phase.validation is not None and watch.every:
        act = _Look(rounds, phase, phase.validation, watch.patience)
        periodic.append(Periodic(watch.every, act))
    between = max(1, until // 10) if watch.checkpoint_every is None else watch.checkpoint_every
    if watch.folder is not None and between:
        periodic.append(Periodic(between, partial(_checkpoint, watch.folder, phase)))
    if watch.on_round is not None:
        periodic.append(Periodic(1, partial(_report, watch.on_round, phase)))
    return fitted(rounds, advance(rounds, training, until, periodic, watch.progress))


def federation_of(
    algorithm: Trained,
    data: Interactions,
    setup: Setup,
    *,
    until: int = 0,
    folder: Path | None = None,
) -> Federation:
    """The simulation that trains an algorithm: rounds around a server, or gossip between peers.

    until: the number of planned rounds. folder: the folder in which releases are counted. A
    protection with an epsilon needs both.
    """
    if is_gossip(algorithm):
        return Gossip(
            algorithm,
            data,
            seed=setup.seed,
            executor=setup.executor,
            avoid=setup.avoid,
            network=setup.network,
            weighting=setup.weighting,
        )
    # Without a setup of its own a training is the paper's: no protection.
    protection = setup.protection or Protection()
    protected, budget = budgeted(protection, algorithm, data.catalogue, until, folder)
    # The workers have the devices; this process aggregates.
    if setup.crew is not None:
        return setup.crew(
            algorithm,
            data,
            seed=setup.seed,
            avoid=setup.avoid,
            protection=protected,
            budget=budget,
        )
    return Rounds(
        algorithm,
        data,
        seed=setup.seed,
        executor=setup.executor,
        avoid=setup.avoid,
        block=setup.block,
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
    epsilon = protection.epsilon
    delta = protection.delta
    if epsilon is None:
        return protection, None
    contract = bound(algorithm.configured(catalogue), catalogue)
    # The probability of a user to be sampled for a round, which amplifies privacy.
    rate = contract.cohort / contract.sizes["users"]
    # Noise is given as a standard deviation of sums; the accountant counts in clips.
    multiplier = protection.noise / protection.clip or multiplier_for(epsilon, delta, rate, rounds)
    journal = None if folder is None else folder / RELEASES
    mechanism = SampledGaussian(multiplier, rate)
    budget = PrivacyBudget(mechanism, epsilon, delta, rounds, journal)
    noise = multiplier * protection.clip
    return protection.model_copy(update={"noise": noise}), budget


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
        # Reported before anything is compiled: all that was asked for has been checked.
        progress(training.round, until, "round")
    while training.round < until:
        # Rounds run in one call up to the next round in which something is due.
        steps = (stride, *(task.every for task in periodic))
        marks = [training.round + step - training.round % step for step in steps]
        # Each federation takes a standing of its own kind.
        training = rounds.advance(training, min(until, *marks))  # type: ignore[arg-type]
        progress(training.round, until, "round")
        at_end = training.round == until
        due = [task for task in periodic if at_end or training.round % task.every == 0]
        # A list, so that every callback that is due acts, whatever the others say.
        if any([task.act(training) for task in due]):
            break
    return training


def fit_central(
    algorithm: CentralAlgorithm, data: Interactions, seed: int, progress: Progress = silent
) -> Fitted:
    """Trains a centralised algorithm on `data`."""
    # A centralised training is one step for the bar.
    progress(0, 1, "training")
    return fitted_central(algorithm, algorithm.fit(data, key(seed, "fit"), progress), data)


def patience_is_over(trace: Trace, phase: str, patience: int, goal: Goal) -> bool:
    """Returns True when a phase has looked `patience` times since its best look."""
    looks = [line["round"] for line in trace if line["phase"] == phase]
    if not patience or not looks:
        return False
    # Looks after the best one have found nothing better.
    best = best_round(trace, phase, goal)
    return sum(number > best for number in looks) >= patience


def best_round(trace: Trace, phase: str, goal: Goal) -> int:
    """The round of a phase whose look at validation was best; the earliest of equals."""
    looks = [line for line in trace if line["phase"] == phase]
    best = min(looks, key=lambda line: (goal.key(line["validation"]), line["round"]))
    return int(best["round"])


@final
class _Look:
    """Evaluates on validation, writes a line to the trace, and says whether patience has run
    out.
    """

    def __init__(self, rounds: Federation, phase: Phase, held: Held, patience: int) -> None:
        self._rounds = rounds
        self._phase = phase
        self._held = held
        self._patience = patience
        self._goal = goal_of(rounds.algorithm)
        self._began = time.perf_counter()

    def __call__(self, now: Standing) -> bool:
        recommender = fitted(self._rounds, now).recommender
        seed = self._rounds.seed
        metrics = look(
            self._goal,
            recommender,
            self._rounds.data,
            self._held,
            label=self._phase.label,
            seed=seed,
        )
        # The line is also the learning curve of the report.
        line = {
            "phase": self._phase.name,
            "round": now.round,
            "seconds": round(time.perf_counter() - self._began, 3),
            "bytes_up": now.ledger.bytes_up,
            "bytes_down": now.ledger.bytes_down,
            "validation": metrics,
        }
        self._phase.trace.append(line)
        return patience_is_over(self._phase.trace, self._phase.name, self._patience, self._goal)


def _report(on_round: OnRound, phase: Phase, now: Standing) -> bool:
    """Tells the caller of a round, with the metrics of the look at it if there was one."""
    metrics: dict[str, float] = {}
    looks = phase.looks
    if looks and looks[-1]["round"] == now.round:
        metrics = looks[-1]["validation"]
    on_round(Round(phase.name, now.round, metrics))
    return False


def _checkpoint(folder: Path, phase: Phase, now: Standing) -> bool:
    """Stores the state of a training, and the looks that led to it."""
    looks = phase.looks
    if looks:
        store.write_trace(folder, phase.trace)
    # The looks travel in the checkpoint, so that both are of the same round.
    arrays = checkpoint_arrays(now)
    store.write_checkpoint(folder, phase.name, now.round, arrays, trace=json.dumps(looks))
    return False


def _resumed(rounds: Federation, phase: Phase, watch: Watch) -> Standing | None:
    """The training of the newest checkpoint of a phase, if there is one; the trace gets its
    lines.
    """
    if watch.folder is None:
        return None
    checkpoint = store.newest_checkpoint(watch.folder, phase.name)
    if checkpoint is None:
        return None
    # The looks before the checkpoint decide when patience is over.
    phase.trace.extend(json.loads(checkpoint.about["trace"]))
    return restore_training(rounds, checkpoint.round, checkpoint.arrays)
