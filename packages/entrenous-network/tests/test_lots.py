"""The participation contract across a network: each device decides by its own lot whether it
answers, keeps the lists of people that it has answered, and stops when its answers are spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.agreement.members import MEMBER, MEMBERS, Members, OwnEntry
from entrenous_network.frames.frames import Code, FrameParts, opened
from entrenous_network.frames.secure import sum_terms
from entrenous_network.links.admission import GONE
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.node_watch import node_status
from entrenous_network.node.secure_node import inputs
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.running import status
from entrenous_network.secure_sum import server as sum_server
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.secure_sum.terms import Floors
from entrenous_network.server import exchange, secure_server
from entrenous_network.server import server as server_module
from entrenous_network.server.collector import Collector
from entrenous_network.server.secure_server import SecureRound
from entrenous_network.server.server import FederationServer, round_work, serve
from entrenous_network.server.server_folder import SPAN, ServerFolder
from federation_links import (
    COHORT,
    FaultyLink,
    by_lot,
    federation,
    in_one_line,
    linked,
    logged,
    nodes_of,
    offering,
    ratings,
    server_of,
    server_sha256,
    simulated,
    virtual_time,
)
from lying_sums import SubtractingServer
from msgspec.structs import replace

from entrenous.core.errors import EntrenousWarning

USERS = 40
DATA = ratings(USERS)
MORE = ratings(60)


pytestmark = pytest.mark.usefixtures("quick")


class Running:
    """A federation whose nodes are in this process."""

    def __init__(self, made: FoundedFederation) -> None:
        self.made = made
        self.nodes: dict[str, FederatedNode] = nodes_of(made)
        self.link = linked(self.nodes)

    def trained(self) -> str | None:
        """The sha256 of the model after all rounds."""
        return serve(self.link, self.made.server)

    def standing(self) -> Any:
        """Where the server's newest checkpoint stands."""
        with closing(ServerFolder(self.made.server)) as held:
            return held.newest(self.made.terms.make())

    def answered(self) -> list[int]:
        """The number of sums in which each node has answered."""
        return [inputs(node.store) for node in self.nodes.values()]


@pytest.fixture
def lying(tmp_path: Path) -> Iterator[SubtractingServer]:
    held = SubtractingServer(by_lot(tmp_path / "f", answers=3))
    # Everybody offers in every round, so that the server has the widest choice.
    offering(held.nodes)
    yield held
    held.close()


NAMES = [f"node-{number:02d}" for number in range(1, USERS + 1)]


# ---- honest rounds -------------------------------------------------------------------------------


def test_the_rounds_end_with_the_bytes_of_the_simulation(tmp_path: Path) -> None:
    running = Running(by_lot(tmp_path / "f"))
    training = simulated(running.made, DATA)
    assert running.trained() == server_sha256(training)
    assert training.ledger.unopened == 0
    drawn = running.standing().ledger.device_rounds
    assert drawn == training.ledger.device_rounds == sum(running.answered())
    assert len(set(running.answered())) > 1


def test_whoever_a_lot_does_not_draw_has_refused_nothing(tmp_path: Path) -> None:
    """Before: most answers were `not-drawn`, and the alarm on refused answers burnt for ever."""
    running = Running(by_lot(tmp_path / "f"))
    assert running.trained() is not None
    said = status(running.made.server)
    assert said["answers"].keys() == {"accepted"}
    assert min(running.answered()) < 6


def test_numbers_that_fit_no_word_are_cut_alike_on_devices_and_in_the_simulation(
    tmp_path: Path,
) -> None:
    """With so much confidence in what was consumed numbers are larger than 32."""
    made = by_lot(tmp_path / "f", rounds=3, alpha=2000.0)
    wide = by_lot(tmp_path / "wide", rounds=3, alpha=2000.0, bits=64)
    expected = server_sha256(simulated(made, DATA))
    assert Running(made).trained() == expected
    assert Running(wide).trained() == server_sha256(simulated(wide, DATA)) != expected


def test_a_round_of_too_few_is_over_without_a_sum_as_in_the_simulation(tmp_path: Path) -> None:
    """The lot draws fewer than 12 in half of the rounds: then nothing is sent."""
    running = Running(by_lot(tmp_path / "f", rounds=8, people=COHORT))
    training = simulated(running.made, DATA)
    assert 0 < training.ledger.unopened < 8
    assert running.trained() == server_sha256(training)
    ledger = running.standing().ledger
    assert ledger.unopened == training.ledger.unopened
    assert sum(running.answered()) == training.ledger.device_rounds


def test_too_few_are_asked_again_later_and_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a server would ask its first few members many times a second."""
    left: list[tuple[int, float]] = []
    await_turn = FederationServer._await_turn

    def awaits(own: FederationServer) -> None:
        # As if the newest round were over this moment, whatever the clock says.
        own.folder.committed += 1e6
        left.append((own._few, own._pause_left()))
        own.folder.committed = 0.0
        await_turn(own)

    monkeypatch.setattr(FederationServer, "_await_turn", awaits)
    few = Running(by_lot(tmp_path / "few", rounds=9, people=COHORT))
    few.link.absent = set(NAMES[5:])
    assert few.trained() is not None
    assert few.standing().ledger.unopened == 9
    seconds = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert left == list(enumerate(seconds))


def test_a_device_whose_answers_are_spent_only_downloads(tmp_path: Path) -> None:
    running = Running(by_lot(tmp_path / "f", rounds=9, people=6, answers=2))
    training = simulated(running.made, DATA)
    assert running.trained() == server_sha256(training)
    assert max(running.answered()) == 2
    # All of them have the trained model.
    for node in running.nodes.values():
        assert node.recommender()[0] == 9


def test_offers_end_when_all_who_are_there_have_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most members of a large federation are away, and no round waits an hour for them."""
    monkeypatch.setattr(exchange, "GONE", 0.0)
    monkeypatch.setattr(secure_server, "LOOK", 0.0)
    running = Running(by_lot(tmp_path / "f", people=6, deadline=3600.0, rounds=3))
    running.link.absent = {"node-03", "node-17", "node-22", "node-31"}
    monkeypatch.setattr(server_module, "FAREWELL", 0.3)
    assert running.trained() is not None
    assert status(running.made.server)["lost"] == 0
    assert sum(running.answered()) > 18


def test_offers_are_waited_for_while_too_few_have_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else is there yet, as after the start of a server: that ends no round."""
    # Time stands still here.
    monkeypatch.setattr(exchange, "GONE", -1.0)
    monkeypatch.setattr(secure_server, "LOOK", -1.0)
    with closing(ServerFolder(by_lot(tmp_path / "f", people=6).server)) as held:
        own = server_of(held)
        collector = Collector(held, own.contract, FaultyLink({}), own._stop)
        work = round_work(held, own.algorithm, own.contract, 0, own.state, None)
        asking = SecureRound(collector, work)
        terms = sum_terms(held.terms, own.contract, 0, 0, work.model)
        sums = SecureSumServer(terms, held.members)
        asking._missing = set(NAMES[5:])
        assert asking._awaited(sums, 0) == asking._missing
        # Six people may be enough for a sum, whomever of them the lot draws: others may be coming.
        asking._missing.discard("node-06")
        asking._in_touch = secure_server.time.monotonic()
        assert asking._awaited(sums, 0) == asking._missing
        asking._in_touch -= secure_server.COMING + 1.0
        assert not asking._awaited(sums, 0)
        # Nor is there a sum of one.
        asking._least = 0
        asking._missing = set(NAMES[1:])
        assert asking._awaited(sums, 0) == asking._missing


def test_a_lot_that_draws_too_few_and_one_that_is_dead_cost_no_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: each of half of the rounds waited out its deadline for the one that was away."""
    monkeypatch.setattr(server_module, "LATER", 0.0)
    clock = virtual_time(monkeypatch)
    running = Running(by_lot(tmp_path / "f", rounds=8, people=COHORT, deadline=3600.0))
    running.link.absent = {"node-03"}
    assert running.trained() is not None
    assert 0 < running.standing().ledger.unopened < 8
    assert clock.now < 3600.0


@pytest.mark.parametrize("wrong_field", [{"kind": "update"}, {}])
def test_one_that_answers_wrongly_again_and_again_costs_its_own_answer_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong_field: dict[str, Any]
) -> None:
    """It is connected all the time; before, each round waited out its deadline for it."""
    clock = virtual_time(monkeypatch)
    running = Running(by_lot(tmp_path / "f", people=6, deadline=3600.0))
    node = running.nodes["node-05"]

    def wrong(request: bytes) -> bytes:
        asked = opened(request)
        if asked.head.kind != "advert":
            return node.answer(request)
        about = {name: getattr(asked.head, name) for name in ("round", "attempt", "model", "items")}
        about |= {"kind": "advert", **wrong_field}
        return node.responder.seal(about.pop("kind"), b"none", **about)

    running.link.nodes["node-05"] = wrong
    assert running.trained() is not None
    assert status(running.made.server)["lost"] == 0
    assert clock.now < 3600.0
    refused = [line for line in logged(running.made.server) if "refused" in line]
    assert len(refused) == 6 and all("node-05" in line for line in refused)


def test_a_sum_that_needs_one_who_has_hung_up_is_given_up_before_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but a few hang up in round 1, when their masked inputs are asked for, for good."""
    clock = virtual_time(monkeypatch)
    running = Running(by_lot(tmp_path / "f", people=6, rounds=3, deadline=3600.0))
    sent = running.link.send
    there: set[str] = set()

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        head = opened(bytes(frame)).head
        if (head.kind, head.round) != ("mask", 1):
            sent(address, frame, seconds)
        elif len(there) < 3:
            there.add(address)
            sent(address, frame, seconds)
        else:
            running.link.hung_up.add(address)

    running.link.send = send  # type: ignore[method-assign]
    assert running.trained() is not None
    assert status(running.made.server)["lost"] == 1
    assert GONE < clock.now < 3600.0


def test_nobody_is_waited_for_who_has_hung_up_in_a_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each stage one node more is gone; a stage has an hour, and a round takes moments. Nor does
    the gift of a model wait for them.
    """
    monkeypatch.setattr(exchange, "GONE", 0.0)
    monkeypatch.setattr(exchange, "LOOK", 0.0)
    monkeypatch.setattr(secure_server, "LOOK", 0.0)
    running = Running(by_lot(tmp_path / "f", people=6, deadline=3600.0, rounds=3))
    gone = running.link.hung_up
    kinds = iter(["share", "mask", "consent", "unmask"])
    following = [next(kinds)]
    sent = running.link.send

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        head = opened(bytes(frame)).head
        if following and head.kind == following[0] and address not in gone:
            gone.add(address)
            running.link.absent.add(address)
            following[:] = [kind for kind in [next(kinds, "")] if kind]
        if address not in gone:
            sent(address, frame, seconds)

    running.link.send = send  # type: ignore[method-assign]
    monkeypatch.setattr(server_module, "FAREWELL", 0.3)
    assert running.trained() is not None
    assert status(running.made.server)["lost"] == 0 and len(gone) == 4


def test_no_model_but_the_trained_one_has_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost round has a number, too; a node takes the model of the last number for the last."""
    given: list[int] = []

    def to_nobody(server: FederationServer, *_: Any, only_there: bool = False) -> None:
        given.append(server.round)

    monkeypatch.setattr(FederationServer, "_give", to_nobody)
    one_masked = FederationServer._one_masked

    def loses_one(server: FederationServer, work: Any, users: int) -> None:
        if server.round == 1:
            server._lose("a test")
        else:
            one_masked(server, work, users)

    monkeypatch.setattr(FederationServer, "_one_masked", loses_one)
    running = Running(by_lot(tmp_path / "f", people=6, rounds=6))
    assert running.trained() is not None
    assert given[-1] == 7 and max(given[:-1]) < 6


def test_after_a_lost_round_others_are_drawn_from_another_model(tmp_path: Path) -> None:
    """Who has consented in round 1 answers its model for the same people alone: the next round is
    of a model that differs in one bit."""
    running = Running(by_lot(tmp_path / "f", people=6))
    sent = running.link.send
    models: dict[int, bytes] = {}

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        head = opened(bytes(frame)).head
        if head.kind == "advert":
            models[head.round] = head.model
        # All vanish when the sum is to be opened.
        if (head.kind, head.round) != ("unmask", 1):
            sent(address, frame, seconds)

    running.link.send = send  # type: ignore[method-assign]
    assert running.trained() is not None
    said = status(running.made.server)
    assert said["lost"] == 1 and said["round"] == 6
    of_node = node_status(running.made.nodes["node-01"])
    assert of_node["finished"] and of_node["model_round"] == 7
    assert models[1] != models[2]


def test_a_lot_is_secret_with_secret_draws_and_the_same_after_a_restart(tmp_path: Path) -> None:
    made = by_lot(tmp_path / "f", draws="secret")
    nodes = nodes_of(made)
    lots = {name: [node.offers(r) for r in range(50)] for name, node in nodes.items()}
    for node in nodes.values():
        node.close()
    again = nodes_of(made)
    assert lots == {name: [node.offers(r) for r in range(50)] for name, node in again.items()}
    rate = np.mean([drawn for each in lots.values() for drawn in each])
    assert rate == pytest.approx(COHORT / USERS, abs=0.04)
    public = nodes_of(by_lot(tmp_path / "g"))
    assert lots != {name: [node.offers(r) for r in range(50)] for name, node in public.items()}


# ---- groups by lot -------------------------------------------------------------------------------


def in_groups(folder: Path, **more: Any) -> FoundedFederation:
    """Two groups, dealt anew in each round, of 60 people of whom a lot draws 34."""
    return by_lot(folder, data=MORE, people=8, groups=2, cohort=34, **more)


def test_groups_by_lot_end_with_the_bytes_of_the_simulation(tmp_path: Path) -> None:
    """A group in which fewer than eight offer is left out there, too: after some rounds, when the
    answers of many devices are spent.
    """
    running = Running(in_groups(tmp_path / "f", rounds=8, answers=3))
    training = simulated(running.made, MORE)
    assert running.trained() == server_sha256(training)
    ledger = running.standing().ledger
    assert ledger.device_rounds == training.ledger.device_rounds == sum(running.answered())
    assert any("1 of 2 groups" in line for line in logged(running.made.server))


def test_each_round_has_other_groups_and_every_node_one_sum(tmp_path: Path) -> None:
    running = Running(in_groups(tmp_path / "f", rounds=8))
    assert running.trained() is not None
    lists: dict[bytes, list[set[str]]] = {}
    for node in running.nodes.values():
        for past in node.store.past_sums():
            met = set(past.people)
            if met not in lists.setdefault(past.model, []):
                lists[past.model].append(met)
    assert {len(sums) for sums in lists.values()} == {2}
    for sums in lists.values():
        assert len(set.union(*sums)) == sum(len(met) for met in sums)
    together = [frozenset(met) for sums in lists.values() for met in sums]
    assert len(set(together)) == len(together) == 16


def test_a_group_that_vanishes_costs_the_others_nothing(tmp_path: Path) -> None:
    """All of one group die in round 2, when their masked inputs are asked for."""
    running = Running(in_groups(tmp_path / "f"))
    sent = running.link.send
    dead: list[str] = []

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        head = opened(bytes(frame)).head
        in_second = head.attempt // SPAN == 1
        if (head.kind, head.round) == ("mask", 2) and in_second:
            dead.append(address)
            return
        sent(address, frame, seconds)

    running.link.send = send  # type: ignore[method-assign]
    assert running.trained() is not None
    assert len(dead) >= 8
    said = status(running.made.server)
    assert said["lost"] == 0
    assert any("1 of 2 groups; without group 2" in line for line in logged(running.made.server))


# ---- a server that lies --------------------------------------------------------------------------


def test_two_lists_that_differ_by_one_person_are_not_both_answered(
    lying: SubtractingServer,
) -> None:
    assert lying.sum_of(0, NAMES[:12]) is not None
    assert lying.sum_of(1, NAMES[:11], 0.1) is None
    assert "contract: close: 11 people of 40" in lying.said["node-01"]
    # Nor by one who is exchanged for another.
    assert lying.sum_of(2, [*NAMES[:11], "node-20"], 0.1) is not None


def test_one_model_is_answered_once(lying: SubtractingServer) -> None:
    assert lying.sum_of(0, NAMES[:12]) is not None
    assert lying.sum_of(1, NAMES[8:20]) is None
    assert "contract: again" in lying.said["node-09"]


@pytest.mark.parametrize(("names", "why"), [(NAMES[:9], "people"), (NAMES[:21], "contract: many")])
def test_a_sum_of_few_or_of_most_members_is_not_answered(
    lying: SubtractingServer, names: list[str], why: str
) -> None:
    assert lying.sum_of(0, names) is None
    assert why in lying.said["node-01"]


def marked(made: FoundedFederation, names: list[str], known: list[str] = NAMES) -> None:
    """Some nodes are one shop's, in the log of the server and in that of the nodes `known`."""
    path = made.server / MEMBERS
    before = Members.read(path, USERS).nodes.values()
    shop = [replace(one, shop="5e" * 32 if one.name in names else "") for one in before]
    path.unlink()
    Members(USERS).write(path, shop)
    for name in known:
        own = OwnEntry.read(made.nodes[name] / MEMBER)
        own.written(made.nodes[name], Members(USERS, shop).head)


def test_a_sum_has_a_tenth_of_one_shop_and_the_server_leaves_the_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = by_lot(tmp_path / "f")
    marked(made, NAMES[8:12])
    held = SubtractingServer(made)
    offering(held.nodes)
    # 13 people would be left, and one of the shop is there in each sum.
    total = held.sum_of(0, NAMES[:13])
    assert total is not None and total.devices == 10
    # Nor does a server that keeps them in get anything.
    monkeypatch.setattr(sum_server, "within_shares", lambda people, *_: people)
    assert held.sum_of(1, NAMES[:13], 0.1) is None
    assert held.said["node-01"].endswith("contract: shop: 13 people of 40")
    held.close()


def test_who_is_shown_a_list_without_a_mark_has_no_part_in_the_sum_of_others(
    tmp_path: Path,
) -> None:
    """The server shows node-01 a shop's devices as people."""
    made = by_lot(tmp_path / "f")
    marked(made, NAMES[8:12], NAMES[1:])
    held = SubtractingServer(made)
    offering(held.nodes)
    total = held.sum_of(0, [*NAMES[:9], *NAMES[12:14]])
    assert total is not None and total.devices == 10
    assert inputs(held.nodes["node-01"].store) == 0
    held.close()


def test_no_more_sums_than_answers_are_had_whatever_the_rounds_are_called(
    lying: SubtractingServer,
) -> None:
    lists = (NAMES[:12], NAMES[:6] + NAMES[12:18], NAMES[:6] + NAMES[18:24])
    for number, names in enumerate(lists):
        assert lying.sum_of(7 * number, names, number / 10) is not None
    assert lying.sum_of(400, NAMES[:6] + NAMES[24:30], 0.9) is None
    assert lying.said["node-01"].startswith("not-drawn\nspent")
    assert "6 people" in lying.said["node-25"]


def test_what_was_answered_is_remembered_after_a_restart(lying: SubtractingServer) -> None:
    assert lying.sum_of(0, NAMES[:12]) is not None
    lying.restart("node-01")
    lying.nodes["node-01"].offers = lambda number: True  # type: ignore[method-assign]
    assert lying.sum_of(1, NAMES[:11], 0.1) is None
    assert "contract: close" in lying.said["node-01"]


def test_sums_of_a_message_with_every_row_end_before_they_come_apart(tmp_path: Path) -> None:
    """20 people, 4 numbers an item: the third sum of the very same people would be of 1.67 devices
    an equation. The contract counts none of them as close.
    """
    floors = Floors(people=10, occupancy=2.0)
    held = SubtractingServer(by_lot(tmp_path / "f", noise=0.0, bits=64, floors=floors))
    offering(held.nodes)
    found = [held.sum_of(number, NAMES[:20], number / 10) is not None for number in range(3)]
    assert found == [True, True, False] and "occupancy" in held.said["node-01"]
    held.close()


def test_a_device_that_is_not_drawn_sends_nothing(tmp_path: Path) -> None:
    held = SubtractingServer(by_lot(tmp_path / "f"))
    assert held.sum_of(0, NAMES[:20]) is None
    out = [name for name in NAMES[:20] if not held.nodes[name].offers(0)]
    assert out
    for name in out:
        assert held.said[name].startswith(f"{Code.NOT_DRAWN.value}\nlot")
        assert inputs(held.nodes[name].store) == 0
    held.close()


# ---- terms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"answers": 0}, "secure_sum, sampling=poisson and answers=N together: under masks"),
        (
            {"sampling": "fixed", "answers": 0},
            "secure_sum, sampling=poisson and answers=N together",
        ),
        ({"quorum": 0.5}, "quorum=1 under masks"),
        ({"bits": 16}, "bits"),
        ({"bits": 32, "noise": 14.0}, "a device's share of noise, of 5.72, may be beyond 32"),
        ({"groups": 2}, "2 groups of 12 people in a round: one often has fewer than the 6 of a"),
        ({"cohort": 30}, "30 of 40 users in a round: a lot"),
        ({"people": 5}, "expected people=6 or more, with 40 users: 4 of a sum may be in league"),
        ({"nodes": 20}, "with 2 users; expected one: under masks each device decides"),
    ],
)
def test_terms_that_the_contract_cannot_have_get_one_line(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    protect = {"sampling": "poisson", "answers": 9, "noise": 0.2, "rows": "all"}
    settings = {"factors": 4, "cohort": changes.pop("cohort", COHORT)}
    nodes = changes.pop("nodes", USERS)
    quorum = changes.pop("quorum", 1.0)
    with in_one_line(said):
        federation(
            tmp_path / "f",
            nodes,
            6,
            "fcf",
            DATA,
            settings=settings,
            secure="masks",
            floors=Floors(people=6),
            protect={**protect, **changes},
            quorum=quorum,
        )
    assert not (tmp_path / "f").exists()


def test_sums_that_would_cut_noise_have_64_bits(tmp_path: Path) -> None:
    """Each share of noise has a standard deviation of 63, where a number is 32 at most."""
    assert by_lot(tmp_path / "f").terms.protection.bits == 32
    said = "numbers in sums have 64 bits, not 32, .*: a device's share of noise, of 63.2, may be"
    with pytest.warns(EntrenousWarning, match=said):
        made = by_lot(tmp_path / "wide", noise=200.0)
    assert made.terms.protection.bits == 64
    assert "numbers beyond" not in made.terms.limits()
    # So does the noise of what devices tell of their tests.
    said = "64 bits, not 32, .* share of the noise of --accuracy, of 31.6, may be beyond 32"
    with pytest.warns(EntrenousWarning, match=said):
        made = by_lot(tmp_path / "tests", accuracy=100.0)
    assert made.terms.protection.bits == 64
    assert by_lot(tmp_path / "few", accuracy=10.0).terms.protection.bits == 32
