"""Masked sums in groups: one liar's vector moves the model no further than its group, and who is in
a group stays.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation_links import (
    DyingLink,
    FaultyLink,
    Hub,
    copied,
    federation,
    finished,
    logged,
    nodes_of,
    noting_inputs,
    quick_pauses,
    ratings,
    serving,
)

from entrenous.core.contract.update import LIMIT, STEP, Total
from entrenous.core.errors import InputError
from entrenous.deploy.agreement.groups import dealt, group_of
from entrenous.deploy.agreement.members import MEMBERS, Members
from entrenous.deploy.frames.contribution import agreed
from entrenous.deploy.frames.frames import opened
from entrenous.deploy.frames.secure import sum_terms
from entrenous.deploy.node.secure_node import inputs
from entrenous.deploy.operate.founding import FoundedFederation
from entrenous.deploy.operate.membership import shut_out
from entrenous.deploy.server.grouped_round import shortened, times_the_median
from entrenous.deploy.server.server import RoundsLost, serve
from entrenous.deploy.server.server_folder import SPAN, ServerFolder
from entrenous.deploy.server.watch import length
from entrenous.privacy.protection import Protection, ProtectionInForce
from entrenous.privacy.secure_sum.client import SecureSumClient
from entrenous.privacy.secure_sum.terms import Floors
from entrenous.privacy.secure_sum.vector import pack, unpack

LOW = Floors(people=1, parties=3, occupancy=0.0)
NODES, ROUNDS = 12, 4
SMALL = {"factors": 4}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)


def masked(folder: Path, groups: int = 3, nodes: int = NODES, **terms: Any) -> FoundedFederation:
    protect = (
        {"groups": groups, **terms.pop("protect", {})} if groups > 1 else terms.pop("protect", {})
    )
    more = {"deadline": 1.0, "floors": LOW, **terms}
    return federation(
        folder, nodes, ROUNDS, "fcf", settings=SMALL, secure="masks", protect=protect, **more
    )


def link_of(made: FoundedFederation) -> FaultyLink:
    return FaultyLink({name: node.answer for name, node in nodes_of(made).items()})


def members_of(made: FoundedFederation) -> Members:
    return Members.read(made.server / MEMBERS, made.terms.users)


def groups_of(made: FoundedFederation) -> list[frozenset[str]]:
    return dealt(members_of(made), made.terms.run, made.terms.protection.groups)


def item_model(made: FoundedFederation) -> np.ndarray:
    held = ServerFolder(made.server)
    try:
        found = held.newest(made.terms.make())
        assert found is not None
        return np.concatenate(
            [np.ravel(array) for array in found.state if array.dtype.kind == "f"]
        ).astype(np.float64)
    finally:
        held.close()


Lie = Callable[[Total], Total]


def largest(total: Total) -> Total:
    """Every number as large as the fixed point lets one device have it."""
    most = int(LIMIT / STEP) - 1
    rows = {name: np.full_like(array, most // 4) for name, array in total.rows.items()}
    dense = {name: np.full_like(array, most // 4) for name, array in total.dense.items()}
    return total._replace(rows=rows, dense=dense)


def out_of_range(total: Total) -> Total:
    return total._replace(senders=np.full_like(total.senders, 1 << 50))


def lying(
    monkeypatch: pytest.MonkeyPatch, made: FoundedFederation, liars: set[str], lie: Lie
) -> None:
    """Some nodes mask a vector of their own making: signed, well-formed, and wrong."""
    honest = SecureSumClient.mask
    like = agreed(made.terms.make(), made.terms.catalogue, made.terms.protection).empty_total()

    def mask(self: SecureSumClient, inbox: bytes, vector: Any, *more: Any) -> bytes:
        if self.name in liars:
            vector = pack(lie(unpack(vector, like)))
        return honest(self, inbox, vector, *more)

    monkeypatch.setattr(SecureSumClient, "mask", mask)


# ---- one liar ------------------------------------------------------------------------------------


def test_one_liar_of_the_largest_values_moves_the_model_no_further_than_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sum of everybody is dragged away; of three sums the liar's is shortened to the median
    one.
    """
    monkeypatch.setattr(
        "entrenous.deploy.server.server.too_long", lambda *more: ""
    )  # not what is shown here
    distances = {}
    for groups in (1, 3):
        honest = masked(tmp_path / f"honest-{groups}", groups)
        assert serve(link_of(honest), honest.server) is not None
        dragged = masked(tmp_path / f"dragged-{groups}", groups)
        with monkeypatch.context() as patch:
            lying(patch, dragged, {"node-03"}, largest)
            assert serve(link_of(dragged), dragged.server) is not None
        good, bad = item_model(honest), item_model(dragged)
        distances[groups] = float(np.linalg.norm(bad - good) / np.linalg.norm(good))
        if groups == 3:
            long = [
                line
                for line in logged(dragged.server)
                if "times as long as the median group's" in line
            ]
            assert len(long) == ROUNDS and "one of its 4 nodes may lie" in long[0]
            assert not any("node-03" in line for line in long)
    assert distances[1] > 1_000, distances
    assert distances[3] < 1, distances


def test_one_liar_of_an_impossible_vector_costs_its_group_and_not_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = masked(tmp_path / "f")
    lying(monkeypatch, made, {"node-03"}, out_of_range)
    assert serve(link_of(made), made.server) is not None
    group = 1 + next(number for number, group in enumerate(groups_of(made)) if "node-03" in group)
    lines = logged(made.server)
    assert sum(f"2 of 3 groups; without group {group}" in line for line in lines) == ROUNDS
    assert not any("lost," in line for line in lines)


def test_a_round_with_half_of_its_groups_or_fewer_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = masked(tmp_path / "f")
    two = {min(group) for group in groups_of(made)[:2]}
    lying(monkeypatch, made, two, out_of_range)
    with pytest.raises(RoundsLost, match="2 rounds were lost, and 1 may be"):
        serve(link_of(made), made.server)
    # the third group was not asked for what could not count any more
    third = {
        name: inputs(node.store)
        for name, node in nodes_of(made).items()
        if name in groups_of(made)[2]
    }
    assert set(third.values()) == {0}


def test_a_liar_cannot_hide_its_rows_behind_senders_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under noise everybody counts as a sender of every row, so rows that a sum said nobody had
    sent counted, and nobody measured them.
    """
    protect = {"noise": 0.01, "rows": "all"}
    made = federation(
        tmp_path / "f",
        NODES,
        ROUNDS,
        "fpl",
        secure="masks",
        floors=LOW,
        deadline=1.0,
        protect=protect,
    )
    users = made.terms.users
    own = len(members_of(made).nodes["node-03"].users)

    def hidden(total: Total) -> Total:
        found = largest(total)
        return found._replace(senders=np.full_like(total.senders, own - users))

    lying(monkeypatch, made, {"node-03"}, hidden)
    with pytest.raises(RoundsLost):
        serve(link_of(made), made.server)
    assert any(
        "a node lied, and the sum does not say which (wrong-count)" in line
        for line in logged(made.server)
    )


# ---- honest runs ---------------------------------------------------------------------------------


def test_honest_groups_end_near_the_sum_of_everybody_and_twice_with_the_same_model(
    tmp_path: Path,
) -> None:
    found = {}
    for name, groups in (("one", 1), ("three", 3)):
        made = masked(tmp_path / name, groups)
        assert serve(link_of(made), made.server) is not None
        found[name] = item_model(made)
    apart = np.linalg.norm(found["one"] - found["three"]) / np.linalg.norm(found["one"])
    assert 0 < apart < 0.2  # some sums are a little longer than the median one
    first = masked(tmp_path / "first")
    again = copied(first, tmp_path / "again")
    assert serve(link_of(first), first.server) == serve(link_of(again), again.server)


def test_the_server_dies_between_any_two_answers_and_no_group_is_asked_twice(
    tmp_path: Path,
) -> None:
    """The model is that of an uninterrupted run: sums of groups that were finished come from their
    journals.
    """
    whole = masked(tmp_path / "whole", quorum=1.0, deadline=30.0)
    made = copied(whole, tmp_path / "killed")
    uninterrupted = serve(link_of(whole), whole.server)
    nodes = nodes_of(made)
    link = DyingLink({name: node.answer for name, node in nodes.items()})
    deaths, found, kept = 0, None, 0
    while found is None:
        link.left_looks = 7 + deaths % 9
        try:
            found = serve(link, made.server)
        except ConnectionError:
            deaths += 1
            begun = {
                int(path.stem.rpartition("-")[2]) // SPAN
                for path in made.server.glob("round-*.journal")
            }
            kept = max(kept, len(begun))
            assert deaths < 300, logged(made.server)[-5:]
    assert (
        deaths > 8 and kept == 3
    )  # it died in the third group, and the journals of the first two were there
    assert found == uninterrupted
    assert {inputs(node.store) for node in nodes.values()} == {ROUNDS}
    assert not any("lost" in line for line in logged(made.server))


def test_a_server_killed_by_sigkill_in_a_later_group_keeps_the_sums_of_the_earlier_ones(
    tmp_path: Path,
) -> None:
    """A real process over real sockets."""
    whole = masked(tmp_path / "whole", quorum=1.0, deadline=30.0)
    made = copied(whole, tmp_path / "killed")
    uninterrupted = serve(link_of(whole), whole.server)
    nodes = nodes_of(made)
    answers, left = noting_inputs(nodes)
    hub = Hub(tmp_path / "hub", answers)
    begun: list[int] = []
    for _ in range(3):
        running = serving(made.server, hub.addresses)

        def kill(running: BaseProcess = running) -> None:
            journals = made.server.glob("round-*.journal")
            begun.append(len({int(path.stem.rpartition("-")[2]) // SPAN for path in journals}))
            running.kill()

        hub.at[hub.answered + 50] = kill
        running.join(120)
        assert running.exitcode == -signal.SIGKILL, logged(made.server)[-3:]
    running = serving(made.server, hub.addresses)
    assert finished(running, made.server) == uninterrupted
    assert begun[0] == 3  # the third group was begun, and the journals of the first two were there
    assert all(numbers == list(range(ROUNDS)) for numbers in left.values())


# ---- which group ---------------------------------------------------------------------------------


def test_groups_are_the_same_after_a_restart_and_after_nodes_are_shut_out(tmp_path: Path) -> None:
    made = masked(tmp_path / "f")
    before = groups_of(made)
    assert groups_of(made) == before
    assert sorted(name for group in before for name in group) == sorted(made.nodes)
    assert {len(group) for group in before} == {4}
    people = members_of(made).ever()
    assert sum(people.values()) == made.terms.users
    each = [sum(people[name] for name in group) for group in before]
    assert max(each) - min(each) <= 1
    members = members_of(made)
    for name in ("node-12", "node-02", "node-07", "node-03"):
        members = members.without(name)
        assert members.ever() == people
        assert dealt(members, made.terms.run, 3) == before
    other = masked(tmp_path / "other")
    assert groups_of(other) != before  # of another run nobody knows them


def test_large_and_small_nodes_are_dealt_so_that_nodes_and_people_are_balanced(
    tmp_path: Path,
) -> None:
    members = members_of(masked(tmp_path / "f"))
    start = 0
    sizes = [300, 10, 10, 10, 100, 100, 100, 5, 5, 5, 5]
    nodes = {}
    for number, (name, size) in enumerate(zip(list(members.nodes)[:11], sizes, strict=True)):
        nodes[name] = members.nodes[name]._replace(users=np.arange(start, start + size))
        start += size
        assert number < 11
    found = dealt(Members(nodes, start), "run", 3)
    assert sorted(len(group) for group in found) == [3, 4, 4]
    people = [sum(len(nodes[name].users) for name in group) for group in found]
    assert max(people) <= 320 and min(people) >= 115


def test_shutting_a_node_out_touches_its_own_group_alone(tmp_path: Path) -> None:
    """Its whole group rests where too few would be left of it, and the round goes on with the
    others.
    """
    made = masked(tmp_path / "f", groups=3)
    link = link_of(made)
    assert serve(link, made.server) is not None
    members = members_of(made)
    group = group_of(members, made.terms, "node-05")
    others = sorted(group - {"node-05"})
    with pytest.raises(InputError, match=f"3 more that leave the rounds: {', '.join(others)}"):
        shut_out(made.server.parent, "node-05")
    done = shut_out(made.server.parent, "node-05", rest_others=True)
    assert sorted(done.resting) == others
    after = members_of(made)
    assert {name for name, member in after.nodes.items() if member.rests} == set(others)
    assert dealt(after, made.terms.run, 3) == dealt(members, made.terms.run, 3)
    # of a second group there would be one group left of three
    second = next(name for name in after.nodes if name not in group)
    with pytest.raises(InputError, match="found the federation anew"):
        shut_out(made.server.parent, second, rest_others=True)


def test_a_federation_goes_on_without_a_group_that_rests(tmp_path: Path) -> None:
    made = masked(tmp_path / "f", groups=3)
    shut = "node-05"
    link = link_of(made)
    honest = link.receive

    def receive(seconds: float) -> list[tuple[str, bytes]]:
        got = honest(seconds)
        if any(opened(frame).head.round == 2 for _, frame in got):
            raise ConnectionError("killed")
        return got

    link.receive = receive  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        serve(link, made.server)
    resting = shut_out(made.server.parent, shut, rest_others=True).resting
    again = link_of(made)
    assert serve(again, made.server) is not None
    lines = logged(made.server)
    assert any("2 of 3 groups" in line for line in lines)
    assert len(resting) == 3


def test_a_server_that_deals_nodes_to_other_groups_gets_no_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would choose anew, in every round, among whom a node hides."""
    made = masked(tmp_path / "f")
    first, second, third = (sorted(group) for group in groups_of(made))
    swapped = [
        frozenset([*first[:3], second[0]]),
        frozenset([*second[1:], first[3]]),
        frozenset(third),
    ]
    monkeypatch.setattr(
        "entrenous.deploy.server.grouped_round.groups_of_round", lambda *more: swapped
    )
    nodes = nodes_of(made)
    link = FaultyLink({name: node.answer for name, node in nodes.items()})
    honest = link.receive
    refused = 0

    def receive(seconds: float) -> list[tuple[str, bytes]]:
        nonlocal refused
        got = honest(seconds)
        refused += sum(opened(frame).head.kind == "refused" for _, frame in got)
        if refused > 40:
            raise ConnectionError("enough")
        return got

    link.receive = receive  # type: ignore[method-assign]
    with pytest.raises((ConnectionError, RoundsLost)):
        serve(link, made.server)
    assert refused >= 4
    assert {inputs(nodes[name].store) for name in (*first, *second)} == {0}


# ---- terms ---------------------------------------------------------------------------------------


def test_terms_without_groups_say_nothing_of_them(tmp_path: Path) -> None:
    plain, grouped = masked(tmp_path / "one", 1), masked(tmp_path / "three", 3)
    assert "groups" not in json.loads(plain.terms.text())["protection"]
    assert json.loads(grouped.terms.text())["protection"]["groups"] == 3
    assert "groups" not in Protection().model_dump() and Protection(groups=1) == Protection()
    assert type(grouped.terms).parse(json.loads(grouped.terms.text())).run == grouped.terms.run
    assert (
        "masked sums of at least 1 people and 3 nodes, one of each of 3 groups"
        in grouped.terms.limits()
    )


@pytest.mark.parametrize(
    ("protect", "said"),
    [
        ({"groups": 2, "secure_sum": True}, "1, or at least 3"),
        ({"groups": 0}, "greater than or equal to 1"),
        ({"groups": 3}, "groups together with secure_sum"),
        ({"groups": "x"}, "valid integer"),
    ],
)
def test_groups_that_make_no_sense_are_refused_in_one_line(
    protect: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as why:
        Protection.parse(protect, "--protect")
    assert "\n" not in str(why.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"groups": 5},
            (
                "5 groups, of which one has 2 nodes with 4 people in a round; expected at least 4"
                " nodes"
            ),
        ),  # of 12
        # nodes answer for no sum of fewer than those who may be in league with the server, and two
        (
            {"groups": 4},
            (
                "4 groups, of which one has 3 nodes with 5 people in a round; expected at least 4"
                " nodes with 1 people"
            ),
        ),
        (
            {"groups": 3, "floors": Floors(8, 3, 0.0)},
            "3 groups of the 20 devices of a round of FCF; expected at least 8 in each",
        ),
        (
            {"groups": 3, "protect": {"noise": 0.1, "rows": "all"}},
            "expected at least 4 nodes with 7 people in each",
        ),
    ],
)
def test_a_group_is_as_large_as_a_sum_must_be_or_nothing_is_written(
    tmp_path: Path, more: Any, said: str
) -> None:
    with pytest.raises(InputError, match=said) as why:
        masked(tmp_path / "f", **more)
    assert "\n" not in str(why.value)
    assert not (tmp_path / "f").exists()


def test_each_groups_sum_has_the_promised_noise(tmp_path: Path) -> None:
    """Shares are sized for a group, and nodes refuse a sum of fewer."""
    made = masked(tmp_path / "f", protect={"noise": 0.5, "rows": "all", "lost": 0.2})
    contract = agreed(made.terms.make(), made.terms.catalogue, made.terms.protection)
    held = ProtectionInForce(made.terms.protection, contract)
    assert held.fewest == 6  # four fifths of a third of 20, rounded up
    assert held.fewest * held.share**2 >= 0.5**2 > (held.fewest - 1) * held.share**2
    said = sum_terms(made.terms, contract, 0, 0, bytes(32))
    assert (said.people, said.parties, said.noise) == (6, 3, held.share)
    one = ProtectionInForce(made.terms.protection.model_copy(update={"groups": 1}), contract)
    assert one.share == pytest.approx(held.share / np.sqrt(3)) and one.fewest == 16


def test_an_epsilon_is_of_the_noise_of_one_groups_sum(tmp_path: Path) -> None:
    """Each group of ten has the noise that one sum of thirty has, so a user among ten is hidden as
    well as one among thirty.
    """
    terms = masked(tmp_path / "f").terms.model_copy(update={"users": 30})
    own = {"secure_sum": True, "noise": 20.0, "clip": 1.0, "noise_from": "system"}
    one = terms.model_copy(update={"protection": Protection(**own)})
    three = terms.model_copy(update={"protection": Protection(**own, groups=3)})
    found = one.proven(30)
    assert found is not None and found == three.proven(10)
    fewer = one.proven(10)
    assert fewer is not None and fewer > found


def test_no_run_has_groups() -> None:
    from entrenous.runs.options import RunPlan
    from entrenous.runs.plan import check

    protect = {"groups": 3, "noise": 0.1}
    plan = RunPlan(
        algorithm="fcf", data="ml-100k", protocol="loo-99", profile="private", protect=protect
    )
    with pytest.raises(
        InputError, match="--protect groups: 3 groups, and a simulation has no nodes"
    ):
        check(plan)


def test_no_group_has_more_than_a_few_hundred_nodes_unless_the_operator_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the cost of a sum, each of whose nodes is told of all others, grows with the square of
    the nodes. The terms say how many groups there are, so nodes see it.
    """
    monkeypatch.setattr("entrenous.deploy.operate.founding.MOST_NODES", 5)
    assert masked(tmp_path / "five", 1, nodes=5).terms.protection.groups == 1
    made = masked(tmp_path / "twelve", 1)
    assert json.loads(made.terms.text())["protection"]["groups"] == 3
    assert {len(group) for group in groups_of(made)} == {4}
    assert serve(link_of(made), made.server) is not None
    # of eight nodes no three groups are large enough
    assert masked(tmp_path / "eight", 1, nodes=8).terms.protection.groups == 1
    said = masked(tmp_path / "said", 1, protect={"groups": 1})
    assert said.terms.protection.groups == 1


@pytest.mark.parametrize(
    ("floors", "said"),
    [
        (Floors(8, 3, 0.0), "--people: the group of 'node-01' has . people of 4 nodes"),
        (Floors(1, 5, 0.0), "--parties: .* of 4 nodes; expected at least 5; --parties 4, or ask"),
    ],
)
def test_a_node_joins_no_group_below_its_owners_floors(
    tmp_path: Path, floors: Floors, said: str
) -> None:
    """It would send nothing in any round."""
    protect = {"people": 1, "parties": 3}
    with pytest.raises(InputError, match=said) as why:
        masked(tmp_path / "f", floors=floors, protect=protect)
    assert "\n" not in str(why.value)


# ---- the mean ------------------------------------------------------------------------------------


def sums_of(*values: int) -> list[Total]:
    contract = agreed(masked_algorithm(), ratings().catalogue)
    found = []
    for value in values:
        total = contract.empty_total()._replace(devices=4)
        for array in (*total.rows.values(), *total.dense.values()):
            array[...] = value
        total.senders[...] = 4
        found.append(total)
    return found


def masked_algorithm() -> Any:
    from entrenous.systems.named import algorithms

    return algorithms()["fcf"](**SMALL).configured(ratings().catalogue)


def test_sums_are_shortened_to_the_median_length_and_never_made_longer() -> None:
    sums = sums_of(1 << 20, 3 << 20, 2 << 20)
    times = times_the_median(sums)
    assert times == pytest.approx([0.5, 1.5, 1.0])
    after = [shortened(total, each) for total, each in zip(sums, times, strict=True)]
    assert after[0] is sums[0] and after[2] is sums[2]
    assert length(after[1]) == pytest.approx(length(sums[2]))
    assert after[1].devices == 4 and np.array_equal(after[1].senders, sums[1].senders)
    assert all(array.dtype == np.int64 for array in after[1].rows.values())


def test_of_two_sums_in_the_middle_the_shorter_one_is_the_median() -> None:
    """Where one of three groups is missing, the longer of the two that are left may be a liar's."""
    assert times_the_median(sums_of(1 << 20, 1 << 40)) == pytest.approx([1.0, float(1 << 20)])
    assert times_the_median(sums_of(0, 0, 5))[2] == np.inf
    assert length(shortened(sums_of(5)[0], float(np.inf))) == 0
