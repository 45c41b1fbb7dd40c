"""A server that tells one node something else than the others gets nothing from it (C1).

The attack (Pasquini, Francati, Ateniese, "Eluding secure aggregation in federated learning via
model inconsistency", CCS 2022): announce one model to all, then give the victim a model to which it
answers loudly, and the others one to which they answer with nothing. The sum is the victim's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from bad_answers import framed
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.frames.agreed_model import (
    OfferedModel,
    check_agreed,
    written,
)
from entrenous_network.frames.frames import (
    Code,
    FrameParts,
    FrameRefused,
    opened,
)
from entrenous_network.frames.request import RoundWork, announced_of
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.secure_sum import messages as stages
from entrenous_network.secure_sum.messages import Roster, SignedAdvert
from entrenous_network.server.collector import Collector
from entrenous_network.server.secure_server import SecureRound
from entrenous_network.server.server_folder import ServerFolder
from entrenous_network.wire.statement import DOMAIN, shared_head
from federation_links import (
    FaultyLink,
    by_lot,
    nodes_of,
    offering,
    ratings,
    server_of,
    unasked,
)
from msgspec.structs import replace

from entrenous.core.contract.protocols import State
from entrenous.systems.named import kind_of

VICTIM = "node-02"
ALGORITHMS = ["fcf", "fpl"]


class Masked(NamedTuple):
    """A masked round that is about to ask for masked vectors, and what it asks by."""

    round: SecureRound
    nodes: dict[str, FederatedNode]
    work: RoundWork

    def request(self, stage: int, name: str, work: RoundWork | None = None) -> FrameParts:
        """The server's request of a stage to one node; work: another one than the round's."""
        round_, own = self.round, self.round._sum
        assert own is not None
        if work is not None:
            round_._work = work
        try:
            return round_._stages(0, own)[stage].request(name)
        finally:
            round_._work = self.work

    def told(self, stage: int, name: str, work: RoundWork | None = None) -> tuple[str, str]:
        """The kind of a node's answer, and its text if that is a refusal."""
        answer = opened(self.nodes[name].answer(bytes(self.request(stage, name, work))))
        refused = answer.head.kind == "refused"
        return answer.head.kind, bytes(answer.body).decode() if refused else ""

    def hear(self, stage: int) -> None:
        """One honest stage, of all nodes."""
        for name, node in self.nodes.items():
            self.round.take([node.answer(bytes(self.request(stage, name)))])


def until(tmp_path: Path, stage: int, algorithm: str) -> Masked:
    """A round of twelve nodes that is honest up to a stage."""
    made = by_lot(tmp_path / "f", algorithm=algorithm, profile="private")
    held = ServerFolder(made.server)
    own = server_of(held)
    download = own.algorithm.download(own.state)
    asked = held.members.by_node(np.arange(12))
    work = RoundWork(0, announced_of(own.contract, download), asked, download)
    link = FaultyLink({})
    found = SecureRound(Collector(held, own.contract, link, own._stop), work)
    found._hear = lambda stage, own: iter(())  # type: ignore[method-assign]
    found._total = lambda own: own  # type: ignore[assignment,return-value,method-assign]
    unasked(found._attempt(0, held.journal(0, 0)))
    nodes = nodes_of(made, asked)
    offering(nodes)
    masked = Masked(found, nodes, work)
    for before in range(stage):
        masked.hear(before)
    return masked


def closed(masked: Masked) -> None:
    for node in masked.nodes.values():
        node.close()
    masked.round._journal.close()
    masked.round._folder.close()


def louder(download: State, field: str) -> State:
    """A download with other numbers in one array, as a server makes them for its victim."""
    array = getattr(download, field)
    changed = array + np.ones(1, array.dtype) if array.dtype != np.bool_ else ~array
    return download._replace(**{field: changed})  # type: ignore[attr-defined,no-any-return]


def fields(algorithm: str) -> list[str]:
    """The arrays of a download that devices train from."""
    return list(kind_of(algorithm)[0].receives._fields)  # type: ignore[attr-defined]


CASES = [(algorithm, field) for algorithm in ALGORITHMS for field in fields(algorithm)]


@pytest.mark.parametrize(("algorithm", "field"), CASES)
@pytest.mark.parametrize("claim", ["its own", "the announced"])
def test_a_model_made_for_one_node_gets_no_answer(
    tmp_path: Path, algorithm: str, field: str, claim: str
) -> None:
    """C1: 74 of 74 items of a history in one round, and no node refused. FCF's Gram matrix, too,
    is of the model that all sign: a false one made the victim's numbers louder."""
    masked = until(tmp_path, stages.MASKED, algorithm)
    contract = masked.round._contract
    loud = louder(masked.work.download, field)
    digest = announced_of(contract, loud)
    assert digest != masked.work.model
    said = digest if claim == "its own" else masked.work.model
    work = masked.work._replace(download=loud, model=said)
    kind, text = masked.told(stages.MASKED, VICTIM, work)
    assert kind == "refused" and text.startswith(("wrong-model", "malformed")), text
    masked.hear(stages.MASKED)  # and the honest server goes on with everybody
    own = masked.round._sum
    assert own is not None and own.heard(stages.MASKED) == set(masked.nodes)
    closed(masked)


@pytest.mark.parametrize("stage", range(1, len(stages.STAGES)))
@pytest.mark.parametrize("about", ["model", "users"])
def test_each_stage_is_about_what_the_first_one_was_about(
    tmp_path: Path, stage: int, about: str
) -> None:
    masked = until(tmp_path, stage, "fpl")
    other = masked.work._replace(model=bytes(32))
    round_ = masked.round
    before = round_._now
    if about == "model":
        round_._now = before._replace(model=other.model)
    else:
        fewer = {name: users[:-1] for name, users in before.asked.items()}
        round_._now = before._replace(asked=fewer)
        other = masked.work._replace(asked=fewer)
    kind, text = masked.told(stage, VICTIM, other)
    round_._now = before
    assert kind == "refused"
    assert text.startswith("wrong-model" if about == "model" else "wrong-count"), text
    masked.hear(stage)
    own = round_._sum
    assert own is not None and own.heard(stage) == set(masked.nodes)
    closed(masked)


OTHER_HEADS: dict[str, dict[str, Any]] = {
    "another view": {"view": bytes(32)},
    "no view": {"view": b""},
    "another attempt": {"attempt": 1},
    "another model": {"model": bytes(32)},
}


@pytest.mark.parametrize("wrong", OTHER_HEADS)
def test_a_message_under_another_head_counts_for_nothing(tmp_path: Path, wrong: str) -> None:
    """The sender has signed it, but the other parties would build another head."""
    masked = until(tmp_path, stages.SHARES, "fpl")
    node = masked.nodes[VICTIM]
    good = node.answer(bytes(masked.request(stages.SHARES, VICTIM)))
    frame = opened(good)
    said = msgspec.msgpack.encode(msgspec.structs.replace(frame.head, **OTHER_HEADS[wrong]))
    masked.round.take([framed(said, node.key, bytes(frame.body))])
    # Of the very head, but by another key.
    stranger = Ed25519PrivateKey.generate()
    masked.round.take([framed(frame.said, stranger, bytes(frame.body))])
    own = masked.round._sum
    assert own is not None and not own.heard(stages.SHARES)
    counts = masked.round._collector.intake.counts
    assert (counts[Code.NOT_SUMMED], counts[Code.BAD_SIGNATURE]) == (1, 1)
    masked.round.take([good])
    assert own.heard(stages.SHARES) == {VICTIM}
    closed(masked)


# ---- the trained model ---------------------------------------------------------------------------


def of_four(folder: Path) -> FoundedFederation:
    """A federation in which a model is kept that four nodes have."""
    few = ratings(20)
    return by_lot(folder, rounds=2, people=4, cohort=5, data=few, algorithm="fpl")


def test_a_node_says_of_one_trained_model_a_round_that_it_has_come(tmp_path: Path) -> None:
    """Else a server could show two models to all, and have a quorum for each; also over a
    restart.
    """
    made = of_four(tmp_path / "f")
    held = ServerFolder(made.server)
    own = server_of(held)
    requests = Collector(held, own.contract, FaultyLink({}), own._stop).requests
    first = own.algorithm.download(own.state)
    everyone = {name: member.users for name, member in held.members.nodes.items()}

    def told(download: State, number: int) -> str:
        node = FederatedNode(made.nodes["node-01"])  # started anew for each question
        work = RoundWork(number, b"", everyone, download)
        answer = opened(node.answer(bytes(requests.model(work, everyone["node-01"]))))
        node.close()
        return answer.head.kind if answer.head.kind == "taken" else bytes(answer.body).decode()

    second = louder(first, "q")
    assert [told(first, 1), told(first, 1)] == ["taken", "taken"]
    assert told(second, 1).startswith("conflict")
    assert told(second, 2) == "taken"
    assert told(first, 1).startswith("past-round")
    held.close()


def test_words_of_others_that_are_none_are_refused(tmp_path: Path) -> None:
    made = of_four(tmp_path / "f")
    nodes = nodes_of(made)
    names = sorted(nodes)[:5]
    offered = OfferedModel(2, bytes(32), {})
    members = Members.read(made.server / MEMBERS, made.terms.users)

    def word(name: str, entry: str = "", signer: str = "", **more: Any) -> SignedAdvert:
        about = {"kind": "taken", "number": 2, "view": bytes(32), "run": made.terms.run, **more}
        said = shared_head(**about, attempt=0, sender=name)
        signature = nodes[signer or name].key.sign(DOMAIN + said)
        return SignedAdvert(members.entry(entry or name), signature, b"")

    def check(passed_on: object) -> None:
        body = memoryview(msgspec.msgpack.encode(passed_on))
        check_agreed(body, offered, made.terms, members.head)

    good = [word(name) for name in names]
    check(good)
    # As many words go on as a node needs.
    said = {name: one.signature for name, one in zip(names, good, strict=True)}
    assert msgspec.msgpack.decode(written(said, members, made.terms), type=Roster) == good[:4]
    assert not written(dict([*said.items()][:3]), members, made.terms)
    check(good[:4])
    other = replace(good[3].entry, leaf=replace(good[3].entry.leaf, key=bytes(32)))
    for bad in (
        good[0],  # a word counts once
        word(names[3], view=bytes([1] * 32)),
        word(names[3], number=1),
        word(names[3], run="0" * 32),
        word(names[3], kind="kept"),
        word(names[3], signer=names[4]),
        word(names[3], names[4]),
        replace(good[3], entry=other),
    ):
        with pytest.raises(FrameRefused):
            check([*good[:3], bad])
