"""Cali3F: equations 3 to 6 and algorithm 1 written once more in plain float64; what it becomes as
each switch is turned off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import SMALL, USERS, same, sent, shop, started, trained

from entrenous.core.contract.declared import ContractError, bound
from entrenous.core.contract.enforce import check_received
from entrenous.core.contract.update import Update
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


# ---- algorithm 1 ---------------------------------------------------------------------------------


def plain_round(server: Cali3FServer, update: Update, how: Cali3F) -> dict[str, np.ndarray]:
    """Lines 8 to 20 in float64 loops, from what each device sends (times n_k, theta) and shows."""
    fade = how.discount ** (server.round[0] + 1) if how.fading else how.discount
    n_k, groups = update.shown["n"][:, 0].astype(float), update.group
    networks, locals_ = (update.dense[name] / n_k[:, None] for name in ("network", "local"))
    user, item, v = server.user.astype(float), server.item.astype(float), server.local.astype(float)
    w, n = server.network[0].astype(float), server.n.astype(float)
    for p in range(len(v)):  # lines 9 to 13
        mine = np.flatnonzero(groups == p)
        if len(mine):
            step = sum(n_k[k] * locals_[k] for k in mine) / n_k[mine].sum()
            away, far = v[p] - w, np.linalg.norm(v[p] - w)
            back = how.phi * np.linalg.norm(step)
            if how.pull == "bounded":
                back = min(back, far)
            v[p] = v[p] + step - (back * away / far if far else 0)  # (6)
    w = w + sum(n_k[k] * networks[k] for k in range(len(n_k))) / n_k.sum()  # line 15
    for p in range(len(v)):  # line 17, (4) then (3)
        mine = np.flatnonzero(groups == p)
        if len(mine):
            move = np.mean(
                [update.shown["user"][k] - server.user[update.sender[k]] for k in mine], axis=0
            )
            user[server.cluster == p] += fade * move
    user[update.sender] = update.shown["user"]
    theta, sums = np.zeros_like(item), np.zeros_like(item)  # (5)
    for r, i in enumerate(update.item):
        size = update.rows["share"][r] / TOP
        theta[i] += size
        sums[i] += update.rows["item"][r] / TOP * how.move_bound
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


@pytest.mark.parametrize("change", [{}, {"fading": False, "pull": "bounded", "phi": 2.0}])
def test_rounds_are_algorithm_1(data: Interactions, change: dict[str, Any]) -> None:
    algorithm = cali3f(**{"phi": 0.7, "discount": 0.8, **change})
    server, devices = started(algorithm, data)
    for number in range(4):
        users = algorithm.select(server, data.catalogue, key(1, "select", number))
        _, update, total = sent(algorithm, server, devices, data, users, number)
        after = algorithm.aggregate(server, total)
        for name, expected in plain_round(server, update, algorithm).items():
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


# ---- what it declares ----------------------------------------------------------------------------


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


# ---- beyond the print: one pass, clusters that are given -----------------------------------------


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
