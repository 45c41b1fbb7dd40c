"""What liars under masks do to a model, and what a server that sees sums alone can do about it:
python tests/dragged_model.py fcf

Every round each liar sends one direction with the largest numbers that the fixed point has, as part
of its group's sum, in which nobody sees it. HR@10 is of all users of ML-100K whose devices keep to
the protocol, protocol loo-99, devices train on validation rows too. Noise of the profile private is
on each sum, so with G groups it is there G times.

ways to add up a round: plain      one sum of everybody, as the program has it without groups clip
each group's sum shortened to the median length of the groups' sums a device, by the very code of
           `federation new --protect groups=G` (entrenous_network/server/grouped_round.py)
watch      one sum; a round whose sum is more than 10
times as long as the median one of up to 20 before it, or
           before there are five, as 10 made-up devices are on average, is not counted
           (entrenous_network/server/watch.py)

lies: 0 is as long as can be; 9 is 9 times as long as the honest sum of the round, which `watch`
lets through.

Prints a line for each: lie, liars, way, HR@10, the largest number of the model, the rounds that
count, and the most that a sum was longer than the watch's reference, as a factor.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from entrenous_network.secure_sum.vector import pack, unpack
from entrenous_network.server.grouped_round import shortened, times_the_median
from entrenous_network.server.watch import FURTHER, length, made_up_length, reference

from entrenous.core.contract.declared import bound
from entrenous.core.contract.protocols import State, arrays_of
from entrenous.core.contract.update import LIMIT, STEP, Total, fixed
from entrenous.core.errors import EntrenousError
from entrenous.core.types import Int64Array
from entrenous.federation.rounds import Rounds, Training
from entrenous.federation.shard import Ledger, Shard
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import material
from entrenous.runs.plan import make
from entrenous.runs.recommenders import FederatedRecommender, tested

FIFTH = 5


def clipped_sum(sums: Sequence[Int64Array], people: Sequence[int], like: Total) -> Int64Array:
    """The sum of groups' sums that are no longer a device than the median one, as a server makes
    it.
    """
    totals = [
        unpack(vector, like)._replace(devices=devices)
        for vector, devices in zip(sums, people, strict=True)
    ]
    longer = times_the_median(totals)
    shorter = [shortened(total, times) for total, times in zip(totals, longer, strict=True)]
    return np.asarray(np.sum([pack(total) for total in shorter], axis=0))


class Way(NamedTuple):
    """A way to add up a round. clipped: as a server does it."""

    groups: int = 1
    clipped: bool = False
    watched: bool = False


class MaskedGroups:
    """Everybody's devices, in groups of which a server sees the sums alone. liars: users whose
    updates are lies.
    """

    def __init__(self, shard: Shard, way: Way, liars: Int64Array, noise: float, seed: int) -> None:
        self._shard, self._way, self._liars, self._noise = shard, way, liars, noise
        self._drawn = np.random.default_rng((seed, 1))
        order = np.random.default_rng((seed, 2)).permutation(shard.catalogue.users)
        self._group = np.empty(len(order), np.int64)
        self._group[order] = np.arange(len(order)) % way.groups
        size = len(pack(shard.contract.empty_total()))
        self.length, self.lie = 0.0, 0.0
        self._direction = np.random.default_rng((seed, 3)).choice((-1, 1), size)

    def init_devices(self, seed: np.uint64) -> State:
        return self._shard.init_devices(seed)

    def work(
        self,
        download: State,
        devices: State,
        users: Int64Array,
        seed: np.uint64,
        *,
        clip: float = 0.0,
    ) -> tuple[Total, Ledger]:
        """The sum of a round as the server comes to it."""
        shard = self._shard
        sums, sizes = [], []
        for number in range(self._way.groups):
            mine = users[self._group[users] == number]
            total, _ = shard.work(download, devices, mine, seed)
            sums.append(pack(total))
            sizes.append(len(mine))
            shard.release(total)
        honest = float(np.linalg.norm(np.sum(sums, axis=0).astype(np.float64)))
        for number, vector in enumerate(sums):
            mine = users[self._group[users] == number]
            sums[number] = self._noisy(vector + self._lied(mine, honest))
        whole = np.sum(sums, axis=0)
        self.length = length(
            unpack(whole, shard.contract.empty_total())._replace(devices=len(users))
        )
        if self._way.clipped:
            whole = clipped_sum(sums, sizes, shard.contract.empty_total())
            self.length = length(
                unpack(whole, shard.contract.empty_total())._replace(devices=len(users))
            )
        found = unpack(whole, shard.contract.empty_total())
        found.senders[...] = len(users)
        found.weight[...] = len(users) * fixed(np.array([shard.contract.usual_weight]))
        return found._replace(devices=len(users)), Ledger()

    def release(self, total: Total) -> None:
        """Nothing is used again."""

    def _lied(self, users: Int64Array, honest: float) -> Int64Array:
        """What liars add to a group's sum. honest: length of the honest sum of all."""
        liars = len(np.intersect1d(users, self._liars))
        most = LIMIT / STEP - 1
        each = most
        if self.lie:
            each = min(
                most, self.lie * honest / np.sqrt(len(self._direction)) / max(1, len(self._liars))
            )
        return np.asarray(liars * int(each) * self._direction)

    def _noisy(self, vector: Int64Array) -> Int64Array:
        return vector + np.rint(self._drawn.normal(0, self._noise / STEP, len(vector))).astype(
            np.int64
        )


def furthest(
    federation: Rounds, devices: MaskedGroups, until: int, first: float, watched: bool
) -> tuple[Training, float, int]:
    """Trains, and leaves out rounds that a watched server does not count. first: the reference
    before there is a median. Returns how much longer than its reference a sum that counts was, at
    most, and how many count.
    """
    training, most = federation.start(), 0.0
    lengths: list[float] = []
    for _ in range(until):
        after = federation.one_round(training)
        longer = devices.length / reference(lengths, lambda: first)[0]
        if watched and longer > FURTHER:
            training = after._replace(server=training.server)
            continue
        most, training = max(most, longer), after
        lengths.append(devices.length)
    return training, most, len(lengths)


def largest(state: State) -> float:
    """The largest number of a state."""
    return max(
        float(np.abs(array).max(initial=0))
        for array in arrays_of(state).values()
        if array.dtype.kind == "f"
    )


def main(arguments: Sequence[str]) -> None:
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("algorithm")
    parsed.add_argument("--rounds", type=int, default=60)
    parsed.add_argument("--noise", type=float, default=3.0, help="of a sum")
    parsed.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parsed.add_argument("--liars", type=int, nargs="+", default=[0, 1, 9])
    parsed.add_argument("--lies", type=float, nargs="+", default=[0.0, 9.0])
    parsed.add_argument("--groups", type=int, default=9)
    parsed.add_argument("--ways", nargs="+", default=["plain", "watch", "clip", "trim", "median"])
    asked = parsed.parse_args(arguments)
    settings = dict(each.split("=", 1) for each in asked.set)
    plan = RunPlan(
        algorithm=asked.algorithm,
        data="ml-100k",
        protocol="loo-99",
        rounds=asked.rounds,
        settings=settings,
    )
    rows, parts = material(plan)
    train = parts[0].final_train
    algorithm: Any = make(plan, rows)
    algorithm = algorithm.configured(train.catalogue)
    contract = bound(algorithm, train.catalogue)
    noise = asked.noise
    groups = asked.groups
    ways = {
        "plain": Way(),
        "watch": Way(watched=True),
        "clip": Way(groups, clipped=True),
    }
    first = made_up_length(algorithm, train.catalogue, seed=0)
    first += noise * np.sqrt(len(pack(contract.empty_total()))) / len(train.users)
    for number in asked.liars:
        who = np.random.default_rng(number).choice(len(train.users), number, replace=False)
        for lie in asked.lies if number else [0.0]:
            for name in asked.ways:
                shard = Shard(algorithm, train.catalogue, train, np.arange(len(train.users)))
                devices = MaskedGroups(shard, ways[name], who, noise, seed=0)
                devices.lie = lie
                federation = Rounds(algorithm, train, seed=0, everybody=devices)
                try:
                    outcome = furthest(federation, devices, asked.rounds, first, ways[name].watched)
                    training, longer, counted = outcome
                    own = algorithm.download(training.server)
                    model = FederatedRecommender(algorithm, own, training.devices, train)
                    found = f"{tested(model, parts[0], label=name, seed=0).metrics['hr@10']:.3f}"
                    more = f"largest {largest(own):.4g} counted {counted} longer {longer:.3g}"
                except EntrenousError as why:  # numbers, or scores, that are not finite
                    found, more = type(why).__name__, ""
                print(f"lie {lie:g} liars {number} {name:7} HR@10 {found} {more}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
