"""Relays: a tree of sums ends with the model of one server, whoever is killed, missing or lying."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation_links import FaultyLink, logged, server_of, server_sha256, virtual_time
from relays import DATA, Grown, finished_though_killed, tree

from entrenous.core.errors import InputError
from entrenous.deploy.agreement.catalogue import Items
from entrenous.deploy.agreement.certificates import make_keys
from entrenous.deploy.frames import contribution
from entrenous.deploy.frames.frames import Code, opened, seal
from entrenous.deploy.frames.request import Requests
from entrenous.deploy.links.metrics import LinkTally
from entrenous.deploy.node.node_watch import NodeWatch, node_status
from entrenous.deploy.node.relay import BELOW
from entrenous.deploy.operate.enrolment import identity
from entrenous.deploy.operate.founding import Place, found_federation, found_relay, free_ports
from entrenous.deploy.operate.plans import FoundingPlan
from entrenous.deploy.operate.running import status
from entrenous.deploy.server.intake import Open, RoundIntake
from entrenous.deploy.server.server import round_work, serve
from entrenous.deploy.server.server_folder import ServerFolder
from entrenous.federation.rounds import Rounds


def simulated(made: Any) -> str:
    federation = Rounds(made.terms.make(), DATA, seed=made.terms.seed)
    return server_sha256(federation.advance(federation.start(), made.terms.rounds))


TREES = {
    "fpl": {"factors": 4, "triples": 5},
    "cali3f-gmf": {"factors": 4, "clusters": 3, "cohort": 9},
    "fcf": {"factors": 4},
    "rfrec": {"factors": 4},
    "metamf": {},
    "fedfast-gmf": {"factors": 4, "clusters": 3, "cohort": 9},
}


@pytest.mark.parametrize(
    ("algorithm", "deep"), [("fpl", False), ("fpl", True), ("cali3f-gmf", True), ("rfrec", False)]
)
def test_a_tree_of_relays_ends_with_the_model_of_one_process(
    tmp_path: Path, algorithm: str, deep: bool
) -> None:
    grows(tmp_path, algorithm, deep)


@pytest.mark.slow
@pytest.mark.parametrize("deep", [False, True], ids=["one-level", "two-levels"])
@pytest.mark.parametrize("algorithm", list(TREES))
def test_any_tree_of_any_algorithm(tmp_path: Path, algorithm: str, deep: bool) -> None:
    grows(tmp_path, algorithm, deep)


def grows(folder: Path, algorithm: str, deep: bool) -> None:
    with closing(
        Grown(tree(folder, deep=deep, algorithm=algorithm, settings=TREES[algorithm]))
    ) as grown:
        assert serve(grown.links[""], grown.made.server) == simulated(grown.made)
        for relay in grown.made.relays.values():
            assert (
                not list((relay / BELOW / "server").glob("*.journal"))
                and len(list(relay.glob("answer-*"))) == 3
            )
        assert all(
            node.recommender()[0] == 3 for node in grown.nodes.values()
        )  # the trained model came to all


def test_a_relay_tells_how_far_it_is_and_when_it_has_handed_the_model_on(tmp_path: Path) -> None:
    made = tree(tmp_path)
    with closing(Grown(made)) as grown:
        relay = grown.relays["east"]
        watch = NodeWatch(
            relay.folder, made.terms, relay.standing, lambda: LinkTally({"work": 3}, 2)
        )
        seen = watch.finished(), node_status(relay.folder)["running"]
        answer = relay.answer

        def answered(frame: bytes) -> bytes:
            said = answer(frame)
            watch.answered(said)
            return said

        relay.answer = answered  # type: ignore[method-assign]
        assert serve(grown.links[""], made.server) is not None and seen == (False, False)
        text = watch.text()
        assert (
            watch.finished()
            and "entrenous_rounds_done 3.0\n" in text
            and "entrenous_connections_open 2.0\n" in text
        )
        watch.close()
        assert node_status(relay.folder)["answers"]["part"] == 3


def test_whom_a_relay_cannot_hear_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    virtual_time(monkeypatch)
    made = tree(tmp_path, rounds=1, quorum=0.5, deadline=2.0)
    with closing(Grown(made)) as grown:
        grown.links["east"].absent.add("e2")
        assert serve(grown.links[""], made.server) not in (None, simulated(made))
        assert "round 0: 10 of 12 devices" in logged(made.server)
        assert "round 0: 2 of 4 devices" in logged(made.relays["east"] / BELOW / "server")


def test_a_relay_that_dies_in_the_middle_asks_nobody_again_who_was_heard(tmp_path: Path) -> None:
    made = tree(tmp_path, rounds=1)
    with closing(Grown(made)) as grown:
        whole, part = requests(made.server)
        link, heard = grown.links["east"], list[str]()

        def first_and_die(seconds: float) -> list[tuple[str, bytes]]:
            if heard:
                raise MemoryError
            got = FaultyLink.receive(link, seconds)[:1]
            heard.extend(name for name, _ in got)
            return got

        link.receive = first_and_die  # type: ignore[method-assign]
        assert opened(grown.relays["east"].answer(whole)).head.kind == "refused" and len(heard) == 1
        grown.folders.pop(0).close()
        grown.open("east")
        grown.links["east"].absent.update(heard)  # who was heard is not needed any more
        said = grown.relays["east"].answer(whole)
        assert opened(said).head.kind == "part" and opened(said).head.about == {
            "users": 4,
            "heard": 4,
        }
        assert grown.relays["east"].answer(whole) == said  # the same bytes, however often
        assert b"past-round" in bytes(opened(grown.relays["east"].answer(part)).body)


def requests(server: Path) -> tuple[bytes, bytes]:
    """What the server asks of east in its first round; and what one asks that wants the sum of
    fewer users too.
    """
    with closing(ServerFolder(server)) as held:
        own = server_of(held)
        work = round_work(held, own.algorithm, own.contract, 0, own.state, own.draw_key(0))
        made, users = Requests(held.key, held.terms, own.contract, 1), work.asked["east"]
        return bytes(made.work(work, users)), bytes(made.work(work, users[:2]))


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (lambda users: users + 50, Code.WRONG_SENDER),
        (lambda users: users[::-1].copy(), Code.WRONG_SENDER),
        (lambda users: np.repeat(users[:1], len(users)), Code.WRONG_SENDER),
        (lambda users: users - 1, Code.WRONG_SENDER),
        (lambda users: users[:0], Code.WRONG_COUNT),
        (lambda users: np.append(users, 11), Code.WRONG_COUNT),
    ],
)
def test_a_relay_that_lies_about_whom_it_heard_is_refused(
    tmp_path: Path, lie: Any, code: Code
) -> None:
    made = tree(tmp_path, rounds=1)
    with closing(Grown(made)) as grown, closing(ServerFolder(made.server)) as held:
        relay, contract = grown.relays["east"], grown.relays["east"].responder.contract
        users = held.members.nodes["east"].users
        intake = RoundIntake(made.terms.run, held.members, contract, lambda line: None)
        intake.begin(Open(0, bytes(32), {"east": users}), None, [])
        total, said = contract.empty_total()._replace(devices=len(users)), lie(users)
        total.weight[:] = len(said) << 16
        about = {"users": len(users), "heard": len(said)}
        frame = seal(
            relay.key,
            "part",
            contribution.of_part(total, said),
            run=made.terms.run,
            node="east",
            model=bytes(32),
            items=made.terms.items,
            about=about,
        )
        assert intake.receive(frame).code is code and intake.total.devices == 0
        total.weight[:] = len(users) << 16
        good = seal(
            relay.key,
            "part",
            contribution.of_part(total, users),
            run=made.terms.run,
            node="east",
            model=bytes(32),
            items=made.terms.items,
            about={"users": len(users), "heard": len(users)},
        )
        assert intake.receive(good).code is Code.ACCEPTED and intake.total.devices == len(users)


def test_relays_are_refused_where_they_would_see_what_masks_hide(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="answers for all of them as one"):
        tree(tmp_path, protect={"secure_sum": True, "people": 2})


def test_a_node_that_is_named_twice_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    """The second of one name would have taken the first one's place, and its users would be
    nobody's.
    """
    asked = {name: identity(tmp_path / name, name) for name in ("east", "e1", "other")}
    root = found_federation(
        tmp_path / "root",
        Items.of(DATA),
        [(asked["east"], 12)],
        FoundingPlan(algorithm="fpl", rounds=1, profile="paper").with_catalogue(DATA.catalogue),
    )
    for twice in ([asked["e1"]] * 2, [asked["e1"], asked["other"]._replace(key=asked["e1"].key)]):
        with pytest.raises(InputError, match="is named twice"):
            found_relay(tmp_path / "east", root.nodes["east"], [(one, 2) for one in twice], Place())
    assert (
        not (tmp_path / "east" / BELOW).exists() and not (tmp_path / "east" / "node.json").exists()
    )


@pytest.mark.usefixtures("forked_children")
def test_processes_over_https_and_a_relay_that_is_killed(tmp_path: Path) -> None:
    """Server, two relays and six nodes as processes; a relay is killed with SIGKILL in the middle
    and started again.
    """
    ports = free_ports(3)
    places = {
        name: Place(port=port) for name, port in zip(("server", "east", "west"), ports, strict=True)
    }
    made = tree(tmp_path, places, rounds=12)
    make_keys(made.server / "keys")
    lines = finished_though_killed(made, "east", lambda: status(made.server).get("round", 0) >= 3)
    assert lines[-1].split(" ")[-1] == simulated(made)
