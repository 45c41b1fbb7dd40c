"""The coordinator of replicas, and replicas, without Ray: calls in this process, one after the other, in a time of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from federation_links import federation, nodes_of

from entrenous.core.errors import InputError
from entrenous.deploy.contribution import agreed, of_total
from entrenous.deploy.coordinator import Coordinator, CoordinatorReply, ReplicaPlan, ReplicaReport
from entrenous.deploy.founding import FoundedFederation
from entrenous.deploy.intake import Open, RoundIntake
from entrenous.deploy.ray_serve import replica_plan, stored
from entrenous.deploy.replica import Replica, ReplicaFolder
from entrenous.deploy.request import Requests, RoundWork
from entrenous.deploy.rounds import round_work, standing
from entrenous.deploy.server_folder import ServerFolder


class Parts:
    """A server's round, its nodes, a coordinator, and replicas by name. now: seconds."""

    def __init__(self, made: FoundedFederation, held: ServerFolder, journals: Path) -> None:
        self.now, self.held, self.nodes = 0.0, held, nodes_of(made)
        self.plan = replica_plan(held, journals)
        self.coordinator = Coordinator(self.plan, lambda: self.now)
        algorithm = held.terms.make()
        self.contract = agreed(algorithm, held.terms.catalogue)
        _, state, _ = standing(held, algorithm)
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
        asked = Requests(self.held.key, self.held.terms, self.contract, self.held.start).work(self.work, self.work.asked[name])
        return self.nodes[name].answer(asked)

    def total(self, *replicas: Replica) -> tuple[frozenset[str], bytes]:
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
    for node, length in parts.coordinator.summary(0).events:
        (found.add if length >= 0.0 else found.discard)(node)
    return found


def test_the_total_has_each_node_once(parts: Parts) -> None:
    """One node is with both replicas, as when the first died before it could say so."""
    first, second = parts.replica("first"), parts.replica("second")
    names = sorted(parts.work.asked)
    first._collector.take([parts.answer(name) for name in names[:2]])
    second._collector.take([parts.answer(name) for name in names[1:]])
    first.step(), second.step()
    assert taken(parts) == set(names)
    intake = RoundIntake(parts.held.terms.run, parts.held.roll, parts.contract, lambda text: None)
    intake.begin(Open(0, parts.work.model, parts.work.asked), None, [parts.answer(name) for name in names])
    assert parts.total(first, second) == (set(names), of_total(intake.total))


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
    old = ReplicaReport(1, 1, {"node-01": 1.0}, True, 0, {}, (0, 0, 0), 0)
    parts.coordinator.begin("round", 1, b"", {})
    reply: CoordinatorReply = parts.coordinator.report("first", old)
    assert reply.instruction is not None and reply.instruction.number == 1 and taken(parts) == set()
    first.folder.close()


def test_journals_of_a_dead_process_are_taken_over_and_those_of_a_living_one_are_not(parts: Parts) -> None:
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
