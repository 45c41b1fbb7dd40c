"""MetaMF against its formulas in plain NumPy, its gradients against automatic differentiation, and who learns what."""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from within_contract import within_contract

from entrenous.algorithms.metamf import MetaMF, MetaMFServer
from entrenous.core.declared import bound
from entrenous.core.keys import key
from entrenous.core.update import Update, add_update, empty_total
from entrenous.core.vocabulary import Vocabulary
from entrenous.data.interactions import Interactions, build
from entrenous.federation.executors import Threads
from entrenous.federation.rounds import Rounds, Training
from entrenous.kernels import meta_network
from entrenous.kernels.meta_network import MetaParameters, MetaSizes, views
from entrenous.runs.recommenders import fitted

USERS, ITEMS, IDLE = 6, 9, 4
SMALL = {"user": 3, "taste": 16, "hidden": 16, "low": 2, "factors": 4, "predictor": 3}
SETTINGS: dict[str, Any] = {**SMALL, "batch": 4, "cohort": 0, "learning_rate": 0.01, "reg": 0.1, "clip": 1e6}


@pytest.fixture
def data() -> Interactions:
    rng = np.random.default_rng(0)
    has = rng.random((USERS, ITEMS)) < 0.6
    has[IDLE] = False
    user, item = np.nonzero(has)
    value = rng.integers(1, 6, len(user)).astype(np.float32)
    users, items = Vocabulary(size=USERS, kind="user"), Vocabulary(size=ITEMS, kind="item")
    return build(user, item, value=value, users=users, items=items, scale=(1.0, 5.0))


def begun(data: Interactions, **settings: Any) -> tuple[MetaMF, MetaMFServer]:
    """A server with parameters large enough that all paths carry something."""
    algorithm = MetaMF(**{**SETTINGS, **settings}).configured(data.catalogue)
    server = algorithm.init_server(data.catalogue, key(0, "server"))
    theta = np.random.default_rng(1).normal(0, 0.4, server.theta.shape).astype(np.float32)
    return algorithm, server._replace(theta=theta)


def local(algorithm: MetaMF, server: MetaMFServer, data: Interactions, users: np.ndarray, round_number: int = 1) -> Update:
    received, none = algorithm.deliver(algorithm.download(server), users), algorithm.init_devices(users, key(0))
    return algorithm.local(received, none, data.histories(users), users, key(0, "round", round_number))[1]


def predicted(theta: Any, sizes: MetaSizes, u: int, item: np.ndarray) -> Any:
    """r^_ui of some items from the paper's formulas, as published: with the item embeddings A_u B_u made whole."""
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
    first, second = anp.dot(meta.first, h[2]) + meta.first0, anp.dot(meta.second, h[3]) + meta.second0
    weight = anp.reshape(first[: sizes.item * sizes.predictor], (sizes.item, sizes.predictor))
    hidden = anp.maximum(anp.dot(anp.dot(a, b)[item], weight) + first[sizes.item * sizes.predictor :], 0)
    return 3 + anp.dot(hidden, second[:-1]) + second[-1]


def batches(update: Update) -> list[np.ndarray]:
    """The items that each device sent something about."""
    return [row[row >= 0].astype(int) for row in update.shown["item"]]


def test_scores_are_the_papers_formula(data: Interactions) -> None:
    algorithm, server = begun(data)
    users = np.array([0, 3, 5])
    scores = algorithm.score(algorithm.deliver(server, users), algorithm.init_devices(users, key(0)), data.histories(users))
    theta, sizes = server.theta.astype(float), algorithm.meta_sizes(USERS, ITEMS)
    expected = np.array([predicted(theta, sizes, u, np.arange(ITEMS)) for u in users])
    assert expected.std() > 0.1 and np.allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_a_round_goes_down_the_gradient_of_the_mean_squared_error(data: Interactions) -> None:
    """Devices' gradients through the meta network are those of the whole, by automatic differentiation."""
    algorithm, server = begun(data)
    sizes = algorithm.meta_sizes(USERS, ITEMS)
    update = local(algorithm, server, data, np.arange(USERS))
    rated = np.zeros((USERS, ITEMS))
    rated[data.user, data.item] = data.value
    chosen = batches(update)
    count = sum(map(len, chosen))

    def cost(theta: Any) -> Any:
        errors = [
            anp.sum((predicted(theta, sizes, u, items) - rated[u, items]) ** 2) for u, items in enumerate(chosen) if len(items)
        ]
        return sum(errors) / count

    slope, shown = np.zeros_like(server.theta), update.shown
    parts = shown["item"], shown["low"], shown["rise"].reshape(USERS, -1), shown["first"], shown["second"]
    meta_network.back(views(server.theta, sizes), update.sender, *parts, np.float32(1 / count), views(slope, sizes))
    expected = grad(cost)(server.theta.astype(float))
    for name, mine, true in zip(MetaParameters._fields, views(slope, sizes), views(expected, sizes), strict=True):
        assert np.abs(true).max() > 1e-3, name
        assert np.allclose(mine, true, rtol=2e-3, atol=2e-5), name


@pytest.mark.parametrize(("clip", "decay"), [(1e6, "gradient"), (0.01, "gradient"), (1e6, "apart")])
def test_the_servers_step_is_adams(data: Interactions, clip: float, decay: str) -> None:
    """m = 0.1 g and s = 0.001 g^2 after one step, which moves by 0.01 g / (|g| + 1e-8); g: the cut slope plus 0.1 theta, or not."""
    algorithm, server = begun(data, clip=clip, decay=decay)
    sizes, update = algorithm.meta_sizes(USERS, ITEMS), local(algorithm, server, data, np.arange(USERS))
    slope, shown = np.zeros_like(server.theta), update.shown
    parts = shown["item"], shown["low"], shown["rise"].reshape(USERS, -1), shown["first"], shown["second"]
    count = sum(map(len, batches(update)))
    meta_network.back(views(server.theta, sizes), update.sender, *parts, np.float32(1 / count), views(slope, sizes))
    g = slope.astype(float) * min(1, clip / np.linalg.norm(slope.astype(float)))
    assert bool(np.linalg.norm(g) < 0.011) == (clip == 0.01)
    g += 0.1 * server.theta * (decay == "gradient")
    after = algorithm.aggregate(server, add_update(empty_total(update, ITEMS), update))
    kept = 1 - 0.01 * 0.1 * (decay == "apart")
    assert np.allclose(after.m, 0.1 * g, atol=1e-6) and np.allclose(after.s, 0.001 * g**2, atol=1e-7)
    assert np.allclose(after.theta, kept * server.theta - 0.01 * g / (np.abs(g) + 1e-8), atol=2e-5)
    assert after.step.tolist() == [1] and server.step.tolist() == [0]


def test_a_batch_is_distinct_rated_items_and_all_of_them_where_they_are_few(data: Interactions) -> None:
    algorithm, server = begun(data, batch=4)
    seen: list[set[int]] = [set() for _ in range(USERS)]
    for number in range(30):
        for u, items in enumerate(batches(local(algorithm, server, data, np.arange(USERS), number))):
            own = set(data.item[data.user == u].tolist())
            assert len(set(items)) == len(items) == min(4, len(own)) and set(items) <= own
            seen[u] |= set(items.tolist())
    assert seen == [set(data.item[data.user == u].tolist()) for u in range(USERS)]  # each has its turn
    assert max(map(len, seen)) > 4


def test_batches_are_drawn_evenly() -> None:
    """A device with 10 ratings sends 5 in a round: each of them in half of 400 rounds, give or take 4 standard deviations of 10."""
    data = build(
        np.zeros(10, int), np.arange(10), value=np.arange(10) % 5 + 1, users=Vocabulary(size=1), items=Vocabulary(size=10)
    )
    algorithm, server = begun(data, batch=5)
    count = np.zeros(10)
    for number in range(400):
        count[batches(local(algorithm, server, data, np.arange(1), number))[0]] += 1
    assert count.sum() == 2000 and np.all(np.abs(count - 200) <= 40)


def test_only_who_takes_part_moves_and_items_nobody_sent_do_not(data: Interactions) -> None:
    algorithm, server = begun(data, reg=0.0)
    sizes = algorithm.meta_sizes(USERS, ITEMS)
    update = local(algorithm, server, data, np.array([1, 2]))
    after = algorithm.aggregate(server, add_update(empty_total(update, ITEMS), update))
    moved = views(after.theta != server.theta, sizes)
    assert np.flatnonzero(moved.user.any(axis=1)).tolist() == [1, 2]
    items = set(np.flatnonzero(moved.low.reshape(ITEMS, -1).any(axis=1)).tolist())
    assert 0 < len(items) < ITEMS and items <= set(np.concatenate(batches(update)).tolist())


def test_threads_and_blocks_change_nothing(data: Interactions) -> None:
    def run(block: int = 0, **how: Any) -> list[bytes]:
        rounds = Rounds(MetaMF(**{**SETTINGS, "cohort": 4}), data, seed=1, block=block, **how)
        training = rounds.advance(rounds.start(), 4)
        scores, size = fitted(rounds, training).recommender.scores, block or USERS
        parts = [scores(np.arange(low, min(low + size, USERS))) for low in range(0, USERS, size)]
        return [np.concatenate(parts).tobytes(), *(array.tobytes() for array in training.server)]

    expected = run()
    for how in ({"executor": Threads(2)}, {"block": 1}, {"block": 4}, {"limits": [lambda update, keys: update]}):
        assert run(**how) == expected  # type: ignore[arg-type]


def test_training_lowers_the_error(data: Interactions) -> None:
    rounds = Rounds(MetaMF(**{**SETTINGS, "reg": 0.0, "batch": 9}), data)

    def error(training: Training) -> float:
        scores = fitted(rounds, training).recommender.scores(np.arange(USERS))
        return float(((scores[data.user, data.item] - data.value) ** 2).mean())

    start = error(rounds.start())
    assert error(rounds.advance(rounds.start(), 300)) < 0.2 * start


def test_users_get_models_of_their_own_and_no_more(data: Interactions) -> None:
    algorithm, server = begun(data)
    received = algorithm.deliver(server, np.array([2, 5]))
    assert [array.shape for array in received] == [(2, 9, 2), (2, 2, 4), (2, 15), (2, 4), (1,)]
    assert all(not np.array_equal(array[0], array[1]) for array in received[:4])
    assert all(len(part) != len(server.theta) for part in received)


def test_bytes_are_the_batch_and_the_model(data: Interactions) -> None:
    algorithm, server = begun(data)
    update = local(algorithm, server, data, np.arange(USERS))
    each = 4 * (4 * (1 + 2) + 2 * 4 + 15 + 4)
    assert update.nbytes == USERS * each == USERS * bound(algorithm, data.catalogue).most_bytes


@pytest.mark.parametrize("batch", [3, 20])
def test_rounds_keep_to_the_declaration(data: Interactions, batch: int) -> None:
    contract = within_contract(MetaMF(**{**SETTINGS, "batch": batch, "cohort": 4}), data)
    assert contract.block_bytes >= contract.most_bytes + 4 * 2 * ITEMS  # what it sends, and an item table of its own
