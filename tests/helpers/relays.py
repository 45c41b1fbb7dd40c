"""Federations with relays, made on this machine: a server, relays with nodes of their own, nodes of
the server itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from federation_links import FPL, FaultyLink, logged, ratings, until

from entrenous.deploy.agreement.catalogue import Items
from entrenous.deploy.agreement.terms import FederationTerms
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.node.relay import BELOW, Relay
from entrenous.deploy.operate.enrolment import identity, join
from entrenous.deploy.operate.founding import Place, found_federation, found_relay
from entrenous.deploy.operate.plans import FoundingPlan, JoinPlan
from entrenous.deploy.operate.processes import Processes
from entrenous.deploy.operate.running import status
from entrenous.deploy.server.server_folder import ServerFolder
from entrenous.privacy.secure_sum.terms import Floors

DATA = ratings(users=12)
PATIENCE = 400.0  # seconds for a federation of processes, on a machine that does much else


class Tree(NamedTuple):
    """A federation with relays. nodes: folders of nodes, relays: of relays, by name; below: whose
    nodes (or relays) they are.
    """

    terms: FederationTerms
    server: Path
    nodes: dict[str, Path]
    relays: dict[str, Path]
    below: dict[str, list[str]]


def tree(
    folder: Path,
    places: dict[str, Place] | None = None,
    deep: bool = False,
    algorithm: str = "fpl",
    settings: Any = FPL,
    **more: Any,
) -> Tree:
    """Twelve users: east and west are relays with two nodes of two users each, far with one more;
    two nodes are the server's own. deep: far is a relay below east, with three users."""
    places = places or {}
    told = {
        name: identity(folder / name, name)
        for name in ("east", "west", "here", "near", "e1", "e2", "w1", "w2", "far", "f1")
    }
    counts = {"east": 7 if deep else 4, "west": 3, "here": 1, "near": 1 if deep else 4}
    terms: dict[str, Any] = {
        "algorithm": algorithm,
        "settings": settings,
        "rounds": 3,
        "draws": "public",
        "seed": 1,
        "deadline": 60.0,
        "profile": "paper",
        **more,
    }
    made = found_federation(
        folder / "root",
        Items.of(DATA),
        [(told[name], count) for name, count in counts.items()],
        FoundingPlan(**terms).with_catalogue(DATA.catalogue),
        places.get("server"),
    )
    east = [(told["e1"], 2), (told["e2"], 2), *([(told["far"], 3)] if deep else [])]
    relays = {"east": folder / "east", "west": folder / "west"}
    below = {
        "": ["east", "west", "here", "near"],
        "east": [request.name for request, _ in east],
        "west": ["w1", "w2"],
    }
    invitations = dict(made.nodes)
    invitations |= found_relay(
        folder / "east", made.nodes["east"], east, places.get("east", Place())
    ).nodes
    west = [(told["w1"], 1), (told["w2"], 2)]
    invitations |= found_relay(
        folder / "west", made.nodes["west"], west, places.get("west", Place())
    ).nodes
    if deep:
        invitations |= found_relay(
            folder / "far", invitations["far"], [(told["f1"], 3)], places.get("far", Place())
        ).nodes
        relays["far"], below["far"] = folder / "far", ["f1"]
    nodes, start = (
        {},
        {"east": 0, "west": counts["east"], "here": counts["east"] + 3, "near": counts["east"] + 4},
    )
    first = {
        "e1": 0,
        "e2": 2,
        "far": 4,
        "f1": 4,
        "w1": start["west"],
        "w2": start["west"] + 1,
        **start,
    }
    have = {"e1": 2, "e2": 2, "f1": 3, "w1": 1, "w2": 2, "here": 1, "near": counts["near"]}
    for name in (name for names in below.values() for name in names if name not in relays):
        mine = np.arange(first[name], first[name] + have[name])
        rows, plan = DATA.of_users(mine), JoinPlan(profile="paper", public_draws=True)
        assert join(folder / name, invitations[name], rows, plan).tolist() == mine.tolist()
        nodes[name] = folder / name
    return Tree(made.terms, made.server, nodes, relays, below)


FLOORS = Floors(people=3, parties=3, occupancy=0.0)
RELAYS = ("east", "north", "west")


def masked_tree(folder: Path, places: dict[str, Place] | None = None, **more: Any) -> Tree:
    """Three relays with four nodes of one user each, under masks."""
    places = places or {}
    below = {relay: [f"{relay}-{number}" for number in range(1, 5)] for relay in RELAYS}
    names = [*RELAYS, *(name for relay in RELAYS for name in below[relay])]
    told = {name: identity(folder / name, name) for name in names}
    terms: dict[str, Any] = {
        "algorithm": "fcf",
        "settings": {"factors": 4},
        "rounds": 3,
        "draws": "public",
        "seed": 1,
        "deadline": 60.0,
        "profile": "paper",
        "protect": {"secure_sum": True, "people": FLOORS.people, "parties": FLOORS.parties},
        "relays": True,
        **more,
    }
    made = found_federation(
        folder / "root",
        Items.of(DATA),
        [(told[relay], 4) for relay in RELAYS],
        FoundingPlan(**terms).with_catalogue(DATA.catalogue),
        places.get("server"),
    )
    nodes = {}
    plan = JoinPlan(
        people=FLOORS.people, parties=FLOORS.parties, occupancy=FLOORS.occupancy, public_draws=True
    )
    for relay, own in below.items():
        place = places.get(relay, Place())
        requests = [(told[name], 1) for name in own]
        invitations = found_relay(folder / relay, made.nodes[relay], requests, place).nodes
        for name in own:
            user = np.array([len(nodes)])
            joined = join(folder / name, invitations[name], DATA.of_users(user), plan)
            assert joined.tolist() == user.tolist()
            nodes[name] = folder / name
    relays = {relay: folder / relay for relay in RELAYS}
    return Tree(made.terms, made.server, nodes, relays, {"": list(RELAYS), **below})


class Grown:
    """All nodes and relays of a tree, opened, over links in memory. links: of the server ("") and
    of each relay, whose `absent` may be set."""

    def __init__(self, made: Tree) -> None:
        self.made, self.links = made, dict[str, FaultyLink]()
        self.nodes = {name: FederatedNode(path) for name, path in made.nodes.items()}
        self.relays: dict[str, Relay] = {}
        self.folders: list[ServerFolder] = []
        for name in sorted(made.relays, key=lambda name: name != "far"):  # the deepest first
            self.open(name)
        self.links[""] = self.link("")

    def link(self, name: str) -> FaultyLink:
        """The link of a relay to its nodes, or of the server."""
        return FaultyLink(
            {one: (lambda frame, one=one: self.answer(one, frame)) for one in self.made.below[name]}
        )

    def answer(self, name: str, frame: bytes) -> bytes:
        """What a node or relay answers."""
        return (
            self.relays[name].answer(frame)
            if name in self.made.relays
            else self.nodes[name].answer(frame)
        )

    def open(self, name: str) -> None:
        """Open a relay, as its process does when it starts."""
        self.links[name] = self.link(name)
        self.folders.append(ServerFolder(self.made.relays[name] / BELOW / "server"))
        self.relays[name] = Relay(
            self.made.relays[name], self.folders[-1], self.links[name], Event()
        )

    def close(self) -> None:
        for each in (*self.nodes.values(), *self.folders):
            each.close()


def finished_though_killed(made: Tree, relay: str, due: Callable[[], Any]) -> list[str]:
    """Runs server, relays and nodes as processes; a relay is killed with SIGKILL as soon as `due()`
    and started again. Returns the lines of the server's log.
    """
    with Processes() as processes:
        processes.start(made.server, "server")
        for folder in (*made.relays.values(), *made.nodes.values()):
            processes.start(folder)
        until(due, PATIENCE)
        processes.kill(made.relays[relay])
        processes.start(made.relays[relay])
        until(lambda: status(made.server).get("status") == "finished", PATIENCE)
    return logged(made.server)
