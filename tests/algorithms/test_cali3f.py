"""Cali3F: equations 3 to 6 and algorithm 1 written once more in plain float64; what it becomes as
each switch is turned off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import ITEMS, SMALL, USERS, same, sent, shop, started, trained
from within_contract import within_contract

from entrenous.core.contract.declared import ContractError, bound
from entrenous.core.contract.enforce import check_received
from entrenous.core.contract.update import Total, Update, add_update, empty_total
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.data.user_groups import UserGroups
from entrenous.federation.rounds import Rounds
from entrenous.kernels import ncf
from entrenous.systems._federated_ncf import TOP, data_of
from entrenous.systems._user_clusters import k_means
from entrenous.systems.cali3f import Cali3F, Cali3FServer
from entrenous.systems.fedavg import FedAvg

OFF = {"personalised": False, "fast": False, "sampled": False}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop()


def cali3f(**other: Any) -> Cali3F:
    return Cali3F(**{**SMALL, "clusters": 4, "cohort": 12, "phi": 0.5, "discount": 0.9, **other})


def total_of(update: Update) -> Total:
    return add_update(empty_total(update, ITEMS), update)


def hand_made(
    server: Cali3FServer,
    users: list[int],
    learnt: Any,
    item: Any,
    rows: Any,
    n: Any,
    dense: Any = None,
    **other: Any,
) -> Cali3FServer:
    """The server after devices with these user embeddings, this one item each, moved by these rows,
    and these dense moves.
    """
    from entrenous.kernels.averaging import weighted_moves

    algorithm = cali3f(**other)
    moved, n, ptr = (
        np.asarray(rows, np.float32),
        np.asarray(n, np.float32),
        np.arange(len(users) + 1),
    )
    parts = (
        algorithm.shared(moved, np.abs(moved)) if algorithm.fast else weighted_moves(moved, ptr, n)
    )
    flat = (
        np.zeros((len(users), algorithm.shape.network), np.float32)
        if dense is None
        else np.asarray(dense, np.float32)
    )
    weighted = {"network": n[:, None] * flat, "local": n[:, None] * flat}
    shown = {"user": np.asarray(learnt, np.float32), "n": n[:, None]}
    group = server.cluster[users]
    update = Update(
        ptr,
        np.asarray(item, np.int32),
        parts,
        weighted,
        n,
        group,
        len(server.centroids),
        shown,
        np.array(users),
    )
    return algorithm.aggregate(server, total_of(update))


def two_clusters(**other: Any) -> tuple[Cali3FServer, int]:
    """A server of six users with one factor each, three near 0 and three near 10; two items, no
    layers.
    """
    user = np.array([[0.0], [1.0], [-1.0], [10.0], [11.0], [9.0]], np.float32)
    cluster, size = np.array([0, 0, 0, 1, 1, 1], np.int32), ncf.shape_of(1, ()).network
    network, local = np.zeros((1, size), np.float32), np.zeros((2, size), np.float32)
    item = np.zeros((ITEMS, 1), np.float32)
    centroids, n = np.array([[0.0], [10.0]], np.float32), np.ones(6, np.float32)
    state = {
        "user": user,
        "item": item,
        "network": network,
        "local": local,
        "cluster": cluster,
        "centroids": centroids,
        "n": n,
    }
    return Cali3FServer(**{**state, "round": np.zeros(1, np.int64), **other}), size


ONE = {"factors": 1, "layers": (), "clusters": 2, "cohort": 2}

# ---- III-C, by hand ------------------------------------------------------------------------------


def test_delegates_embeddings_come_as_they_are_and_subordinates_take_a_share_of_their_mean_move() -> (
    None
):
    """(3) and (4) in round 2: lambda = .5^2; cluster 0's delegates move by .4 and .2, cluster 1 has
    none.
    """
    server, _ = two_clusters(round=np.ones(1, np.int64))
    after = hand_made(
        server, [0, 1], [[0.4], [1.2]], [0, 0], [[0.0], [0.0]], [2, 3], **ONE, discount=0.5
    )
    assert np.allclose(after.user[:, 0], [0.4, 1.2, -1 + 0.25 * (0.4 + 0.2) / 2, 10, 11, 9])
    assert after.round.tolist() == [2] and after.n.tolist() == [2, 3, 1, 1, 1, 1]


def test_items_are_averaged_by_how_far_each_delegate_moved_them() -> None:
    """(5): item 1 is moved by .3 and by -.1, so that it comes to (.3 (.3) + .1 (-.1)) / .4 = .2;
    item 2 by one alone.
    """
    server, _ = two_clusters()
    server.item[:] = 1.0
    users, learnt = [0, 3, 4], [[0.0], [10.0], [11.0]]
    after = hand_made(server, users, learnt, [1, 1, 2], [[0.3], [-0.1], [0.5]], [1, 9, 5], **ONE)
    assert np.allclose(after.item[:4, 0], [1, 1.2, 1.5, 1], atol=1e-5)
    assert (after.item[3:] == 1).all()  # what nobody moved stays
    fedavg = hand_made(
        server, users, learnt, [1, 1, 2], [[0.3], [-0.1], [0.5]], [1, 9, 5], **ONE, fast=False
    )
    assert np.allclose(
        fedavg.item[:4, 0], [1, 1 + (0.3 - 9 * 0.1) / 15, 1 + 5 * 0.5 / 15, 1], atol=1e-5
    )


@pytest.mark.parametrize("step", [0.005, 0.3, 7.9])
def test_steps_of_any_likely_length_survive_the_sum(step: float) -> None:
    """(5) from sums on a grid: squares of short steps are not lost on it, those of long ones lie
    within it. (s^2 - s^2/4) / (3/2 s).
    """
    server, _ = two_clusters()
    after = hand_made(server, [0, 3], [[0.0], [10.0]], [1, 1], [[step], [-step / 2]], [1, 1], **ONE)
    assert after.item[1, 0] == pytest.approx((1 - 1 / 4) / 1.5 * step, rel=0.01)


def test_shares_are_element_by_element() -> None:
    """(5): each number of an embedding has weights of its own."""
    server, _ = two_clusters()
    server = server._replace(
        item=np.zeros((ITEMS, 2), np.float32), user=np.repeat(server.user, 2, axis=1)
    )
    server = server._replace(centroids=np.repeat(server.centroids, 2, axis=1))
    two = {**ONE, "factors": 2}
    after = hand_made(
        server, [0, 3], [[0, 0], [10, 10]], [1, 1], [[0.3, 0.1], [-0.1, 0.1]], [1, 1], **two
    )
    assert np.allclose(after.item[1], [0.2, 0.1], atol=1e-5)


def test_a_cluster_s_model_moves_by_its_gradient_and_back_towards_the_global_one() -> None:
    """(6): v_0 - w = (3, 4), so of length 5; the delegates' mean move, 3 and 1 items, is (3 (.4) +
    1 (0)) / 4 = .3 along the first axis, its length .3; v_0 = (3, 4) + (.3, 0) - phi .3 (3, 4) / 5.
    Cluster 1 is at w, so that there is no way back: it moves alone.
    """
    server, size = two_clusters()
    server.local[0, :2] = 3, 4
    dense = np.zeros((3, size), np.float32)
    dense[0, 0], dense[2, 1] = 0.4, 0.2
    args = [0, 1, 3], [[0.0], [1.0], [10.0]], [1, 1, 1], [[0.0], [0.0], [0.0]], [3, 1, 2], dense
    for phi in (0.0, 0.5, 2.0):
        after = hand_made(server, *args, **ONE, phi=phi)
        assert np.allclose(
            after.local[0, :2], [3.3 - phi * 0.3 * 0.6, 4 - phi * 0.3 * 0.8], atol=1e-4
        )
        assert np.allclose(after.local[1, :2], [0, 0.2], atol=1e-4) and not after.local[:, 2:].any()
        assert np.allclose(after.network[0, :2], [3 * 0.4 / 6, 2 * 0.2 / 6], atol=1e-4)  # line 15


def test_models_are_averaged_within_new_clusters_by_interactions() -> None:
    """Line 20: user 1, with 3 items, moves to the other cluster, whose model is then its own, with
    3, beside two of cluster 1's 1 + 1.
    """
    server, _ = two_clusters(n=np.array([1, 1, 1, 1, 1, 1], np.float32))
    server.local[0, 0], server.local[1, 0] = 1, 6
    after = hand_made(server, [1], [[10.5]], [0], [[0.0]], [3], **ONE, phi=0.0, discount=0.0)
    assert after.cluster.tolist() == [0, 1, 0, 1, 1, 1]
    assert np.allclose(after.local[:, 0], [1, (3 * 1 + 3 * 6) / 6], atol=1e-4)


# ---- algorithm 1 ---------------------------------------------------------------------------------


def plain_round(
    server: Cali3FServer, update: Update, phi: float, discount: float, move_bound: float
) -> dict[str, np.ndarray]:
    """Lines 8 to 20 in float64 loops, from what each device sends (times n_k, theta) and shows."""
    n_k, groups = update.shown["n"][:, 0].astype(float), update.group
    networks, locals_ = (update.dense[name] / n_k[:, None] for name in ("network", "local"))
    user, item, v = server.user.astype(float), server.item.astype(float), server.local.astype(float)
    w, n = server.network[0].astype(float), server.n.astype(float)
    for p in range(len(v)):  # lines 9 to 13
        mine = np.flatnonzero(groups == p)
        if len(mine):
            step = sum(n_k[k] * locals_[k] for k in mine) / n_k[mine].sum()
            away, far = v[p] - w, np.linalg.norm(v[p] - w)
            v[p] = v[p] + step - (phi * np.linalg.norm(step) * away / far if far else 0)
    w = w + sum(n_k[k] * networks[k] for k in range(len(n_k))) / n_k.sum()  # line 15
    for p in range(len(v)):  # line 17, (4) then (3)
        mine = np.flatnonzero(groups == p)
        if len(mine):
            move = np.mean(
                [update.shown["user"][k] - server.user[update.sender[k]] for k in mine], axis=0
            )
            user[server.cluster == p] += discount ** (server.round[0] + 1) * move
    user[update.sender] = update.shown["user"]
    theta, sums = np.zeros_like(item), np.zeros_like(item)  # (5)
    for r, i in enumerate(update.item):
        size = update.rows["share"][r] / TOP
        theta[i] += size
        sums[i] += update.rows["item"][r] / TOP * move_bound
    item = item + np.where(theta > 0, sums / np.where(theta > 0, theta, 1), 0)
    n[update.sender] = n_k
    cluster, _ = k_means(user.astype(np.float32), server.centroids)  # line 19
    averaged = v.copy()
    for p in range(len(v)):  # line 20
        members = np.flatnonzero(cluster == p)
        if len(members):
            averaged[p] = sum(n[u] * v[server.cluster[u]] for u in members) / n[members].sum()
    return {
        "user": user,
        "item": item,
        "network": w[None],
        "local": averaged,
        "cluster": cluster,
        "n": n,
    }


def test_rounds_are_algorithm_1(data: Interactions) -> None:
    algorithm = cali3f(phi=0.7, discount=0.8)
    server, devices = started(algorithm, data)
    for number in range(4):
        users = algorithm.select(server, data.catalogue, key(1, "select", number))
        _, update, total = sent(algorithm, server, devices, data, users, number)
        after = algorithm.aggregate(server, total)
        for name, expected in plain_round(server, update, 0.7, 0.8, algorithm.move_bound).items():
            assert np.allclose(
                getattr(after, name), expected, atol=2e-3 if name == "item" else 2e-5
            ), (number, name)
        server = after
    assert (
        np.abs(server.local - server.network).max() > 0.01
    )  # the personalised models are models of their own


def test_shares_of_moves_are_their_sizes(data: Interactions) -> None:
    """What is sent for (5): theta = |move|, and theta times the move."""
    algorithm = cali3f()
    server, devices = started(algorithm, data)
    _, update, _ = sent(algorithm, server, devices, data, np.arange(3))
    share = update.rows["share"] / TOP * algorithm.move_bound
    product = update.rows["item"] / TOP * algorithm.move_bound**2
    assert share.shape == product.shape == (len(update.item), 5 + 6)
    assert (share >= 0).all() and np.allclose(np.abs(product), share * share, rtol=1e-4, atol=1e-12)


# ---- one gradient a client -----------------------------------------------------------------------


def test_one_gradient_is_the_mean_over_the_history_times_the_rate(data: Interactions) -> None:
    """Lines 4 and 5 of algorithm 1: a twice as large rate moves everything twice as far, and
    neither the batch nor the optimiser counts."""
    moves = []
    for rate, other in ((0.125, {}), (0.25, {"batch": 1, "optimiser": "adam"})):
        settings = {"client": "gradient", "local_epochs": 1, "learning_rate": rate, **other}
        algorithm = cali3f(**settings, fast=False)
        server, devices = started(algorithm, data)
        _, update, _ = sent(algorithm, server, devices, data, np.arange(3))
        user = update.shown["user"] - server.user[:3]
        moves.append((user, update.rows["item"], update.dense["network"], update.dense["local"]))
    for once, twice in zip(*moves, strict=True):
        assert np.abs(once).max() > 1e-3
        assert np.allclose(2 * once, twice, rtol=1e-4, atol=1e-6)


def test_one_gradient_is_one_batch_of_everything_by_sgd(data: Interactions) -> None:
    alike = {"local_epochs": 1, "largest_move": 2}
    gradient = trained(cali3f(**alike, client="gradient", batch=2), data, 3)
    whole = trained(cali3f(**alike, optimiser="sgd", batch=1 << 20), data, 3)
    batches = trained(cali3f(**alike, optimiser="sgd", batch=2), data, 3)
    assert same(gradient.server, whole.server)
    assert not same(gradient.server.item, batches.server.item)


# ---- what it becomes -----------------------------------------------------------------------------


@pytest.mark.parametrize("cohort", [0, 10])
@pytest.mark.parametrize(
    "model", [{}, {"layers": ()}, {"factors": 0}, {"optimiser": "adam", "learning_rate": 0.01}]
)
def test_one_cluster_and_all_off_is_fedavg_exactly(
    data: Interactions, cohort: int, model: dict[str, Any]
) -> None:
    settings = {**SMALL, **model, "cohort": cohort}
    plain = FedAvg(**settings, server_rate_item=1)  # the mean of its paper
    ours, theirs = (
        Rounds(Cali3F(**settings, clusters=1, **OFF), data, seed=1),
        Rounds(plain, data, seed=1),
    )
    left, right = ours.start(), theirs.start()
    right.devices.user[:] = (
        left.server.user
    )  # drawn from another key: the server's, which holds them here
    for _ in range(5):
        left, right = ours.one_round(left), theirs.one_round(right)
        assert same(left.server.item, right.server.item) and same(
            left.server.network, right.server.network
        )
        assert same(left.server.user, right.devices.user)
    everyone, histories = np.arange(USERS), data.histories(np.arange(USERS))
    received = ours.algorithm.deliver(left.server, everyone)
    assert same(
        ours.algorithm.score(received, left.devices, histories),
        theirs.algorithm.score(right.server, right.devices, histories),
    )


@pytest.mark.parametrize("phi", [0.0, 3.0])
def test_one_cluster_s_model_is_the_global_one(data: Interactions, phi: float) -> None:
    server = trained(cali3f(clusters=1, phi=phi), data, 4).server
    assert np.allclose(server.local, server.network, atol=1e-6)


def test_without_phi_every_device_learns_alone(data: Interactions) -> None:
    """A cluster for each user and phi = 0: v_p is what training a network alone, beside the
    embeddings of the round, would make of it.
    """
    algorithm = cali3f(
        clusters=USERS, cohort=0, phi=0.0, init_std=1.0, learning_rate=0.1
    ).configured(data.catalogue)
    (server, devices), everyone = started(algorithm, data), np.arange(USERS)
    alone, where = server.local[server.cluster].copy(), server.cluster
    assert sorted(where.tolist()) == list(range(USERS))
    for number in range(4):
        private = data_of(data.histories(everyone), everyone, key(1, "round", number))
        rates, each = algorithm.rates(), np.arange(USERS, dtype=np.int32)
        alone += ncf.train(
            algorithm.shape, rates, server.user, server.item, alone, each, private
        ).network
        _, _, total = sent(algorithm, server, devices, data, everyone, number)
        server = algorithm.aggregate(server, total)
        assert (server.cluster == where).all()  # nobody moved so far that they changed places
        assert np.allclose(server.local[where], alone, atol=1e-4)
    held = trained(
        cali3f(clusters=USERS, cohort=0, phi=0.5, init_std=1.0, learning_rate=0.1), data, 4
    ).server
    free = trained(
        cali3f(clusters=USERS, cohort=0, phi=0.0, init_std=1.0, learning_rate=0.1), data, 4
    ).server
    spread = [np.linalg.norm(state.local - state.network, axis=1).mean() for state in (free, held)]
    assert spread[1] < 0.95 * spread[0]  # phi draws them to the global model


def one_round(data: Interactions, **other: Any) -> tuple[Cali3FServer, np.ndarray, Cali3FServer]:
    """(before, the round's devices, after) a first round."""
    algorithm = cali3f(**other)
    server, devices = started(algorithm, data)
    users = algorithm.select(server, data.catalogue, key(1, "select"))
    return (
        server,
        users,
        algorithm.aggregate(server, sent(algorithm, server, devices, data, users)[2]),
    )


def test_personalisation_alone(data: Interactions) -> None:
    """At first v_p = w, so that the round of a federation without v_p is the same in all the
    rest.
    """
    _, _, on = one_round(data)
    _, _, off = one_round(data, personalised=False)
    assert len(off.local) == 0 and len(on.local) == 4
    assert all(
        same(getattr(on, name), getattr(off, name))
        for name in ("user", "item", "network", "cluster", "n")
    )
    later = trained(cali3f(phi=0.3), data, 5), trained(cali3f(personalised=False), data, 5)
    assert not same(later[0].server.item, later[1].server.item)


def test_fast_aggregation_alone(data: Interactions) -> None:
    before, users, on = one_round(data)
    _, _, off = one_round(data, fast=False)
    others = np.setdiff1d(np.arange(USERS), users)
    assert same(on.user[users], off.user[users]) and same(off.user[others], before.user[others])
    assert (on.user[others] != before.user[others]).any(axis=1).all()
    assert same(on.network, off.network) and same(on.n, off.n)
    everyone = (
        one_round(data, cohort=0)[2],
        one_round(data, cohort=0, fast=False)[2],
    )  # no subordinates: items alone differ
    assert [
        n
        for n in Cali3FServer._fields
        if not same(getattr(everyone[0], n), getattr(everyone[1], n))
    ] == ["item"]


def test_sampling_alone(data: Interactions) -> None:
    assert same(
        trained(cali3f(cohort=0), data, 3).server,
        trained(cali3f(cohort=0, sampled=False), data, 3).server,
    )
    assert not same(one_round(data)[1], one_round(data, sampled=False)[1])


# ---- ClusSamp ------------------------------------------------------------------------------------


def clustered(sizes: list[int], m: int) -> tuple[Cali3F, Cali3FServer]:
    """A server of clusters of these sizes, users in a mixed order."""
    cluster = (
        np.random.default_rng(0)
        .permutation(np.repeat(np.arange(len(sizes)), sizes))
        .astype(np.int32)
    )
    algorithm, nothing = cali3f(clusters=len(sizes), cohort=m), np.zeros((0, 0), np.float32)
    return algorithm, Cali3FServer(
        nothing, nothing, nothing, nothing, cluster, nothing, nothing, np.zeros(1, np.int64)
    )


@pytest.mark.parametrize(
    ("sizes", "m", "expected"),
    [
        ([6, 6, 6, 6], 12, [3, 3, 3, 3]),
        ([1, 9, 14], 9, [1, 4, 4]),
        ([20, 2, 2], 12, [8, 2, 2]),
        ([24], 5, [5]),
    ],
)
def test_each_cluster_sends_its_share_of_delegates(
    data: Interactions, sizes: list[int], m: int, expected: list[int]
) -> None:
    """m/P each; the turns of a cluster that has nobody left go to the others."""
    algorithm, server = clustered(sizes, m)
    chosen = np.zeros(USERS, bool)
    for number in range(60):
        users = algorithm.select(server, data.catalogue, key(0, number))
        assert len(users) == m and (np.diff(users) > 0).all()
        assert np.bincount(server.cluster[users], minlength=len(sizes)).tolist() == expected
        chosen[users] = True
    assert chosen.all()  # everybody has a chance


def test_a_turn_that_cannot_go_round_goes_to_some_clusters(data: Interactions) -> None:
    algorithm, server = clustered([8, 8, 8], 7)
    for number in range(20):
        counts = np.bincount(
            server.cluster[algorithm.select(server, data.catalogue, key(0, number))]
        )
        assert sorted(counts.tolist()) == [2, 2, 3]


def test_clusters_that_stay_empty_do_no_harm(data: Interactions) -> None:
    """All first embeddings alike: one cluster has everybody. The others keep their model until
    somebody moves in.
    """
    algorithm = cali3f(init_std=0.0, cohort=12)
    server, _ = started(algorithm, data)
    assert not server.cluster.any()
    after = trained(algorithm, data, 3).server
    assert all(np.isfinite(array).all() for array in after)


# ---- bad settings, and what is shown -------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clusters": 25}, "--set clusters: got 25; expected at most 24, the number of users"),
        (
            {"clusters": 9, "cohort": 8},
            (
                "--set cohort: got 8, fewer devices than the 9 clusters; expected at least one"
                " delegate"
            ),
        ),
    ],
)
def test_clusters_that_cannot_be(
    data: Interactions, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        Rounds(cali3f(**settings), data)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_without_sampling_from_clusters_a_small_cohort_will_do(data: Interactions) -> None:
    assert trained(cali3f(clusters=9, cohort=8, sampled=False), data, 2).round == 2


def test_everybody_may_be_a_cluster_of_their_own(data: Interactions) -> None:
    server, _ = started(cali3f(clusters=USERS, cohort=0), data)
    assert sorted(server.cluster.tolist()) == list(range(USERS))


def test_it_says_that_the_server_sees_user_embeddings(data: Interactions) -> None:
    algorithm = cali3f()
    server, devices = started(algorithm, data)
    _, update, _ = sent(algorithm, server, devices, data, np.arange(5))
    assert update.shown["user"].shape == (5, 5 + 6) and update.sender.tolist() == list(range(5))
    (said,) = (one for one in Cali3F.sends if one.name == "user")
    assert "to the server by name" in said.when and "no sum hides it" in said.reveals


# ---- what it declares ----------------------------------------------------------------------------


@pytest.mark.parametrize("off", [{}, {"personalised": False}, {"fast": False}, OFF])
def test_rounds_keep_to_the_declaration(data: Interactions, off: dict[str, Any]) -> None:
    contract = within_contract(cali3f(**off), data)
    some = {
        name
        for name, setting in (("share", "fast"), ("local", "personalised"))
        if setting not in off
    }
    assert {one.name for one in contract.sends} == {"user", "n", "weight", "item", "network"} | some
    assert contract.groups == 4


def test_a_model_that_was_not_delivered_is_refused(data: Interactions) -> None:
    """Before a kernel would read it from where nothing is."""
    algorithm = cali3f().configured(data.catalogue)
    server, none = started(algorithm, data)
    users, contract = np.arange(5), bound(algorithm, data.catalogue)
    received = algorithm.deliver(server, users)
    for bad in (len(received.local), -2):
        with pytest.raises(ContractError, match="at"):
            check_received(contract, received._replace(at=np.full(5, bad, np.int32)), 5)
    for bad in (len(received.local), -1):
        hostile = received._replace(at=np.full(5, bad, np.int32))
        with pytest.raises(InputError, match="groups"):
            algorithm.local(hostile, none, data.histories(users), users, key(1))
        with pytest.raises(InputError, match="groups"):
            algorithm.score(hostile, none, data.histories(users))


# ---- beyond the print: one pass, a bounded pull, a constant lambda, clusters that are given ------


def test_one_pass_is_both_passes_as_long_as_they_see_the_same(data: Interactions) -> None:
    """At first v_p = w, and both passes draw the same samples. Without moving embeddings w[N]
    learns the same in any later round.
    """
    assert same(one_round(data)[2], one_round(data, one_pass=True)[2])
    still = {"learning_rate": 1e-30, "learning_rate_item": 0.0, "learning_rate_network": 0.1}
    two, one = (trained(cali3f(**still, one_pass=on), data, 4).server for on in (False, True))
    assert (
        same(one.network, two.network)
        and same(one.local, two.local)
        and not np.allclose(one.local, one.network, atol=1e-3)
    )
    moving = [trained(cali3f(one_pass=on), data, 4).server for on in (False, True)]
    assert not same(moving[0].network, moving[1].network)


def test_a_bounded_pull_ends_at_w(data: Interactions) -> None:
    """(6) with v_0 - w of length 5 and a step of length .3: phi 10 pulls by 3 (both), phi 100 by 30
    as printed and by 5 if bounded.
    """
    server, size = two_clusters()
    server.local[0, :2] = 3, 4
    dense = np.zeros((1, size), np.float32)
    dense[0, 0] = 0.3
    for phi, pull, way in (
        (10.0, "bounded", 3),
        (10.0, "printed", 3),
        (100.0, "bounded", 5),
        (100.0, "printed", 30),
    ):
        after = hand_made(server, [0], [[0.0]], [1], [[0.0]], [1], dense, **ONE, phi=phi, pull=pull)
        assert np.allclose(after.local[0, :2], [3.3 - way * 0.6, 4 - way * 0.8], atol=1e-3)


def test_only_a_bounded_pull_brings_v_p_closer_to_w_the_larger_phi_is(data: Interactions) -> None:
    """Section III-A says so of phi; eq. 6 as printed overshoots where phi is well above 1."""

    def distance(phi: float, pull: str) -> float:
        server = trained(cali3f(phi=phi, pull=pull), data, 20).server
        return float(np.linalg.norm(server.local - server.network, axis=1).mean())

    bounded = [distance(phi, "bounded") for phi in (0.0, 0.5, 1.0, 10.0)]
    assert bounded == sorted(bounded, reverse=True) and bounded[-1] < 0.5 * bounded[0]
    assert distance(10.0, "printed") > 3 * bounded[0]


def test_lambda_fades_or_not() -> None:
    """(4) in round 3: .5^3 or .5 times the mean move, .3, of cluster 0's delegates."""
    server, _ = two_clusters(round=np.full(1, 2, np.int64))
    for fading, share in ((True, 0.5**3), (False, 0.5)):
        after = hand_made(
            server, [0], [[0.3]], [0], [[0.0]], [2], **ONE, discount=0.5, fading=fading
        )
        assert np.allclose(after.user[:3, 0], [0.3, 1 + share * 0.3, -1 + share * 0.3])


def test_given_groups_are_the_clusters_and_stay(data: Interactions) -> None:
    of = np.arange(USERS, dtype=np.int32) % 3
    algorithm = cali3f(groups=UserGroups(of, ["a", "b", "c"]))
    server = trained(algorithm, data, 3).server
    assert (server.cluster == of).all() and len(server.local) == 3
    assert len(np.unique(server.local, axis=0)) == 3
    chosen = algorithm.select(server, data.catalogue, key(0))
    assert np.bincount(of[chosen]).tolist() == [4, 4, 4]
    with pytest.raises(
        InputError, match=f"got groups of 5 users; expected a group for each of the {USERS} users"
    ):
        cali3f(groups=UserGroups(of[:5], ["a", "b", "c"])).configured(data.catalogue)
