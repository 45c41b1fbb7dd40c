"""The view `planted`: an operator who designs every model that devices see, and reads people out of
honest sums.

It knows one item of each person whom it is after, the rarest of theirs, and perhaps a share of the
rest; how popular items are; and the sums of rounds, clipped and with noise, as devices make them.
Before it shows a model it tries many on devices that it made up, by the code of devices itself, and
takes the one that tells most. All of them are nothing but one direction: the items that it knows of
a person, and later those that it is nearly sure of, point along it, so that whoever has them
answers along it too. Each person has another direction. Rounds whose lot did not draw the
person show what others answer, and are subtracted. A person is read until their budget of answers
is spent.

Where devices refuse a model that has moved further than a step in a round, it begins with the first
model of the training, goes towards the one that it wants, and reads on its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from math import ceil, erf, inf, sqrt
from typing import Any, NamedTuple, cast, final

import numpy as np

from entrenous.core.contract.declared import followed, is_federated
from entrenous.core.contract.enforce import LocalCall, local
from entrenous.core.contract.protocols import Histories, Progress, State, arrays_of, silent
from entrenous.core.contract.update import real
from entrenous.core.errors import InputError
from entrenous.core.keys import folds, key
from entrenous.core.lanes.memory import owners_of, starts_of
from entrenous.core.types import Array, BoolArray, Float32Array, Float64Array, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.federation.recorder import Seen
from entrenous.federation.shard import Shard, Threads
from entrenous.kernels.generator import Generator, generator
from entrenous.kernels.sampling import cohort as drawn
from entrenous.privacy.noise import most_bits
from entrenous.privacy.protection import PROTECT, Protection
from entrenous.privacy.step import longest_move, within_step
from entrenous.privacy.turnout import usual_answers
from entrenous.runs.plan import protection_in

from .claims import Claims
from .observe import about_of, with_noise
from .scene import with_cohort
from .side_knowledge import known_share
from .subject import Subject
from .transcript import Transcript

PEOPLE = 40  # who are read

# People who are made up for a trial: such as the person, and such as the others in the sum.
MINE = 8
OTHERS = 24
# Times that the operator plans, from what it has read by then. Until the second plan vectors that
# devices keep are led away, before they are read.
PLANS = 4
# Lengths that are tried, numbers of items that point along the direction, and what the parts of a
# model are multiplied by that belong to no item.
LENGTHS = (0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 10.0, 100.0, 3000.0)
REACHES = (1, 10, 100)
AWAY = (1.0, 10.0, 100.0, 3000.0)
HEIGHTS = (0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
BLANK = 0
# An item that is nearly certain, and not everybody's.
SURE = 0.9
COMMON = 0.2
# A bias by which nobody who drew an item as a negative moves.
FAR = 30_000.0
LARGEST = 30.0  # of log odds
# Groups of items that are about as popular.
ALIKE = 16
# The share by which the sum of others may differ from what is made up.
DOUBT = 0.3
MEDIAN_SQUARE = 0.455  # of a normal number of variance 1


class Trick(NamedTuple):
    """The choices by which a model is made for one person."""

    reach: int = BLANK
    """Items that point along the direction, at most."""
    length: float = 0.0
    far: bool = False
    """The biases of these items, or of all in a network, are far below all others."""
    height: float = 1.0
    """The weight of the direction in the last layer of a network, of which all else is 0."""


class ItemReading(NamedTuple):
    """The news in the number of an item along a direction, in a sum."""

    gap: float
    """Between an item that the person has and one that they do not have."""
    expected: Float64Array
    """[items], of the others together."""
    spread: Float64Array
    """[items], the variance of the sum."""

    @property
    def worth(self) -> float:
        """The information on an item, on average."""
        return float((self.gap**2 / self.spread).mean())

    def told(self, seen: Float64Array, without: Float64Array, noisier: float) -> Float64Array:
        """Returns the log likelihood ratio of each item. seen, without: [items], the mean
        projection with the person and without them. noisier: the variance of their difference, in
        units of that of one sum.
        """
        rest = seen - without
        # Most items are none of the person's: what is common to all that are about as popular says
        # nothing of them.
        for alike in np.array_split(np.argsort(self.expected, kind="stable"), ALIKE):
            rest[alike] -= np.median(rest[alike])
        spread = self.spread * noisier
        if without is self.expected:
            spread = spread + (DOUBT * self.expected) ** 2
        # Others are more alike than made-up ones.
        spread *= max(1.0, float(np.median(rest**2 / spread)) / MEDIAN_SQUARE)
        ratio: Float64Array = (self.gap * rest - self.gap**2 / 2) / spread
        return ratio


@dataclass(eq=False)
class Suspect:
    """A person whom the operator is after, and what it holds of them."""

    user: int
    known: Int64Array
    """The items that it knew before."""
    odds: Float64Array
    """[items], log odds that the person has the item."""
    place: int = 0
    """Of their direction."""
    answers: int = 0
    weight: Float64Array = field(default_factory=lambda: np.zeros(0))
    trick: Trick = field(default_factory=Trick)
    reading: ItemReading | None = None
    sums: dict[bool, list[Float64Array]] = field(default_factory=dict)

    def likely(self) -> Float64Array:
        """The probability that the person has each item."""
        chance = 1 / (1 + np.exp(-np.clip(self.now(), -LARGEST, LARGEST)))
        chance[self.known] = 1
        return chance

    def fold(self) -> None:
        """Keeps what the present model told, before another one is shown."""
        self.odds = self.now()
        self.sums = {True: [], False: []}
        self.reading = None

    def now(self) -> Float64Array:
        """The log odds with what the present model told."""
        if self.reading is None or not self.sums[True]:
            return self.odds
        seen = self.sums[True]
        without = self.sums[False]
        noisier = 1 / len(seen)
        around = self.reading.expected
        if without:
            noisier += 1 / len(without)
            around = np.mean(without, axis=0)
        told = self.reading.told(np.mean(seen, axis=0), around, noisier)
        # Items along the direction answer otherwise than all others.
        told[self.weight > 0] = 0
        return self.odds + told


@final
class Operator:
    """The server of a federation who designs its models.

    shard: the devices of everybody. train: their rows, of which it uses the popularity of items,
    and the shares that it is told. answers: the budget of a person.
    """

    def __init__(self, shard: Shard, train: Interactions, answers: int, seed: int) -> None:
        self.shard = shard
        self.algorithm = shard.algorithm
        self.answers = answers
        self.items = len(train.items)
        self.users = len(train.users)
        self.cohort = shard.contract.cohort
        self.chance: Float64Array = (train.popularity + 0.5) / (self.users + 1)
        self.seed = seed
        server = self.algorithm.init_server(shard.catalogue, key(seed, "server"))
        self.first = self.algorithm.download(server)
        self.step = shard.protected.protection.step or inf
        self.shown: list[State] = []
        self.carried = self._carried()
        self._draws = generator(key(seed, "planted"))

    def _carried(self) -> bool:
        """Tells whether a vector that a device keeps changes what it sends."""
        person = np.zeros(1, np.int64)
        model = followed(self.algorithm, self.first)
        devices = self.algorithm.init_devices(person, self.shard.catalogue, key(self.seed))
        moved = [array + 1 if isinstance(array, np.ndarray) else array for array in devices]
        other = type(devices)(*moved)
        owns = np.arange(self.items)[None] % 7 == 0
        sent = []
        for kept in (devices, other):
            call = LocalCall(model, kept, _histories(owns), person, key(self.seed))
            update = local(self.shard.contract, self.algorithm, call)[1]
            sent.append([*update.rows.values(), *update.dense.values()])
        return not all(map(np.array_equal, *sent))

    # ---- models ----------------------------------------------------------------------------------

    def model(self, suspects: Sequence[Suspect]) -> State:
        """Returns the model in which the items of each suspect point along their direction."""
        arrays = {}
        for name, array in arrays_of(self.first).items():
            planted = np.zeros_like(array)
            arrays[name] = planted
            if array.shape[0] != self.items:
                self._head(planted[0], suspects[0].trick)
                continue
            for suspect in suspects:
                if array.ndim == 1 and suspect.trick.far:
                    planted[suspect.weight > 0] = -FAR
                elif array.ndim > 1:
                    planted[:, suspect.place] = suspect.trick.length * suspect.weight
        return type(self.first)(**arrays)

    def _head(self, network: Array, trick: Trick) -> None:
        """Writes the last layer of a network (kernels/ncf.py), of which all else is 0."""
        shape = cast(Any, self.algorithm).shape
        network[shape.head] = trick.height
        network[shape.head + shape.gmf + shape.width[-1]] = -LARGEST * trick.far

    def towards(self, model: State, wanted: State, rounds: int = 1) -> State:
        """Returns the model nearest to the one that is wanted that devices take after some more
        rounds.
        """
        return within_step(self.shard.contract, model, wanted, rounds * self.step)

    def plan(self, suspect: Suspect, shown: State, rounds: int) -> None:
        """Tries models for a suspect, and keeps the one that tells most when it has been on its way
        for some rounds. shown: the last model that devices have seen.
        """
        suspect.fold()
        trial = MadeUpPeople(self, suspect)
        first = self.carried and not suspect.answers
        best = -1.0
        for trick in self._tricks(first):
            trying = self._trying(suspect, trick, trial.likely)
            start = shown
            tried = [trying]
            # What a vector is led away by tells little itself: it is judged by what is read after.
            if first:
                start = trial.lead(shown, self.model(tried), rounds)
                tried = [self._trying(suspect, one, trial.likely) for one in self._blank()]
            reached = [self.towards(start, self.model([one]), rounds) for one in tried]
            worth = max(trial.reading(one, trying).worth for one in reached)
            trial.forget()
            if worth > best:
                best = worth
                suspect.trick = trick
                suspect.weight = trying.weight

    def _trying(self, suspect: Suspect, trick: Trick, likely: Float64Array) -> Suspect:
        weight = self._weight(likely, suspect.known, trick.reach)
        return replace(suspect, weight=weight, trick=trick)

    def _tricks(self, first: bool) -> list[Trick]:
        lengths = AWAY if self.carried else LENGTHS
        # Item factors alone have no biases.
        lows = (False, True) if len(self.first) > 1 else (False,)
        tricks = [Trick(many, s, low) for many in REACHES for s in lengths for low in lows]
        if self.carried and not first:
            # Vectors that are led away need no more than to be read, but may be led on.
            blank = self._blank()
            on = [one._replace(height=b.height) for b in blank for one in tricks if one.reach == 1]
            return [*blank, *on]
        return tricks

    def _blank(self) -> list[Trick]:
        network = any(array.shape[0] != self.items for array in arrays_of(self.first).values())
        return [Trick(height=height) for height in (HEIGHTS if network else (1.0,))]

    def _weight(self, likely: Float64Array, known: Int64Array, reach: int) -> Float64Array:
        """[items], 1 for the items that point along the direction: the rarest that are certain."""
        certain = (likely > SURE) & (self.chance < COMMON)
        certain[known] = True
        rarest = np.argsort(np.where(certain, self.chance, np.inf), kind="stable")
        weight = np.zeros(self.items)
        weight[rarest[: min(reach, int(certain.sum()))]] = 1
        return weight

    # ---- sums ------------------------------------------------------------------------------------

    def read(self, suspects: Sequence[Suspect], progress: Progress) -> int:
        """Shows models until every suspect has answered as often as they may, and returns the
        number of rounds. Where devices carry vectors, there is one suspect.
        """
        devices = self.shard.init_devices(key(self.seed, "devices"))
        everybody = np.arange(self.users)
        rounds = ceil(self.answers * self.users / self.cohort)
        every = ceil(rounds / PLANS)
        shown = wanted = self.first
        for number in range(4 * rounds):
            if all(one.answers >= self.answers for one in suspects):
                return number
            progress(min(number, rounds - 1), rounds, "planted round")
            if number % every == 0:
                for one in suspects:
                    self.plan(one, shown, every)
                wanted = self.model(suspects)
            # Where moves are bounded, devices know the first model.
            going = shown if self.step < inf and not number else self.towards(shown, wanted)
            moved = longest_move(self.shard.contract, shown, going)
            if moved or suspects[0].reading is None:
                for one in suspects:
                    one.fold()
                    one.reading = MadeUpPeople(self, one).reading(going, one)
            shown = going
            if self.carried:
                self.shown.append(followed(self.algorithm, shown))
            lots = self._draws.uniform(self.users) < self.cohort / self.users
            for one in suspects:
                lots[one.user] &= one.answers < self.answers
            sums = self._sum(shown, devices, everybody[lots], number)
            for one in suspects:
                took = bool(lots[one.user])
                one.answers += int(took)
                if took or not self.carried:
                    one.sums[took].append(sums[:, one.place])
        return 4 * rounds

    def _sum(self, download: State, devices: State, users: Int64Array, number: int) -> Array:
        """[items, width], a row of the sum for each item."""
        draws = key(self.seed, "planted", number)
        total, _ = self.shard.work(download, devices, users, draws)
        total = self.shard.protected.on_sum(total, draws)
        rows = {name: real(array) for name, array in total.rows.items()}
        dense = {name: real(array) for name, array in total.dense.items()}
        table = self.by_item(rows, dense, 1)[0]
        self.shard.release(total)
        return table

    def by_item(self, rows: Mapping[str, Array], dense: Mapping[str, Array], many: int) -> Array:
        """[many, items, directions], the numbers of messages or of a sum that belong to an item and
        a direction.
        """
        for sent in self.shard.contract.sends:
            if sent.way == "rows":
                return rows[sent.name].reshape(many, self.items, -1)
            if sent.way == "dense" and sent.sizes[:1] == ("items",):
                return dense[sent.name].reshape(many, self.items, -1)
        raise InputError("--view", "no message has a row for an item")


@final
class MadeUpPeople:
    """Devices that the operator makes up to try models for one person: some such as the person may
    be, and some such as the others in the sum may be. Half of the others have an item that is known
    of the person, and count as much less.
    """

    def __init__(self, operator: Operator, suspect: Suspect) -> None:
        self._operator = operator
        draws = generator(key(operator.seed, "trial", suspect.user, len(operator.shown)))
        self.likely = suspect.likely()
        mine = draws.uniform((MINE, operator.items)) < self.likely
        others = _others(draws, operator.chance, suspect.known)
        self._owns = np.concatenate([mine, others])
        with_known = 1 - float(np.prod(1 - operator.chance[suspect.known]))
        # The weight of either half is how many such people there are.
        half = OTHERS // 2
        shares = [with_known / half] * half + [(1 - with_known) / half] * half
        self._shares = np.array(shares)
        self._histories = _histories(self._owns)
        self._people = np.arange(MINE + OTHERS)
        first = key(operator.seed, "made up", suspect.user)
        devices = operator.algorithm.init_devices(self._people, operator.shard.catalogue, first)
        self._devices = devices
        # Names the draws of each answer.
        self._answers = 0
        # The person has answered what was shown before; the others were led back.
        for model in operator.shown if operator.carried else ():
            self._answer(model)
        self._before = self._copied()

    def lead(self, shown: State, wanted: State, rounds: int) -> State:
        """Has the made-up person answer models on the way to one that leads them away, and returns
        the last of these.
        """
        for _ in range(rounds):
            shown = self._operator.towards(shown, wanted)
            self._answer(followed(self._operator.algorithm, shown))
        return shown

    def forget(self) -> None:
        """Undoes `lead`."""
        self._devices = self._before
        self._before = self._copied()

    def _copied(self) -> State:
        return type(self._devices)(*map(copy, self._devices))

    def _answer(self, model: State) -> None:
        self._answers += 1
        devices = self._answered(model, self._devices, self._answers)[0]
        for before, after in zip(self._devices, devices, strict=True):
            if isinstance(before, np.ndarray):
                before[:MINE] = after[:MINE]

    def _answered(self, model: State, devices: State, number: int) -> tuple[State, Any]:
        shard = self._operator.shard
        draws = key(self._operator.seed, "trial", number)
        call = LocalCall(model, devices, self._histories, self._people, draws)
        return local(shard.contract, shard.algorithm, call)

    def reading(self, shown: State, suspect: Suspect) -> ItemReading:
        """Returns by what the answers of a suspect to a model would be read."""
        operator = self._operator
        model = followed(operator.algorithm, shown)
        _, update = self._answered(model, self._devices, -1)
        keys = folds(key(operator.seed, "limits"), self._people)
        for limit in operator.shard.protected.limits():
            update = limit(update, keys)
        many = len(self._people)
        place = owners_of(update.ptr)
        rows = {}
        for name, row in update.rows.items():
            rows[name] = np.zeros((many, operator.items, *row.shape[1:]))
            rows[name][place, update.item] = row
        table = operator.by_item(rows, update.dense, many)
        along = table[..., suspect.place].astype(np.float64)
        return self._read_by(along, suspect.weight == 0)

    def _read_by(self, table: Float64Array, free: BoolArray) -> ItemReading:
        operator = self._operator
        others = operator.cohort - 1
        noise = operator.shard.protected.protection.noise**2
        chance = operator.chance
        owns = self._owns[:, free]
        own = owns[:MINE]
        mine = table[:MINE, free]
        gap = float(mine[own].mean() - mine[~own].mean()) if own.any() else 0.0
        theirs = table[MINE:, free]
        shares = np.broadcast_to(self._shares[:, None], theirs.shape)
        having = _moments(theirs, owns[MINE:] * shares)
        lacking = _moments(theirs, ~owns[MINE:] * shares)
        mean = chance * having[0] + (1 - chance) * lacking[0]
        square = chance * having[1] + (1 - chance) * lacking[1]
        spread = others * np.maximum(square - mean**2, 0) + noise + 1e-9
        return ItemReading(gap, others * mean, spread)


def _moments(numbers: Float64Array, weight: Float64Array) -> tuple[float, float]:
    """The weighted means of numbers and of their squares."""
    share = weight / max(1e-12, float(weight.sum()))
    return float((share * numbers).sum()), float((share * numbers**2).sum())


def _others(draws: Generator, chance: Float64Array, known: Int64Array) -> BoolArray:
    """Made-up others, bool [OTHERS, items]; those of the first half have a known item."""
    owns = draws.uniform((OTHERS, len(chance))) < chance
    half = OTHERS // 2
    owns[half:, known] = False
    rising = np.cumsum(chance[known])
    drawn = np.searchsorted(rising / rising[-1], draws.uniform(half))
    owns[np.arange(half), known[np.minimum(drawn, len(known) - 1)]] = True
    return owns


def _histories(owns: BoolArray) -> Histories:
    """Histories of made-up people, bool [people, items]."""
    ptr = starts_of(owns.sum(axis=1))
    item = np.nonzero(owns)[1].astype(np.int32)
    return Histories(ptr, item, np.ones(len(item), np.float32), ptr, item)


# ---- the view ------------------------------------------------------------------------------------


def best_auc(power: float) -> float:
    """The AUC of the best test of which of two histories a person has, by a server that knows
    everybody else and writes every model. power: answers (clip / noise)^2.

    One history in place of another moves a sum by at most twice the clip, under Gaussian noise,
    whatever the answers before were: all of them together are no easier to tell apart than one
    Gaussian moved by d = 2 sqrt(power) of its standard deviations (J. Dong, A. Roth, W. J. Su,
    "Gaussian differential privacy", 2019). Then the best test has the AUC Phi(d / sqrt 2).

    >>> round(best_auc(0.25), 2), round(best_auc(44), 3)
    (0.76, 1.0)
    """
    return (1 + erf(sqrt(power))) / 2


class PlantedView(NamedTuple):
    """The work of an operator who designs models."""

    seen: Transcript
    """What it knew of people beforehand, and the rounds in which it read them, without arrays."""
    claims: Claims
    auc_most: float
    """The AUC of telling one history of a person from another, at most."""
    bits_most: float | None
    """The bits that all answers tell of a person, at most."""


def seen_by_operator(subject: Subject, progress: Progress) -> PlantedView:
    """Lets an operator read some people. Raises InputError for an algorithm without rounds around a
    server.
    """
    plan = subject.audit
    train = subject.train
    if not is_federated(subject.made):
        raise InputError("--view", "'planted' needs a server", expected="another view")
    made = with_cohort(subject.made, plan.in_a_round).configured(train.catalogue)
    protection = Protection.parse(
        {**dict(protection_in(subject.plan, subject.made)), "noise_by": "server"}, PROTECT
    )
    shard = Shard(
        made,
        train.catalogue,
        train,
        np.arange(len(train.users)),
        protection=with_noise(protection, made, train),
        executor=Threads(plan.threads),
    )
    known = _known(train, plan.knows)
    able = np.flatnonzero(train.counts > known.sum(axis=1))
    many = min(len(able), plan.watched or PEOPLE)
    people = able[drawn(key(plan.seed, "audit", "watched"), many, len(able))]
    about = about_of(plan, made, train, protection)
    about |= {"cohort": shard.contract.cohort, "watched": many, "rate": 1.0}
    item = np.nonzero(known)[1].astype(np.int32)
    told: dict[str, Array] = {"known/ptr": starts_of(known.sum(axis=1)), "known/item": item}
    answers = plan.rounds or usual_answers(
        made.default_rounds(train.catalogue), shard.protected.rate
    )
    operator = Operator(shard, train, answers, plan.seed)
    note = (
        f"{answers} answers of each person, of whom the operator knows the rarest item"
        f" and {plan.knows:.0%} of the others"
    )
    scores, rounds = read_people(operator, known, people, progress)
    rows = tuple(Seen(number, {}, people, {}) for number in range(rounds))
    own = shard.protected.protection
    bounded = own.clip and own.noise
    power = answers * (own.clip / own.noise) ** 2 if bounded else inf
    seen = Transcript(about, train.popularity, rows, told)
    claims = Claims(people, scores, note=note)
    return PlantedView(seen, claims, best_auc(power), most_bits(power))


def _known(train: Interactions, share: float) -> BoolArray:
    """The items that the operator knows of everybody, bool [users, items]: the rarest item of each,
    and a share of the others.
    """
    known = np.zeros((len(train.users), len(train.items)), np.bool_)
    some = known_share(train, share)
    if some:
        known[owners_of(some["known/ptr"]), some["known/item"]] = True
    for user in np.flatnonzero(train.counts):
        history = train.histories(np.array([user])).item
        known[user, history[np.argmin(train.popularity[history])]] = True
    return known


def read_people(
    operator: Operator, known: BoolArray, users: Int64Array, progress: Progress = silent
) -> tuple[Float32Array, int]:
    """Returns a ranking of all items for each of some users, and the number of rounds that it took.
    known: bool [users, items], what the operator knows before, at least one item of each person.
    """
    prior = np.log(operator.chance / (1 - operator.chance))
    # As many people at once as there are directions, unless what devices carry must be led back.
    width = 1
    if not operator.carried:
        width = min(a.shape[1] for a in arrays_of(operator.first).values() if a.ndim > 1)
    scores = np.zeros((len(users), operator.items), np.float32)
    rounds = 0
    for low in range(0, len(users), width):
        some = users[low : low + width]
        suspects = [
            Suspect(int(user), np.flatnonzero(known[user]), prior.copy(), place)
            for place, user in enumerate(some)
        ]
        operator.shown.clear()
        # Each time the federation begins anew.
        rounds = max(rounds, operator.read(suspects, progress))
        scores[low : low + width] = [one.now() for one in suspects]
    return scores, rounds
