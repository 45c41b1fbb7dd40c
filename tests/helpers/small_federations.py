"""Small federations, around a server and without one, and how their states are held against each
other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from entrenous.core.contract.declared import bound, followed
from entrenous.core.contract.own_rows import OwnRows
from entrenous.core.contract.update import Total, Update, add_update, empty_total
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.rounds import Rounds, Training
from entrenous.systems.named import algorithms

USERS, ITEMS = 24, 18
# How a device learns in its plainest form, and then all the rest of NCFSettings: a test that says
# these does not lean on any default.
PLAIN: dict[str, Any] = {
    "client": "epochs",
    "optimiser": "sgd",
    "learning_rate": 0.05,
    "learning_rate_item": None,
    "learning_rate_network": None,
    "epsilon": 1e-8,
    "reg": 0.0,
    "negatives": 4,
    "local_epochs": 1,
    "batch": 5,
}
SMALL: dict[str, Any] = {
    **PLAIN,
    "factors": 5,
    "layers": (6, 3),
    "learning_rate": 0.2,
    "init_std": 0.3,
    "local_epochs": 2,
    "negatives": 2,
    "cohort": 0,
    "rounds": 100,
}


# the same for algorithms that gossip, whatever the model: each takes those that it has
PEERS: dict[str, Any] = {
    "view": 3,
    "redraw": 2,
    "carried": 3,
    "largest": 50.0,
    "factors": 5,
    "learning_rate": 0.05,
    "learning_rate_user": 0.05,
    "learning_rate_output": 0.01,
    "reg": 0.01,
    "local_epochs": 2,
    "negatives": 2,
    "init_std": 0.1,
    "init_user": 0.2,
    "preference": 0.4,
    "tau": 0.0,
    "contexts": "nearest",
    "visits": "all",
    "rounds": 30,
    "alpha": 0.4,
    "reading": "exploration",
    "memory": "view",
    "measure": "hr",
    "weighting": 0.2,
    "meta_epochs": 3,
    "meta_rate": 0.2,
}
GOSSIP = [
    name
    for name, make in algorithms().items()
    if hasattr(getattr(make, "func", make), "on_message")
]


def gossiping(name: str, **changed: Any) -> Any:
    """An algorithm that gossips, with PEERS."""
    kind = algorithms()[name]
    return kind(
        **{one: value for one, value in {**PEERS, **changed}.items() if one in kind.model_fields}
    )


def when_and_where(user: np.ndarray, items: int) -> dict[str, Any]:
    """Times of rows and places of items, for algorithms that need them: {"time": [rows],
    "features": {"lat", "lon"}}.
    """
    rng = np.random.default_rng(9)
    places = {
        name: np.array([f"{degrees:.4f}" for degrees in rng.uniform(40, 41, items)])
        for name in ("lat", "lon")
    }
    return {"time": 1_000_000 + rng.integers(0, 10**6, len(user)), "features": places}


def shop(users: int = USERS, items: int = ITEMS, each: int | None = None) -> Interactions:
    """Users of two tastes; `each` = how many items everybody has."""
    rng = np.random.default_rng(4)
    liking = rng.random((users, items)) + (np.arange(items) % 2 == np.arange(users)[:, None] % 2)
    has = liking > 1.1 if each is None else liking >= -np.sort(-liking, axis=1)[:, [each - 1]]
    user, item = np.nonzero(has)
    names = Vocabulary(size=users, kind="user"), Vocabulary(size=items, kind="item")
    return build(user, item, users=names[0], items=names[1], **when_and_where(user, items))


def trained(algorithm: Any, data: Interactions, rounds: int, **how: Any) -> Training:
    """The training after some rounds."""
    federation = Rounds(algorithm, data, seed=1, **how)
    return federation.advance(federation.start(), rounds)


def sent(
    algorithm: Any, server: Any, devices: Any, data: Interactions, users: np.ndarray, n: int = 0
) -> tuple[Any, Update, Total]:
    """What devices do in a round, and the sum of what they send."""
    algorithm = algorithm.configured(data.catalogue)
    received = bound(algorithm, data.catalogue).delivered(algorithm.download(server), users)
    own = type(devices)(*(array[users] for array in devices))
    private, update = algorithm.local(
        followed(algorithm, received), own, data.histories(users), users, key(1, "round", n)
    )
    return private, update, add_update(empty_total(update, len(data.items)), update)


def started(algorithm: Any, data: Interactions) -> tuple[Any, Any]:
    """The first states of server and devices."""
    algorithm = algorithm.configured(data.catalogue)
    return algorithm.init_server(data.catalogue, key(1, "server")), algorithm.init_devices(
        np.arange(len(data.users)), data.catalogue, key(1, "devices")
    )


def stored(training: Training) -> list[bytes]:
    """All bytes of a training: the states of server and devices, and the ledger."""
    arrays = [array.tobytes() for array in (*training.server, *training.devices)]
    return [*arrays, repr(training.ledger).encode()]


def same(left: Any, right: Any) -> bool:
    """Whether two states, Updates or arrays have the same bits."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, OwnRows) and isinstance(right, OwnRows):
        return same(left.flat(), right.flat())
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    left, right = np.asarray(left), np.asarray(right)
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
    )
