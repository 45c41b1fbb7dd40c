"""The stages of a masked round between a server and its nodes, one of which, or the server, sends
hostile values, rightly signed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from entrenous_network.frames.contribution import check_total
from entrenous_network.frames.frames import Code, Frame, opened, signed_by
from entrenous_network.frames.request import RoundWork, announced_of
from entrenous_network.frames.secure import KINDS, sum_terms
from entrenous_network.node.node import FederatedNode
from entrenous_network.secure_sum import messages as stages
from entrenous_network.secure_sum.primitives import sign
from entrenous_network.secure_sum.refusal import SumRefused
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.server.collector import Collector
from entrenous_network.server.journal import Journal
from entrenous_network.server.secure_server import SecureRound
from entrenous_network.server.server import moved_on
from entrenous_network.server.server_folder import ServerFolder
from entrenous_network.wire import tensors
from federation_links import COHORT, by_lot, offering, ratings, server_of
from hostile_rounds import Sides, code_of, loaded, small
from hostile_values import Hostile, signed, taken_apart

from entrenous.core.contract.update import Total

MASKABLE = (
    "fpl",
    "fcf",
    "fedavg-neumf",
    "fedfast-gmf",
)  # rows; every item; dense arrays and weights; what is shown beside
TOGETHER = 20  # hostile messages in one round
LOW_ORDER = (
    bytes(32),
    b"\1" + bytes(31),
    (2**255 - 20).to_bytes(32, "little"),
    (2**255 - 19).to_bytes(32, "little"),
)


def other(hostile: Hostile, said: Any) -> Any:
    """Something of msgpack in which one part is another: a number, bytes, a list with one more or
    fewer or in another order.
    """
    draw = hostile.draw
    if isinstance(said, list) and said and draw.random() < 0.8:
        at = draw.randrange(len(said))
        return [*said[:at], other(hostile, said[at]), *said[at + 1 :]]
    if isinstance(said, list):
        return draw.choice([said[:-1], said[1:], said + said[:1], said[::-1], [], said * 2])
    if isinstance(said, bytes):
        return octets(hostile, said)
    return (
        hostile.number(-(2**63))
        if isinstance(said, int)
        else draw.choice(["", "node-02", "node-99", "x" * 200, str(said)])
    )


def octets(hostile: Hostile, said: bytes) -> bytes:
    """Other bytes, of the same length as a rule; where these are a key, one that nobody can agree
    with.
    """
    draw, n = hostile.draw, len(said)
    some = [
        bytes(n),
        b"\xff" * n,
        os.urandom(n),
        said[::-1],
        said[:-1],
        said + b"\0",
        b"",
        said[: n // 2] + b"\xff" + said[n // 2 + 1 :],
    ]
    return draw.choice([*some, *(LOW_ORDER if n == 32 else ())])


class Masked:
    """A federation whose rounds are masked, in one of which somebody lies. ended: whether a lie was
    taken, after which the round is lost, or is counted with it."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        rows = ratings(40)
        made = by_lot(
            folder / "f",
            rounds=1000,
            people=6,
            answers=1000,
            noise=0.0,
            bits=64,
            data=rows,
            algorithm=name,
            settings={**small(name), "cohort": COHORT},
            draws="secret",
            protect={"rows": "sorted"},
        )
        self.sides = Sides(folder, name, made=made, rows=rows)
        offering(self.sides.nodes)
        self.hostile, self.counts, self.folder = (
            Hostile(seed, self.sides.sizes),
            Counter[str](),
            folder,
        )
        self.server = server_of(ServerFolder(self.sides.made.server))
        self.server.folder.log = lambda line: None  # type: ignore[method-assign]
        self.number, self.done = 0, 0

    def begin(self) -> tuple[SecureRound, SecureSumServer]:
        """The next round, as `SecureRound` begins an attempt."""
        self.number, self.ended = self.number + 1, False
        self.server.round, sides = self.number, self.sides
        # Of one model a device is in one sum.
        sides.state = moved_on(sides.state, sides.algorithm, sides.contract)
        sides.whole = sides.algorithm.download(sides.state)
        model, asked = (
            announced_of(sides.contract, sides.whole),
            {name: node.shard.users for name, node in sides.nodes.items()},
        )
        collector = self.server.collecting
        assert isinstance(collector, Collector)
        found = SecureRound(collector, RoundWork(self.number, model, asked, sides.whole))
        terms = sum_terms(sides.terms, sides.contract, self.number, 0, model)
        found._largest, found._journal = 1 << 24, Journal(self.folder / f"{self.number}.journal")
        found._sum = SecureSumServer.rebuilt(terms, found._roll, [], found._record)
        return found, found._sum

    def run(self, towards: str, lies: int) -> int:
        """One round, with so many lies at one of its stages; unless one was taken, all nodes are in
        the sum. Returns how many it were: one that was taken is the last."""
        (found, own), before = self.begin(), self.counts.total()
        bad, at = (
            self.hostile.draw.choice(list(self.sides.nodes)),
            self.hostile.draw.randrange(len(KINDS)),
        )
        try:
            for stage in found._stages(0, own):
                for name, node in self.sides.nodes.items():
                    request = bytes(stage.request(name))
                    if (name, stage.number) == (bad, at) and towards == "nodes":
                        self.lie_to(node, request, lies)
                    answer = node.answer(request)
                    if (name, stage.number) == (bad, at) and towards == "server":
                        self.lie_back(found, own, node, answer, lies)
                    found.take([answer])
            self.check(found._total(own))
        except SumRefused:
            assert self.ended, "a round was lost though no lie was taken"
        finally:
            found._journal.close()
            found._journal.path.unlink()
            if (
                self.ended and towards == "nodes"
            ):  # it is in another attempt, to which the server has led it, until it starts again
                self.restart(bad)
        return self.counts.total() - before

    def close(self) -> None:
        """Ends it."""
        self.server.folder.close()
        self.sides.close()

    def restart(self, name: str) -> None:
        """A node that has died and come back."""
        self.sides.nodes[name].close()
        self.sides.nodes[name] = FederatedNode(self.sides.made.nodes[name])
        offering({name: self.sides.nodes[name]})

    def check(self, total: Total) -> None:
        """A sum that the devices can have; of all of them, if no lie was taken."""
        check_total(total, self.sides.contract, total.devices)
        assert self.ended or total.devices == len(self.sides.nodes)
        self.done += not self.ended

    # ---- the server lies -------------------------------------------------------------------------

    def lie_to(self, node: FederatedNode, request: bytes, lies: int) -> None:
        """Requests to one node before the good one."""
        for _ in range(lies):
            lie, before = self.question(opened(request)), self.of_node(node)
            answer = opened(node.answer(lie))
            assert signed_by(answer, node.key.public_key())
            self.counts[code_of(answer)] += 1
            if answer.head.kind == "refused":
                assert self.of_node(node) == before, code_of(answer)
            self.ended = answer.head.kind in KINDS
            if self.ended:
                return

    def question(self, found: Frame) -> bytes:
        """A request of the same stage, one part of which is another."""
        said, body, draw = taken_apart(found), bytes(found.body), self.hostile.draw
        if draw.random() < 0.2 or not body:
            said = self.hostile.head(said)
        elif found.head.kind == "mask":
            body = self.masks(body)
        else:
            body = msgspec.msgpack.encode(other(self.hostile, msgspec.msgpack.decode(body)))
        return signed(said, body, self.sides.key)

    def masks(self, body: bytes) -> bytes:
        """The body of a request to mask: another model, or other messages."""
        arrays = {name: array.copy() for name, array in loaded(body).items()}
        if self.hostile.draw.random() < 0.6:
            return tensors.write(self.hostile.arrays(arrays))
        inbox = msgspec.msgpack.encode(
            other(self.hostile, msgspec.msgpack.decode(arrays["inbox"].tobytes()))
        )
        return tensors.write({**arrays, "inbox": np.frombuffer(inbox, np.uint8)})

    @staticmethod
    def of_node(node: FederatedNode) -> Any:
        """All that a node keeps, on its disk and of the attempt."""
        side = node._kinds["share"].__self__  # type: ignore[attr-defined]
        client = side._client
        rows = [
            node.store.connection.execute(f"select * from {table}").fetchall()
            for table in ("state", "answer", "model", "fact")
        ]
        if client is None:
            return rows
        secret = [
            id(vars(client).get("_secrets")),
            list(client._answers),
            client.used,
            client._sharers,
            client._survivors,
        ]
        return (
            rows,
            id(client),
            secret,
            list(client._views),
            dict(vars(client).get("_held", {})),
            dict(side._answers),
        )

    # ---- a node lies -----------------------------------------------------------------------------

    def lie_back(
        self,
        found: SecureRound,
        own: SecureSumServer,
        node: FederatedNode,
        answer: bytes,
        lies: int,
    ) -> None:
        """Answers of one node before the good one."""
        intake = self.server.collecting.intake
        for _ in range(lies):
            lie, before, counted = (
                self.reply(own, node, opened(answer)),
                self.of_sum(found, own),
                intake.counts.copy(),
            )
            found.take([lie])
            (code,) = intake.counts - counted
            self.counts[code.value] += 1
            if code is not Code.ACCEPTED:
                assert self.of_sum(found, own) == before, code
            self.ended = code is Code.ACCEPTED
            if self.ended:
                return

    def reply(self, own: SecureSumServer, node: FederatedNode, found: Frame) -> bytes:
        """An answer of the same stage, one part of which is another; what is signed within is
        signed anew.
        """
        said, body, draw = taken_apart(found), bytes(found.body), self.hostile.draw
        if draw.random() < 0.2:
            return signed(self.hostile.head(said), body, node.key)
        if found.head.kind != "mask":
            return signed(said, self.message(own, node, body), node.key)
        arrays = {name: array.copy() for name, array in loaded(body).items()}
        if draw.random() < 0.4:
            return signed(said, tensors.write(self.hostile.arrays(arrays)), node.key)
        message = np.frombuffer(self.message(own, node, arrays["message"].tobytes()), np.uint8)
        return signed(said, tensors.write({**arrays, "message": message}), node.key)

    def message(self, own: SecureSumServer, node: FederatedNode, data: bytes) -> bytes:
        """A message of the sum with another body or head, which the node's own key has signed."""
        one = stages.decode(data, stages.Signed, len(data))
        if self.hostile.draw.random() < 0.3:
            return msgspec.msgpack.encode(other(self.hostile, msgspec.msgpack.decode(data)))
        body = self.inner(one.stage, one.body)
        said = stages.statement(
            own._digest, one.stage, one.sender, own._views[one.stage], hashlib.sha256(body).digest()
        )
        fresh = sign(node.key.private_bytes_raw(), said)
        return stages.encode(
            stages.Signed(one.stage, one.round, one.attempt, one.sender, body, fresh)
        )

    def inner(self, stage: int, body: bytes) -> bytes:
        """What a node says at a stage: keys, boxes, a masked vector, nothing, shares."""
        if stage in (stages.ADVERT, stages.SHARES):
            return msgspec.msgpack.encode(other(self.hostile, msgspec.msgpack.decode(body)))
        if stage == stages.MASKED and self.hostile.draw.random() < 0.7:
            return self.hostile.revalued(np.frombuffer(body, np.uint64)).tobytes()
        return octets(self.hostile, body)

    def of_sum(self, found: SecureRound, own: SecureSumServer) -> Any:
        """All that the server has of the attempt."""
        parts = (
            own.stage,
            own._said,
            own._envelopes,
            own._names,
            own._lists,
            own._boxes,
            own._shares,
            own._views,
        )
        shown = {
            name: [part.sender.tobytes() for part in parts] for name, parts in found._shown.items()
        }
        return (
            repr(parts),
            own._sum.tobytes(),
            shown,
            set(found._gone),
            found._journal.path.stat().st_size,
        )


def lying(towards: str, count: int, seed: int, name: str) -> Counter[str]:
    """So many lies within masked rounds, `towards` "nodes" or "server", by code."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        made = Masked(folder, name, seed)
        while count > 0:
            count -= made.run(towards, min(count, TOGETHER))
        made.run(towards, 0)
        assert made.done
        made.close()
        return made.counts
    finally:
        shutil.rmtree(folder)
