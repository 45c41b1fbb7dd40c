"""The shapes of the main parts: the data of devices, the functions of an algorithm, the answers of
a trained one. An algorithm is a set of hyper-parameters and pure functions over explicit state
(NamedTuples of arrays).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..errors import InputError
from ..lanes.memory import rows_of, starts_of
from ..types import Array, Float32Array, Float64Array, Int32Array, Int64Array
from .declarations import SentArray
from .item_features import ItemFeatures
from .own_rows import ITEM, PTR, ROW, OwnRows, named_arrays
from .update import Total, Update

# A NamedTuple of arrays; each algorithm defines its own.
State = Any
# Is called with (done, of how many, what).
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, what: str) -> None:
    """The Progress that shows nothing."""


class Catalogue(NamedTuple):
    """Everything that a coordinating server knows of the data before training."""

    users: int
    items: int
    interactions: int
    """Rows of all users together (X+)."""
    scale: tuple[float, float] = (1.0, 1.0)
    """(lowest, highest) rating; both 1 where nothing is rated."""
    features: ItemFeatures | None = None
    """What is known of the items; None if nothing is."""


def rated(scale: tuple[float, float], where: str) -> tuple[float, float]:
    """Returns the scale, (lowest, highest) rating. where: what cannot do without ratings. Raises
    InputError if all ratings are the same.

    >>> rated((1.0, 5.0), "fbalf")
    (1.0, 5.0)
    """
    low, high = scale
    if not low < high:
        fix = "name their column with --load value=COLUMN, or use an algorithm that ranks"
        raise InputError(
            where, "the data has no ratings to learn from", expected="ratings that differ", fix=fix
        )
    return low, high


class Visits(NamedTuple):
    """The visits of n rows: row r happened at time[ptr[r]:ptr[r + 1]], at least once."""

    ptr: Int64Array
    """int64 [n + 1] from 0."""
    time: Int64Array
    """int64 [ptr[n]] in microseconds, NO_TIME where not known."""
    row: Int64Array
    """int64 [ptr[n]], the place of each visit in the source, which breaks ties in time."""


class Moments(NamedTuple):
    """The times of n rows."""

    time: Int64Array
    """int64 [n], the column of that name."""
    row: Int64Array
    """int64 [n], the column of that name."""
    visits: Visits | None
    """All visits of the rows; None if each row is one visit."""

    @property
    def each(self) -> Visits:
        """All visits, including those of rows that are one visit."""
        if self.visits is not None:
            return self.visits
        return Visits(np.arange(len(self.time) + 1), self.time, self.row)


class Histories(NamedTuple):
    """The private data of m devices. Device d holds item[ptr[d]:ptr[d + 1]], ascending.

    An honest experiment avoids the history and nothing else. Avoiding held-out items too is the
    leak that the leak check looks for.
    """

    ptr: Int64Array
    """int64 [m + 1] from 0."""
    item: Int32Array
    """int32 [ptr[m]]."""
    value: Float32Array
    """float32 [ptr[m]], the rating of each row."""
    avoid_ptr: Int64Array
    """int64 [m + 1] from 0, the layout of `avoid`."""
    avoid: Int32Array
    """Items that device d never draws as a negative, ascending."""
    time: Int64Array | None = None
    """int64 [ptr[m]], when each row was, as in Interactions."""
    row: Int64Array | None = None
    """int64 [ptr[m]], the place of each row in the source."""
    places: Float64Array | None = None
    """float64 [items, 2], degrees latitude and longitude of every item, NaN where not known. Not
    private: the same for all devices."""
    visits: Visits | None = None
    """The visits of every row, where rows stand for several; None if each row is one visit."""
    features: ItemFeatures | None = None
    """What is known of the items, as in `Catalogue`. Not private: the same for all devices."""


def some_visits(visits: Visits | None, rows: Int64Array | slice) -> Visits | None:
    """Returns the visits of some rows, in their order; None of None. rows: int64 [m], or a slice
    without a step.

    >>> visits = Visits(np.array([0, 2, 3]), np.array([5, 9, 7]), np.arange(3))
    >>> some_visits(visits, np.array([1, 0])).time.tolist()
    [7, 5, 9]
    """
    if visits is None:
        return None
    if isinstance(rows, slice):
        everything = np.arange(len(visits.ptr) - 1)
        rows = everything[rows]
    ptr, at = rows_of(visits.ptr, rows)
    return Visits(ptr, visits.time[at], visits.row[at])


def joined_visits(parts: Sequence[Moments | None]) -> Visits | None:
    """Returns the visits of the rows of several parts, one behind the other; None if every row of
    all parts is one visit, or a part has no times.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or all(part.visits is None for part in known):
        return None
    each = [part.each for part in known]
    counts = [np.diff(visits.ptr) for visits in each]
    ptr = starts_of(np.concatenate(counts))
    time = np.concatenate([visits.time for visits in each])
    row = np.concatenate([visits.row for visits in each])
    return Visits(ptr, time, row)


def grouped_visits(row_of: Int64Array, time: Int64Array, row: Int64Array, rows: int) -> Visits:
    """Returns visits grouped by the row that they belong to, those of a row by time and then by
    place in the source.

    row_of: int64 [visits], the row (0 to rows - 1) of each visit; every row has at least one. time,
    row: as in `Visits`.

    >>> grouped_visits(np.array([1, 0, 1]), np.array([9, 7, 5]), np.arange(3), 2)
    Visits(ptr=array([0, 1, 3]), time=array([7, 5, 9]), row=array([1, 2, 0]))
    """
    # The last key counts first.
    order = np.lexsort((row, time, row_of))
    counts = np.bincount(row_of, minlength=rows)
    ptr = starts_of(counts)
    return Visits(ptr, time[order], row[order])


@runtime_checkable
class FederatedAlgorithm(Protocol):
    """Server-coordinated learning: what it declares, and the functions of server and device.

    `users` are the federation's user numbers (they name the randomness); the leading axis of
    `devices` and `histories` follows `users`. `local` and `score` run on the device, everything
    else on the server. `holds`, `receives` and `keeps` are the classes of the states of the server,
    of a download and of a device; core/contract/declarations.py says how they, `sends` and `traits`
    are written.
    """

    holds: ClassVar[type]
    receives: ClassVar[type]
    keeps: ClassVar[type]
    sends: ClassVar[tuple[SentArray, ...]]

    def configured(self, catalogue: Catalogue) -> Any:
        """Returns the same settings, made concrete for this federation."""

    def default_rounds(self, catalogue: Catalogue) -> int: ...
    def init_server(self, catalogue: Catalogue, key: np.uint64) -> State: ...
    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> State: ...
    def select(self, server: State, catalogue: Catalogue, key: np.uint64) -> Int64Array: ...
    def download(self, server: State) -> State: ...
    def local(
        self,
        download: State,
        devices: State,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[State, Update]: ...
    def aggregate(self, server: State, total: Total) -> State: ...
    def score(self, download: State, devices: State, histories: Histories) -> Float32Array: ...


class Abilities(Protocol):
    """Methods that a federated algorithm may have besides. `declared` finds each by its name, and
    tests/core/test_contract.py holds the signatures of all algorithms to these.
    """

    def follow(self, download: State) -> State:
        """Returns the model that `local` and `score` take in the place of a download: its arrays,
        and those that follow from them. Each device computes these itself, so that no server can
        send others. Not together with `deliver`."""
        ...

    def local_sum(
        self,
        download: State,
        devices: State,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[State, Total, int, int]:
        """Adds up what devices send while it trains them, with the bits of `local` and
        `add_update`. Returns private state, total, and how many rows and bytes were sent."""
        ...

    def solo_rounds(
        self, server: State, devices: State, histories: Histories, rounds: range, key: np.uint64
    ) -> tuple[State, State, int, int]:
        """Runs many rounds of one device each as one compiled loop, with the bits of one round at a
        time. Returns server, private state, and how many rows and bytes were sent."""
        ...

    def many_rounds(
        self,
        server: State,
        devices: State,
        histories: Histories,
        rounds: range,
        key: np.uint64,
        catalogue: Catalogue,
    ) -> tuple[State, State, int, int]:
        """Runs many rounds of any cohorts at once, with the bits of one round at a time, where a
        round needs little of what devices receive. Returns server, private state, how many devices
        took part, and how many bytes were sent."""
        ...

    def deliver(self, download: State, users: Int64Array) -> State:
        """Returns the download for the devices of `users` alone."""
        ...

    def deliver_newcomer(self, download: State, told: Update | None, key: np.uint64) -> State:
        """Returns the download for one device of somebody who was not in training, where `deliver`
        sends each device something else. told: what the device would have sent in its round
        before, which stays with it; None at first, when its own part comes from the key."""
        ...

    def biases(
        self, download: State, devices: State, histories: Histories
    ) -> tuple[Float32Array, Float32Array]:
        """Returns the user's part of a predicted rating, float32 [m], and the item's, float32
        [items]."""
        ...

    def score_with_key(
        self,
        download: State,
        devices: State,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> Float32Array:
        """Returns what `score` returns, where scoring draws: device d draws from the key and
        users[d] alone. An algorithm that has this method needs no `score`."""
        ...


@runtime_checkable
class CentralAlgorithm(Protocol):
    """Centralised learning: the baselines, which see everybody's data.

    `holds` is the class of the model, `data` an Interactions of the training rows. One that
    predicts ratings may offer `biases(model, data, users)`, as federated algorithms do.
    """

    holds: ClassVar[type]

    def fit(self, data: Any, key: np.uint64, progress: Progress = silent) -> State: ...
    def score(self, model: State, data: Any, users: Int64Array) -> Float32Array: ...


class Scorer(Protocol):
    """A trained algorithm, as evaluation and recommendation see it."""

    def scores(self, users: Int64Array) -> Float32Array:
        """Returns the scores of all items, float32 [len(users), items]; higher is better. They are
        ratings where the algorithm predicts ratings.
        """
        ...


class TopN(NamedTuple):
    """Recommendation lists of m users."""

    item: Int32Array
    """int32 [m, n], -1 where a list is shorter."""
    score: Float32Array
    """float32 [m, n]."""


def arrays_of(state: State) -> dict[str, Array]:
    """Returns the arrays of a state by field name, in field order. Own rows are three arrays:
    NAME.ptr, NAME.item and NAME.row.
    """
    return arrays_in(state._asdict())


def arrays_in(fields: Mapping[str, Any]) -> dict[str, Array]:
    """Returns the arrays of named fields, each an array or own rows, as `arrays_of` has them."""
    arrays: dict[str, Array] = {}
    for name, value in fields.items():
        if isinstance(value, OwnRows):
            arrays |= named_arrays(name, value)
        else:
            arrays[name] = np.asarray(value)
    return arrays


def state_of(kind: Any, arrays: Mapping[str, Array]) -> State:
    """Returns the state of a class whose arrays are those of `arrays_of`. Raises KeyError for one
    that is missing.
    """
    return kind(*(_field_of(name, arrays) for name in kind._fields))


def _field_of(name: str, arrays: Mapping[str, Array]) -> Any:
    if name + PTR in arrays:
        return OwnRows(arrays[name + PTR], arrays[name + ITEM], arrays[name + ROW])
    return arrays[name]


def joined_states(parts: Sequence[State]) -> State:
    """Returns the private state of the devices of several parts, one part behind the other."""
    return type(parts[0])(*(joined(values) for values in zip(*parts, strict=True)))


def joined(values: Sequence[Any]) -> Any:
    """Returns one field, an array or own rows, of the devices of several parts."""
    if isinstance(values[0], OwnRows):
        return OwnRows.joined(values)
    return np.concatenate(values)


def model_sha256(arrays: Mapping[str, Array]) -> str:
    """The identity of a model: the SHA-256 of the names, types, shapes and bytes of its arrays, in
    the order of their names.
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        # Type and shape come before the bytes, so that no two models have one text.
        digest.update(bytes_of(array))
    return digest.hexdigest()


def bytes_of(array: Array) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data
