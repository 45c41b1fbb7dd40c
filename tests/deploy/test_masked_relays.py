"""Relays under masks: each relay's nodes are one group, whose sum it makes as a server does. The
model is that of one process, whoever is killed, missing or lying.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from federation_links import (
    FaultyLink,
    federation,
    logged,
    nodes_of,
    server_of,
    virtual_time,
)
from relays import DATA, FLOORS, Grown, Tree, finished_though_killed, masked_tree

from entrenous.core.contract.update import LIMIT, STEP, Total
from entrenous.core.errors import InputError
from entrenous.deploy.agreement import groups
from entrenous.deploy.agreement.catalogue import Items
from entrenous.deploy.agreement.charter import write_charter
from entrenous.deploy.agreement.files import read_identity, write_json
from entrenous.deploy.agreement.invitation import CHARTER
from entrenous.deploy.agreement.terms import TERMS, FederationTerms
from entrenous.deploy.frames import contribution
from entrenous.deploy.frames.frames import Code, seal
from entrenous.deploy.links.https import HttpsPlan
from entrenous.deploy.node.node_store import STORE
from entrenous.deploy.node.relay import BELOW
from entrenous.deploy.node.secure_node import inputs
from entrenous.deploy.operate import running
from entrenous.deploy.operate.enrolment import identity, join
from entrenous.deploy.operate.founding import Place, found_federation, found_relay, free_ports
from entrenous.deploy.operate.plans import FoundingPlan, JoinPlan
from entrenous.deploy.operate.running import status
from entrenous.deploy.server import exchange, server
from entrenous.deploy.server.intake import RoundIntake
from entrenous.deploy.server.ray_workers import LOCAL, RayPlan
from entrenous.deploy.server.server import RoundsLost, round_work, serve
from entrenous.deploy.server.server_folder import ServerFolder
from entrenous.deploy.wire import tensors

LET_IN = JoinPlan(people=3, parties=3, occupancy=0.0, public_draws=True)


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str | None]:
    """Returns the sha256 of the model after so many rounds of a federation without relays, whose
    groups are their nodes.
    """

    @cache
    def model(rounds: int) -> str | None:
        folder = tmp_path_factory.mktemp("whole") / "f"
        masks: dict[str, Any] = {"secure": "masks", "floors": FLOORS, "protect": {"groups": 3}}
        whole = federation(folder, 12, rounds, "fcf", DATA, {"factors": 4}, **masks)
        names = sorted(whole.nodes)
        of_relays = [frozenset(names[low : low + 4]) for low in (0, 4, 8)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(groups, "dealt", lambda members, run, count: of_relays)
            link = FaultyLink({name: node.answer for name, node in nodes_of(whole).items()})
            return serve(link, whole.server)

    return model


@pytest.fixture(scope="module")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A federation of relays that no test changes."""
    return masked_tree(tmp_path_factory.mktemp("founded"))


def below(made: Tree, relay: str) -> Path:
    """The folder of a relay as the server of its nodes."""
    return made.relays[relay] / BELOW / "server"


def sums_of(grown: Grown) -> set[int]:
    """How many masked inputs have left the nodes."""
    return {inputs(node.store) for node in grown.nodes.values()}


# ---- whole federations ---------------------------------------------------------------------------


def test_relays_under_masks_end_with_the_model_of_one_process(
    tmp_path: Path, in_one_process: Callable[[int], str | None]
) -> None:
    made = masked_tree(tmp_path)
    with closing(Grown(made)) as grown:
        digest = serve(grown.links[""], made.server)
        assert digest == in_one_process(made.terms.rounds)
        # The trained model came to all, and the nodes of each relay have agreed on it.
        assert all(node.recommender()[0] == 3 for node in grown.nodes.values())
        assert sums_of(grown) == {3}
        for relay in made.relays:
            assert not list(below(made, relay).glob("*.journal"))


def test_a_relay_that_dies_between_any_two_answers_asks_for_no_second_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_one_process: Callable[[int], str | None]
) -> None:
    """It goes on from its journal when the server asks again."""
    virtual_time(monkeypatch)
    made = masked_tree(tmp_path, deadline=3600.0)
    with closing(Grown(made)) as grown:
        link, deaths, left = grown.links["east"], 0, 2
        honest = link.receive
        waiting: list[tuple[str, bytes]] = []

        def receive(seconds: float) -> list[tuple[str, bytes]]:
            nonlocal deaths, left
            left -= 1
            if left == 0:
                deaths += 1
                left = 3 + deaths % 6
                # What was under way is lost with the connections.
                waiting.clear()
                link._under_way.clear()
                raise MemoryError
            waiting.extend(honest(0.0 if waiting else seconds))
            return [waiting.pop(0)] if waiting else []

        link.receive = receive  # type: ignore[method-assign]
        digest = serve(grown.links[""], made.server)
        assert deaths > 12
        assert sums_of(grown) == {3}
        assert digest == in_one_process(made.terms.rounds)


@pytest.mark.usefixtures("forked_children")
def test_processes_over_https_and_a_relay_under_masks_that_is_killed(
    tmp_path: Path, in_one_process: Callable[[int], str | None]
) -> None:
    """Server, three relays and twelve nodes as processes over TLS; a relay is killed with SIGKILL
    in the middle and started again.
    """
    ports = free_ports(4)
    names = ("server", "east", "north", "west")
    places = {name: Place(port=port) for name, port in zip(names, ports, strict=True)}
    made = masked_tree(tmp_path, places, rounds=6, deadline=600.0)

    def is_summing() -> bool:
        # A journal tells that a sum is being made.
        journals = list(below(made, "east").glob("round-*.journal"))
        return bool(journals) and status(made.server).get("round", 0) >= 2

    lines = finished_though_killed(made, "east", is_summing)
    assert not any("without group" in line or "lost" in line for line in lines), lines
    assert lines[-1].split(" ")[-1] == in_one_process(made.terms.rounds)


# ---- who is missing, and who refuses -------------------------------------------------------------


def test_a_relay_without_enough_nodes_refuses_in_time_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = virtual_time(monkeypatch)
    made = masked_tree(tmp_path)
    with closing(Grown(made)) as grown:
        grown.links["east"].absent.update(("east-1", "east-2"))
        assert serve(grown.links[""], made.server) is not None
        # Nodes that did not come are waited for once a round, for less than half of its time.
        assert clock.now < 3 * 0.5 * made.terms.deadline + 3 * server.FAREWELL
        assert sum("without group east" in line for line in logged(made.server)) == 3
        assert not any("group north" in line for line in logged(made.server))
        lines = logged(below(made, "east"))
        assert sum("too few nodes have answered in time" in line for line in lines) == 3
        assert inputs(grown.nodes["east-3"].store) == 0
        assert inputs(grown.nodes["west-3"].store) == 3
        # Two of four nodes are too few to keep the trained model.
        assert any("of 4 nodes keep the model of round 3" in line for line in lines)


def test_a_round_in_which_most_relays_refuse_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    virtual_time(monkeypatch)
    made = masked_tree(tmp_path)
    with closing(Grown(made)) as grown:
        for relay in ("east", "west"):
            grown.links[relay].absent.update(made.below[relay][:2])
        with pytest.raises(RoundsLost):
            serve(grown.links[""], made.server)
        assert not (made.server / "model.safetensors").exists()


def test_a_server_waits_for_most_of_its_relays_and_goes_on_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    virtual_time(monkeypatch)
    monkeypatch.setattr(server, "FAREWELL", 0.3)
    made = masked_tree(tmp_path, rounds=1)
    with closing(Grown(made)) as grown:
        link = grown.links[""]
        link.absent.update(("east", "west"))
        honest, waited = link.receive, 0

        def receive(seconds: float) -> list[tuple[str, bytes]]:
            nonlocal waited
            waited += 1
            # They are away for several rounds' time, and one of them comes.
            if waited * exchange.POLL > 3 * made.terms.deadline:
                link.absent.discard("west")
            return honest(seconds)

        link.receive = receive  # type: ignore[method-assign]
        assert serve(link, made.server) is not None
    lines = logged(made.server)
    assert any("1 of 3 relays in 60 s, and a round is of more than half" in line for line in lines)
    assert any("without group east" in line for line in lines)
    assert not any("lost," in line for line in lines)


def test_relays_that_are_asked_for_too_few_people_are_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a round passes: nobody's masked input has left."""
    made = masked_tree(tmp_path, rounds=1)

    def few(*arguments: Any) -> Any:
        work = round_work(*arguments)
        return work._replace(asked={name: users[:2] for name, users in work.asked.items()})

    monkeypatch.setattr(server, "round_work", few)
    with closing(Grown(made)) as grown:
        with pytest.raises(RoundsLost, match="no sum came of"):
            serve(grown.links[""], made.server)
        assert sums_of(grown) == {0}


def test_answers_of_relays_are_taken_by_one_process(tmp_path: Path, founded: Tree) -> None:
    with closing(ServerFolder(founded.server)) as held:
        plan, stop = HttpsPlan(port=0), threading.Event()
        with pytest.raises(InputError, match="--workers: relays have made the sums"):
            running.serve_by_workers(held, plan, 2, stop)
        with pytest.raises(InputError, match="--ray: relays have made the sums"):
            running.serve_by_actors(held, plan, RayPlan(LOCAL, tmp_path), 2, stop)


# ---- relays that lie -----------------------------------------------------------------------------


class Desk:
    """A server's intake in its second round, and the key of a relay, east."""

    def __init__(self, made: Tree, held: ServerFolder) -> None:
        own = server_of(held)
        self.terms, self.contract = made.terms, own.contract
        work = round_work(held, own.algorithm, own.contract, 1, own.state, own.draw_key(1))
        self.key, self.users = read_identity(made.relays["east"] / "identity.key"), work.asked
        self.model = work.model
        own.collecting.begin(work)  # type: ignore[attr-defined]
        self.intake: RoundIntake = own.collecting.intake  # type: ignore[attr-defined]

    def part(self, total: Total, users: Any, **more: Any) -> Code:
        """What becomes of a part of east's."""
        return self.sent(contribution.of_part(total, users), **{"heard": len(users), **more})

    def sent(self, body: bytes, kind: str = "part", users: int = 4, **more: Any) -> Code:
        about = {"users": users}
        if "heard" in more:
            about["heard"] = more.pop("heard")
        fields = {"round": 1, "model": self.model, "items": self.terms.items, **more}
        frame = seal(self.key, kind, body, run=self.terms.run, node="east", about=about, **fields)
        return self.intake.receive(frame).code

    def honest(self, devices: int = 4) -> Total:
        """A sum that so many devices can have."""
        total = self.contract.empty_total()
        total.weight[:] = devices * contribution.ONE
        for array in total.dense.values():
            array[:] = 7
        return total._replace(devices=devices)


@pytest.fixture
def desk(founded: Tree) -> Iterator[Desk]:
    with closing(ServerFolder(founded.server)) as held:
        yield Desk(founded, held)
        held.drop_journals()


def changed(change: Callable[[Total], None]) -> Callable[[Desk], Code]:
    """East's honest part with some numbers changed."""

    def lie(desk: Desk) -> Code:
        total = desk.honest()
        change(total)
        return desk.part(total, desk.users["east"])

    return lie


def number(value: int) -> Callable[[Desk], Code]:
    """East's honest part with one number changed."""

    def change(total: Total) -> None:
        next(iter(total.dense.values())).flat[0] = value

    return changed(change)


def floats(value: float) -> Callable[[Desk], Code]:
    """East's part with floats where whole numbers are agreed."""

    def lie(desk: Desk) -> Code:
        arrays = tensors_of(desk)
        name = next(name for name in arrays if name.startswith("dense."))
        arrays[name] = np.full(arrays[name].shape, value)
        return desk.sent(tensors.write(arrays), heard=4)

    return lie


def tensors_of(desk: Desk) -> dict[str, Any]:
    """The arrays of east's honest part."""
    total = desk.honest()
    dense = {f"dense.{name}": array for name, array in total.dense.items()}
    nobody = {"item": np.empty(0, np.int32), "senders": np.empty(0, np.int64)}
    return {**nobody, "weight": total.weight, "users": desk.users["east"], **dense}


LEAST = np.iinfo(np.int64).min
NAN = int(np.array(np.nan).view(np.int64))
LIES: dict[str, tuple[Callable[[Desk], Code], Code]] = {
    "a-sum": (lambda desk: desk.sent(contribution.of_total(desk.honest()), "sum"), Code.WRONG_KIND),
    "an-update": (lambda desk: desk.sent(b"", "update"), Code.WRONG_KIND),
    "a-masked-input": (lambda desk: desk.sent(b"", "mask"), Code.WRONG_KIND),
    "people-below-the-floor": (
        lambda desk: desk.part(desk.honest(2), desk.users["east"][:2]),
        Code.WRONG_COUNT,
    ),
    "more-people-than-were-asked": (
        lambda desk: desk.part(desk.honest(8), np.arange(8)),
        Code.WRONG_COUNT,
    ),
    "more-people-than-it-names": (
        lambda desk: desk.part(desk.honest(3), desk.users["east"][:3], heard=4),
        Code.WRONG_COUNT,
    ),
    "another-relays-people": (
        lambda desk: desk.part(desk.honest(), desk.users["west"]),
        Code.WRONG_SENDER,
    ),
    "one-user-often": (
        lambda desk: desk.part(desk.honest(), np.repeat(desk.users["east"][:1], 4)),
        Code.WRONG_SENDER,
    ),
    "another-round": (
        lambda desk: desk.sent(b"", round=2, heard=4),
        Code.FUTURE_ROUND,
    ),
    "another-model": (
        lambda desk: desk.sent(b"", model=bytes(32), heard=4),
        Code.WRONG_MODEL,
    ),
    "a-huge-sum": (number(4 * int(LIMIT / STEP) + 1), Code.TOO_LARGE),
    "the-least-integer": (number(LEAST), Code.TOO_LARGE),
    "the-bits-of-nan": (number(NAN), Code.TOO_LARGE),
    "nan": (floats(np.nan), Code.WRONG_TYPE),
    "infinity": (floats(np.inf), Code.WRONG_TYPE),
    "rows-that-the-algorithm-has-not": (
        changed(lambda total: total.senders.__setitem__(0, 4)),
        Code.TOO_MANY_ROWS,
    ),
    "a-weight-that-is-none": (
        changed(lambda total: total.weight.__setitem__(0, -1)),
        Code.WRONG_WEIGHT,
    ),
    "more-weight-than-people": (
        changed(lambda total: total.weight.__setitem__(0, 5 * contribution.ONE)),
        Code.WRONG_WEIGHT,
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_part_that_no_group_can_have_is_refused(desk: Desk, lie: str) -> None:
    said, code = LIES[lie]
    assert said(desk) is code
    assert not desk.intake.answers and desk.intake.total.devices == 0
    assert "east" in desk.intake.missing()
    # The same relay may still send a good one.
    assert desk.part(desk.honest(3), desk.users["east"][1:]) is Code.ACCEPTED
    assert list(desk.intake.answers) == ["east"] and desk.intake.total.devices == 3


def test_a_refusal_leaves_a_relay_out_of_its_own_round_alone(desk: Desk) -> None:
    """One that came late, is about another model, or may pass, does not."""
    body = b"withheld\nquorum: too few of this relay's nodes have answered"
    assert desk.sent(body, "refused", round=0) is Code.PAST_ROUND
    assert desk.sent(body, "refused", model=bytes(32)) is Code.WRONG_MODEL
    assert desk.sent(b"failed\nOSError", "refused") is Code.WITHHELD
    assert "east" in desk.intake.missing()
    desk.key = Ed25519PrivateKey.generate()
    assert desk.sent(body, "refused") is Code.BAD_SIGNATURE
    assert "east" in desk.intake.missing()


def test_a_refusal_of_the_round_that_is_open_leaves_the_relay_out(desk: Desk) -> None:
    assert desk.sent(b"withheld\nquorum: too few", "refused") is Code.WITHHELD
    assert sorted(desk.intake.missing()) == ["north", "west"]


def test_a_relay_that_invents_its_groups_sum_pushes_no_further_than_the_median_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entrenous.deploy.server.server.too_long", lambda *more: "")
    models = {}
    for name in ("honest", "dragged"):
        made = masked_tree(tmp_path / name)
        with closing(Grown(made)) as grown:
            if name == "dragged":
                lying(grown, monkeypatch)
            assert serve(grown.links[""], made.server) is not None
        with closing(ServerFolder(made.server)) as held:
            now = held.newest(made.terms.make())
            assert now is not None
            arrays = [np.ravel(array) for array in now.state if array.dtype.kind == "f"]
            models[name] = np.concatenate(arrays).astype(np.float64)
    long = [line for line in logged(made.server) if "as long as the median group's" in line]
    assert len(long) == 3
    assert "sum of group east" in long[0] and "its relay or one of its nodes may lie" in long[0]
    moved = np.linalg.norm(models["dragged"] - models["honest"]) / np.linalg.norm(models["honest"])
    assert 0 < moved < 1


def lying(grown: Grown, patch: pytest.MonkeyPatch) -> None:
    """Has east answer with the largest numbers that its people can have."""
    east = grown.relays["east"]
    honest = east._collected

    def collected(request: Any, model: bytes) -> Any:
        total, users = honest(request, model)
        most = len(users) * (int(LIMIT / STEP) - 1) // 4
        rows = {name: np.full_like(array, most) for name, array in total.rows.items()}
        dense = {name: np.full_like(array, most) for name, array in total.dense.items()}
        return total._replace(rows=rows, dense=dense), users

    patch.setattr(east, "_collected", collected)


# ---- who may be a relay, and of whom -------------------------------------------------------------


@pytest.fixture
def invited(tmp_path: Path, founded: Tree) -> tuple[Tree, Path, Path]:
    """A federation of relays; the folder of east-1, which has not joined; and its invitation."""
    own = founded.relays["east"] / BELOW / "invitations" / "east-1"
    node, invitation = tmp_path / "east-1", tmp_path / "invitation"
    shutil.copytree(founded.nodes["east-1"], node)
    shutil.copytree(own, invitation)
    (node / STORE).unlink()
    return founded, node, invitation


def joins(node: Path, invitation: Path) -> None:
    join(node, invitation, DATA.of_users(np.array([0])), LET_IN)


def test_an_honest_charter_is_taken(invited: tuple[Tree, Path, Path]) -> None:
    made, node, invitation = invited
    joins(node, invitation)
    charter = json.loads((invitation / CHARTER).read_text())
    assert FederationTerms.parse(charter["terms"], "charter").run == made.terms.run


def resigned(made: Tree, invitation: Path) -> None:
    """By somebody who is not the operator above."""
    key = read_identity(made.relays["east"] / "identity.key")
    public = key.public_key().public_bytes_raw()
    write_charter(invitation, key, made.terms, "east", public)


def of_another_relay(made: Tree, invitation: Path) -> None:
    shutil.copy(made.relays["west"] / BELOW / "server" / CHARTER, invitation / CHARTER)


def with_fields(made: Tree, invitation: Path, **fields: Any) -> None:
    charter = json.loads((invitation / CHARTER).read_text())
    write_json(invitation / CHARTER, {**charter, **fields})


def with_lower_floors(made: Tree, invitation: Path) -> None:
    terms = json.loads((invitation / TERMS).read_text())
    terms["protection"]["people"] = 1
    write_json(invitation / TERMS, terms)


def with_floors_lowered_above(made: Tree, invitation: Path) -> None:
    charter = json.loads((invitation / CHARTER).read_text())
    charter["terms"]["protection"]["people"] = 1
    write_json(invitation / CHARTER, charter)


@pytest.mark.parametrize(
    ("forge", "problem"),
    [
        (resigned, "is not signed by the operator above"),
        (of_another_relay, "is of another relay"),
        (with_lower_floors, "the relay's terms differ from it in protection"),
        (with_floors_lowered_above, "is of another federation"),
        (lambda made, at: with_fields(made, at, name="west"), "is not signed by the operator"),
        (lambda made, at: with_fields(made, at, key="00" * 32), "is not signed by the operator"),
        (lambda made, at: with_fields(made, at, further=1), "unknown field"),
        (lambda made, at: (at / CHARTER).unlink(), CHARTER),
    ],
    ids=[
        "resigned",
        "of-another-relay",
        "lower-floors",
        "floors-lowered-above",
        "another-name",
        "another-key",
        "further-field",
        "no-charter",
    ],
)
def test_a_forged_charter_is_refused_and_nothing_is_written(
    invited: tuple[Tree, Path, Path], forge: Any, problem: str
) -> None:
    made, node, invitation = invited
    forge(made, invitation)
    with pytest.raises(InputError, match=problem):
        joins(node, invitation)
    assert not (node / STORE).exists()


def test_a_node_is_no_group_by_itself(tmp_path: Path, founded: Tree) -> None:
    east = tmp_path / "other"
    shutil.copytree(founded.relays["east"], east, ignore=shutil.ignore_patterns("node.json", BELOW))
    invitation = founded.server.parent / "invitations" / "east"
    with pytest.raises(InputError, match="is for a relay: a node by itself"):
        join(east, invitation, DATA.of_users(np.arange(4)), LET_IN)
    assert not (east / STORE).exists()


def test_a_relay_of_too_few_nodes_and_a_relay_below_one_are_refused(
    tmp_path: Path, invited: tuple[Tree, Path, Path]
) -> None:
    made, node, within = invited
    east = tmp_path / "other"
    shutil.copytree(made.relays["east"], east, ignore=shutil.ignore_patterns("node.json", BELOW))
    asked = identity(tmp_path / "one", "one")
    invitation = made.server.parent / "invitations" / "east"
    with pytest.raises(InputError, match="a relay has 1 nodes with 4 people"):
        found_relay(east, invitation, [(asked, 4)], Place())
    (node / "node.json").unlink()
    with pytest.raises(InputError, match="is to the masked group of a relay"):
        found_relay(node, within, [(asked, 1)], Place())
    assert not (east / BELOW).exists() and not (node / BELOW).exists()


@pytest.mark.parametrize(
    ("relays", "problem"),
    [
        ({"east": 6, "north": 6}, "--relays: 2 relays; expected 3 to"),
        ({"east": 5, "north": 5, "west": 2}, "relay 'west' has 2"),
    ],
)
def test_too_few_relays_and_a_relay_of_too_few_people_are_refused(
    tmp_path: Path, relays: dict[str, int], problem: str
) -> None:
    asked = [(identity(tmp_path / name, name), users) for name, users in relays.items()]
    plan = FoundingPlan(
        algorithm="fcf",
        rounds=1,
        profile="paper",
        protect={"secure_sum": True, "people": 3},
        relays=True,
    )
    with pytest.raises(InputError, match=problem):
        found_federation(
            tmp_path / "root", Items.of(DATA), asked, plan.with_catalogue(DATA.catalogue)
        )
    assert not (tmp_path / "root" / "server").exists()


def test_relays_are_the_groups(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the nodes of each relay are a group"):
        masked_tree(tmp_path, protect={"secure_sum": True, "people": 3, "groups": 3})


def test_relays_want_masks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="any node may be a relay"):
        masked_tree(tmp_path, protect={})
