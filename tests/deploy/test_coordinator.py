"""The coordinator of replicas, and replicas, without Ray: calls in this process, one after the
other, in a time of its own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from federation_links import federation, nodes_of

from entrenous.core.errors import InputError
from entrenous.deploy.coordinator import (
    Coordinator,
    CoordinatorReply,
    Dealt,
    MergedTotal,
    ReplicaPlan,
    ReplicaReport,
)
from entrenous.deploy.frames.contribution import agreed, of_part, read_part
from entrenous.deploy.frames.frames import seal
from entrenous.deploy.frames.request import Requests, RoundWork
from entrenous.deploy.links.application import Parked, Traffic
from entrenous.deploy.operate.founding import FoundedFederation
from entrenous.deploy.ray_serve import replica_plan
from entrenous.deploy.replica import Replica, ReplicaLink
from entrenous.deploy.replica_folder import ReplicaFolder
from entrenous.deploy.server.intake import Open, RoundIntake
from entrenous.deploy.server.log_line import LogLine
from entrenous.deploy.server.rounds import round_work, standing, stored
from entrenous.deploy.server.server_folder import ServerFolder


class Parts:
    """A server's round, its nodes, a coordinator, and replicas by name. now: seconds."""

    def __init__(self, made: FoundedFederation, held: ServerFolder, journals: Path) -> None:
        self.now, self.held, self.nodes = 0.0, held, nodes_of(made)
        self.plan = replica_plan(held, journals)
        self.coordinator = Coordinator(self.plan, lambda: self.now)
        algorithm = held.terms.make()
        self.contract = agreed(algorithm, held.terms.catalogue)
        state = standing(held, algorithm).state
        self.work: RoundWork = round_work(held, algorithm, self.contract, 0, state)
        self.coordinator.begin("round", 0, self.work.model, stored(state))

    def replica(self, name: str) -> Replica:
        """A replica that has the round."""
        made = Replica(self.plan, name, self.coordinator.report)
        for _ in range(3):
            made.step()
        return made

    def answer(self, name: str) -> bytes:
        """What a node answers in the round."""
        asked = Requests(self.held.key, self.held.terms, self.contract, self.held.start).work(
            self.work, self.work.asked[name]
        )
        return self.nodes[name].answer(bytes(asked))

    def total(self, *replicas: Replica) -> MergedTotal:
        """The merged total, as the server has it told."""
        self.coordinator.again("total")
        found = None
        for _ in range(4):
            for replica in replicas:
                replica.step(), replica.step()
            if (found := self.coordinator.total(self.work.asked)) is not None:
                return found
        raise AssertionError("no total")


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = federation(tmp_path / "f", nodes=4, rounds=2)
    with closing(ServerFolder(made.server)) as held:
        found = Parts(made, held, tmp_path / "journals")
        yield found
        for node in found.nodes.values():
            node.close()


def taken(parts: Parts) -> set[str]:
    """The nodes that count, by all events."""
    found: set[str] = set()
    for node, dealt in parts.coordinator.summary(0).events:
        (found.discard if dealt is None else found.add)(node)
    return found


def test_the_total_has_each_node_once(parts: Parts) -> None:
    """One node is with both replicas, as when the first died before it could say so."""
    first, second = parts.replica("first"), parts.replica("second")
    names = sorted(parts.work.asked)
    first._collector.take([parts.answer(name) for name in names[:2]])
    second._collector.take([parts.answer(name) for name in names[1:]])
    first.step(), second.step()
    assert taken(parts) == set(names)
    intake = RoundIntake(
        parts.held.terms.run, parts.held.members, parts.contract, lambda text: None
    )
    intake.begin(
        Open(0, parts.work.model, parts.work.asked), None, [parts.answer(name) for name in names]
    )
    users = np.sort(np.concatenate([parts.work.asked[name] for name in names]))
    assert parts.total(first, second) == (set(names), len(users), of_part(intake.total, users))


def test_who_is_silent_counts_no_longer_until_its_successor_has_its_journal(parts: Parts) -> None:
    first, second = parts.replica("first"), parts.replica("second")
    name = sorted(parts.work.asked)[0]
    first._collector.take([parts.answer(name)])
    first.step(), second.step()
    assert taken(parts) == {name} and name in second._collector.elsewhere
    first.folder.close()  # as its death does
    parts.now += 6.0
    second.step()
    assert parts.coordinator.summary(0).live == 1 and taken(parts) == set()
    second.step()
    assert name not in second._collector.elsewhere  # asked again, unless
    third = parts.replica("third")
    assert taken(parts) == {name} == set(third._collector.taken)
    second.step()
    assert name in second._collector.elsewhere


def test_who_was_taken_for_dead_and_is_not_counts_again(parts: Parts) -> None:
    first, name = parts.replica("first"), sorted(parts.work.asked)[0]
    first._collector.take([parts.answer(name)])
    first.step()
    parts.now += 6.0
    assert parts.coordinator.summary(0).live == 0 and taken(parts) == set()
    first.step(), first.step()
    assert taken(parts) == {name}


def test_a_report_of_the_round_before_counts_for_nothing(parts: Parts) -> None:
    first = parts.replica("first")
    old = ReplicaReport(1, 1, {"node-01": Dealt(1.0, 1)}, True, 0, {}, (0, 0, 0), 0)
    parts.coordinator.begin("round", 1, b"", {})
    reply: CoordinatorReply = parts.coordinator.report("first", old)
    assert reply.instruction is not None and reply.instruction.number == 1 and taken(parts) == set()
    first.folder.close()


def test_the_log_of_a_replica_has_the_form_that_the_server_asks_for(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", rounds=1)
    with (
        closing(ServerFolder(made.server, log_format="json")) as held,
        closing(ReplicaFolder(replica_plan(held, tmp_path / "j"))) as folder,
    ):
        folder.log(LogLine("all is well", "note", round=3))
    (line,) = (
        json.loads(line)
        for path in (tmp_path / "j").rglob("replica.log")
        for line in path.read_text().splitlines()
    )
    assert line["round"] == 3 and line["text"] == "all is well"


def test_journals_of_a_dead_process_are_taken_over_and_those_of_a_living_one_are_not(
    parts: Parts,
) -> None:
    first, second = ReplicaFolder(parts.plan), ReplicaFolder(parts.plan)
    assert first._own != second._own
    first.close()
    third, fourth = ReplicaFolder(parts.plan), ReplicaFolder(parts.plan)
    assert third._own == first._own and fourth._own not in (first._own, second._own)
    for folder in (second, third, fourth):
        folder.close()


def test_another_version_on_a_machine_is_refused(parts: Parts) -> None:
    other: ReplicaPlan = parts.plan._replace(version="0.0.0")
    with pytest.raises(InputError, match="has entrenous"):
        Replica(other, "first", parts.coordinator.report)


def test_what_a_relay_has_not_heard_is_in_no_total(parts: Parts) -> None:
    """A part of two of its five users, beside the sums of two nodes at another replica: so many
    devices count, for the quorum too.
    """
    first, second = parts.replica("first"), parts.replica("second")
    relay, *others = sorted(parts.work.asked)
    users = parts.work.asked[relay]
    heard, total = users[:2], parts.contract.empty_total()._replace(devices=2)
    total.weight[:] = 2 << 16
    about = {"users": len(users), "heard": len(heard)}
    part = seal(
        parts.nodes[relay].key,
        "part",
        of_part(total, heard),
        run=parts.held.terms.run,
        node=relay,
        round=0,
        model=parts.work.model,
        items=parts.held.terms.items,
        about=about,
    )
    first._collector.take([part])
    second._collector.take([parts.answer(name) for name in others[:2]])
    first.step(), second.step()
    dealt = {
        node: one.devices for node, one in parts.coordinator.summary(0).events if one is not None
    }
    assert dealt == {relay: 2, **{name: len(parts.work.asked[name]) for name in others[:2]}}
    names, devices, body = parts.total(first, second)
    asked = np.sort(np.concatenate([parts.work.asked[name] for name in names]))
    assert names == {relay, *others[:2]} and devices == sum(dealt.values())
    merged, theirs = read_part(memoryview(body), parts.contract, asked, devices)
    assert (
        merged.devices == devices and set(heard) <= set(theirs) and not set(users[2:]) & set(theirs)
    )


def test_only_who_waited_before_the_last_report_is_ready(parts: Parts) -> None:
    """Whoever came since may have answered another replica, of which this one has not heard."""
    link = ReplicaLink(Traffic(once=True))

    async def two_come() -> None:
        link.traffic.begin()
        link.traffic.asks("early")
        link.look()
        link.traffic.asks("late")
        assert set(link.ready()) == {"early"}
        link.look()
        assert set(link.ready()) == {"early", "late"}

    asyncio.run(two_come())


def test_a_request_of_a_replica_is_handed_out_once() -> None:
    async def one_asks() -> None:
        traffic = Traffic(once=True)
        traffic.begin()
        question = traffic.asks("node")
        assert question is not None
        traffic._park("node", Parked(b"first", time.monotonic() + 9.0))
        assert await question == b"first" and traffic.parked("node") is None
        assert traffic.waits_for("node")  # the answer may come here, wherever the request came from
        traffic._park("node", Parked(b"second", time.monotonic() + 9.0))  # it has gone meanwhile
        assert traffic.parked("node") == b"second" and traffic.parked("node") is None

    asyncio.run(one_asks())
