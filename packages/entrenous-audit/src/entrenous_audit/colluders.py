"""Devices that collude to promote an item or to spoil a model: added to a federation, each with a
key and a profile like any other.

All their messages are valid: finite, in the declared shapes, no more rows than allowed, signed
where signatures are used. An attack has two parts: the profile that its devices pretend to have, on
which they train as the protocol says, and the change of the update before it leaves. One file of
`entrenous_audit/poison/` = one attack, whose `POISONS` is {name: Poison}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.protocols import (
    FederatedAlgorithm,
    Moments,
    State,
    arrays_of,
    joined_visits,
    some_visits,
)
from entrenous.core.contract.update import Update
from entrenous.core.keys import key
from entrenous.core.types import Float64Array, Int64Array
from entrenous.data.interactions import NO_TIME, Interactions, Vocabulary, build
from entrenous.federation.item_rows import Tables, of_some, side_by_side
from entrenous.kernels.generator import Generator, generator

# Items of a pretended profile besides the target, as FedRecAttack's baselines have it (kappa = 60).
FILLERS = 30
# Popular items whose mean vector stands for what many users like.
POPULAR = 20


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Plot:
    """The aim of colluders, and their knowledge before the first round."""

    target: int
    """The item to promote."""
    users: Int64Array
    """The numbers of the colluders."""
    honest: int
    """The number of all other users."""
    popularity: Int64Array
    """[items], a public chart."""
    public: Int64Array
    """[n, 2], the (user, item) interactions that anybody can see (FedRecAttack's xi; empty for
    attacks that need none)."""
    settings: Mapping[str, float]
    """The settings of the attack, by name."""
    seed: int
    """Names their draws."""

    def setting(self, name: str) -> float:
        """A setting of the attack."""
        return self.settings[name]

    def draws(self, *names: int | str) -> Generator:
        """Random numbers that the colluders share, by the names of their purpose."""
        return generator(key(self.seed, "colluders", *names))

    def best(self, many: int) -> Int64Array:
        """The most popular items but the target, int64 [many], the most popular first."""
        order = np.argsort(-self.popularity, kind="stable")
        return order[order != self.target][:many]


class Sight(NamedTuple):
    """The knowledge of colluders in one round."""

    algorithm: FederatedAlgorithm
    """Public."""
    contract: Contract
    """Public."""
    tables: Tables
    """The arrays of the model that rows move, and the directions."""
    model: Mapping[str, np.ndarray]
    """{name: array}, as received."""
    mine: Update
    """Updates of the m colluders of the cohort, as honest training on their profiles gives them."""
    number: int
    """The round."""


Craft = Callable[[Sight], Update]
"""Makes the updates of the colluders of a round."""


class Poison(NamedTuple):
    """An attack of colluding devices on the training."""

    source: str
    """The publication, or "ours"."""
    knows: str
    """The knowledge that it needs, in words."""
    settings: Mapping[str, float]
    """{name: default}."""
    promotes: bool
    """True if it promotes an item."""
    profile: Callable[[Plot, Generator], Int64Array]
    """Returns the items that one colluder pretends to have consumed, from the plot and its
    draws."""
    begin: Callable[[Plot], Craft] | None = None
    """Makes a `Craft`, which may remember rounds. None = updates are sent as trained."""
    needs_rows: bool = False
    """True if it writes the rows of single items."""


# ---- profiles ------------------------------------------------------------------------------------


def by_popularity(plot: Plot, draws: Generator) -> Int64Array:
    """The target and fillers in proportion to their popularity."""
    # P. Efraimidis, P. Spirakis, 2006: the largest u^(1/w) are a weighted sample.
    weight = np.maximum(plot.popularity, 1e-9)
    luck = np.log(draws.uniform(len(weight)) + 1e-300) / weight
    order = np.argsort(luck)[::-1]
    many = int(plot.settings.get("fillers", FILLERS))
    fillers = order[order != plot.target][:many]
    return np.concatenate([[plot.target], fillers]).astype(np.int64)


def without_target(plot: Plot, draws: Generator) -> Int64Array:
    """Fillers in proportion to their popularity, for attacks that promote nothing."""
    return by_popularity(plot, draws)[1:]


def joined_by(data: Interactions, plot: Plot, poison: Poison) -> Interactions:
    """The rows of the honest users, and behind them those that the colluders pretend to have."""
    profiles = [poison.profile(plot, plot.draws("profile", int(user))) for user in plot.users]
    lengths = [len(profile) for profile in profiles]
    more = sum(lengths)
    user = np.concatenate([data.user, np.repeat(plot.users, lengths)])
    item = np.concatenate([data.item, *profiles])
    # They like all of it, as much as can be.
    liked = np.float32(data.rating_scale[1])
    value = np.concatenate([data.value, np.full(more, liked)])
    time = None
    if data.time is not None:
        time = np.concatenate([data.time, _times(data.time, plot, more)])
    everybody = Vocabulary(size=data.catalogue.users + len(plot.users), kind=data.users.kind)
    whole = build(
        user,
        item,
        value=value,
        time=time,
        users=everybody,
        items=data.items,
        name=data.name,
        scale=data.rating_scale,
    )
    if data.moments is None or data.visits is None or time is None or whole.row is None:
        return replace(whole, features=data.features)
    # Algorithms of sequences read visits, so colluders pretend some of their own.
    pretended = Moments(time[len(data) :], np.arange(len(data), len(item)), None)
    visits = some_visits(joined_visits([data.moments, pretended]), whole.row)
    return replace(whole, features=data.features, visits=visits)


def _times(known: Int64Array, plot: Plot, many: int) -> Int64Array:
    """The times at which colluders pretend to have consumed their items: any of those that honest
    rows have.
    """
    times = known[known != NO_TIME]
    if not len(times):
        return np.full(many, NO_TIME)
    places = plot.draws("times").uniform(many) * len(times)
    return times[places.astype(np.int64)]


# ---- in a round ----------------------------------------------------------------------------------


@final
class Colluders:
    """The colluders of a federation, as `VisibleRound` has them: they replace their own updates,
    and nobody else's.
    """

    def __init__(
        self,
        poison: Poison,
        plot: Plot,
        algorithm: FederatedAlgorithm,
        contract: Contract,
        tables: Tables,
    ) -> None:
        self._craft = poison.begin(plot) if poison.begin is not None else None
        self._plot = plot
        self._algorithm = algorithm
        self._contract = contract
        self._tables = tables
        self._number = 0  # of the next round

    def __call__(self, update: Update, model: State, users: Int64Array) -> Update:
        """The updates of a cohort, in which colluders have replaced their own."""
        number = self._number
        self._number += 1
        lying = np.isin(users, self._plot.users)
        if self._craft is None or not lying.any():
            return update
        mine = of_some(update, np.flatnonzero(lying))
        others = of_some(update, np.flatnonzero(~lying))
        sight = Sight(self._algorithm, self._contract, self._tables, arrays_of(model), mine, number)
        return side_by_side([others, self._craft(sight)])


# ---- what many attacks do ------------------------------------------------------------------------


def only_rows(
    sight: Sight, items: Int64Array, moves: Mapping[str, Float64Array], most: float = np.inf
) -> Update:
    """Updates of the m colluders in which each sends nothing but rows of some items. Together they
    move the model's rows of these items by `moves`, unless a row is then longer than `most`: it is
    shortened.

    items: [k]. moves: {name of the array that is sent: float64 [k, ...]}.
    """
    update = sight.mine
    m = update.devices
    k = len(items)
    # The server divides a weighted sum by the weight of the cohort.
    whole = 1.0
    if sight.contract.weighs:
        whole = sight.contract.cohort * float(update.weight.mean())
    gain = sight.tables.gain
    rows = {name: values * whole / (gain[name] * m) for name, values in moves.items()}
    # A row's length counts over all arrays that have one for the item.
    square = sum((values.reshape(k, -1) ** 2).sum(axis=1) for values in rows.values())
    length = np.sqrt(square)
    factor = np.minimum(1, most / np.maximum(length, 1e-12))
    for name, values in rows.items():
        rows[name] = values * factor.reshape(-1, *_ones(values))
    dense = {name: np.zeros_like(values) for name, values in update.dense.items()}
    if not update.rows:
        for name, values in rows.items():
            dense[name][:, items] = values.astype(np.float32)
        return update._replace(dense=dense)
    # Each colluder sends the same rows; arrays without a move are zeros.
    sent = {}
    for name, trained in update.rows.items():
        sent[name] = np.zeros((m * k, *trained.shape[1:]), np.float32)
        if name in rows:
            own = rows[name].astype(np.float32).reshape(k, *trained.shape[1:])
            sent[name] = np.tile(own, (m, *_ones(trained)))
    ptr = np.arange(m + 1, dtype=np.int64) * k
    return update._replace(ptr=ptr, item=np.tile(items, m).astype(np.int32), rows=sent, dense=dense)


def _ones(array: np.ndarray) -> list[int]:
    """A dimension of length 1 for each dimension of an array but the first."""
    return [1] * (array.ndim - 1)


def edited(sight: Sight, factor: float) -> Update:
    """The colluders' own updates times a number."""
    update = sight.mine
    times = np.float32(factor)
    return update._replace(
        rows={name: values * times for name, values in update.rows.items()},
        dense={name: values * times for name, values in update.dense.items()},
    )
