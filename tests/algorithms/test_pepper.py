"""PEPPER and its decentralised baselines: how much of a model is taken, what is refused, whom a
node pushes to, what it holds back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from small_gossip import shop

from entrenous.core.contract.gossip import (
    ACCEPTED,
    NOBODY,
    NOT_FINITE,
    TOO_LARGE,
    Arrivals,
    DeviceData,
    Headers,
    Weighing,
)
from entrenous.core.keys import folds, key
from entrenous.federation.gossip import Gossip, device_data
from entrenous.federation.network import Network
from entrenous.kernels.merging import cosines, merge
from entrenous.systems import pepper
from entrenous.systems._gossip_gmf import GMFModel
from entrenous.systems.gossip_learning import composed
from entrenous.systems.gossip_node import GossipModel, GossipPolicy, PeerState
from entrenous.systems.pepper import (
    GossipAgeGMF,
    GossipAverageGMF,
    GossipReptileGMF,
    PepperGMF,
    PepperGMFPolicy,
    PepperPolicy,
)

SMALL: dict[str, Any] = {
    "factors": 4,
    "learning_rate": 0.05,
    "learning_rate_user": 0.05,
    "learning_rate_output": 0.0,
    "reg": 0.1,
    "local_epochs": 1,
    "negatives": 2,
    "init_std": 0.1,
    "init_user": 0.3,
    "rounds": 10,
    "view": 3,
    "redraw": 2,
    "carried": 3,
    "largest": 50.0,
}
DATA = shop(12, items=40, each=9)


def federation(kind: Any = PepperGMF, network: dict | None = None, **change: Any) -> Gossip:
    return Gossip(kind(**{**SMALL, **change}), DATA, seed=3, network=Network.read(network or {}))


def arriving(
    gossip: Gossip, swarm: Any, to: int, sender: int, model: np.ndarray | None = None, **header: int
) -> Arrivals:
    """A model of `sender` that reaches node `to`, and a free slot for what comes of it."""
    pool, (slot, into) = swarm.pool, swarm.pool.take(2)
    pool.values[slot] = pool.values[swarm.slot[sender]] if model is None else model
    said = {"age": 5, "samples": 9, "length": pool.values.shape[1]} | header
    headers = Headers(
        *(np.array([value]) for value in (sender, said["age"], said["samples"])),
        np.array([[NOBODY]], np.int32),
        np.array([said["length"]]),
    )
    one = np.array([to])
    return Arrivals(
        pool.values,
        one,
        swarm.slot[one],
        np.array([slot]),
        np.array([into]),
        headers,
        folds(key(1, "event"), one),
    )


def share_of(
    gossip: Gossip, a: Arrivals, nodes: Any, data: DeviceData
) -> tuple[np.ndarray, np.ndarray]:
    """How much the policy takes of each received model, and who trains: what it merges by. PEPPER's
    in the printed form.
    """
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            PepperGMFPolicy,
            "performance_based_aggregation",
            PepperPolicy.performance_based_aggregation,
        )
        patch.setattr(pepper, "merge_and_train", lambda *given: seen.append(given))
        gossip.algorithm.policy.on_model_received(gossip.algorithm.model, a, nodes, data)
    (given,) = seen
    assert all(
        one is other
        for one, other in zip(given, (gossip.algorithm.model, a, nodes, data), strict=False)
    )
    return given[4], given[5] if len(given) > 5 else np.ones(len(a.who), np.bool_)


# ---- a merge that is right -----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.1, 1 / 3, 0.5, 0.9, 1.0])
def test_two_models_that_are_the_same_stay_what_they_are(share: float) -> None:
    """To the bit, whatever the weights: a merge that halves (gossipy) or rounds would fail."""
    values = np.random.default_rng(0).normal(0, 3, 1000).astype(np.float32)
    pool = np.stack([values, values, np.zeros_like(values)])
    merge(pool, np.array([0]), np.array([1]), np.array([2]), np.array([share], np.float32))
    assert (pool[2] == values).all() and (pool[0] == values).all()


def test_a_merge_lies_between_the_two_where_the_share_says() -> None:
    pool = np.array([[0, 8, -4], [4, 0, -4], [9, 9, 9]], np.float32)
    merge(pool, np.array([0]), np.array([1]), np.array([0]), np.array([0.25], np.float32))
    assert pool.tolist() == [[1, 6, -4], [4, 0, -4], [9, 9, 9]]


def test_cosines_are_of_item_vectors_as_one_and_of_nothing_none() -> None:
    vectors = np.array(
        [[[1, 0], [0, 2]], [[-1, 0], [0, -2]], [[0, 0], [0, 0]], [[2, 1], [-1, 1]]], np.float32
    )
    assert cosines(vectors, np.array([0, 0, 0, 0]), np.array([0, 1, 2, 3])).tolist() == [
        1,
        -1,
        0,
        4 / math.sqrt(35),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"weighting": 0.5},
        {"weighting": 0.1},
        {"least": 0.9},
        {"aggregation": "half"},
        {"measure": "hr-ndcg"},
        {"factors": 17},
        {"alike": 0.4},
        {"negatives": 100, "local_epochs": 3, "learning_rate_output": 0.1},
    ],
)
def test_the_kernel_of_algorithm_2_gives_the_same_bits_as_its_printed_form(
    change: dict[str, Any],
) -> None:
    """Models, private state, ages and what nodes remember, after several rounds; also where a
    history fills several chunks of samples.
    """
    gossip = federation(**{"weighting": 0.4} | change)
    in_one = gossip.advance(gossip.start(), 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            PepperGMFPolicy,
            "performance_based_aggregation",
            PepperPolicy.performance_based_aggregation,
        )
        step_by_step = gossip.advance(gossip.start(), 5)
    assert (
        in_one.models.tobytes() == step_by_step.models.tobytes()
        and (in_one.models[0] != in_one.models[1]).any()
    )
    for one, other in zip(in_one.nodes, step_by_step.nodes, strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_model_is_looked_at_once_for_all_who_receive_it_and_again_when_it_is_pushed_again() -> (
    None
):
    """A simulation remembers what was found, as long as nobody can have changed the model."""
    gossip = federation()
    swarm = gossip.start()
    a = arriving(gossip, swarm, 2, 7)._replace(numbers=swarm.pool.numbers)
    refused = [gossip.algorithm.on_message(a, swarm.nodes, gossip.private)[0] for _ in range(2)]
    assert refused == [0, 0] and swarm.pool.numbers[a.received[0]] == ACCEPTED
    swarm.pool.values[a.received[0], 3] = np.nan
    assert (
        gossip.algorithm.on_message(a, swarm.nodes, gossip.private)[0] == ACCEPTED
    )  # not looked at again
    swarm.pool.share(a.received)
    assert gossip.algorithm.on_message(a, swarm.nodes, gossip.private)[0] == NOT_FINITE
    swarm.pool.share(a.received)
    swarm.pool.values[a.received[0], 3] = 51
    assert gossip.algorithm.on_message(a, swarm.nodes, gossip.private)[0] == TOO_LARGE
    assert (
        gossip.algorithm.on_message(a._replace(numbers=None), swarm.nodes, gossip.private)[0]
        == TOO_LARGE
    )


# ---- shares --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "received", "wanted"),
    [(0.25, 0.75, 0.75), (0.75, 0.25, 0.25), (0.5, 0.0, 0.0), (0.0, 0.5, 1.0)],
)
def test_the_share_by_hand(
    own: float, received: float, wanted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P_i of the model in the node's own slot, P_x of that in the slot received: P_x / (P_i +
    P_x).
    """
    gossip = federation()
    swarm = gossip.start()
    a = arriving(gossip, swarm, 0, 8)
    performance = {int(a.own[0]): own, int(a.received[0]): received}

    def measured(policy: Any, model: Any, arrivals: Any, at: np.ndarray, *rest: Any) -> np.ndarray:
        return np.array([performance[int(slot)] for slot in at])

    monkeypatch.setattr(type(gossip.algorithm.policy), "performance", measured)
    assert share_of(gossip, a, swarm.nodes, weighed(2))[0].tolist() == [wanted]


def test_hr_and_hr_times_ndcg_are_two_measures() -> None:
    gossip, other = federation(), federation(measure="hr-ndcg")
    swarm = gossip.advance(gossip.start(), 3)
    between = 0
    for node in range(12):
        a = arriving(gossip, swarm, node, (node + 5) % 12)

        def measured(which: Gossip, a: Arrivals = a) -> np.ndarray:
            return which.algorithm.policy.performance(
                which.algorithm.model, a, a.received, swarm.nodes, gossip.private
            )

        hr, ndcg = gossip.algorithm.model.judged(
            a.pool, a.received, swarm.nodes, a.who, gossip.private
        )
        assert 0 <= ndcg[0] <= hr[0] <= 1
        assert measured(gossip) == hr
        assert measured(other) == hr * ndcg
        between += 0 < ndcg[0] < hr[0]
    assert between > 0


def weighed(rows: int) -> DeviceData:
    """Node 0 weighs by the first `rows` of its items, each among items that any model ranks lower
    or higher.
    """
    plain = device_data(DATA, None)
    item = DATA.item[:rows]
    ptr = np.concatenate([[0], np.full(12, rows)]).astype(np.int64)
    return DeviceData(plain.histories, Weighing(ptr, item, np.full((rows, 3), -1, np.int32)))


def test_where_both_fail_the_own_model_stays_and_nobody_trains() -> None:
    """25 candidates with the highest score of all: HR@20 is 0 for any model."""
    gossip = federation()
    swarm = gossip.start()
    sets = Weighing(
        np.array([0] + [2] * 12), DATA.item[:2], np.tile(DATA.item[:2][:, None], (1, 25))
    )  # equal scores count against
    a = arriving(gossip, swarm, 0, 4)
    share, trains = share_of(gossip, a, swarm.nodes, DeviceData(gossip.private.histories, sets))
    assert share.tolist() == [0.0] and trains.tolist() == [False]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("alike", [0.0, 0.1])
def test_of_a_model_that_points_elsewhere_nothing_is_taken_where_alike_ones_are_asked_for(
    alike: float, sign: int
) -> None:
    gossip = federation(alike=alike)
    swarm = gossip.start()
    a = arriving(gossip, swarm, 0, 4, sign * swarm.pool.values[swarm.slot[0]])
    share, _ = share_of(
        gossip, a, swarm.nodes, weighed(1)
    )  # one weighing row: the share is a half whatever it ranks
    assert share.tolist() == [0.0 if alike and sign < 0 else 0.5]


def test_fewer_than_two_rows_weigh_nothing() -> None:
    gossip = federation()
    swarm = gossip.start()
    for rows in (0, 1):
        share, trains = share_of(gossip, arriving(gossip, swarm, 0, 4), swarm.nodes, weighed(rows))
        assert share.tolist() == [0.5] and trains.tolist() == [True]


def test_half_is_half_whatever_a_model_does_and_remembers_what_it_did() -> None:
    """What is heard, and so personalised sampling, stays that of PEPPER as published."""
    kinds = federation(), federation(aggregation="half")
    heard = []
    for gossip in kinds:
        swarm = gossip.start()
        a = arriving(gossip, swarm, 0, 8)
        share, trains = share_of(gossip, a, swarm.nodes, weighed(4))
        heard.append((swarm.nodes.heard[0].tolist(), swarm.nodes.performance[0].tolist()))
    assert share.tolist() == [0.5] and trains.all()
    assert heard[0] == heard[1] and 8 in heard[0][0]


def test_average_weighs_by_rows_and_age_by_updates() -> None:
    average, age = federation(GossipAverageGMF), federation(GossipAgeGMF)
    one, two = average.start(), age.start()
    a = arriving(average, one, 0, 1, samples=27)  # node 0 has 9 rows
    assert share_of(average, a, one.nodes, average.private)[0].tolist() == [0.75]
    two.nodes.age[0] = 3
    b = arriving(age, two, 0, 1, age=9)
    assert share_of(age, b, two.nodes, age.private)[0].tolist() == [0.75]
    age.algorithm.on_message(b, two.nodes, age.private)
    assert two.nodes.age[0] == 10  # the older of both, and one update more


def test_reptile_gossips_like_average_and_fine_tunes_to_score() -> None:
    reptile, average = federation(GossipReptileGMF, meta_epochs=30), federation(GossipAverageGMF)
    one, two = (gossip.advance(gossip.start(), 4) for gossip in (reptile, average))
    assert (one.models == two.models).all()
    users = np.arange(12)

    def scores(gossip: Gossip, swarm: Any) -> np.ndarray:
        return gossip.algorithm.score(swarm.models, users, swarm.nodes, users, gossip.private)

    plain = scores(average, two)
    assert not np.array_equal(scores(reptile, one), plain)
    none = federation(GossipReptileGMF, meta_epochs=0)
    assert (scores(none, none.advance(none.start(), 4)) == plain).all()


# ---- views ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "reading", "best"),
    [
        (0.4, "exploration", 2),
        (0.4, "exploitation", 1),
        (0.0, "exploration", 3),
        (1.0, "exploration", 0),
        (0.7, "exploitation", 2),
    ],
)
def test_alpha_has_both_readings(alpha: float, reading: str, best: int) -> None:
    """Of 3 peers .6 are 1.8, the nearest is 2; .4 are 1.2, the nearest is 1."""
    algorithm = PepperGMF(**SMALL, alpha=alpha, reading=reading).configured(DATA.catalogue)
    gossip = federation()
    nodes = gossip.start().nodes
    nodes.heard[0, :4], nodes.performance[0, :4] = [4, 5, 6, 7], [0.1, 0.9, 0.5, 0.3]
    nodes.known[0] = NOBODY
    nodes.known[0, :3] = [8, 9, 10]
    view = algorithm.policy.update_view(
        nodes, np.array([0]), algorithm.view, folds(key(0, "view"), np.arange(1))
    )[0]
    assert view[:best].tolist() == [5, 6, 7][:best] and set(view[best:].tolist()) <= {8, 9, 10}


def test_a_view_is_drawn_anew_every_few_pushes_and_l_n_is_forgotten_or_kept() -> None:
    for memory, kept in (("view", False), ("ever", True)):
        gossip = federation(memory=memory)
        swarm = gossip.advance(gossip.start(), 2)
        assert (swarm.nodes.heard != NOBODY).any()
        before = swarm.nodes.view.copy()
        gossip.algorithm.on_timer(
            swarm.nodes, np.arange(12), gossip.private, folds(key(0, "t"), np.arange(12))
        )  # the third push
        assert (swarm.nodes.view != before).any() and (swarm.nodes.heard != NOBODY).any() == kept
        now = swarm.nodes.view.copy()
        gossip.algorithm.on_timer(
            swarm.nodes, np.arange(12), gossip.private, folds(key(1, "t"), np.arange(12))
        )
        assert (swarm.nodes.view == now).all()


# ---- weighting sets ------------------------------------------------------------------------------


def test_only_pepper_holds_rows_back_and_not_where_the_protocol_does() -> None:
    assert len(federation().private.weighing.item) > 0
    assert len(federation(GossipAgeGMF).private.weighing.item) == 0
    given = weighed(2)
    assert PepperGMF(**SMALL).weighing(given, folds(key(0, "w"), np.arange(12))) is given


# ---- what is declared, and how an algorithm is composed ------------------------------------------


def test_an_algorithm_with_a_setting_or_an_array_twice_is_refused_where_it_is_composed() -> None:
    class Hasty(GossipPolicy):
        factors: int = 3

    class Forgetful(GossipModel):
        private, reveals, layout = PeerState, "nothing", "[0] float32"

    with pytest.raises(
        ValueError, match="two of node, model and policy have the setting 'factors'"
    ):
        composed("Wrong", Hasty, GMFModel, "Wrong.")
    with pytest.raises(ValueError, match="two parts of the private state have 'age'"):
        composed("Wrong", GossipPolicy, Forgetful, "Wrong.")
