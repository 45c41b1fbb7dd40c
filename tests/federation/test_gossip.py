"""The event heap of gossip: what arrives when, in which order, what the ledger says; and that doing
events at once changes nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
from small_gossip import WIDTH, Toy, shop

from entrenous.core.contract.declared import ContractError
from entrenous.federation.gossip import KNOWN, Gossip
from entrenous.federation.network import Network, Spread
from entrenous.federation.shard import Threads
from entrenous.federation.swarm import Swarm
from entrenous.federation.timeline import Timeline, waves

N = 12
ROUGH = {
    "clock": "random",
    "period": "uniform:0.5:1.5",
    "latency": "uniform:0.3:2.5",
    "bandwidth": "loguniform:100:1000",
    "loss": 0.2,
    "churn": 0.3,
    "session": 3,
    "restarts": 0.02,
    "partition": "3:5",
    "bad": 0.2,
}


def ran(
    until: int, *, n: int = N, ways: int = 2, threads: int = 1, seed: int = 0, **network: object
) -> Swarm:
    gossip = Gossip(
        Toy(ways), shop(n), seed=seed, network=Network.read(network), executor=Threads(threads)
    )
    return gossip.advance(gossip.start(), until)


def bytes_of(swarm: Swarm) -> list[bytes]:
    return [
        swarm.models.tobytes(),
        *(array.tobytes() for array in (*swarm.nodes, *swarm.counts)),
        repr(swarm.ledger).encode(),
    ]


def test_in_lock_step_all_push_what_they_had_when_the_round_began() -> None:
    """Each to the next: after r rounds a node has its own model and those of the r nodes before it,
    no more.
    """
    for rounds in (1, 2, 5):
        models = ran(rounds, ways=1).models
        assert models[:, 0].tolist() == [rounds] * N
        for u in range(N):
            expected = {(u - back) % N for back in range(rounds + 1)}
            assert set(np.flatnonzero(models[u, 1:])) == expected


def test_the_ledger_counts_every_message() -> None:
    ledger = ran(4, ways=3).ledger
    assert (ledger.messages, ledger.lost, ledger.refused, ledger.device_rounds) == (
        4 * 3 * N,
        0,
        0,
        4 * N,
    )
    assert ledger.bytes_up == ledger.bytes_down == 4 * 3 * N * 100


def test_what_is_sent_arrives_is_lost_or_is_under_way() -> None:
    swarm = ran(9, **ROUGH)
    ledger, on_its_way = swarm.ledger, int(swarm.mail.copies.sum())
    assert ledger.messages * 100 == ledger.bytes_up and ledger.bytes_down == 100 * int(
        swarm.counts.received.sum()
    )
    assert ledger.messages == int(swarm.counts.received.sum()) + ledger.lost + on_its_way
    assert (
        ledger.lost > 0 and on_its_way > 0 and ledger.refused == int(swarm.counts.refused.sum()) > 0
    )


def test_a_share_of_the_messages_is_lost() -> None:
    ledger = ran(200, loss=0.3).ledger
    assert abs(ledger.lost / ledger.messages - 0.3) < 5 * (0.3 * 0.7 / ledger.messages) ** 0.5


@pytest.mark.parametrize(
    "network",
    [{}, ROUGH, {"clock": "regular", "latency": "uniform:0.2:5"}],
    ids=["lock-step", "rough", "regular"],
)
def test_events_at_once_give_the_result_of_one_after_the_other(
    network: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, one = (
        bytes_of(ran(8, **network)),
        Gossip(Toy(2), shop(N), network=Network.read(network)),
    )
    # so that no later event is known to be independent
    sequential = lambda self, now: float(now.time[0])  # noqa: E731
    monkeypatch.setattr(Timeline, "_earliest", sequential)
    assert bytes_of(one.advance(one.start(), 8)) == at_once


@pytest.mark.parametrize("network", [{}, ROUGH], ids=["lock-step", "rough"])
def test_some_nodes_at_a_time_give_the_same_in_less_memory(
    network: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ran(8, n=15, ways=3, **network)
    monkeypatch.setattr("entrenous.federation.gossip.GROUP_BYTES", 1)
    apart = ran(8, n=15, ways=3, **network)
    assert bytes_of(apart) == bytes_of(whole) and apart.pool.most <= whole.pool.most
    assert network or apart.pool.most < whole.pool.most


def test_messages_that_arrive_at_one_time_are_taken_in_an_order_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages take 0 to 3 rounds, so that some sent in different rounds arrive together. Their
    order is drawn from their names: it does not depend on where `advance` stopped, nor on which
    nodes were handled first.
    """
    drawn = Spread.draw
    monkeypatch.setattr(Spread, "draw", lambda spread, keys: np.floor(drawn(spread, keys)))
    network = {"latency": "uniform:0:4"}
    whole = bytes_of(ran(8, n=15, ways=3, **network))
    stopping = Gossip(Toy(3), shop(15), network=Network.read(network))
    swarm = stopping.start()
    for until in range(1, 9):
        swarm = stopping.advance(swarm, until)
    assert bytes_of(swarm) == whole
    monkeypatch.setattr("entrenous.federation.gossip.GROUP_BYTES", 1)
    assert bytes_of(ran(8, n=15, ways=3, **network)) == whole


def test_late_messages_arrive_late() -> None:
    assert ran(3, ways=1, latency=5).models[:, 0].tolist() == [0] * N
    assert ran(6, ways=1, latency=5).models[:, 0].tolist() == [1] * N


def test_an_uplink_sends_one_message_after_the_other() -> None:
    """100 bytes at 50 bytes a period: the second of two messages takes until time 4, and until then
    nothing else is pushed.
    """
    assert ran(2, ways=2, bandwidth=50).counts.received.tolist() == [0] * N
    assert ran(3, ways=2, bandwidth=50).counts.received.tolist() == [1] * N
    swarm = ran(9, ways=2, bandwidth=50)
    assert (
        swarm.counts.received.tolist() == [4] * N and swarm.counts.pushed.tolist() == [3] * N
    )  # at 0, 4 and 8


def test_messages_of_a_push_share_one_copy_of_the_model() -> None:
    """Under way: 5 pushes of N nodes to 3 peers each; the pool holds a model for each push and
    node, not for each message.
    """
    swarm = ran(5, ways=3, latency=4.5)
    assert int(swarm.mail.copies.sum()) == 5 * 3 * N - 3 * N
    assert swarm.pool.most <= 6 * N
    still = ran(
        5, ways=3, latency=50
    )  # nobody's model has changed: the nodes' own are all there are
    assert still.pool.most == N and int(still.mail.copies.sum()) == 15 * N


def test_a_cut_network_heals() -> None:
    """While it is cut, nothing crosses; before and after, everything does."""
    gossip = Gossip(Toy(N - 1), shop(N), network=Network.read({"partition": "2:6"}))
    side, swarm = gossip._draws.side, gossip.start()
    other = side[:, None] != side[None, :]
    assert other.any()
    heard = [swarm.nodes.heard.copy()]
    for until in (2, 6, 8):
        swarm = gossip.advance(swarm, until)
        heard.append(swarm.nodes.heard.copy())
    before, during, after = (np.diff(np.stack(heard), axis=0)[k] for k in range(3))
    assert (before[other] == 2).all() and (during[other] == 0).all() and (after[other] == 2).all()
    apart = ~other & ~np.eye(N, dtype=bool)
    assert (during[apart] == 4).all()


def test_what_is_under_way_when_the_network_is_cut_does_not_cross() -> None:
    """Messages take 3 units of time, and the network is cut from 2 to 6: of those that cross, the
    ones sent at 0 .. 5 would be under way then, and none of these arrives."""
    gossip = Gossip(Toy(N - 1), shop(N), network=Network.read({"partition": "2:6", "latency": "3"}))
    side, swarm = gossip._draws.side, gossip.advance(gossip.start(), 12)
    other = side[:, None] != side[None, :]
    apart = ~other & ~np.eye(N, dtype=bool)
    assert (swarm.nodes.heard[apart] == 9).all()  # sent at 0 .. 8
    assert (swarm.nodes.heard[other] == 3).all()  # sent at 6, 7 and 8
    assert swarm.ledger.lost == 6 * int(other.sum())


def test_nodes_that_are_away_send_and_receive_nothing_and_keep_what_they_had() -> None:
    swarm = ran(400, n=15, ways=1, churn=0.5, session=4)
    present = swarm.counts.pushed / 400
    assert abs(present.mean() - 0.5) < 0.15
    assert swarm.ledger.device_rounds == int(swarm.counts.pushed.sum())
    assert int(swarm.counts.received.sum()) < int(swarm.counts.pushed.sum())
    assert swarm.models[:, 0].tolist() == swarm.counts.received.tolist()  # nothing was forgotten


def test_a_node_that_restarts_begins_with_the_base_model_and_its_own_rows() -> None:
    swarm = ran(30, restarts=0.1)
    assert int(swarm.counts.restarts.sum()) > N
    assert (swarm.models[:, 0] <= swarm.counts.received).all() and (
        swarm.models[:, 0] < swarm.counts.received
    ).any()
    assert (swarm.models[np.arange(N), 1 + np.arange(N)] == 1).all()


class Introduced(Toy):
    """Notes whom the bootstrap service names to each node, start by start."""

    def __init__(self) -> None:
        super().__init__(1)
        self.named: dict[int, list[frozenset[int]]] = {}

    def init_nodes(self, users, peers, width, key):
        for user, some in zip(users.tolist(), peers.tolist(), strict=True):
            assert user not in some and len(set(some)) == KNOWN
            self.named.setdefault(user, []).append(frozenset(some))
        return super().init_nodes(users, peers, width, key)

    def on_start(self, pool, at, nodes, who, data, keys):
        pass  # the toy's models count 15 nodes


def test_a_node_that_restarts_is_named_other_peers_each_time() -> None:
    """20 of 59 are drawn anew: who restarts because the old ones were all gone is not sent to them
    again.
    """
    toy = Introduced()
    gossip = Gossip(toy, shop(60), network=Network.read({"restarts": 0.05}))
    swarm = gossip.start()
    toy.named = {
        user: named[-1:] for user, named in toy.named.items()
    }  # of its first start, whatever was asked before
    restarts = gossip.advance(swarm, 60).counts.restarts
    assert restarts.max() >= 3
    for user, named in toy.named.items():
        assert len(named) == 1 + restarts[user] == len(set(named))
    assert (
        len({some for named in toy.named.values() for some in named}) == 60 + restarts.sum()
    )  # nor as anybody else


def test_bad_models_are_refused_and_counted_and_change_nothing() -> None:
    gossip = Gossip(Toy(N - 1), shop(N), network=Network.read({"bad": 0.4}))
    bad, swarm = gossip._draws.bad, gossip.advance(gossip.start(), 3)
    assert 0 < bad.sum() < N and len(set(gossip._draws.junk[bad].tolist())) > 1
    assert np.isfinite(swarm.models).all() and swarm.models.max() < 100 * WIDTH
    assert (swarm.nodes.heard[:, bad] == 0).all() and swarm.ledger.refused == 3 * int(bad.sum()) * (
        N - 1
    )


def test_waves_have_every_node_once() -> None:
    node = np.array([4, 2, 4, 4, 2, 0])
    assert [wave.tolist() for wave in waves(node)] == [[0, 1, 5], [2, 4], [3]]


class WritesReceived(Toy):
    def on_message(self, arrivals, nodes, data):
        arrivals.pool[arrivals.received] += 1
        return super().on_message(arrivals, nodes, data)


class Float32Ages(Toy):
    def on_timer(self, nodes, who, data, keys):
        pushes = super().on_timer(nodes, who, data, keys)
        return pushes._replace(
            headers=pushes.headers._replace(age=pushes.headers.age.astype(np.float32))
        )


class NamesNobody(Toy):
    def on_timer(self, nodes, who, data, keys):
        pushes = super().on_timer(nodes, who, data, keys)
        return pushes._replace(headers=pushes.headers._replace(peers=pushes.headers.peers + self.n))


class PushesBeyond(Toy):
    def on_timer(self, nodes, who, data, keys):
        pushes = super().on_timer(nodes, who, data, keys)
        return pushes._replace(to=pushes.to + np.int32(self.n))


class KeepsInt32(Toy):
    def init_nodes(self, users, peers, width, key):
        nodes = super().init_nodes(users, peers, width, key)
        return nodes._replace(drawn=nodes.drawn.astype(np.int32))


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        (WritesReceived, "WritesReceived: model: `on_message` writes to what it received"),
        (Float32Ages, "Float32Ages: pushed 'age': float32"),
        (NamesNobody, f"NamesNobody: pushed 'peers': numbers from {N} to {N}"),
        (PushesBeyond, "PushesBeyond: pushed to: int32"),
        (
            KeepsInt32,
            "KeepsInt32: private state 'drawn': int32 numbers; expected an array of int64 numbers",
        ),
    ],
)
def test_a_gossip_algorithm_that_breaks_its_declaration_is_refused_in_one_line(hostile, said):
    gossip = Gossip(hostile(), shop(N))
    with pytest.raises(ContractError) as refused:
        gossip.advance(gossip.start(), 2)
    assert said in str(refused.value) and "\n" not in str(refused.value)
