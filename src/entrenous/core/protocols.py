"""The shapes of the main parts. An algorithm is hyper-parameters plus pure functions over explicit state (NamedTuples of arrays)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .types import Array, Float32Array, Float64Array, Int32Array, Int64Array
from .update import Total, Update

State = Any  # a NamedTuple of arrays; each algorithm defines its own
Progress = Callable[[int, int, str], None]  # (done, of how many, what)


def silent(done: int, total: int, what: str) -> None:
    """The Progress that shows nothing."""


class Catalogue(NamedTuple):
    """What a coordinating server knows before training: how many users, items and interactions (X+) there are, and the scale on which
    users rate, (lowest, highest); both 1 where nothing is rated. Nothing else."""

    users: int
    items: int
    interactions: int
    scale: tuple[float, float] = (1.0, 1.0)


class Histories(NamedTuple):
    """The private data of m devices. Device d holds item[ptr[d]:ptr[d + 1]], ascending, with their values.

    ptr: int64 [m + 1] from 0; item: int32 [ptr[m]]; value: float32 [ptr[m]].
    avoid_ptr, avoid: what device d never draws as a negative, laid out in the same way. An honest experiment avoids the history and
    nothing else; avoiding held-out items too is the leak that the leak check is there to find.
    time, row: int64 [ptr[m]] or None, when each row was and its place in the source, as in Interactions.
    places: float64 [items, 2] or None, degrees latitude and longitude of every item, NaN where not known: not private, the same for all.
    """

    ptr: Int64Array
    item: Int32Array
    value: Float32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    time: Int64Array | None = None
    row: Int64Array | None = None
    places: Float64Array | None = None


class Disclosed(NamedTuple):
    """One array that leaves a device: what it is called in the Update, its shape, how often it goes, what it reveals."""

    name: str
    shape: str
    when: str
    reveals: str


@runtime_checkable
class FederatedAlgorithm(Protocol):
    """Server-coordinated learning. `users` are the federation's user numbers (they name the randomness); the leading axis of
    `devices` and `histories` follows `users`. `local` and `score` run on the device; everything else on the server. One whose
    devices draw no negatives has `draws_negatives = False`; settings that each user decides on their own device are `decided_by_user`.
    One whose scores are predicted ratings has `predicts_ratings = True`, and may offer `biases(download, devices, histories)`: what of a
    prediction is the user's, float32 [m], and the item's, float32 [items]."""

    disclosure: ClassVar[tuple[Disclosed, ...]]

    def configured(self, catalogue: Catalogue) -> Any: ...  # the same settings, made concrete for this federation
    def default_rounds(self, catalogue: Catalogue) -> int: ...
    def update_bytes(self, catalogue: Catalogue) -> int: ...  # the most one device sends in a round
    def init_server(self, catalogue: Catalogue, key: np.uint64) -> State: ...
    def init_devices(self, users: Int64Array, key: np.uint64) -> State: ...
    def select(self, server: State, catalogue: Catalogue, key: np.uint64) -> Int64Array: ...
    def download(self, server: State) -> State: ...
    def local(
        self, download: State, devices: State, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[State, Update]: ...
    def aggregate(self, server: State, total: Total) -> State: ...
    def score(self, download: State, devices: State, histories: Histories) -> Float32Array: ...


def delivered(algorithm: FederatedAlgorithm, download: State, users: Int64Array) -> State:
    """What the devices of `users` receive of a download: all of it, unless the algorithm has something for each and says so by
    `deliver(download, users)`."""
    deliver = getattr(algorithm, "deliver", None)
    return download if deliver is None else deliver(download, users)


def predicts_ratings(algorithm: Any) -> bool:
    """Whether scores are ratings on the scale of the data, before they are clipped to it."""
    return bool(getattr(algorithm, "predicts_ratings", False))


@runtime_checkable
class CentralAlgorithm(Protocol):
    """Centralised learning: the baselines, which see everybody's data. `data` is an Interactions of the training rows. `predicts_ratings`
    and `biases(model, data, users)` are as for federated algorithms."""

    def fit(self, data: Any, key: np.uint64, progress: Progress = silent) -> State: ...
    def score(self, model: State, data: Any, users: Int64Array) -> Float32Array: ...


class Recommender(Protocol):
    """A trained algorithm, as evaluation and recommendation see it."""

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of all items, float32 [len(users), items]; higher is better. Ratings, where the algorithm predicts ratings."""
        ...


class TopN(NamedTuple):
    """Recommendation lists: item int32 [m, n] (-1 where a list is shorter) and score float32 [m, n]."""

    item: Int32Array
    score: Float32Array


def arrays_of(state: State) -> dict[str, Array]:
    """The arrays of a state by field name, in field order."""
    return {name: np.asarray(value) for name, value in state._asdict().items()}
