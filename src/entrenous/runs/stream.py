"""A stream, tested and then learnt: the rows of each window are predicted by the model of the
windows before, one by one, and the algorithm then learns them in some rounds.

A user who joins and an item that appears get their state as the algorithm draws it for their
number, on which nobody else's state depends. An item without a row so far, or retired, is
recommended to nobody. Rows that were forgotten or whose item is retired are in no later training.
A user who leaves takes their rows and their private state along. Users who are away take part in no
round.
"""

from __future__ import annotations

import time
from typing import Any, Protocol, final

import numpy as np

from ..core.contract.declared import (
    declared,
    is_central,
    is_federated,
    is_gossip,
    predicts_ratings,
)
from ..core.contract.own_rows import OwnRows
from ..core.contract.protocols import CentralAlgorithm, FederatedAlgorithm, State
from ..core.errors import InputError
from ..core.keys import key
from ..core.registry.discover import short
from ..core.types import Array, Float32Array, Int32Array, Int64Array
from ..data.describe import iso
from ..data.events import Standing
from ..data.interactions import Interactions
from ..data.split.types import Split
from ..evaluation.prequential import prequential, rank_window
from ..evaluation.protocol import Evaluation
from ..evaluation.recommend import score_blocks, tie_places
from ..federation.rounds import Rounds, Training
from ..federation.shard import Ledger
from ..kernels.sampling import cohort
from ..privacy.protection import Protection
from .options import RunPlan
from .plan import protection_in
from .recommenders import Algorithm, Fitted, fitted
from .train import Trace, Watch, fit_central

# The phase of the trace that has a line for each window.
PHASE = "stream"


def check_stream(plan: RunPlan, algorithm: Algorithm, protocol: str) -> None:
    """Raises InputError for an algorithm or an option that cannot follow a stream."""
    why = ""
    if predicts_ratings(algorithm):
        why = "predicts ratings, and a stream ranks items"
    elif is_gossip(algorithm):
        why = "has no server, which new users and items would meet"
    elif is_federated(algorithm) and declared(algorithm).deliver is not None:
        why = "keeps something of each user on its server"
    if why:
        raise InputError(
            f"protocol {protocol}",
            f"{short(plan.algorithm)} {why}",
            expected="an algorithm with vectors of items and of users",
            fix="use one such as pfpl+, fcf or fedavg-gmf",
        )
    # Each of these is about one training on rows that are all there.
    asked = {
        "--every": plan.every,
        "--patience": plan.patience,
        "--negatives": plan.negatives == "leaky",
        "--protect epsilon": protection_in(plan, algorithm).epsilon is not None,
        "--protect answers": protection_in(plan, algorithm).answers > 0,
    }
    for option, given in asked.items():
        if given:
            problem = f"protocol {protocol} has many trainings and no validation rows"
            raise InputError(option, problem, expected="another protocol", fix="leave it out")


def stream(
    plan: RunPlan, algorithm: Algorithm, split: Split, watch: Watch, trace: Trace
) -> tuple[Fitted, Evaluation]:
    """Runs a stream from its first window to its last. trace: gets a line for each window."""
    assert split.windows is not None
    events, ptr = split.windows
    began = time.perf_counter()
    # What is there so far: people, items and rows, as the events say.
    standing = Standing()
    learner: Learner = _learner(plan, algorithm, watch)
    # Items of equal score have one order in all windows.
    place = tie_places(len(events.items), plan.seed)
    tested = []
    windows = len(ptr) - 1
    for window, stop in enumerate(ptr[1:].tolist()):
        watch.progress(window, windows, "window")
        # Whoever comes in this window is there before its rows are predicted.
        users = _so_far(events.user, stop)
        items = _so_far(events.item, stop)
        # 1. Test: the model of the windows before ranks what this window brings.
        before = standing.interactions(events, users, items)
        # Only people with an event need scores.
        who = np.unique(events.user[ptr[window] : stop])
        scores = learner.scores(before, who[who >= 0].astype(np.int64))
        ranked = rank_window(split.windows, window, standing, before, scores, place)
        tested.append(ranked)
        # 2. Train: ranking the window has taken its events, so that its rows are there now.
        learner.learn(standing.interactions(events, users, items), standing)
        last = int(events.at[stop - 1])
        # A line for each window: the curve of the stream, and its costs.
        trace.append(
            {
                "phase": PHASE,
                "round": learner.round,
                "seconds": round(time.perf_counter() - began, 3),
                "bytes_up": learner.ledger.bytes_up,
                "bytes_down": learner.ledger.bytes_down,
                "until": iso(last),
                "rows": len(ranked.user),
                "users": len(standing.members),
                "items": len(standing.items),
                "validation": ranked.figures(),
            }
        )
    watch.progress(windows, windows, "window")
    # The model of the end is kept; the figures are means over all windows.
    found = prequential(tested, split.windows.half, split.train, plan.seed)
    return learner.fitted(split.train), found


def _so_far(numbers: Int32Array, stop: int) -> int:
    """Returns the count of numbers, which count up from 0, that occur before an event."""
    return int(numbers[:stop].max(initial=-1)) + 1


# ---- what learns ---------------------------------------------------------------------------------


class Learner(Protocol):
    """An algorithm in the middle of a stream."""

    @property
    def round(self) -> int:
        """The rounds so far."""

    @property
    def ledger(self) -> Ledger:
        """The bytes of messages so far."""

    def scores(self, rows: Interactions, users: Int64Array) -> Float32Array:
        """Returns the scores of every item, float32 [all users, items], 0 for others than `users`.
        rows: those that were learnt, over all users and items that there are now.
        """

    def learn(self, rows: Interactions, standing: Standing) -> None:
        """Learns the rows on the devices of those who can take part."""

    def fitted(self, rows: Interactions) -> Fitted:
        """Returns the trained algorithm. rows: those of the end."""


def _learner(plan: RunPlan, algorithm: Algorithm, watch: Watch) -> Learner:
    if is_central(algorithm):
        return _Anew(plan, algorithm)
    assert is_federated(algorithm)
    return _InRounds(plan, algorithm, watch)


@final
class _Anew:
    """A centralised algorithm, which is trained anew on the rows so far after each window."""

    def __init__(self, plan: RunPlan, algorithm: CentralAlgorithm) -> None:
        self.round = 0
        self.ledger = Ledger()
        self._plan = plan
        self._algorithm = algorithm

    def scores(self, rows: Interactions, users: Int64Array) -> Float32Array:
        # Nothing has been learnt: all scores are equal, and items keep the order of ties.
        if not len(rows):
            return np.zeros((len(rows.users), len(rows.items)), np.float32)
        return _placed(self.fitted(rows), rows, users, self._plan)

    def learn(self, rows: Interactions, standing: Standing) -> None:
        """Does nothing: the model is made when it is asked for."""

    def fitted(self, rows: Interactions) -> Fitted:
        return fit_central(self._algorithm, rows, self._plan.seed)


@final
class _InRounds:
    """An algorithm with a server, whose model and devices go on from window to window."""

    def __init__(self, plan: RunPlan, algorithm: FederatedAlgorithm, watch: Watch) -> None:
        self._plan = plan
        self._algorithm = algorithm
        self._watch = watch
        self._draws = key(plan.seed, "stream", "present")
        self._training: Training | None = None
        self._first: Training | None = None

    @property
    def round(self) -> int:
        """The number of rounds so far."""
        return 0 if self._training is None else self._training.round

    @property
    def ledger(self) -> Ledger:
        """The traffic so far."""
        return Ledger() if self._training is None else self._training.ledger

    def scores(self, rows: Interactions, users: Int64Array) -> Float32Array:
        # The first window is predicted by nobody.
        if not len(rows):
            return np.zeros((len(rows.users), len(rows.items)), np.float32)
        # Scoring sends nothing, so that no protection is asked.
        rounds = self._rounds(rows, Protection())
        return _placed(fitted(rounds, self._grown(rounds)), rows, users, self._plan)

    def learn(self, rows: Interactions, standing: Standing) -> None:
        if not len(rows) and self._training is None:
            return
        # Members who are present and have a row that may be learnt.
        able = standing.training(len(rows.users)) & (rows.counts > 0)
        present = np.flatnonzero(able)
        protection = protection_in(self._plan, self._algorithm)
        # Without as many people as a sum must have, a window has no round.
        enough = len(present) >= (protection.people if protection.secure_sum else 1)
        # If all can take part, the algorithm draws its cohort as in any other run.
        drawn = None if able.all() else present
        rounds = self._rounds(rows, protection if enough else Protection(), drawn)
        # New people and items get their first states before the round.
        training = self._grown(rounds)
        self._forget_leavers(training, standing, len(rows.users))
        if enough:
            training = rounds.advance(training, training.round + (self._plan.rounds or 1))
        self._training = training

    def _forget_leavers(self, training: Training, standing: Standing, users: int) -> None:
        """Gives the devices of those of `users` users who left the state that they began with."""
        assert self._first is not None
        # A device that leaves takes what it learnt along; who returns begins anew.
        left = np.setdiff1d(np.arange(users), list(standing.members))
        for array, first in zip(training.devices, self._first.devices, strict=True):
            array[left] = first[left]

    def fitted(self, rows: Interactions) -> Fitted:
        rounds = self._rounds(rows, Protection())
        return fitted(rounds, self._grown(rounds))

    def _rounds(
        self, rows: Interactions, protection: Protection, present: Int64Array | None = None
    ) -> Rounds:
        """The federation of all users so far. present: those who can take part; None = all."""

        def drawn(number: int, users: Int64Array) -> Int64Array:
            assert present is not None
            # The same number of devices as usual, drawn among those who are present.
            draws = np.uint64(key(int(self._draws), number))
            return present[cohort(draws, min(len(users), len(present)), len(present))]

        return Rounds(
            self._algorithm,
            rows,
            seed=self._plan.seed,
            executor=self._watch.executor,
            protection=protection,
            cohorts=None if present is None else drawn,
        )

    def _grown(self, rounds: Rounds) -> Training:
        """The training so far, with states for the users and items that are new."""
        # The first state of a federation of this size; its beginning was that of a smaller one.
        first = rounds.start()
        name = short(self._plan.algorithm)
        if self._first is not None:
            _check_grows(name, self._first.server, first.server)
            _check_grows(name, self._first.devices, first.devices)
        self._first = first
        # Copies, since rounds write into the state of devices.
        old = self._training or first
        return old._replace(
            server=_with_rows(old.server, first.server),
            devices=_with_rows(old.devices, first.devices),
        )


def _placed(now: Fitted, rows: Interactions, users: Int64Array, plan: RunPlan) -> Float32Array:
    """Returns the scores of some users in a table of all, float32 [all users, items]."""
    out = np.zeros((len(rows.users), len(rows.items)), np.float32)
    label = short(plan.algorithm)
    for part, scores in score_blocks(
        now.recommender, rows.users, len(rows.items), users, label=label
    ):
        # In blocks, since the scores of everybody may be more than memory holds.
        out[users[part]] = scores
    return out


def _with_rows(old: State, first: State) -> State:
    """Returns a state in the larger shapes of a first one: its own numbers, and the first one's
    where it has none.
    """
    grown: list[Any] = []
    for mine, fresh in zip(old, first, strict=True):
        if isinstance(mine, OwnRows):
            # Own rows are by device: those of new devices stand behind.
            grown.append(OwnRows.joined([mine, fresh[len(mine) :]]))
            continue
        array: Array = np.array(fresh)
        # A larger array with the old one in its corner.
        array[_corner(mine)] = mine
        grown.append(array)
    return type(old)(*grown)


def _check_grows(name: str, before: State, now: State) -> None:
    """Raises InputError unless the first state of a larger federation begins with that of a smaller
    one: else the state of a user or an item would depend on who else is there.
    """
    for field, small, large in zip(type(before)._fields, before, now, strict=True):
        if not _begins_with(large, small):
            raise InputError(
                f"protocol {PHASE}",
                f"{name} draws '{field}' anew for another number of users and items",
                expected="a state that follows from the numbers of a user and an item",
                fix="use an algorithm such as pfpl+, fcf or fedavg-gmf",
            )


def _begins_with(large: Any, small: Any) -> bool:
    if isinstance(small, OwnRows):
        ptr, item, row = large[: len(small)].flat()
        own_ptr, own_item, own_row = small.flat()
        same_places = np.array_equal(ptr, own_ptr) and np.array_equal(item, own_item)
        return same_places and np.array_equal(row, own_row)
    return np.ndim(small) == np.ndim(large) and np.array_equal(large[_corner(small)], small)


def _corner(array: Array) -> tuple[slice, ...]:
    """Returns the place of an array in a larger one."""
    return tuple(map(slice, np.shape(array)))
