"""What a server that lies cannot get from masked sums of several rounds: the difference of one node
or of few people.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from federation_links import (
    FaultyLink,
    federation,
    logged,
    nodes_of,
    quick_pauses,
    ratings,
    server_sha256,
    simulated,
)
from lying_sums import SubtractingServer

from entrenous.deploy.frames.frames import FrameParts, opened
from entrenous.deploy.operate.founding import FoundedFederation
from entrenous.deploy.server.server import serve
from entrenous.privacy.secure_sum.memory import PastSum, check_parties
from entrenous.privacy.secure_sum.refusal import SumRefused
from entrenous.privacy.secure_sum.terms import Floors
from entrenous.privacy.secure_sum.vector import pack

FCF = {"factors": 4}
NAMES = [f"node-{number}" for number in range(1, 7)]  # 20 users of six nodes: 4, 4, 3, 3, 3, 3
HALF = Floors(people=9, parties=3, occupancy=0.0)


def masked(
    folder: Path,
    floors: Floors = HALF,
    algorithm: str = "fcf",
    form: str = "printed",
    **terms: object,
) -> FoundedFederation:
    settings = {**FCF, "form": form} if algorithm == "fcf" else None
    return federation(
        folder, 6, 8, algorithm, settings=settings, secure="masks", floors=floors, **terms
    )


@pytest.fixture
def lying(tmp_path: Path) -> Iterator[SubtractingServer]:
    held = SubtractingServer(masked(tmp_path / "f"))
    yield held
    held.close()


def test_a_party_away_in_the_next_round_is_not_subtracted(lying: SubtractingServer) -> None:
    """FCF: from one model the sum of all less that of five is what the sixth sent; from nearly the
    same model nearly.
    """
    assert lying.sum_of(0, NAMES) is not None
    for number, model in ((1, 0.0), (2, 1e-6), (3, 0.5)):
        assert lying.sum_of(number, NAMES[:5], model) is None
        assert set(lying.said) == {*NAMES[:5], "server"}
    assert all("apart" in lying.said[name] for name in NAMES[:5])
    assert lying.sum_of(4, NAMES[:5]) is None and "twice" in lying.said["node-1"]


def test_without_the_memory_the_difference_is_what_the_party_sent(lying: SubtractingServer) -> None:
    """That the attack is one: nodes that forget give the sixth away to the bit."""
    whole = lying.sum_of(0, NAMES)
    for name in NAMES:
        with lying.nodes[name].store.connection as database:
            database.execute("delete from summed")
        lying.restart(name)
    others = lying.sum_of(1, NAMES[:5])
    assert whole is not None and others is not None
    sixth = lying.nodes["node-6"]
    alone, _ = sixth.shard.work(
        lying.download(),
        sixth.shard.init_devices(np.uint64(1)),
        sixth.shard.users,
        np.uint64(1),
        delivered=False,
    )
    assert np.array_equal(whole.dense["f"] - others.dense["f"], alone.dense["f"])


def test_one_that_is_said_to_have_dropped_out_is_not_subtracted_either(
    lying: SubtractingServer,
) -> None:
    """The list of survivors is held against earlier sums as the roster is: nobody signs it, and the
    masks stay on.
    """
    assert lying.sum_of(0, NAMES) is not None
    assert lying.sum_of(1, NAMES, 0.1, gone="node-3") is None
    assert {"node-1", "node-2", "node-4"} <= set(lying.said) and all(
        "apart" in lying.said[name] for name in ("node-1", "node-6")
    )
    assert lying.sum_of(2, NAMES, 0.1) is not None  # the round is lost, the next one is not


def test_fixed_groups_and_sets_that_differ_by_enough_are_summed(lying: SubtractingServer) -> None:
    """Three nodes with 9 or 11 users are as many as one sum must have."""
    left, right = NAMES[:3], NAMES[3:]
    assert all(
        lying.sum_of(number, names, number / 10) is not None
        for number, names in enumerate((left, right, left, NAMES))
    )
    assert (
        lying.sum_of(4, [*left, "node-4"], 0.4) is None
        and "1 parties with 3 people" in lying.said["node-1"]
    )


def test_people_are_counted_in_a_difference_too(tmp_path: Path) -> None:
    held = SubtractingServer(masked(tmp_path / "f", Floors(people=10, parties=3, occupancy=0.0)))
    assert held.sum_of(0, NAMES) is not None
    assert (
        held.sum_of(1, NAMES[:3], 0.1) is None and "3 parties with 9 people" in held.said["node-1"]
    )
    assert held.sum_of(2, NAMES[2:], 0.1) is None
    held.close()


def test_other_users_of_the_same_nodes_are_not_subtracted(lying: SubtractingServer) -> None:
    """A gateway asked for all its users but one: its own share of the floor is 2 of 4."""
    users = lying.nodes["node-1"].shard.users
    assert lying.sum_of(0, NAMES) is not None
    assert lying.sum_of(1, NAMES, 0.1, {"node-1": users[1:]}) is None
    assert "withheld" in lying.said["node-1"] and "1 users of this node" in lying.said["node-1"]
    assert (
        lying.sum_of(2, NAMES, 0.0, {"node-1": users[2:]}) is None
        and "twice" in lying.said["node-1"]
    )
    assert lying.sum_of(3, NAMES, 0.1, {"node-1": users[2:]}) is not None


def test_fewer_people_than_the_floor_are_not_summed_however_many_the_server_says(
    tmp_path: Path,
) -> None:
    """Each node signs how many users it was asked for, and asked for others at the mask it sends
    nothing.
    """
    held = SubtractingServer(masked(tmp_path / "f", Floors(people=20, parties=3, occupancy=0.0)))
    ones = {name: held.nodes[name].shard.users[:1] for name in NAMES}
    assert held.sum_of(0, NAMES, users=ones) is None and all(
        "6 people; at least 20" in held.said[name] for name in NAMES
    )
    held.close()


def test_the_same_model_again_has_the_same_answer_to_the_bit(tmp_path: Path) -> None:
    """FPL draws anew in each round: new draws from one model would say more with each time that it
    is summed.
    """
    held = SubtractingServer(masked(tmp_path / "f", algorithm="fpl", draws="secret"))
    first, again, other = (
        held.sum_of(number, NAMES, model) for number, model in ((0, 0.0), (1, 0.0), (2, 0.1))
    )
    assert first is not None and again is not None and other is not None
    assert np.array_equal(pack(first), pack(again)) and not np.array_equal(
        first.senders, other.senders
    )
    held.close()


def test_a_restart_forgets_nothing(lying: SubtractingServer) -> None:
    assert lying.sum_of(0, NAMES) is not None
    for name in NAMES:
        lying.restart(name)
    assert lying.sum_of(1, NAMES[:5], 0.1) is None and lying.sum_of(2, NAMES, 0.2) is not None


@pytest.mark.parametrize("form", ["printed", "gram"])
def test_sums_of_a_message_with_every_row_end_before_they_come_apart(
    tmp_path: Path, form: str
) -> None:
    """20 people, 4 numbers an item: the third sum of the same nodes would be of 1.67 devices an
    equation. So it is with rows of the same items in every round."""
    held = SubtractingServer(
        masked(tmp_path / "f", Floors(people=9, parties=3, occupancy=2.0), form=form)
    )
    found = [held.sum_of(number, NAMES, number / 10) is not None for number in range(3)]
    assert found == [True, True, False] and "occupancy" in held.said["node-1"]
    held.close()


# ---- an honest server ----------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)


class Restarting(FaultyLink):
    """A node that dies when it is asked one kind of question in one round, and is back a while
    later.
    """

    def __init__(self, made: FoundedFederation, who: str, kind: str, away: int) -> None:
        self.made, self.real = made, nodes_of(made)
        super().__init__({name: node.answer for name, node in self.real.items()})
        self.who, self.kind, self.left = who, kind, away

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        head = opened(bytes(frame)).head
        if (
            address == self.who
            and self.left
            and (head.kind, head.round) in ((self.kind, 2), ("advert", 2), ("advert", 3))
        ):
            self.absent |= {self.who} if head.kind == self.kind else set()
        super().send(address, frame, seconds)

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        if self.absent:
            self.left -= 1
            if not self.left:
                self.absent = set()
                from entrenous.deploy.node.node import FederatedNode

                self.real[self.who].close()
                self.real[self.who] = FederatedNode(self.made.nodes[self.who])
                self.nodes[self.who] = self.real[self.who].answer
        return super().receive(seconds)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["advert", "share", "mask", "consent"])
def test_an_honest_server_waits_for_who_dropped_out_and_goes_on(tmp_path: Path, kind: str) -> None:
    """Whatever the quorum: the others consent to no sum without it. A round whose masked inputs
    have left is lost, the next one is not.
    """
    made = masked(tmp_path / "f", quorum=0.7, deadline=1.0)
    link, stop = Restarting(made, "node-2", kind, 40), Event()
    found = serve(link, made.server, stop)
    lines = logged(made.server)
    counted = [line for line in lines if "20 of 20 devices" in line]
    lost = [line for line in lines if " 0 of 20 devices" in line]
    assert (
        found is not None
        and len(counted) == 8
        and not any("17 of 20" in line or "16 of 20" in line for line in lines)
    )
    assert len(lost) <= 1 and (not lost or kind in ("mask", "consent"))
    if not lost:
        assert found == server_sha256(simulated(made, ratings()))


@pytest.mark.usefixtures("quick")
def test_who_comes_late_is_left_out_and_holds_up_nobody(tmp_path: Path) -> None:
    """The first sum was without it, so all further ones are."""
    made = masked(tmp_path / "f", quorum=0.7, deadline=1.0)
    link = FaultyLink({name: node.answer for name, node in nodes_of(made).items()})
    link.absent = {"node-6"}
    sent = link.send

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        if opened(bytes(frame)).head.round == 1:
            link.absent = set()
        sent(address, frame, seconds)

    link.send = send  # type: ignore[method-assign]
    assert serve(link, made.server) is not None
    assert sum("17 of" in line for line in logged(made.server)) == 8


def week(nodes: int, people: int, cohort: int, up: float, quorum: float = 0.4) -> int:
    """How many of 168 rounds are summed under the usual floors. people: of each node; cohort: nodes
    that are drawn in each round, 0 = all; up: the share of the time that a node is there. As a
    server does, a round falls back to the nodes of earlier sums.
    """
    rng, floors, past, names = (
        np.random.default_rng(0),
        Floors(),
        list[PastSum](),
        [f"n{n}" for n in range(nodes)],
    )
    for number in range(168):
        asked = [names[n] for n in rng.choice(nodes, cohort or nodes, replace=False)]
        there = {name for name in asked if rng.random() < up}
        model = b"%d" % number
        for parties in (there, *(set(before.parties) for before in reversed(past))):
            enough = (
                len(parties) >= max(floors.parties, quorum * len(asked))
                and len(parties) * people >= floors.people
            )
            summed = PastSum(model, dict.fromkeys(parties, people))
            if enough and parties <= there and not_refused(past, summed, floors):
                past.append(summed)
                break
    return len(past)


def not_refused(past: list[PastSum], summed: PastSum, floors: Floors) -> bool:
    try:
        check_parties(past, summed.model, summed.parties, floors)
    except SumRefused:
        return False
    return True


def test_a_week_of_phones_that_are_away_is_summed_with_drawn_cohorts_and_not_without(
    record_property,
) -> None:
    """What docs/network.md says of `--set cohort`: 1,000 phones of one user, up 95 % of the time,
    an hour a round.
    """
    drawn, everybody, gateways = (
        week(1000, 1, 300, 0.95),
        week(1000, 1, 0, 0.95),
        week(20, 30, 10, 0.95),
    )
    said = (
        f"rounds of 168 that are summed: {drawn} with cohorts of 300, {everybody} with everybody;"
        f" 20 gateways, 10 drawn: {gateways}"
    )
    record_property("measured", said)
    print(said)
    assert drawn == 168 and everybody <= 2 and gateways < 84
