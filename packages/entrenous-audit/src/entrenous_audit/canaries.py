"""Canaries: users whose messages are made to be found, each of whom takes part by the toss of a
coin; and guesses of these tosses.

Differential privacy holds for any user, also for one who sends the worst message that the clip lets
through. So some users of the federation become canaries: the device of each sends, before all
limits, one number far above the clip, in a cell of an item's row that no other canary has, among
the items that the fewest consumed. By a coin each, half of them never take part. The onlooker sees
the sums of all rounds, and with these every model up to the final one. It knows the cells and how
often a user takes part, and ranks canaries by the likelihood of the sums with them against without
them. `one_run` turns guesses into a lower bound of epsilon. Population, chance to take part, clip
and noise are those of the audited training. Source: T. Steinke, M. Nasr, M. Jagielski, NeurIPS
2023; canaries that are messages and no data are theirs ("gradient canaries").
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from entrenous.core.contract.declared import Contract, bound
from entrenous.core.contract.protocols import Catalogue, Histories, Progress, State, silent
from entrenous.core.contract.update import Update
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.core.types import BoolArray, Float64Array, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.federation.recorder import TAKEN, Recorder, Seen
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Executor
from entrenous.kernels.generator import generator
from entrenous.kernels.sampling import cohort
from entrenous.privacy.protection import Protection

from .one_run import LowerBound, lower_bound

LOUD = 100.0  # in clips: how far above the clip the number of a canary is
LEAST = 10  # canaries
FLOOR = 0.05  # in clips: the spread of honest messages in the cell of a canary, at least


class Canaries(NamedTuple):
    """The canaries and their cells."""

    users: Int64Array
    """[m], ascending."""
    inside: BoolArray
    """[m], whether they take part."""
    array: str
    """The name of the array with their cells."""
    dense: bool
    """True if that array is dense: it has no rows of devices."""
    item: Int64Array
    """[m], the item of each cell."""
    place: Int64Array
    """[m], the number of its row."""


def audited_once(
    algorithm: Any,
    data: Interactions,
    protection: Protection,
    many: int,
    rounds: int,
    *,
    seed: int,
    executor: Executor,
    progress: Progress = silent,
) -> tuple[LowerBound, float]:
    """Trains once with `many` canaries. Returns the lower bound of epsilon, and the probability
    with which a user took part in a round.

    protection: with its noise as a number. Raises InputError as `check_canaries`.
    """
    check_canaries(protection, data, many)
    configured = algorithm.configured(data.catalogue)
    canaries = _drawn(bound(configured, data.catalogue), data, many, seed)
    loud: Any = LoudCanaries(configured, canaries, LOUD * protection.clip)
    recorder = Recorder("sum")
    # The coin decided before training who takes part; nobody else is left out.
    outside = canaries.users[~canaries.inside]
    federation = Rounds(
        loud,
        data,
        seed=seed,
        executor=executor,
        protection=protection,
        recorder=recorder,
        cohorts=lambda number, users: np.setdiff1d(users, outside),
    )
    rate = federation.protected.rate
    # Without noise honest messages alone blur a cell: a spread of 0 would make every guess sure.
    spread = max(protection.noise / protection.clip, FLOOR)
    score = np.zeros(many)
    training = federation.start()
    for number in range(rounds):
        progress(number, rounds, "round with canaries")
        # A clip that rounds move is that of the round, not that of the protection.
        clip = training.clip or protection.clip
        training = federation.one_round(training)
        # Rounds are independent, so their log odds add up.
        cells = _cells(recorder.rounds.pop(), canaries)
        score += _odds(cells / clip, rate, spread)
    return lower_bound(score, canaries.inside, protection.delta), rate


def check_canaries(protection: Protection, data: Interactions, many: int) -> None:
    """Refuses canaries where nothing bounds a message, since nothing is promised then, and more of
    them than there are users.
    """
    if not protection.clip:
        raise InputError(
            "--canaries",
            "nothing bounds the message of a user",
            expected="a protection with a clip",
            fix="--profile dp, or --protect clip=1",
        )
    if not LEAST <= many <= len(data.users):
        raise InputError(
            "--canaries",
            f"got {many}",
            expected=f"{LEAST} to {len(data.users)}, the users of {data.name}",
        )


def _drawn(contract: Contract, data: Interactions, many: int, seed: int) -> Canaries:
    """Canaries among the users, their coins, and their cells."""
    # The numbers that each array has for an item.
    widths = {name: int(np.prod(shape)) for name, shape in contract.way("rows").items()}
    for name, shape in contract.way("dense").items():
        if shape[:1] == (len(data.items),):
            widths[name] = int(np.prod(shape[1:]))
    if not widths:
        raise InputError(
            "--canaries",
            f"{contract.name} sends nothing for each item",
            expected="another algorithm, such as fcf",
        )
    # The widest array has most cells, so that canaries share none.
    array = max(widths, key=lambda name: widths[name])
    # A stream of their own: who is drawn says nothing of who takes part.
    coins = generator(key(seed, "audit", "canaries", "coins")).uniform(many)
    users = cohort(key(seed, "audit", "canaries"), many, len(data.users))
    # A row each, of the coldest items; with more canaries than items the next number of the row.
    coldest = np.argsort(data.popularity, kind="stable")
    turn, at = np.divmod(np.arange(many), len(coldest))
    dense = array in contract.way("dense")
    return Canaries(users, coins < 0.5, array, dense, coldest[at], turn % widths[array])


def _cells(seen: Seen, canaries: Canaries) -> Float64Array:
    """The numbers of a round's sum in the cells of canaries, float64 [m]."""
    name = f"{canaries.array}_" if canaries.array in TAKEN else canaries.array
    whole = np.asarray(seen.sent[name], np.float64)
    rows = whole.sum(axis=0) if canaries.dense else whole
    return rows.reshape(len(rows), -1)[canaries.item, canaries.place]  # type: ignore[no-any-return]


def _odds(cells: Float64Array, rate: float, spread: float) -> Float64Array:
    """Log likelihood ratios, float64 [m], of a canary that takes part with probability `rate`
    against one that never does. cells: in clips, under normal noise of deviation `spread`.
    """
    away = -np.inf
    if rate < 1:
        away = np.log1p(-rate)
    with np.errstate(divide="ignore"):
        # ln N(x; 1, spread) - ln N(x; 0, spread)
        there = (2 * cells - 1) / (2 * spread**2)
        return np.logaddexp(away, np.log(rate) + there)  # type: ignore[no-any-return]


@final
class LoudCanaries:
    """An algorithm in which the devices of canaries send their cells alone, in the place of an
    honest update.
    """

    local_sum = solo_rounds = None  # each device is to be changed by itself

    def __init__(self, algorithm: Any, canaries: Canaries, loud: float) -> None:
        self._quiet = algorithm
        self._canaries = canaries
        self._loud = loud

    def __getattr__(self, name: str) -> Any:
        return getattr(self._quiet, name)

    def configured(self, catalogue: Catalogue) -> LoudCanaries:
        """The same: it is of a configured algorithm."""
        return self

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Sizes of the declared arrays."""
        return dict(bound(self._quiet, catalogue).sizes)

    def local(
        self,
        download: State,
        devices: State,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[State, Update]:
        """Trains devices, and replaces the messages of canaries."""
        private, update = self._quiet.local(download, devices, histories, users, key)
        for device in np.flatnonzero(np.isin(users, self._canaries.users)).tolist():
            canary = int(np.searchsorted(self._canaries.users, users[device]))
            update = self._marked(update, device, canary)
        return private, update

    def _marked(self, update: Update, device: int, canary: int) -> Update:
        """An update in which one device sends its cell and nothing else."""
        name = self._canaries.array
        item = int(self._canaries.item[canary])
        place = int(self._canaries.place[canary])
        low = int(update.ptr[device])
        high = int(update.ptr[device + 1])
        # The rows of the device are dropped; where cells are in rows, a row of zeros replaces them.
        new = [] if self._canaries.dense else [low]
        kept = np.concatenate([np.arange(low), np.arange(high, len(update.item))])
        rows = {n: np.insert(row[kept], new, 0, axis=0) for n, row in update.rows.items()}
        dense = {n: array.copy() for n, array in update.dense.items()}
        for array in dense.values():
            array[device] = 0
        if self._canaries.dense:
            dense[name][device].reshape(dense[name].shape[1], -1)[item, place] = self._loud
        else:
            rows[name].reshape(len(rows[name]), -1)[low, place] = self._loud
        later = np.arange(len(update.ptr)) > device
        return update._replace(
            ptr=update.ptr - np.where(later, high - low - len(new), 0),
            item=np.insert(update.item[kept], new, item),
            rows=rows,
            dense=dense,
        )
