"""The one reader of declarations (core/contract/declarations.py), and the one place that asks an
algorithm for its members.

`declared(algorithm)` holds wherever the algorithm runs; `bound(algorithm, catalogue)` adds the
numbers of one federation. A member that is missing, or does not fit another, is a ContractError
that names the class and the member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final, get_args, get_type_hints

import numpy as np

from ..errors import InputError, NonFiniteError
from ..lanes.memory import view_only
from ..types import Array, Float32Array, Int64Array
from ..values import SettingValue
from .declarations import Axes, SentArray, Size, Traits, UpTo
from .gossip import GossipAlgorithm
from .own_rows import OwnRows
from .protocols import (
    Catalogue,
    CentralAlgorithm,
    FederatedAlgorithm,
    Histories,
    State,
    arrays_of,
)
from .settings import Settings
from .update import Total, zero_total

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# The members without which an algorithm is none, by its kind.
MEMBERS: dict[str, tuple[str, ...]] = {
    "gossip": (
        "keeps",
        "sends",
        "configured",
        "default_rounds",
        "weighing",
        "init_model",
        "init_nodes",
        "on_start",
        "on_timer",
        "on_message",
        "score",
    ),
    "central": ("holds", "fit", "score"),
    "federated": (
        "holds",
        "receives",
        "keeps",
        "sends",
        "configured",
        "default_rounds",
        "init_server",
        "init_devices",
        "select",
        "download",
        "local",
        "aggregate",
        "score",
    ),
}
# Members that tell the kind of an algorithm: having one of them is enough.
TELLING = {
    "gossip": ("on_message", "on_timer", "init_nodes"),
    "central": ("fit",),
    "federated": ("local", "aggregate", "sends"),
}
# The classes of states that an algorithm declares.
STATES = ("holds", "receives", "keeps")
# The methods that a federated algorithm may have besides, see `protocols.Abilities`.
ABILITIES = (
    "follow",
    "local_sum",
    "solo_rounds",
    "many_rounds",
    "deliver",
    "deliver_newcomer",
    "biases",
    "score_with_key",
)
# Members that an ability takes the place of.
INSTEAD = {"score": "score_with_key"}


class ContractError(InputError):
    """Raised for an algorithm that does not declare what it must, or does not do what it declared:
    names the algorithm, the array, the rule."""


class NotFiniteError(ContractError, NonFiniteError):
    """A number that is NaN or infinite where finite ones are declared: most often a training that
    diverged.
    """


class DeclaredArray(NamedTuple):
    """An array as its algorithm declares it: name, sizes, type and range."""

    name: str
    dtype: str
    """NumPy's name of its type."""
    axes: Axes
    """Its shape in named sizes, and its range."""
    own_rows: bool = False
    """A device keeps some rows of it, as `OwnRows`; false for an array."""

    @property
    def said(self) -> str:
        """The shape, type and range in words, such as `[devices] int32 from 0, below clusters`."""
        axes = self.axes
        sizes = ", ".join(map(str, axes.sizes))
        words = self.dtype
        if self.own_rows:
            return f"some rows of [{sizes}] {self.dtype}"
        if sizes:
            words = f"[{sizes}] {self.dtype}"
        if axes.least is not None:
            words += f" from {axes.least}"
        if axes.below is not None:
            comma = "" if axes.least is None else ","
            words += f"{comma} below {axes.below}"
        return words


# A method that an algorithm has or lacks.
Ability: TypeAlias = Callable[..., Any] | None


@final
@dataclass(frozen=True)
class Declaration:
    """The declaration of an algorithm, as it was read from its class. The fields after
    `traits` are its optional methods, see `protocols.Abilities`.
    """

    name: str
    """Of the class."""
    kind: str
    """federated, gossip or central."""
    holds: type | None
    """The class of the server's state, or of the model."""
    receives: type | None
    """The class of a download."""
    keeps: type | None
    """The class of a device's state."""
    sends: tuple[SentArray, ...]
    traits: Traits
    follow: Ability
    local_sum: Ability
    solo_rounds: Ability
    many_rounds: Ability
    deliver: Ability
    deliver_newcomer: Ability
    biases: Ability
    score_with_key: Ability


def declared(algorithm: Any) -> Declaration:
    """Reads the declaration of an algorithm. Raises ContractError for a missing or unusable member,
    by its name.
    """
    name = type(algorithm).__name__
    kind = _kind(algorithm)
    members = MEMBERS[kind]
    for member in members:
        ways = (member, INSTEAD.get(member, member) if kind == "federated" else member)
        if all(getattr(algorithm, way, None) is None for way in ways):
            problem = f"a {kind} algorithm without `{member}`"
            raise ContractError(name, problem, expected=", ".join(members))
    if kind == "federated":
        _check_catalogue(name, algorithm)
    states = {part: getattr(algorithm, part, None) for part in STATES}
    for part, state in states.items():
        if state is not None and part in members:
            # A server may hold arrays of any shape; the others are checked wherever they go.
            fields = fields_of(state, f"{name}.{part}", bare=part == "holds")
            _check_own_rows(f"{name}.{part}", fields, kind == "federated" and part == "keeps")
    sends = tuple(getattr(algorithm, "sends", ()))
    if not all(isinstance(sent, SentArray) for sent in sends):
        raise ContractError(
            name,
            "`sends` lists something else",
            expected="rows(...), dense(...), shown(...), weight(...)",
        )
    traits = getattr(algorithm, "traits", Traits())
    if not isinstance(traits, Traits):
        raise ContractError(name, "`traits` is something else", expected="Traits(...)")
    _check_apart(name, sends, states["keeps"])
    abilities = {ability: getattr(algorithm, ability, None) for ability in ABILITIES}
    if abilities["follow"] and abilities["deliver"]:
        problem = "has `follow` and `deliver`"
        expected = "`follow` of a download that all devices receive alike"
        raise ContractError(name, problem, expected=expected)
    return Declaration(name=name, kind=kind, sends=sends, traits=traits, **states, **abilities)


def _check_own_rows(where: str, fields: tuple[DeclaredArray, ...], may: bool) -> None:
    """Checks that own rows are of a table, and that only devices around a server keep them."""
    for field in fields:
        if field.own_rows and not (may and field.axes.sizes[:1] == ("items",)):
            expected = 'axes("items", ...) in `keeps` of an algorithm around a server'
            raise ContractError(f"{where} '{field.name}'", "is an OwnRows", expected=expected)


def _check_catalogue(name: str, algorithm: Any) -> None:
    """Checks that `init_devices` takes a catalogue, as it does from version 0.2 on."""
    # The function of a class takes the instance too.
    instance = ("self",) if isinstance(algorithm, type) else ()
    try:
        signature(algorithm.init_devices).bind(*instance, "users", "catalogue", "key")
    except TypeError:
        problem = "`init_devices` cannot be called with users, catalogue and key"
        expected = "def init_devices(self, users, catalogue, key)"
        raise ContractError(
            name, problem, expected=expected, fix="add `catalogue` before `key`"
        ) from None


def _kind(algorithm: Any) -> str:
    for kind, members in TELLING.items():
        if any(hasattr(algorithm, member) for member in members):
            return kind
    raise ContractError(
        type(algorithm).__name__,
        "is no algorithm",
        expected="; ".join(f"{kind} ones have `{members[0]}`" for kind, members in TELLING.items()),
    )


def _check_apart(name: str, sends: tuple[SentArray, ...], keeps: type | None) -> None:
    """Checks that no two sent arrays have one name, and that none has the name of a kept one,
    except in a message between peers, which may say what its sender keeps.
    """
    expected = "another name for each array"
    # With `only_if`, two entries may take turns under one name.
    always = [sent.name for sent in sends if not sent.only_if]
    twice = {sent for sent in always if always.count(sent) > 1}
    if twice:
        raise ContractError(name, f"'{min(twice)}' is sent twice", expected=expected)
    if keeps is not None:
        updates = {sent.name for sent in sends if sent.way != "pushed"}
        both = updates.intersection(field.name for field in fields_of(keeps, name))
        if both:
            raise ContractError(name, f"'{min(both)}' is both kept and sent", expected=expected)
    for sent in sends:
        if not (sent.when and sent.reveals):
            problem = f"`sends` does not say when '{sent.name}' leaves and what it reveals"
            raise ContractError(name, problem, expected="both")


@lru_cache(maxsize=256)
def fields_of(state: type, where: str, bare: bool = False) -> tuple[DeclaredArray, ...]:
    """Returns the arrays that a NamedTuple class declares. bare: arrays without a declared shape,
    which a server may hold, are passed over.

    Raises ContractError for a class that declares none.
    """
    # Only a NamedTuple has fields in an order that files and frames can rely on.
    names = getattr(state, "_fields", None)
    if names is None:
        problem = f"{state!r:.60} is no NamedTuple class"
        raise ContractError(where, problem, expected="class Name(NamedTuple): ...")
    try:
        hints = get_type_hints(state, include_extras=True)
    except NameError as unknown:
        expected = "annotations made of names at the top of its module"
        raise ContractError(where, str(unknown), expected=expected) from None
    fields = []
    for name in names:
        field = _field(name, hints[name], where)
        if field is not None:
            fields.append(field)
        elif not bare:
            raise ContractError(
                f"{where} '{name}'",
                "says no shape",
                expected="Annotated[Float32Array, axes(...)]",
            )
    return tuple(fields)


def _field(name: str, hint: Any, where: str) -> DeclaredArray | None:
    """Returns an array as its annotation declares it; None without `axes`."""
    declared_axes = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Axes)]
    if not declared_axes:
        return None
    if hint.__origin__ is OwnRows:
        return DeclaredArray(name, "float32", declared_axes[0], own_rows=True)
    # An NDArray has parameters: from NumPy 2.5 the type of its numbers alone, before that a shape
    # and a dtype[type].
    parts = get_args(hint.__origin__)
    dtypes = [get_args(part)[0] for part in parts if str(part).startswith("numpy.dtype[")]
    kinds = dtypes or list(parts)
    if not kinds or not (isinstance(kinds[0], type) and issubclass(kinds[0], np.generic)):
        problem = "says no type of its numbers"
        raise ContractError(
            f"{where} '{name}'",
            problem,
            expected="Float32Array, Int32Array, ...",
        )
    return DeclaredArray(name, np.dtype(kinds[0]).name, declared_axes[0])


# ---- which kind ----------------------------------------------------------------------------------


def is_federated(algorithm: Any) -> TypeIs[FederatedAlgorithm]:
    """Tells whether an algorithm trains in rounds around a server."""
    return declared(algorithm).kind == "federated"


def is_gossip(algorithm: Any) -> TypeIs[GossipAlgorithm]:
    """Tells whether an algorithm trains between peers."""
    return declared(algorithm).kind == "gossip"


def is_central(algorithm: Any) -> TypeIs[CentralAlgorithm]:
    """Tells whether an algorithm is trained in one place."""
    return declared(algorithm).kind == "central"


def scores_of(
    algorithm: FederatedAlgorithm,
    download: State,
    devices: State,
    histories: Histories,
    users: Int64Array,
    key: np.uint64,
) -> Float32Array:
    """Returns the scores of every item on the devices of `users`, float32 [m, items], by the key
    where the algorithm draws for them.
    """
    model = followed(algorithm, download)
    drawn = declared(algorithm).score_with_key
    if drawn is None:
        return algorithm.score(model, devices, histories)
    scores: Float32Array = drawn(model, devices, histories, users, key)
    return scores


def followed(algorithm: FederatedAlgorithm, download: State) -> State:
    """Returns the model that `local` and `score` take: the download, with what each device computes
    from it by `follow`, not to be written to.
    """
    follow = declared(algorithm).follow
    if follow is None:
        return download
    return read_only(follow(download))


def predicts_ratings(algorithm: Any) -> bool:
    """Tells whether scores are ratings on the scale of the data, before they are clipped to it."""
    return declared(algorithm).traits.predicts_ratings


def read_only(state: State) -> State:
    """Returns a state with the same arrays as views that cannot be written to."""
    return type(state)(*map(view_only, state))


def rounds_an_epoch(algorithm: Any, catalogue: Catalogue) -> int:
    """Returns the rounds in which devices learn from as many rows as there are, by the algorithm's
    count; 1 if it has none.
    """
    own = getattr(algorithm, "rounds_an_epoch", None)
    return 1 if own is None else int(own(catalogue))


def folds_in(algorithm: Any) -> bool:
    """Tells whether a centralised algorithm takes users who were not in training: it has
    `fold_in(model, data)`, the model for the users of other rows.
    """
    return getattr(algorithm, "fold_in", None) is not None


def search_space(algorithm: Any) -> dict[str, str]:
    """Returns the ranges of a search without given ranges, as the algorithm's `search_space()` has
    them: {setting: "a..b", "a..b:log" or "value,value,..."}; {} if it has none.
    """
    own = getattr(algorithm, "search_space", dict)
    return dict(own())


def private_set(algorithm: Any, users: int) -> dict[str, SettingValue]:
    """Returns the settings of an algorithm, and of the protection of its sums (`noise`), that were
    tested together under the profile `private` for about so many users, as the algorithm's
    `private_set(users)` has them; {} if it has none.
    """
    own = getattr(algorithm, "private_set", None)
    return {} if own is None else dict(own(users))


# ---- in one federation ---------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Contract:
    """A declaration with the sizes of one federation, and the shapes and byte counts that follow
    from both.
    """

    declaration: Declaration
    sizes: Mapping[str, int]
    sends: tuple[SentArray, ...]
    """Those of the declaration that these settings send."""
    mean_history: float = 1.0
    """Interactions of a user."""

    @property
    def name(self) -> str:
        """The name of the algorithm's class."""
        return self.declaration.name

    @property
    def groups(self) -> int:
        """The number of separate sums of dense arrays and weights."""
        groups = self.declaration.traits.groups
        if groups:
            return self.sizes[groups]
        return 1

    @property
    def weighs(self) -> bool:
        """True if devices may have a weight other than 1."""
        return any(sent.way == "weight" for sent in self.sends)

    @property
    def usual_weight(self) -> float:
        """A weight that says nothing of its device: as declared, or the mean number of
        interactions; 1 where nobody weighs.
        """
        if not self.weighs:
            return 1.0
        usual = next(sent.usual for sent in self.sends if sent.way == "weight")
        return self.mean_history if usual is None else usual

    @property
    def cohort(self) -> int:
        """The number of devices in a round."""
        users = self.sizes["users"]
        # A setting of 0 stands for everybody.
        return min(self.sizes.get("cohort", 0), users) or users

    def delivered(self, download: State, users: Int64Array) -> State:
        """Returns the download for the devices of `users`, not to be written to: all of it, or the
        part that `deliver` makes for them.
        """
        deliver = self.declaration.deliver
        return read_only(download if deliver is None else deliver(download, users))

    def of_devices(self, delivered: State, rows: Int64Array) -> State:
        """Returns the part of a delivered download that some of its devices receive, not to be
        written to. rows: int64, their places among the devices that it was delivered for.
        """
        # Arrays without an axis of devices are the same for all.
        arrays = arrays_of(delivered)
        for field in self.receives:
            if field.axes.sizes[:1] == ("devices",):
                arrays[field.name] = arrays[field.name][rows]
        return read_only(type(delivered)(**arrays))

    @property
    def receives(self) -> tuple[DeclaredArray, ...]:
        """The declared arrays of a download."""
        return self._fields(self.declaration.receives, "receives")

    @property
    def shared(self) -> tuple[str, ...]:
        """The names of the arrays of a download that all devices receive alike: all of them without
        `deliver`, else those whose shape does not depend on the devices of a delivery.
        """
        whole = self.declaration.deliver is None
        return tuple(
            field.name for field in self.receives if whole or not _of_delivery(field.axes.sizes)
        )

    @property
    def keeps(self) -> tuple[DeclaredArray, ...]:
        """The declared arrays of private state; their shapes are without the axis of the
        devices.
        """
        return self._fields(self.declaration.keeps, "keeps")

    def _fields(self, state: type | None, part: str) -> tuple[DeclaredArray, ...]:
        if state is None:
            return ()
        return fields_of(state, f"{self.name}.{part}")

    def way(self, way: str) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of arrays sent in one way ("rows", "dense", ...) by name: of one row,
        or of one device's array.
        """
        return {sent.name: self.shape(sent.sizes) for sent in self.sends if sent.way == way}

    def misplaced(self, arrays: Mapping[str, Array]) -> str:
        """Compares the numbers that devices show with their ranges. Returns the first error as one
        line, "" if there is none.
        """
        for sent in self.sends:
            if sent.way != "shown" or (sent.below is None and sent.least is None):
                continue
            values = arrays.get(sent.name)
            if values is None:
                continue
            least = sent.least or 0
            range_ = f"from {least}"
            # A NaN is not below infinity either.
            right = (values >= least) & (values < np.inf)
            if sent.below is not None:
                below = self.size(sent.below)
                range_ += f", whole, below {below}"
                right &= (values < below) & (values == np.floor(values))
            if not bool(right.all()):
                return f"'{sent.name}': a number that is not {range_}"
        return ""

    def shape(self, sizes: tuple[Size, ...]) -> tuple[int, ...]:
        """Returns a shape in numbers, from named sizes. Raises ContractError for a name that
        nothing decides.
        """
        return tuple(self.size(size) for size in sizes)

    def size(self, size: Size) -> int:
        """Returns a size as a number; of a size that arrays decide, the most it may be. Raises
        ContractError for a name that nothing decides.
        """
        named = upper_bound(size)
        if isinstance(named, int):
            return named
        # Found here, before a device runs, rather than by an array of the wrong shape.
        if named not in self.sizes:
            problem = f"nothing says how much '{named}' is"
            raise ContractError(
                self.name,
                problem,
                expected=f"one of {', '.join(sorted(self.sizes))}, or another by `sizes`",
            )
        return self.sizes[named]

    @property
    def most_bytes(self) -> int:
        """The most bytes that one device sends in a round."""
        return self.sizes["rows"] * self.row_bytes + self._once

    @property
    def block_bytes(self) -> int:
        """Bytes that one device usually takes in memory: all that it sends, and all that it
        receives for itself alone.
        """
        sent = self.sizes["usual_rows"] * self.row_bytes + self._once
        received = 0
        for field in self.receives:
            if field.axes.sizes[:1] == ("devices",):
                received += _bytes(self.shape(field.axes.sizes[1:]), field.dtype)
        return max(1, sent + received)

    @property
    def message_bytes(self) -> int:
        """The most bytes that one peer pushes to another at once."""
        pushed = [sent for sent in self.sends if sent.way == "pushed"]
        return sum(_bytes(self.shape(sent.sizes), sent.dtype) for sent in pushed)

    @property
    def row_bytes(self) -> int:
        """Bytes of one item's id and rows as they are sent; 0 where no rows are sent."""
        shapes = self.way("rows").values()
        if not shapes:
            return 0
        return 4 + sum(_bytes(shape, "float32") for shape in shapes)

    @property
    def _once(self) -> int:
        """Bytes that a device sends whatever the number of its rows."""
        shapes = [*self.way("dense").values(), *self.way("shown").values()]
        return sum(_bytes(shape, "float32") for shape in shapes)

    def empty_total(self) -> Total:
        """Returns an empty sum with arrays of the declared shapes."""
        return zero_total(self.sizes["items"], self.way("rows"), self.way("dense"), self.groups)


def bound(algorithm: Any, catalogue: Catalogue) -> Contract:
    """Returns the contract of a configured algorithm in the federation of a catalogue. Raises
    ContractError for a size that nothing decides.
    """
    declaration = declared(algorithm)
    sends = tuple(sent for sent in declaration.sends if _is_sent(algorithm, sent))
    mean_history = catalogue.interactions / max(1, catalogue.users)
    contract = Contract(declaration, _sizes(algorithm, catalogue), sends, mean_history)
    # Each size must have a number; only that of the devices comes with a delivery.
    shapes = [field.axes.sizes for field in (*contract.receives, *contract.keeps)]
    shapes += [sent.sizes for sent in sends]
    for shape in shapes:
        for size in shape:
            if upper_bound(size) != "devices":
                contract.size(size)
    return contract


def _is_sent(algorithm: Any, sent: SentArray) -> bool:
    """Tells whether an array leaves devices under the settings of an algorithm."""
    name = sent.only_if
    if not name:
        return True
    if not hasattr(algorithm, name):
        where = type(algorithm).__name__
        raise ContractError(where, f"`only_if` names '{name}'", expected="one of its settings")
    return bool(getattr(algorithm, name))


def _sizes(algorithm: Any, catalogue: Catalogue) -> dict[str, int]:
    """Returns the sizes of one federation by name."""
    settings = algorithm if isinstance(algorithm, Settings) else ()
    # A bool is an int, and no size.
    sizes = {name: value for name, value in settings if type(value) is int}
    sizes |= {"items": catalogue.items, "users": catalogue.users}
    if hasattr(algorithm, "sizes"):
        # The algorithm's own word goes last, and may replace a setting of the same name.
        sizes |= algorithm.sizes(catalogue)
    rows = sizes.get("rows", catalogue.items)
    # An algorithm that says nothing of its usual message is taken to send its largest.
    sizes.setdefault("usual_rows", rows)
    sizes["rows"] = min(rows, catalogue.items)
    return sizes


def upper_bound(size: Size) -> str | int:
    """Returns the name, or the number, that a size is at most: its own, except for a size that
    arrays decide.
    """
    if isinstance(size, UpTo):
        return size.most
    return size


def _of_delivery(sizes: tuple[Size, ...]) -> bool:
    return any(isinstance(size, UpTo) or upper_bound(size) == "devices" for size in sizes)


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
