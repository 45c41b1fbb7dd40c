"""Secure rounds of a federation: exact, whoever drops out at whichever stage; resumed after a
crash; and what nodes refuse (A3, A4, A7).
"""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from federation_links import (
    DyingLink,
    FaultyLink,
    federation,
    logged,
    nodes_of,
    quick_pauses,
    server_of,
    server_sha256,
    simulated,
)

from entrenous.core.errors import InputError
from entrenous.deploy.agreement.files import read_identity
from entrenous.deploy.frames.frames import FrameParts, opened, seal
from entrenous.deploy.frames.request import RoundWork
from entrenous.deploy.frames.secure import KINDS
from entrenous.deploy.operate.founding import FoundedFederation
from entrenous.deploy.server.collector import Collector
from entrenous.deploy.server.secure_server import SecureRound
from entrenous.deploy.server.server import RoundsLost, serve
from entrenous.deploy.server.server_folder import ServerFolder
from entrenous.privacy.secure_sum.refusal import SumRefused
from entrenous.privacy.secure_sum.terms import Floors
from entrenous.privacy.secure_sum.vector import pack

LOW = Floors(people=1, parties=3, occupancy=0.0, apart=False)
NODES = 5


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)


def secure(
    folder: Path, *, algorithm: str = "fpl", floors: Floors = LOW, **terms: Any
) -> FoundedFederation:
    return federation(
        folder,
        NODES,
        2,
        algorithm,
        secure="masks",
        floors=floors,
        **{"deadline": 1.0, "quorum": 0.7, **terms},
    )


class Silent(FaultyLink):
    """Nodes of which one answers nothing from one kind of question on."""

    def __init__(self, nodes: Any, who: str, kind: str) -> None:
        super().__init__(nodes)
        self.who, self.kind, self.gone = who, kind, False

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        kind = opened(bytes(frame)).head.kind
        self.gone |= address == self.who and kind == self.kind
        if not (self.gone and address == self.who and kind in KINDS):
            super().send(address, frame, seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_a3_who_drops_out_at_a_stage_is_missing_from_the_sum_or_in_it_whole(
    tmp_path: Path, kind: str
) -> None:
    """Up to the masked input the sum is that of the others; after it, that of all."""
    made = secure(tmp_path / "secure")
    nodes = nodes_of(made)
    found = serve(
        Silent({name: node.answer for name, node in nodes.items()}, "node-2", kind), made.server
    )
    plain = federation(tmp_path / "plain", NODES, 2, deadline=0.3, quorum=0.7)
    others = {name: node.answer for name, node in nodes_of(plain).items() if name != "node-2"}
    with_all = server_sha256(simulated(made))
    if KINDS.index(kind) <= KINDS.index("mask"):
        assert found == serve(FaultyLink(others), plain.server) != with_all
    else:  # masked inputs of round 0 are in; in round 1 it is missing from the start
        assert found not in (None, with_all)
        assert f"round 0: {made.terms.users} of {made.terms.users} devices" in logged(made.server)


def test_a3_the_server_is_killed_between_any_two_answers_and_goes_on(tmp_path: Path) -> None:
    """The sum of every round is the uninterrupted one's: what was journalled is not asked for
    again, and nothing is summed twice.
    """

    made = secure(tmp_path / "f", quorum=1.0, deadline=30.0)
    link, deaths, found = (
        DyingLink({name: node.answer for name, node in nodes_of(made).items()}),
        0,
        None,
    )
    while found is None:
        link.left_looks = 5 + deaths % 5
        try:
            found = serve(link, made.server)
        except ConnectionError:
            deaths += 1
            assert deaths < 200, logged(made.server)[-5:]
    assert deaths > 8
    assert found == server_sha256(simulated(made))


@pytest.mark.parametrize(
    ("floors", "word"),
    [
        (Floors(parties=6, people=1), "floor"),
        (Floors(people=1, parties=3, occupancy=1e6), "occupancy"),
    ],
)
def test_a4_a_cohort_below_a_nodes_floor_gets_nothing(
    tmp_path: Path, floors: Floors, word: str
) -> None:
    """Nodes withhold, say why, and the model stays what it was."""
    made = secure(tmp_path / "f", floors=floors)
    stop = Event()
    link = FaultyLink({name: node.answer for name, node in nodes_of(made).items()})
    original, calls = link.receive, iter(range(400))

    def receive(seconds: float) -> list[tuple[str, bytes]]:
        if next(calls) > 60:
            stop.set()
        return original(seconds)

    link.receive = receive  # type: ignore[method-assign]
    if word == "floor":
        assert serve(link, made.server, stop) is None
    else:  # below the row floor each round is lost: masked inputs were asked for
        with pytest.raises(RoundsLost, match="the model is untrained"):
            serve(link, made.server, stop)
    assert not (made.server / "model.safetensors").exists()
    assert any("withheld" in line and word in line for line in logged(made.server))
    assert not any("20 of 20 devices" in line for line in logged(made.server))
    if word == "floor":
        why = "too many nodes withhold theirs; most often: withheld, floor; nothing was revealed"
        assert any(why in line for line in logged(made.server))


def test_a7_a_server_that_shows_one_node_another_model_is_found_out(tmp_path: Path) -> None:
    """The node says which model it was shown, signed, and the others refuse to share with it."""
    made = secure(tmp_path / "f", quorum=1.0, deadline=5.0)
    nodes = nodes_of(made)
    key = read_identity(made.server / "identity.key")

    def ask(name: str, kind: str, body: bytes, model: bytes) -> bytes:
        frame = seal(
            key,
            kind,
            body,
            run=made.terms.run,
            node="server",
            round=0,
            model=model,
            items=made.terms.items,
            about={"users": 4},
        )
        return bytes(opened(nodes[name].answer(frame)).body)

    from entrenous.privacy.secure_sum import messages as m

    adverts = [
        ask(name, "advert", b"", bytes(32) if name != "node-3" else bytes([1] * 32))
        for name in nodes
    ]
    roster = m.encode(m.Roster([m.decode(advert, m.Signed, 4096) for advert in adverts]))
    answers = {
        name: ask(name, "share", roster, bytes(32) if name != "node-3" else bytes([1] * 32))
        for name in nodes
    }
    assert all(b"withheld" in answer and b"model" in answer for answer in answers.values())


def test_a_node_that_restarts_in_the_middle_is_missing_and_never_masks_a_round_twice(
    tmp_path: Path,
) -> None:
    """Its secrets were in memory alone; that its masked input has left is on its disk."""
    made = secure(tmp_path / "f")
    nodes = nodes_of(made)

    class Restarting(FaultyLink):
        restarted = False

        def send(self, address: str, frame: FrameParts, seconds: float) -> None:
            head = opened(bytes(frame)).head
            if (
                address == "node-4"
                and head.kind == "consent"
                and head.round == 0
                and not self.restarted
            ):
                self.restarted = True
                nodes["node-4"].close()
                nodes.update({"node-4": nodes_of(made)["node-4"]})
                self.nodes["node-4"] = nodes["node-4"].answer
            super().send(address, frame, seconds)

    found = serve(Restarting({name: node.answer for name, node in nodes.items()}), made.server)
    assert "refused withheld from node-4: not-asked" in logged(made.server)
    assert found == server_sha256(
        simulated(made)
    )  # its masked input had come; a quorum of the others unmasked it
    again = seal(
        read_identity(made.server / "identity.key"),
        "advert",
        run=made.terms.run,
        node="server",
        round=1,
        attempt=7,
        model=bytes(32),
    )
    assert b"has left before" in bytes(opened(nodes["node-4"].answer(again)).body)


def test_a_sum_of_one_hides_nothing_and_is_refused(tmp_path: Path) -> None:
    """Algorithms that ask one device a round are refused when the federation is founded; a round of
    one node by chance is not counted.
    """
    with pytest.raises(InputError, match="a sum of one hides nothing"):
        federation(tmp_path / "sfpl", NODES, 2, "sfpl", settings={}, secure="masks")
    made = federation(
        tmp_path / "f",
        2,
        8,
        settings={"factors": 4, "cohort": 2},
        secure="masks",
        floors=Floors(1, 2, 0.0),
    )
    serve(FaultyLink({name: node.answer for name, node in nodes_of(made).items()}), made.server)
    lost = [line for line in logged(made.server) if "all who were asked are of one node" in line]
    assert len(lost) > 0
    assert (
        sum("2 of 2 devices" in line for line in logged(made.server)) == 8
    )  # further rounds take their place


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("rfrec", {"factors": 4}), ("cali3f-gmf", {"factors": 4, "clusters": 3})],
)
def test_sums_in_groups_are_refused_with_masks(
    tmp_path: Path, algorithm: str, settings: dict[str, Any]
) -> None:
    """Floors count the nodes of a round, not those of a group: the sum of a group of one is that
    one's update.
    """
    with pytest.raises(
        InputError, match=r"adds up in \d+ groups, and a group of one hides nothing"
    ) as why:
        federation(tmp_path / "masks", NODES, 2, algorithm, settings=settings, secure="masks")
    assert "\n" not in str(why.value)
    federation(tmp_path / "plain", NODES, 2, algorithm, settings=settings)


@pytest.mark.parametrize(
    ("part", "lie", "code"),
    [
        ("rows", -(1 << 63), "too-large"),
        ("senders", -1, "wrong-count"),
        ("weight", -(1 << 63), "wrong-weight"),
        ("weight", 1 << 40, "wrong-weight"),
        ("dense", -(1 << 63), "too-large"),
    ],
)
def test_a_sum_that_no_devices_can_have_is_lost(
    tmp_path: Path, part: str, lie: int, code: str
) -> None:
    """A masked input may be anything: the least int64, of which abs is itself, a weight of
    millions, fewer senders than none.
    """
    made = secure(tmp_path / "f", algorithm="fedavg-neumf", settings={"factors": 4, "layers": (4,)})
    held = ServerFolder(made.server)
    own = server_of(held)
    work = RoundWork(
        0,
        bytes(32),
        held.members.by_node(np.arange(made.terms.users)),
        own.algorithm.download(own.state),
    )
    assert isinstance(own.collecting, Collector)
    found = SecureRound(own.collecting, work)
    total = own.contract.empty_total()._replace(devices=made.terms.users)
    total.weight[0] = made.terms.users << 16
    arrays = {
        "rows": next(iter(total.rows.values())),
        "dense": next(iter(total.dense.values())),
        "senders": total.senders,
    }
    {**arrays, "weight": total.weight}[part].reshape(-1)[0] = lie

    class Summed:
        """What a sum of masked inputs came to."""

        def heard(self, stage: int) -> set[str]:
            return set(work.asked)

        def total(self) -> Any:
            return pack(total)

    with pytest.raises(SumRefused, match=f"none that these devices can have.*{code}"):
        found._total(Summed())  # type: ignore[arg-type]
    held.close()


def test_a_node_that_refuses_to_share_leaves_one_journal(tmp_path: Path) -> None:
    """Each attempt has a journal; those that came to nothing are not kept."""
    made = secure(tmp_path / "f", quorum=1.0, deadline=0.2)
    nodes, stop, refusals = nodes_of(made), Event(), iter(range(60))

    def refusing(request: bytes) -> bytes:
        if opened(request).head.kind != "share":
            return nodes["node-2"].answer(request)
        if next(refusals) == 12:
            stop.set()
        head, why = opened(request).head, b"withheld\nfloor: I would rather not"
        about = {
            "round": head.round,
            "attempt": head.attempt,
            "model": head.model,
            "items": made.terms.items,
        }
        return seal(nodes["node-2"].key, "refused", why, run=made.terms.run, node="node-2", **about)

    answers = {name: node.answer for name, node in nodes.items()} | {"node-2": refusing}
    assert serve(FaultyLink(answers), made.server, stop) is None
    assert sum("nothing was revealed" in line for line in logged(made.server)) >= 10
    assert len(list(made.server.glob("round-*.journal"))) == 1
