"""A server that moves to other addresses: its nodes hear of it from the server itself, or from a
file, and go on; and whatever a notice, an address or a server lies about, no node is lost by it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from command_line import contents
from entrenous_network.agreement.certificates import names_of
from entrenous_network.agreement.files import read_identity, read_json
from entrenous_network.agreement.invitation import INVITATION
from entrenous_network.agreement.notice import (
    ADDRESSES,
    LARGEST,
    LAST,
    AddressNotice,
    known_addresses,
    known_number,
)
from entrenous_network.frames.frames import ADDRESS_NEWS
from entrenous_network.links.https import HttpsPlan
from entrenous_network.links.polling import PollingNode
from entrenous_network.links.polling import serve as polled
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.node_watch import node_status
from entrenous_network.operate import newcomers, running
from entrenous_network.operate.device import Device
from entrenous_network.operate.enrolment import identity
from entrenous_network.operate.founding import (
    FoundedFederation,
    Place,
    found_federation,
    free_ports,
)
from entrenous_network.operate.joining import join_by_link
from entrenous_network.operate.membership import invite
from entrenous_network.operate.moving import hear, move
from entrenous_network.operate.newcomers import make_link
from entrenous_network.operate.running_node import polling
from entrenous_network.secure_sum.terms import Floors
from entrenous_network.server.server import ListsChanged, serve, serve_opened
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    answer_to,
    copied,
    dying_in_a_round,
    federation,
    in_one_line,
    linked,
    logged,
    server_sha256,
    simulated,
    until,
)
from running_by_lot import ITEMS, OWNER, PLAN, Running
from service_processes import at_a_port, process

from entrenous.core.errors import InputError

LOTS: dict[str, Any] = {
    "nodes": 20,
    "algorithm": "fcf",
    "settings": {"factors": 4, "cohort": 5},
    "floors": Floors(people=4, occupancy=0.0),
    "deadline": 5.0,
    "protect": {
        **{"secure_sum": True, "people": 4, "parties": 3, "noise": 0.1, "rows": "all"},
        **{"sampling": "poisson", "answers": 9},
    },
}
FORMS = pytest.mark.parametrize("terms", [{}, LOTS], ids=["seen", "by lot"])


def noted(made: FoundedFederation, number: int = 1, /, *addresses: str, **fields: Any) -> str:
    """A notice of a federation's server, which may be another than it signs."""
    key = read_identity(made.server / "identity.key")
    own = AddressNotice.sign(key, made.terms.run, number, addresses or ["hub.example:8443"])
    return json.dumps({**json.loads(own.text), **fields})


def numbers(made: FoundedFederation) -> set[int]:
    """The numbers of the notices that nodes know."""
    return {known_number(folder) for folder in made.nodes.values()}


# ---- processes over TLS --------------------------------------------------------------------------


def test_the_server_moves_and_the_model_has_the_bytes_of_one_that_never_moved(
    tmp_path: Path,
) -> None:
    """Both are killed once nodes have heard: the server, and a node that comes back later."""
    made, old = at_a_port(tmp_path / "f", rounds=12)
    workers = ("--workers", "2")
    (new,) = free_ports()
    with ExitStack() as nodes:
        at_work = {
            name: nodes.enter_context(process("node", folder))
            for name, folder in made.nodes.items()
        }
        with process("server", made.server, "--pace", "1", *workers) as first:
            until(lambda: running.status(made.server).get("round", 0) >= 1)
            move(tmp_path / "f", ["hub.example:8443"])
            until(lambda: numbers(made) == {1})
            lines = move(tmp_path / "f", [f"localhost:{new}", f"127.0.0.1:{old}"], port=new)
            assert lines[0].startswith(f"notice 2: localhost:{new}, 127.0.0.1:{old}; a server at")
            until(lambda: numbers(made) == {2})
            first.kill()
            at_work["node-2"].kill()
            at_work["node-2"].wait()
        with process("server", made.server, *workers) as last:
            nodes.enter_context(process("node", made.nodes["node-2"]))
            assert last.wait(240) == 0
        del at_work["node-2"]
        # None has ended but by itself, with the trained model.
        assert {one.wait(240) for one in at_work.values()} == {0}
    assert any(server_sha256(simulated(made)) in line for line in logged(made.server))
    assert node_status(made.nodes["node-1"])["server"] == f"localhost:{new}"


# ---- addresses that nobody is at -----------------------------------------------------------------


@contextmanager
def listening(made: FoundedFederation, port: int = 0) -> Iterator[tuple[ServerFolder, Any]]:
    """The open folder of a server, and its port."""
    plan = HttpsPlan(port=port, keys=made.server / "keys")
    with closing(ServerFolder(made.server)) as held, closing(running.https_link(held, plan)) as own:
        own.start()
        yield held, own


def trained(made: FoundedFederation, at_first: Callable[[str], str], *elsewhere: str) -> str | None:
    """The model that a federation ends with whose nodes have a notice of addresses elsewhere.
    at_first: the address that they joined with, by that of the server.
    """
    for folder in made.nodes.values():
        (folder / ADDRESSES).write_text(noted(made, 1, *elsewhere))
    nodes = [FederatedNode(folder) for folder in made.nodes.values()]
    stop = Event()
    with listening(made) as (held, link):
        ca = made.server / "keys" / "ca.crt"
        arguments = (at_first(link.address), ca, [polling(node) for node in nodes], stop)
        at_work = threading.Thread(
            target=polled, args=arguments, kwargs={"say": lambda line: None}, daemon=True
        )
        at_work.start()
        try:
            return serve_opened(link, held, stop)
        finally:
            stop.set()
            at_work.join(240)
            for node in nodes:
                node.close()


def test_a_notice_of_nobody_cuts_no_node_off(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", place=Place())
    (nobody,) = free_ports()
    elsewhere = [f"localhost:{nobody}", "nobody.invalid:8443"]
    assert trained(made, lambda address: address, *elsewhere) == server_sha256(simulated(made))


def test_another_server_at_the_new_address_cuts_no_node_off(tmp_path: Path) -> None:
    """Its certificate is by another authority: an error by which a node with one address ends."""
    made = federation(tmp_path / "f", place=Place())
    other = federation(tmp_path / "other", place=Place())
    with listening(other) as (_, stranger):
        model = trained(made, lambda address: address, stranger.address)
    assert model == server_sha256(simulated(made))


def test_nothing_goes_in_plain_text_where_a_notice_says(tmp_path: Path) -> None:
    stop, said = Event(), list[str]()

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            stop.set()

    node = PollingNode(
        lambda: "", lambda frame: b"", addresses=lambda first: ("192.0.2.1:8443", first)
    )
    (nobody,) = free_ports()
    polled(f"127.0.0.1:{nobody}", None, [node], stop, tls=False, say=say)
    assert all(line.startswith(f"connection to http://127.0.0.1:{nobody} lost") for line in said)


# ---- telling, in this process --------------------------------------------------------------------


class Moving:
    """A federation in this process that may move between two rounds."""

    def __init__(self, made: FoundedFederation) -> None:
        self.made = made
        self.nodes = {name: FederatedNode(folder) for name, folder in made.nodes.items()}
        self.link = linked(self.nodes)

    def served(self, happens: Callable[[int], None] = lambda done: None) -> str | None:
        """Runs the server to its end. happens: is told of each round."""
        while True:
            with suppress(ListsChanged):
                return serve(self.link, self.made.server, None, lambda done, *_: happens(done))

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()


def made_by(folder: Path, terms: dict[str, Any]) -> FoundedFederation:
    own = {name: dict(value) if isinstance(value, dict) else value for name, value in terms.items()}
    return federation(folder, place=Place(), **{"rounds": 4, **own})


def staying(folder: Path, terms: dict[str, Any]) -> tuple[FoundedFederation, str | None]:
    """A federation, and the model that it would have without a move."""
    made = made_by(folder / "f", terms)
    with closing(Moving(copied(made, folder / "still"))) as still:
        return made, still.served()


@FORMS
@pytest.mark.usefixtures("quick")
def test_nodes_hear_between_two_rounds_and_the_bytes_are_the_same(
    tmp_path: Path, terms: dict[str, Any]
) -> None:
    made, model = staying(tmp_path, terms)

    def happens(done: int) -> None:
        if done == 2:
            assert numbers(made) == {0}
            move(tmp_path / "f", ["hub.example:443", "127.0.0.1:8443"])

    with closing(Moving(made)) as moving:
        assert moving.served(happens) == model is not None
    assert numbers(made) == {1}
    assert running.status(made.server)["lost"] == 0
    first = read_json(made.nodes["node-01" if terms is LOTS else "node-1"] / "node.json")["server"]
    known = known_addresses(next(iter(made.nodes.values())), first)
    assert known == ("hub.example:443", "127.0.0.1:8443")


@FORMS
@pytest.mark.usefixtures("quick")
def test_a_server_that_died_in_a_round_tells_of_its_move_in_that_round(
    tmp_path: Path, terms: dict[str, Any]
) -> None:
    made, model = staying(tmp_path, terms)
    with closing(Moving(made)) as moving:
        with dying_in_a_round(moving.link, 6):
            moving.served()
        move(tmp_path / "f", ["hub.example:443"])
        assert moving.served() == model is not None
    assert numbers(made) == {1}
    assert running.status(made.server)["lost"] == 0


@pytest.mark.usefixtures("quick")
def test_one_whose_owner_has_paused_it_hears(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", place=Place(), quorum=0.5, deadline=2.0)
    with Device(made.nodes["node-3"]) as device:
        device.pause()
    move(tmp_path / "f", ["hub.example:443"])
    with closing(Moving(made)) as moving:
        assert moving.served() is not None
    assert numbers(made) == {1}


# ---- lies ----------------------------------------------------------------------------------------


def _other(made: FoundedFederation, folder: Path) -> str:
    """A notice by another key."""
    other = federation(folder / "other")
    key = read_identity(other.server / "identity.key")
    return AddressNotice.sign(key, made.terms.run, 5, ["hub.example:8443"]).text


def _for_another(made: FoundedFederation, _: Path) -> str:
    """A notice by the same key for another federation."""
    key = read_identity(made.server / "identity.key")
    return AddressNotice.sign(key, "0" * 32, 5, ["hub.example:8443"]).text


def _as_frame(made: FoundedFederation, _: Path) -> str:
    """A signature of the same key, without the purpose."""
    key = read_identity(made.server / "identity.key")
    said = f"{made.terms.run} 5 hub.example:8443".encode()
    return noted(made, 5, signature=key.sign(said).hex())


LIES: dict[str, Callable[[FoundedFederation, Path], str]] = {
    "lower": lambda made, _: noted(made, 2),
    "the same number and other addresses": lambda made, _: noted(made, 3, "evil.example:1"),
    "another run": _for_another,
    "another federation": lambda made, folder: noted(federation(folder / "other"), 5),
    "another key": _other,
    "another purpose": _as_frame,
    "another number than was signed": lambda made, _: noted(made, 3, number=5),
    "another address than was signed": lambda made, _: noted(made, 5, addresses=["evil.example:1"]),
    "no address": lambda made, _: noted(made, 5, addresses=[]),
    "five addresses": lambda made, _: noted(made, 5, *(f"h{n}.example:1" for n in range(5))),
    "nonsense": lambda made, _: noted(made, 5, "evil.example/path:80"),
    "a line feed": lambda made, _: noted(made, 5, "hub.example:80\nevil"),
    "port 0": lambda made, _: noted(made, 5, "hub.example:0"),
    "a negative number": lambda made, _: noted(made, -1),
    "a huge number": lambda made, _: noted(made, LAST + 1),
    "true": lambda made, _: noted(made, 5, number=True),
    "a field more": lambda made, _: noted(made, 5, tls=False),
    "no signature": lambda made, _: noted(made, 5, signature=""),
    "nothing": lambda made, _: "",
    "too long": lambda made, _: noted(made, 5) + " " * LARGEST,
    "deep": lambda made, _: "[" * 4000,
    "not a number": lambda made, _: noted(made, 5).replace(": 5,", ": NaN,"),
}


def test_a_notice_that_lies_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    made = federation(tmp_path / "f")
    folder = made.nodes["node-1"]
    good = noted(made, 3, "hub.example:8443")
    file = tmp_path / "brought.json"
    with closing(FederatedNode(folder)) as node:
        assert answer_to(made, node, ADDRESS_NEWS, good.encode()) == ADDRESS_NEWS
        before = (folder / ADDRESSES).read_bytes()
        for lie, told in LIES.items():
            text = told(made, tmp_path / lie)
            said = answer_to(made, node, ADDRESS_NEWS, text.encode())
            assert said.startswith("malformed\naddresses: "), lie
            # From a file it is refused by the same rules.
            file.write_text(text)
            with pytest.raises(InputError) as refused:
                hear(folder, file)
            assert "\n" not in str(refused.value) and len(str(refused.value)) < 700, lie
            assert (folder / ADDRESSES).read_bytes() == before, lie
        # Whoever is told again, as after an answer that was lost, has it still.
        assert answer_to(made, node, ADDRESS_NEWS, good.encode()) == ADDRESS_NEWS
        assert answer_to(made, node, ADDRESS_NEWS, b"\xff\xfe").startswith("malformed")
    assert known_number(folder) == 3


# ---- the operator and the owner ------------------------------------------------------------------


NO_MOVES: list[tuple[list[str], int, str]] = [
    ([], 0, "--address: got 0 addresses"),
    ([f"h{n}.example:1" for n in range(5)], 0, "--address: got 5 addresses"),
    (["a.example:1", "a.example:1"], 0, "each once"),
    (["a.example"], 0, "'a.example' is no address"),
    (["a b:1"], 0, "'a b:1' is no address"),
    (["a.example:1"], 65536, "--port: got 65536"),
    (["a.example:1"], -1, "--port: got -1"),
]


def test_a_move_that_cannot_be_gets_one_line_and_writes_nothing(tmp_path: Path) -> None:
    made, _ = at_a_port(tmp_path / "f")
    before = contents(made.server)
    for addresses, port, said in NO_MOVES:
        with in_one_line(said):
            move(tmp_path / "f", addresses, port)
        assert contents(made.server) == before, said


def test_a_move_makes_a_certificate_by_the_same_authority(tmp_path: Path) -> None:
    made, _ = at_a_port(tmp_path / "f")
    keys = made.server / "keys"
    authority = (keys / "ca.crt").read_bytes()
    lines = move(tmp_path / "f", ["hub.example:443", "10.0.0.7:443", "localhost:8443"])
    assert "a new certificate names hub.example, 10.0.0.7, by the same authority" in lines[-1]
    assert {"hub.example", "10.0.0.7", "127.0.0.1"} <= set(names_of(keys / "server.crt"))
    assert (keys / "ca.crt").read_bytes() == authority
    certificate = (keys / "server.crt").read_bytes()
    (keys / "ca.key").rename(tmp_path / "ca.key")
    assert len(move(tmp_path / "f", ["hub.example:8443"])) == 3
    with pytest.raises(InputError, match=r"ca\.key: is missing"):
        move(tmp_path / "f", ["further.example:443"])
    assert known_number(made.server) == 2
    assert (keys / "server.crt").read_bytes() == certificate


def test_links_and_invitations_name_the_new_address_first(tmp_path: Path) -> None:
    made = found_federation(tmp_path / "f", ITEMS, [], PLAN, Place())
    before = make_link(tmp_path / "f", 1, 1, 1)
    move(tmp_path / "f", ["hub.example:443", before.server], port=8444)
    after = make_link(tmp_path / "f", 1, 1, 1)
    assert after.server == "hub.example:443"
    assert (after.tls, after.run, after.authority) == (before.tls, before.run, before.authority)
    (invitation,) = invite(tmp_path / "f", [(identity(tmp_path / "late", "late"), 1)])
    assert read_json(invitation / INVITATION)["server"] == "hub.example:443"
    assert read_json(made.server / "place.json")["port"] == 8444


def test_a_link_of_before_leads_in_and_sends_nobody_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Running(tmp_path)) as own:
        link = make_link(own.folder, uses=2, days=1, an_hour=10)
        move(own.folder, ["hub.example:443", link.server])
        own.start()
        # The first asks a server that has moved, the second one that lies.
        join_by_link(tmp_path / "late", str(link), None, OWNER)
        parts = newcomers.parts_of_invitation

        def lying(server: Path) -> dict[str, str]:
            return {**parts(server), INVITATION: '{"server": "evil.example:1", "tls": false}'}

        monkeypatch.setattr(newcomers, "parts_of_invitation", lying)
        join_by_link(tmp_path / "later", str(link), None, OWNER)
        for name in ("late", "later"):
            about = read_json(tmp_path / name / "node.json")
            assert (about["server"], about["tls"]) == (link.server, True)
        own.run(tmp_path / "late")
        until(lambda: known_number(tmp_path / "late") == 1)
        until(lambda: {known_number(device) for device in own.devices} == {1})
