"""A list of items that grows while a federation runs: an item that comes is trained on and
recommended, a retired one is not, and nobody can change what an item is.
"""

from __future__ import annotations

import re
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import numpy as np
import pytest
from entrenous_network.agreement.catalogue import ITEMS, FurtherItems, Items
from entrenous_network.agreement.growth import LISTED, current_terms, in_corner, listed
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.frames.frames import Code
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.device import Device
from entrenous_network.operate.enrolment import accept
from entrenous_network.operate.founding import write_invitations
from entrenous_network.operate.membership import change_items
from entrenous_network.operate.running import status
from entrenous_network.secure_sum.merkle import MerkleTree
from entrenous_network.server.server import ListsChanged, serve
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    answer_to,
    by_lot,
    dying_in_a_round,
    federation,
    in_one_line,
    linked,
    logged,
    offering,
    ratings,
    server_sha256,
)
from lying_sums import SubtractingServer

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.rounds import Rounds, Training

USERS = 20
FIRST = 12  # items of the founding
MORE = 6


pytestmark = pytest.mark.usefixtures("quick")


def bare(data: Interactions, items: int, keep: np.ndarray) -> Interactions:
    """Some rows of a data set, on a list of the first `items` items without features or places."""
    ids = [str(item) for item in data.items.ids[:items]]
    return build(
        data.user[keep],
        data.item[keep],
        value=data.value[keep],
        time=data.time[keep] if data.time is not None else None,
        users=data.users,
        items=Vocabulary(ids, kind="item"),
    )


ALL = ratings(USERS, FIRST + MORE)
BEFORE = bare(ALL, FIRST, ALL.item < FIRST)
AFTER = bare(ALL, FIRST + MORE, np.ones(len(ALL), bool))
NEW = Items([str(item) for item in ALL.items.ids[FIRST:]], ["a title"] * MORE, None)


class Growing:
    """A federation in this process: of four nodes, or by lot under masks of a device each."""

    def __init__(
        self, folder: Path, algorithm: str = "fcf", masked: bool = False, **terms: Any
    ) -> None:
        self.folder = folder
        settings: dict[str, Any] = {"factors": 4} if algorithm in ("fcf", "fpl") else {}
        if masked:
            settings["cohort"] = 5
            own = {"algorithm": algorithm, "data": BEFORE, "settings": settings, "people": 4}
            self.made = by_lot(folder / "f", deadline=30.0, **own)
        else:
            self.made = federation(
                folder / "f", 4, 6, algorithm, BEFORE, settings=settings, **terms
            )
        self.nodes: dict[str, FederatedNode] = {}
        self.opened()

    def opened(self) -> None:
        """Opens the nodes, as their processes do when they start."""
        for name, folder in self.made.nodes.items():
            if name in self.nodes:
                self.nodes[name].close()
            self.nodes[name] = FederatedNode(folder)

    def served(self, stop_at: int | None = None, absent: set[str] | None = None) -> str | None:
        """Runs the server to its end, or until it has counted so many rounds."""
        link = linked(self.nodes)
        link.absent = absent or set()
        stop = Event()

        def progress(done: int, total: int, what: str) -> None:
            if done == stop_at:
                stop.set()

        # As its process does.
        while True:
            with suppress(ListsChanged):
                return serve(link, self.made.server, stop, progress)

    def come(self) -> None:
        """New items are listed, and then their rows happen on the devices."""
        change_items(self.folder / "f", NEW)

    def consume(self) -> None:
        """The rows of new items happen."""
        for name, folder in self.made.nodes.items():
            with Device(folder) as device:
                for user in device.users:
                    for number in _of(user, new=True):
                        item = AFTER.items[AFTER.item[number]]
                        device.consumed(item, float(AFTER.value[number]), 1e6, user=user)
            self.nodes[name].refresh()


def _of(user: str, new: bool) -> list[int]:
    """The places of a user's rows, of new items or of those of the founding."""
    own = AFTER.user == AFTER.users.index(user)
    return np.flatnonzero(own & ((AFTER.item >= FIRST) == new)).tolist()


# ---- items that come -----------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True], ids=["seen", "masked"])
@pytest.mark.parametrize("algorithm", ["fcf", "fpl"])
def test_the_bytes_are_those_of_the_simulation_in_which_items_come(
    tmp_path: Path, algorithm: str, masked: bool
) -> None:
    growing = Growing(tmp_path, algorithm, masked)
    assert growing.served(stop_at=3) is None
    growing.come()
    # Nodes learn of the items from the server, and their rows come then.
    stopped = growing.served(stop_at=4)
    assert stopped is None
    growing.consume()
    trained = growing.served()
    assert trained is not None
    assert status(growing.made.server)["lost"] == 0
    assert trained == _in_two_steps(growing)


def _in_two_steps(growing: Growing) -> str:
    """The simulation: the items come after three rounds, their rows after four."""
    terms = growing.made.terms
    how: dict[str, Any] = {"seed": terms.seed, "protection": terms.protection}
    longer = current_terms(growing.made.server)
    quiet = bare(ALL, FIRST + MORE, ALL.item < FIRST)
    stages = [(terms, BEFORE, 3), (longer, quiet, 4), (longer, AFTER, 6)]
    before: Training | None = None
    for agreed, rows, until in stages:
        rounds = Rounds(agreed.make(), rows, **how)
        training = rounds.start()
        if before is not None:
            pairs = zip(before.server, training.server, strict=True)
            grown = type(training.server)(*(in_corner(*pair) for pair in pairs))
            training = Training(grown, before.devices, before.round, before.ledger)
        before = rounds.advance(training, until)
    assert before is not None
    return server_sha256(before)


def test_an_item_that_came_is_recommended_once_a_model_has_it(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.served(stop_at=2)
    device = Device(growing.made.nodes["node-1"])
    everything = FIRST + MORE
    assert not _new(device, everything)
    growing.come()
    # The node knows the item, and its model does not.
    growing.served(stop_at=3)
    growing.consume()
    growing.served(stop_at=5)
    assert _new(device, everything)
    user = device.users[0]
    device.consumed(NEW.ids[0], user=user)
    assert NEW.ids[0] not in [one["item"] for one in device.recommend(everything).items]
    device.close()


def _new(device: Device, n: int) -> list[str]:
    """The new items among those that are recommended to somebody."""
    lists = [device.recommend(n, user=user).items for user in device.users]
    return [one["item"] for each in lists for one in each if one["item"] in NEW.ids]


def test_items_come_twice_and_an_invitation_has_the_newest_list(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.served(stop_at=1)
    for number in (0, 3):
        part = Items(NEW.ids[number : number + 3], NEW.titles[number : number + 3], None)
        change_items(tmp_path / "f", part)
        growing.served(stop_at=2 + number)
    members = Members.read(growing.made.server / MEMBERS, USERS)
    invitation = write_invitations(tmp_path / "f", ["node-1"], members)["node-1"]
    assert current_terms(invitation).items == FIRST + MORE
    assert current_terms(invitation).run == growing.made.terms.run
    # A node that lives takes no shorter list from an old invitation.
    (invitation / ITEMS).write_bytes(Items.of(BEFORE).lines)
    accept(growing.made.nodes["node-1"], invitation)
    growing.opened()
    assert growing.nodes["node-1"].terms.items == FIRST + MORE
    assert growing.served() is not None


def test_a_server_at_work_begins_anew_between_two_rounds(tmp_path: Path) -> None:
    """Its process catches what is raised, and goes on from the folder with the new list."""
    growing = Growing(tmp_path)
    link = linked(growing.nodes)

    def progress(done: int, total: int, what: str) -> None:
        if done == 2:
            change_items(tmp_path / "f", NEW)

    with pytest.raises(ListsChanged):
        serve(link, growing.made.server, progress=progress)
    with closing(ServerFolder(growing.made.server)) as held:
        now = held.newest(growing.made.terms.make())
        assert now is not None and now.round == 2
        assert held.terms.items == FIRST + MORE and not held.is_outdated()
        change_items(tmp_path / "f", retired=[NEW.ids[0]])
        assert held.is_outdated()
        held.reload()
        assert held.terms.listed == FIRST + MORE + 1 and not held.is_outdated()
    assert growing.served() is not None


@pytest.mark.parametrize("masked", [False, True], ids=["seen", "masked"])
def test_an_open_round_ends_with_the_list_with_which_it_began(tmp_path: Path, masked: bool) -> None:
    """The server dies in the midst of a round, items come, and it starts again: nodes that have
    answered the round could not answer it for another list.
    """
    growing = Growing(tmp_path, masked=masked)
    growing.served(stop_at=2)
    link = linked(growing.nodes)
    # One node of the round is asked last, when the others have answered.
    with dying_in_a_round(link, 3):
        serve(link, growing.made.server)
    growing.come()
    assert growing.served(stop_at=3) is None or status(growing.made.server)["round"] == 3
    with closing(ServerFolder(growing.made.server)) as held:
        assert held.terms.items == FIRST + MORE
    assert growing.served() is not None
    assert status(growing.made.server)["lost"] == 0


def test_a_spoilt_list_takes_the_place_of_no_good_one(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.come()
    growing.served(stop_at=1)
    path = growing.made.server / ITEMS
    good = path.read_bytes()
    path.write_bytes(good + b"{}\n")
    with pytest.raises(InputError, match=r"items\.jsonl: '' is on the list, or no id"):
        growing.served()
    # One that is being written, or whose writer was killed, is not there yet.
    path.write_bytes(good + b'{"retired":0}')
    assert growing.served(stop_at=2) is None
    assert current_terms(growing.made.nodes["node-1"]).listed == FIRST + MORE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("item,title\na,A\nb,B\na,C\n", ":4: an item occurs twice: 'a' is in line 2 too; expected"),
        ("item,title\na,A\n,B\n", ":3: an item has no name; expected each item once"),
        ("item,title\n", ": has no items; expected a line for each item"),
    ],
)
def test_a_list_that_cannot_be_says_the_line_and_the_item(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "items.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(f"{file}{said}")):
        Items.read_csv(file)


# ---- items that go -------------------------------------------------------------------------------


def test_a_retired_item_is_recommended_to_nobody(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.served(stop_at=2)
    with Device(growing.made.nodes["node-1"]) as device:
        (best, *_) = device.recommend(1).items
        change_items(tmp_path / "f", retired=[best["item"]])
        growing.served(stop_at=3)
        assert best["item"] not in [one["item"] for one in device.recommend(FIRST).items]
    assert growing.served() is not None


# ---- what cannot be --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "retired", "said"),
    [
        (Items([BEFORE.items[0]], [""], None), [], "is on the list"),
        (Items(["x"], [""], np.zeros((1, 2))), [], "other columns than the first list had"),
        (
            None,
            ["nothing"],
            "'nothing' is not on the list; expected the id of an item on it; known: ",
        ),
        (None, [f"{BEFORE.items[0]}-"], f"did you mean '{BEFORE.items[0]}'"),
    ],
)
def test_a_change_that_cannot_be_gets_one_line_and_writes_nothing(
    tmp_path: Path, more: Items | None, retired: list[str], said: str
) -> None:
    path = Growing(tmp_path).made.server / ITEMS
    before = path.read_bytes()
    with in_one_line(said):
        change_items(tmp_path / "f", more, retired)
    assert path.read_bytes() == before


@pytest.mark.beside
def test_an_algorithm_whose_devices_keep_all_items_is_refused(tmp_path: Path) -> None:
    federation(
        tmp_path / "f", 4, 3, "gpfedrec", BEFORE, settings={"factors": 16, "layers": [16, 8]}
    )
    with pytest.raises(InputError, match="devices of GPFedRec keep 'table' of every item"):
        change_items(tmp_path / "f", NEW)


# ---- a server that lies --------------------------------------------------------------------------


def told(growing: Growing, body: bytes, name: str = "node-1") -> str:
    """What a node says to lines of items that the operator's key has signed."""
    return answer_to(growing.made, growing.nodes[name], "items", body)


def further(lines: bytes, known: bytes = Items.of(BEFORE).lines) -> bytes:
    """Lines as they travel, with the head of the list that they make, be it one or not."""
    tree = MerkleTree()
    for line in (known + lines).splitlines():
        tree.append(line)
    return msgspec.msgpack.encode(FurtherItems(*tree.head, lines))


ADDED = NEW.lines.splitlines(keepends=True)
RETIRED = b'{"retired":2}\n'
LIES: dict[str, bytes] = {
    "known": Items([BEFORE.items[0]], [""], None).lines,
    "twice": ADDED[0] + ADDED[0],
    "nameless": b'{"title":"x"}\n',
    "a number": b'{"id":3}\n',
    "no title": b'{"id":"x","title":null}\n',
    "a place": b'{"id":"x","place":[0.0,0.0]}\n',
    "a place beyond": b'{"id":"x","place":[1e400,0.0]}\n',
    "features": b'{"id":"x","features":{"year":"1999"}}\n',
    "unknown field": b'{"id":"x","price":3}\n',
    "retired twice": RETIRED,
    "retired beyond": b'{"retired":12}\n',
    "retired huge": b'{"retired":9007199254740993}\n',
    "retired below": b'{"retired":-1}\n',
    "retired with a name": b'{"retired":3,"id":"x"}\n',
    "retired comes back": Items([BEFORE.items[2]], [""], None).lines,
    "empty": b"\n",
    "no JSON": b"{\n",
    "no object": b"[]\n",
    "no text": b"\xff\xfe\n",
    "deep": b"[" * 60_000 + b"\n",
    "cut": ADDED[0][:-1],
    "long": Items(["x" * 65_536], [""], None).lines,
}
# Another root, or another size, than that of the lines.
HEADS = [(FIRST + 1, bytes(32)), (FIRST + 2, bytes(32)), (FIRST - 1, bytes(32)), (-1, b""), ("", 0)]


def test_lines_that_change_an_item_or_cannot_be_are_not_taken(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    change_items(tmp_path / "f", retired=[BEFORE.items[2]])
    assert growing.served(stop_at=1) is None
    path = growing.made.nodes["node-1"] / ITEMS
    before = path.read_bytes()
    assert before.endswith(RETIRED)
    for lie, lines in LIES.items():
        said = told(growing, further(lines, before))
        assert said.startswith(f"{Code.MALFORMED.value}\nitems: "), lie
    bodies = [msgspec.msgpack.encode((*head, b"")) for head in HEADS]
    # One that has not retired the item, and one that has it at the beginning only.
    bodies += [further(b""), further(NEW.lines), further(ADDED[0] + RETIRED), b"", b"\xc1"]
    for body in bodies:
        assert told(growing, body).startswith(Code.MALFORMED.value), body[:9]
    assert path.read_bytes() == before
    assert growing.served() is not None


@pytest.mark.parametrize("differ", [False, True])
def test_a_server_that_tells_two_nodes_different_lists_gets_no_sum(
    tmp_path: Path, differ: bool
) -> None:
    """Item 12 is one film to every second node and another one to the others: each signs the list
    that it has, and no sum is made of both. Those of one list are three, which no owner takes for a
    sum.
    """
    growing = Growing(tmp_path, masked=True)
    growing.come()
    six = list(growing.nodes)[:6]
    for name in growing.nodes:
        lines = ADDED[::-1] if differ and name in six[::2] else ADDED
        assert told(growing, further(b"".join(lines)), name) == "items"
        growing.nodes[name].close()
    lying = SubtractingServer(growing.made)
    offering(lying.nodes)
    summed = lying.sum_of(0, six)
    assert (summed is None) == differ
    lying.close()


@pytest.mark.beside
def test_a_node_that_keeps_numbers_of_all_items_takes_no_longer_list(tmp_path: Path) -> None:
    """Its private state would have the shape of the list before."""
    growing = Growing(tmp_path, "gpfedrec")
    assert "devices of GPFedRec keep 'table' of every item" in told(growing, further(NEW.lines))
    assert (growing.made.nodes["node-1"] / ITEMS).read_bytes() == Items.of(BEFORE).lines
    assert growing.served() is not None


def test_a_node_that_never_takes_the_list_holds_up_nobody(tmp_path: Path) -> None:
    growing = Growing(tmp_path, quorum=0.5, deadline=2.0)
    growing.served(stop_at=1)
    growing.come()
    stubborn = growing.nodes["node-3"]
    stubborn._kinds.pop("items")
    assert growing.served() is not None
    assert stubborn.terms.items == FIRST
    assert any("node-3" in line for line in logged(growing.made.server))


def test_a_length_of_the_list_that_is_none_names_its_file(tmp_path: Path) -> None:
    (tmp_path / LISTED).write_text("many")
    with pytest.raises(InputError, match=f"{LISTED}: no number of bytes.*remove it"):
        listed(tmp_path)
