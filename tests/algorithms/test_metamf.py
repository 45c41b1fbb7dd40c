"""MetaMF against its formulas in plain NumPy, its gradients against automatic differentiation, and
who takes part.
"""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from small_data import few_ratings

from entrenous.core.contract.declared import bound
from entrenous.core.contract.update import Update, add_update, empty_total
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.kernels import meta_network
from entrenous.kernels.meta_network import MetaParameters, MetaSizes, views
from entrenous.systems.metamf import MetaMF, MetaMFServer

USERS, ITEMS = 6, 9
SMALL = {"user": 3, "taste": 16, "hidden": 16, "low": 2, "factors": 4, "predictor": 3}
WIDE = {
    "batch": 4,
    "cohort": 0,
    "drawn": "evenly",
    "sparse": False,
    "rate_decay": 1.0,
}  # all that a round moves, whoever takes part
SETTINGS: dict[str, Any] = {**SMALL, **WIDE, "learning_rate": 0.01, "reg": 0.1, "clip": 1e6}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS, idle=True)


def begun(data: Interactions, **settings: Any) -> tuple[MetaMF, MetaMFServer]:
    """A server with parameters large enough that all paths carry something."""
    algorithm = MetaMF(**{**SETTINGS, **settings}).configured(data.catalogue)
    server = algorithm.init_server(data.catalogue, key(0, "server"))
    theta = np.random.default_rng(1).normal(0, 0.4, server.theta.shape).astype(np.float32)
    return algorithm, server._replace(theta=theta)


def local(
    algorithm: MetaMF,
    server: MetaMFServer,
    data: Interactions,
    users: np.ndarray,
    round_number: int = 1,
) -> Update:
    received, none = (
        algorithm.deliver(algorithm.download(server), users),
        algorithm.init_devices(users, data.catalogue, key(0)),
    )
    return algorithm.local(
        received, none, data.histories(users), users, key(0, "round", round_number)
    )[1]


def predicted(theta: Any, sizes: MetaSizes, u: int, item: np.ndarray) -> Any:
    """r^_ui of some items from the paper's formulas, as published: with the item embeddings A_u B_u
    made whole.
    """
    parts, at = [], 0
    for shape in sizes.shapes:
        n = int(np.prod(shape))
        parts.append(anp.reshape(theta[at : at + n], shape))
        at += n
    meta = MetaParameters(*parts)
    c = anp.dot(meta.user[u], meta.memory)
    h = [anp.maximum(anp.dot(meta.inner[g], c) + meta.inner0[g], 0) for g in range(4)]
    a = anp.reshape(anp.dot(meta.low, h[0]) + meta.low0, (sizes.items, sizes.low))
    b = anp.reshape(anp.dot(meta.rise, h[1]) + meta.rise0, (sizes.low, sizes.item))
    first, second = (
        anp.dot(meta.first, h[2]) + meta.first0,
        anp.dot(meta.second, h[3]) + meta.second0,
    )
    weight = anp.reshape(first[: sizes.item * sizes.predictor], (sizes.item, sizes.predictor))
    hidden = anp.maximum(
        anp.dot(anp.dot(a, b)[item], weight) + first[sizes.item * sizes.predictor :], 0
    )
    return 3 + anp.dot(hidden, second[:-1]) + second[-1]


def batches(update: Update) -> list[np.ndarray]:
    """The items that each device sent something about."""
    return [row[row >= 0].astype(int) for row in update.shown["item"]]


def slope_of(server: MetaMFServer, update: Update, sizes: MetaSizes) -> np.ndarray:
    """The slope of all parameters that the server makes of what devices show."""
    slope, shown = np.zeros_like(server.theta), update.shown
    by_models = meta_network.GeneratedModels(
        shown["low"], shown["rise"].reshape(USERS, -1), shown["first"], shown["second"]
    )
    count = sum(map(len, batches(update)))
    meta_network.back(
        views(server.theta, sizes),
        update.sender,
        shown["item"],
        by_models,
        np.float32(1 / count),
        views(slope, sizes),
    )
    return slope


def test_scores_are_the_papers_formula(data: Interactions) -> None:
    algorithm, server = begun(data)
    users = np.array([0, 3, 5])
    scores = algorithm.score(
        algorithm.deliver(server, users),
        algorithm.init_devices(users, data.catalogue, key(0)),
        data.histories(users),
    )
    theta, sizes = server.theta.astype(float), algorithm.meta_sizes(USERS, ITEMS)
    expected = np.array([predicted(theta, sizes, u, np.arange(ITEMS)) for u in users])
    assert expected.std() > 0.1 and np.allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_a_round_goes_down_the_gradient_of_the_mean_squared_error(data: Interactions) -> None:
    """Devices' gradients through the meta network are those of the whole, by automatic
    differentiation.
    """
    algorithm, server = begun(data)
    sizes = algorithm.meta_sizes(USERS, ITEMS)
    update = local(algorithm, server, data, np.arange(USERS))
    rated = np.zeros((USERS, ITEMS))
    rated[data.user, data.item] = data.value
    chosen = batches(update)
    count = sum(map(len, chosen))

    def cost(theta: Any) -> Any:
        errors = [
            anp.sum((predicted(theta, sizes, u, items) - rated[u, items]) ** 2)
            for u, items in enumerate(chosen)
            if len(items)
        ]
        return sum(errors) / count

    slope = slope_of(server, update, sizes)
    expected = grad(cost)(server.theta.astype(float))
    for name, mine, true in zip(
        MetaParameters._fields, views(slope, sizes), views(expected, sizes), strict=True
    ):
        assert np.abs(true).max() > 1e-3, name
        assert np.allclose(mine, true, rtol=2e-3, atol=2e-5), name


@pytest.mark.parametrize(("clip", "decay"), [(1e6, "gradient"), (0.01, "gradient"), (1e6, "apart")])
def test_the_servers_step_is_adams(data: Interactions, clip: float, decay: str) -> None:
    """m = 0.1 g and s = 0.001 g^2 after one step, which moves by 0.01 g / (|g| + 1e-8); g: the cut
    slope plus 0.1 theta, or not.
    """
    algorithm, server = begun(data, clip=clip, decay=decay)
    update = local(algorithm, server, data, np.arange(USERS))
    slope = slope_of(server, update, algorithm.meta_sizes(USERS, ITEMS)).astype(float)
    g = slope * min(1, clip / np.linalg.norm(slope))
    assert bool(np.linalg.norm(g) < 0.011) == (clip == 0.01)
    g += 0.1 * server.theta * (decay == "gradient")
    after = algorithm.aggregate(server, add_update(empty_total(update, ITEMS), update))
    kept = 1 - 0.01 * 0.1 * (decay == "apart")
    assert np.allclose(after.m, 0.1 * g, atol=1e-6) and np.allclose(
        after.s, 0.001 * g**2, atol=1e-7
    )
    assert np.allclose(after.theta, kept * server.theta - 0.01 * g / (np.abs(g) + 1e-8), atol=2e-5)
    assert after.step.tolist() == [1] and server.step.tolist() == [0]


def test_a_device_draws_each_of_its_ratings_once_before_any_a_second_time(
    data: Interactions,
) -> None:
    """Batches of 4: of an order of 6 ratings 4 and 2, and then another order; one who has 4 or
    fewer sends all each time.
    """
    algorithm, server = begun(data, batch=4)
    users, devices, orders = (
        np.arange(USERS),
        algorithm.init_devices(np.arange(USERS), data.catalogue, key(0)),
        set(),
    )
    drawn: list[list[int]] = [[] for _ in users]
    for number in range(30):
        received = algorithm.deliver(algorithm.download(server), users)
        devices, update = algorithm.local(
            received, devices, data.histories(users), users, key(0, "round", number)
        )
        for u, items in enumerate(batches(update)):
            assert (np.diff(items) > 0).all()  # ascending, which does not tell the order
            drawn[u] += items.tolist()
        assert devices.done.tolist() == list(map(len, drawn))
    for u in users:
        own = data.item[data.user == u].tolist()
        assert all(
            sorted(drawn[u][k : k + len(own)]) == own
            for k in range(0, len(drawn[u]) - len(own), max(1, len(own)))
        )
        orders |= (
            {tuple(drawn[u][k : k + 4]) for k in range(0, len(drawn[u]), len(own)) if len(own) > 4}
            if own
            else set()
        )
    assert len(orders) > 3


def test_devices_come_in_turns_as_many_as_their_ratings_fill_batches() -> None:
    """Users with 1, 5 and 8 ratings, batches of 2: 1, 3 and 4 turns in the 8 rounds of an epoch, in
    an order that changes.
    """
    data = build(
        np.repeat([0, 1, 2], [1, 5, 8]),
        np.r_[0, :5, :8],
        value=np.full(14, 3.0),
        scale=(1.0, 5.0),
        users=Vocabulary(size=3),
        items=Vocabulary(size=8),
    )
    algorithm, server = begun(data, batch=2, cohort=1, drawn="turns")
    server = server._replace(ratings=np.array([1, 5, 8], np.float32), epoch=np.array([8]))
    chosen = [
        algorithm.select(server._replace(step=np.array([n])), data.catalogue, key(0)).tolist()
        for n in range(24)
    ]
    epochs = [[u for (u,) in chosen[k : k + 8]] for k in (0, 8, 16)]
    assert (
        all(np.bincount(epoch).tolist() == [1, 3, 4] for epoch in epochs)
        and len(set(map(tuple, epochs))) == 3
    )
    assert (
        server.ratings.tolist() != begun(data)[1].ratings.tolist() == [4, 4, 4]
    )  # what the server takes for granted at first


def test_a_sparse_step_is_the_full_one_where_the_round_touched_something(
    data: Interactions,
) -> None:
    """Others' embeddings and other items' weights stay, where they would shrink; all else moves
    alike, to the bit.
    """
    (full, server), (sparse, _) = (begun(data, sparse=on) for on in (False, True))
    sizes, users = full.meta_sizes(USERS, ITEMS), np.array([1, 2])
    update = local(full, server, data, users)
    left, right = (
        views(
            algorithm.aggregate(server, add_update(empty_total(update, ITEMS), update)).theta, sizes
        )
        for algorithm in (full, sparse)
    )
    before, items = views(server.theta, sizes), np.unique(np.concatenate(batches(update)))
    rows = (items[:, None] * sizes.low + np.arange(sizes.low)).ravel()
    assert 0 < len(items) < ITEMS
    for name, a, b, was in zip(MetaParameters._fields, left, right, before, strict=True):
        touched = {"user": users, "low": rows, "low0": rows}.get(name, np.arange(len(was)))
        assert a[touched].tobytes() == b[touched].tobytes()
        others = np.setdiff1d(np.arange(len(was)), touched)
        assert b[others].tobytes() == was[others].tobytes() and (a[others] != was[others]).all()


@pytest.mark.parametrize(
    ("lie", "wrong"),
    [(ITEMS + 1.0, True), (1e30, True), (2.5, True), (-1.0, True), (float(ITEMS), False)],
)
def test_how_many_ratings_a_device_claims_is_held_to_the_catalogue(
    data: Interactions, lie: float, wrong: bool
) -> None:
    """The server shares out turns by it: one who claims to have more than there are items would
    have all turns.
    """
    algorithm, server = begun(data)
    contract, users = bound(algorithm, data.catalogue), np.arange(4)
    devices = algorithm.init_devices(users, data.catalogue, key(0))
    _, update = algorithm.local(
        contract.delivered(algorithm.download(server), users),
        devices,
        data.histories(users),
        users,
        key(0),
    )
    assert not contract.misplaced(update.shown)
    update.shown["ratings"][:] = lie
    assert bool(contract.misplaced(update.shown)) == wrong


def test_devices_that_all_claim_to_have_nothing_are_asked_all_the_same(data: Interactions) -> None:
    algorithm, server = begun(data, batch=2, cohort=4, drawn="turns")
    nothing = server._replace(ratings=np.zeros(len(server.ratings), np.float32))
    assert len(algorithm.select(nothing, data.catalogue, key(0)))
