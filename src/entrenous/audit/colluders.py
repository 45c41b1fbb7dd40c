"""Devices that collude to promote an item or to spoil a model: added to a federation, each with a
key and a profile like any other.

All they send is valid: finite, in the declared shapes, no more rows than allowed, signed where
signatures are used. An attack has two parts: the profile that its devices pretend to be, on which
they train as the protocol says, and what they make of the update before it leaves. One file of
`audit/poison/` = one attack, whose `POISONS` is {name: Poison}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.protocols import FederatedAlgorithm, State, arrays_of
from ..core.contract.update import Update
from ..core.keys import key
from ..core.types import Float64Array, Int64Array
from ..core.visits import Moments, joined_visits, some_visits
from ..core.vocabulary import Vocabulary
from ..data.interactions import NO_TIME, Interactions, build
from ..federation.item_rows import Tables, of_some, side_by_side
from ..kernels.generator import Generator, generator

# items of a pretended profile beside the target, as FedRecAttack's baselines have it (kappa = 60)
FILLERS = 30


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Plot:
    """What colluders want and know before the first round.

    target: the item to promote. users: int64, their numbers. honest: of the other users.
    popularity: int64 [items], a public chart. public: the interactions that anybody can see, (user,
    item) int64 [n, 2] (FedRecAttack's xi; empty for attacks that need none). settings: of the
    attack, by name. seed: names their draws."""

    target: int
    users: Int64Array
    honest: int
    popularity: Int64Array
    public: Int64Array
    settings: Mapping[str, float]
    seed: int

    def setting(self, name: str) -> float:
        """A setting of the attack."""
        return self.settings[name]

    def draws(self, *names: int | str) -> Generator:
        """Random numbers that the colluders share, by what they are for."""
        return generator(key(self.seed, "colluders", *names))

    def best(self, many: int) -> Int64Array:
        """The most popular items but the target, int64 [many], the most popular first."""
        order = np.argsort(-self.popularity, kind="stable")
        return order[order != self.target][:many]


class Sight(NamedTuple):
    """What colluders have in one round. model: {name: array}, as received. mine: their updates as
    honest training on their profiles gives them, of the m colluders of the cohort. algorithm,
    contract: public. tables: which arrays of the model rows move, and which way.
    """

    algorithm: FederatedAlgorithm
    contract: Contract
    tables: Tables
    model: Mapping[str, np.ndarray]
    mine: Update
    number: int


Craft = Callable[[Sight], Update]


class Poison(NamedTuple):
    """An attack. source: where it was published, or "ours". knows: what it needs to know, in words.
    settings: {name: default}. promotes: whether it promotes an item. profile: the items that one
    colluder pretends to have consumed, from the plot and its draws. begin: makes the function that
    makes their updates, which may remember rounds; None = they are sent as trained. needs_rows:
    whether it writes the rows of single items.
    """

    source: str
    knows: str
    settings: Mapping[str, float]
    promotes: bool
    profile: Callable[[Plot, Generator], Int64Array]
    begin: Callable[[Plot], Craft] | None = None
    needs_rows: bool = False


# ---- profiles ------------------------------------------------------------------------------------


def at_random(plot: Plot, draws: Generator) -> Int64Array:
    """The target and fillers of which each is as likely."""
    return _with_target(plot, draws.permutation(len(plot.popularity)))


def by_popularity(plot: Plot, draws: Generator) -> Int64Array:
    """The target and fillers in proportion to their popularity (Efraimidis and Spirakis 2006)."""
    weight = np.maximum(plot.popularity, 1e-9)
    return _with_target(
        plot, np.argsort(np.log(draws.uniform(len(weight)) + 1e-300) / weight)[::-1]
    )


def bandwagon(plot: Plot, draws: Generator) -> Int64Array:
    """The target, a tenth of the fillers from the most popular items, and others at random."""
    top = plot.best(max(1, FILLERS // 10))
    others = draws.permutation(len(plot.popularity))
    return _with_target(plot, np.concatenate([top, others[~np.isin(others, top)]]))


def without_target(plot: Plot, draws: Generator) -> Int64Array:
    """Fillers in proportion to their popularity, for attacks that promote nothing."""
    return by_popularity(plot, draws)[1:]


def _with_target(plot: Plot, order: Int64Array) -> Int64Array:
    fillers = order[order != plot.target][: int(plot.settings.get("fillers", FILLERS))]
    return np.concatenate([[plot.target], fillers]).astype(np.int64)


def joined_by(data: Interactions, plot: Plot, poison: Poison) -> Interactions:
    """The rows of the honest users, and behind them those that the colluders pretend to have."""
    items = [poison.profile(plot, plot.draws("profile", int(user))) for user in plot.users]
    user = np.concatenate(
        [data.user, *(np.full(len(own), user) for own, user in zip(items, plot.users, strict=True))]
    )
    item = np.concatenate([data.item, *items])
    liked = np.float32(data.rating_scale[1])
    value = np.concatenate([data.value, np.full(len(item) - len(data.item), liked)])
    everybody = Vocabulary(size=data.catalogue.users + len(plot.users), kind=data.users.kind)
    time = (
        None
        if data.time is None
        else np.concatenate([data.time, _times(data.time, plot, len(item) - len(data.item))])
    )
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
    pretended = Moments(time[len(data) :], np.arange(len(data), len(item)), None)
    visits = some_visits(joined_visits([data.moments, pretended]), whole.row)
    return replace(whole, features=data.features, visits=visits)


def _times(known: Int64Array, plot: Plot, many: int) -> Int64Array:
    """When colluders pretend to have consumed what they name: at any time of those that honest rows
    have.
    """
    sure = known[known != NO_TIME]
    if not len(sure):
        return np.full(many, NO_TIME)
    return sure[(plot.draws("times").uniform(many) * len(sure)).astype(np.int64)]


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
        self._plot, self._algorithm, self._contract, self._tables, self._number = (
            plot,
            algorithm,
            contract,
            tables,
            0,
        )

    def __call__(self, update: Update, model: State, users: Int64Array) -> Update:
        """The updates of a cohort in which those of colluders are what they make of them."""
        number, self._number = self._number, self._number + 1
        lying = np.isin(users, self._plot.users)
        if self._craft is None or not lying.any():
            return update
        mine, others = (of_some(update, np.flatnonzero(some)) for some in (lying, ~lying))
        sight = Sight(self._algorithm, self._contract, self._tables, arrays_of(model), mine, number)
        return side_by_side(others, self._craft(sight))


# ---- what many attacks do ------------------------------------------------------------------------


def only_rows(
    sight: Sight, items: Int64Array, moves: Mapping[str, Float64Array], most: float = np.inf
) -> Update:
    """Updates of the m colluders in which each sends nothing but rows of some items, such that
    together they move the model's rows of these by `moves`, {name of what is sent: float64 [k,
    ...]}; each row no longer than `most`.
    """
    m, update, k = sight.mine.devices, sight.mine, len(items)
    whole = (
        sight.contract.cohort * float(update.weight.mean()) if sight.contract.weighs else 1.0
    )  # what a mean divides the sum by
    rows = {name: values * whole / (sight.tables.gain[name] * m) for name, values in moves.items()}
    length = np.sqrt(sum((values.reshape(k, -1) ** 2).sum(axis=1) for values in rows.values()))
    short = np.minimum(1, most / np.maximum(length, 1e-12))
    rows = {
        name: values * short.reshape(-1, *([1] * (values.ndim - 1)))
        for name, values in rows.items()
    }
    if update.rows:
        ptr = np.arange(m + 1, dtype=np.int64) * k
        sent = {
            name: np.tile(_shaped(rows[name], values), (m, *([1] * (values.ndim - 1))))
            if name in rows
            else np.zeros((m * k, *values.shape[1:]), np.float32)
            for name, values in update.rows.items()
        }
        empty = {name: np.zeros_like(values) for name, values in update.dense.items()}
        return update._replace(
            ptr=ptr, item=np.tile(items, m).astype(np.int32), rows=sent, dense=empty
        )
    dense = {name: np.zeros_like(values) for name, values in update.dense.items()}
    for name, values in rows.items():
        dense[name][:, items] = values.astype(np.float32)
    return update._replace(dense=dense)


def _shaped(values: Float64Array, like: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).reshape(len(values), *like.shape[1:])


def edited(sight: Sight, factor: float) -> Update:
    """The colluders' own updates times a number."""
    update = sight.mine
    return update._replace(
        rows={name: (values * np.float32(factor)) for name, values in update.rows.items()},
        dense={name: (values * np.float32(factor)) for name, values in update.dense.items()},
    )
