"""The shapes of the main parts. An algorithm is hyper-parameters plus pure functions over explicit
state (NamedTuples of arrays).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..types import Array, Float32Array, Float64Array, Int32Array, Int64Array
from ..visits import Visits
from .declarations import SentArray
from .update import Total, Update

State = Any  # a NamedTuple of arrays; each algorithm defines its own
Progress = Callable[[int, int, str], None]  # (done, of how many, what)


def silent(done: int, total: int, what: str) -> None:
    """The Progress that shows nothing."""


class Catalogue(NamedTuple):
    """What a coordinating server knows before training: how many users, items and interactions (X+)
    there are, and the scale on which users rate, (lowest, highest); both 1 where nothing is rated.
    Nothing else.
    """

    users: int
    items: int
    interactions: int
    scale: tuple[float, float] = (1.0, 1.0)


class Histories(NamedTuple):
    """The private data of m devices. Device d holds item[ptr[d]:ptr[d + 1]], ascending, with their
    values.

    ptr: int64 [m + 1] from 0; item: int32 [ptr[m]]; value: float32 [ptr[m]]. avoid_ptr, avoid: what
    device d never draws as a negative, laid out in the same way. An honest experiment avoids the
    history and nothing else; avoiding held-out items too is the leak that the leak check is there
    to find. time, row: int64 [ptr[m]] or None, when each row was and its place in the source, as in
    Interactions. places: float64 [items, 2] or None, degrees latitude and longitude of every item,
    NaN where not known: not private, the same for all. visits: of every row, where rows stand for
    several visits; None if each is one.
    """

    ptr: Int64Array
    item: Int32Array
    value: Float32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    time: Int64Array | None = None
    row: Int64Array | None = None
    places: Float64Array | None = None
    visits: Visits | None = None


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

    def configured(
        self, catalogue: Catalogue
    ) -> Any: ...  # the same settings, made concrete for this federation
    def default_rounds(self, catalogue: Catalogue) -> int: ...
    def init_server(self, catalogue: Catalogue, key: np.uint64) -> State: ...
    def init_devices(self, users: Int64Array, key: np.uint64) -> State: ...
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


# ---- what a federated algorithm may also offer: `core.declared` finds it -------------------------


class SumsItself(Protocol):
    """Adds up what its devices send while it trains them, with the bits of `local` and
    `add_update`.
    """

    def local_sum(
        self,
        download: State,
        devices: State,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[
        State, Total, int, int
    ]: ...  # private state, total, how many rows and bytes were sent


class RunsAlone(Protocol):
    """Runs many rounds of one device each as one compiled loop, with the bits of one round at a
    time.
    """

    def solo_rounds(
        self, server: State, devices: State, histories: Histories, rounds: range, key: np.uint64
    ) -> tuple[
        State, State, int, int
    ]: ...  # server, private state, how many rows and bytes were sent


class RunsMany(Protocol):
    """Runs many rounds of any cohorts at once, with the bits of one round at a time, where a round
    needs little of what devices receive.
    """

    def many_rounds(
        self,
        server: State,
        devices: State,
        histories: Histories,
        rounds: range,
        key: np.uint64,
        catalogue: Catalogue,
    ) -> tuple[
        State, State, int, int
    ]: ...  # server, private state, how many devices took part, and how many bytes were sent


class Delivers(Protocol):
    """Has a download of their own for the devices of `users`."""

    def deliver(self, download: State, users: Int64Array) -> State: ...


class TellsParts(Protocol):
    """Tells the user's part of a predicted rating, float32 [m], from the item's, float32
    [items].
    """

    def biases(
        self, download: State, devices: State, histories: Histories
    ) -> tuple[Float32Array, Float32Array]: ...


@runtime_checkable
class CentralAlgorithm(Protocol):
    """Centralised learning: the baselines, which see everybody's data.

    `holds` is the class of the model, `data` an Interactions of the training rows. One that
    predicts ratings may offer `biases(model, data, users)`, as federated algorithms do.
    """

    holds: ClassVar[type]

    def fit(self, data: Any, key: np.uint64, progress: Progress = silent) -> State: ...
    def score(self, model: State, data: Any, users: Int64Array) -> Float32Array: ...


class Recommender(Protocol):
    """A trained algorithm, as evaluation and recommendation see it."""

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of all items, float32 [len(users), items]; higher is better. Ratings, where the
        algorithm predicts ratings.
        """
        ...


class TopN(NamedTuple):
    """Recommendation lists: item int32 [m, n] (-1 where a list is shorter) and score float32 [m,
    n].
    """

    item: Int32Array
    score: Float32Array


def arrays_of(state: State) -> dict[str, Array]:
    """The arrays of a state by field name, in field order."""
    return {name: np.asarray(value) for name, value in state._asdict().items()}
