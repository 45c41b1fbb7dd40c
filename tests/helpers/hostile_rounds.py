"""A server and its nodes that send each other hostile values, rightly signed: what the other end
makes of them, and what it keeps.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from entrenous_network.agreement.files import public_bytes, read_identity
from entrenous_network.frames import contribution
from entrenous_network.frames.contribution import check_total, shown_schema
from entrenous_network.frames.frames import Code, Frame, opened, seal, signed_by
from entrenous_network.frames.request import announced_of, write_download
from entrenous_network.server.intake import Open, RoundIntake
from entrenous_network.server.journal import Journal
from entrenous_network.server.server_folder import ServerFolder
from entrenous_network.wire import tensors
from federation_links import federation, nodes_of, simulated
from hostile_values import Hostile, finite, signed, taken_apart

from entrenous.core.contract.declared import Contract, is_federated
from entrenous.core.contract.enforce import check_kept, check_received
from entrenous.core.contract.protocols import (
    State,
    arrays_of,
    model_sha256,
    state_of,
)
from entrenous.core.contract.update import LIMIT
from entrenous.core.errors import EntrenousError
from entrenous.core.types import Array, Int64Array
from entrenous.systems.named import algorithms, kind_of

SMALL: dict[str, Any] = {
    "factors": 4,
    "clusters": 3,
    "layers": (4,),
    "triples": 5,
    "user": 4,
    "taste": 16,
    "hidden": 16,
    "cohort": 0,
    "local_epochs": 1,
    "negatives": 2,
}
MANY = 1_000_000  # rounds
FAR = LIMIT**0.5
AGAIN = 20  # hostile messages, after which a correct one must still do
FORESEEN = ("NonFiniteError", "NotFiniteError", "ContractError", "InputError", "EntrenousError")
NODES = ("node-1", "node-2", "node-3", "node-4")


def with_server() -> list[str]:
    """The names of all algorithms that have a server."""
    return [name for name, make in sorted(algorithms().items()) if is_federated(make())]


def small(name: str) -> dict[str, Any]:
    """Settings of an algorithm that make it quick."""
    kind, preset = kind_of(name)
    return {
        one: value for one, value in SMALL.items() if one in kind.model_fields and one not in preset
    }


class Sides:
    """A federation of four nodes with five users each, after two rounds, and both ends of it.
    draws: of its nodes.
    """

    def __init__(self, folder: Path, name: str, draws: str) -> None:
        self.made = federation(folder / "f", 4, MANY, name, settings=small(name), draws=draws)
        self.terms, self.run = self.made.terms, self.made.terms.run
        self.key = read_identity(self.made.server / "identity.key")
        self.nodes = nodes_of(self.made)
        self.algorithm: Any = self.terms.make()
        self.contract: Contract = next(iter(self.nodes.values())).contract
        self.state: State = simulated(self.made, rounds=2).server
        self.whole = self.algorithm.download(self.state)
        self.sizes = [*self.contract.sizes.values(), self.contract.groups, 5]

    def close(self) -> None:
        """Ends it."""
        for node in self.nodes.values():
            node.close()

    def head(self, kind: str, number: int, users: int, model: bytes) -> dict[str, Any]:
        """What the server says of a request."""
        said = {
            "round": number,
            "items": self.terms.items,
            "model": model,
            "about": {"users": users, "start": 0},
        }
        return taken_apart(opened(seal(self.key, kind, run=self.run, node="server", **said)))

    def request(self, kind: str, number: int, users: Int64Array) -> bytes:
        """A correct request."""
        body = b"".join(
            write_download(
                self.contract.delivered(self.whole, users),
                {"users": users} if kind == "work" else {},
            )
        )
        return signed(
            self.head(kind, number, len(users), announced_of(self.contract, self.whole)),
            body,
            self.key,
        )


# ---- the server lies to a node -------------------------------------------------------------------


class LyingServer:
    """Requests with hostile values to one node, and whether it refuses or has kept nothing that it
    should not.
    """

    def __init__(self, folder: Path, name: str, seed: int, draws: str) -> None:
        self.sides = Sides(folder, name, draws)
        self.hostile, self.counts = Hostile(seed, self.sides.sizes), Counter[str]()
        self.node = self.sides.nodes["node-1"]
        self.users, self.tries = self.node.shard.users, 0
        self.first = self.private()

    def kept(self) -> list[Any]:
        """All that is on the node's disk."""
        return [
            self.node.store.connection.execute(f"select * from {table}").fetchall()
            for table in ("state", "answer", "model", "fact")
        ]

    @property
    def round(self) -> int:
        """The number of the next round of the node."""
        found = self.node.store.newest_state()
        assert found is not None
        return found[0]

    def lie(self) -> bytes:
        """A signed request, most of it correct."""
        sides, draw, kind = (
            self.sides,
            self.hostile.draw,
            self.hostile.draw.choice(("work", "work", "work", "model")),
        )
        users = self.users if kind == "model" else self.some()
        arrays = {
            name: array.view(np.uint8) if array.dtype == np.bool_ else array
            for name, array in arrays_of(sides.contract.delivered(sides.whole, users)).items()
        }
        arrays |= {"users": users} if kind == "work" else {}
        if draw.random() < 0.85:
            arrays = self.hostile.arrays(arrays)
        said = sides.head(kind, self.round, len(users), self.announced(arrays))
        if draw.random() < 0.3:
            said = self.hostile.head(said)
        return signed(
            said,
            tensors.write(arrays),
            sides.key,
        )

    def some(self) -> Int64Array:
        """One of the node's users, some, or all."""
        m = self.hostile.draw.choice((1, 1, 3, 5))
        return np.sort(np.array(self.hostile.draw.sample(self.users.tolist(), m), np.int64))

    def announced(self, arrays: dict[str, Array]) -> bytes:
        """The hash of the model as it is, which a lying server announces."""
        flags = {field.name for field in self.sides.contract.receives if field.dtype == "bool"}
        shared = {
            name: arrays[name] != 0 if name in flags else arrays[name]
            for name in self.sides.contract.shared
            if name in arrays
        }
        return bytes.fromhex(model_sha256(shared))

    def try_one(self) -> None:
        """One lie; then, now and then, a correct request, which must do."""
        request, before = self.lie(), self.kept()
        found = opened(self.node.answer(request))
        assert (
            signed_by(found, public_bytes(self.node.key).hex()) and found.head.run == self.sides.run
        )
        self.counts[code_of(found)] += 1
        if found.head.kind == "refused":
            assert self.kept() == before, code_of(found)
        else:
            self.check(found)
        self.tries += 1
        if self.tries % AGAIN == 0:
            self.do()

    def check(self, found: Frame) -> None:
        """What was accepted was legal: all that is kept, and all that is sent, is finite and within
        what is declared.
        """
        newest, model, sides = self.node.store.newest_state(), self.node.store.model(), self.sides
        assert newest is not None and finite(newest[1])
        keeps, receives = sides.contract.declaration.keeps, sides.contract.declaration.receives
        assert keeps is not None and receives is not None
        check_kept(sides.contract, state_of(keeps, newest[1]), len(self.users))
        if model is not None:
            assert finite(model[1])
            check_received(sides.contract, receives(**model[1]), len(self.users))
        if found.head.kind == "taken":
            self.recommend()
        if found.head.kind in ("update", "sum"):
            self.read(found)

    def recommend(self) -> None:
        """Scores by the stored model, which may be nonsense, and may be refused in one line."""
        with suppress(EntrenousError), np.errstate(all="ignore"):
            assert self.node.recommender()[1].scores(np.arange(len(self.users))).shape == (
                len(self.users),
                self.sides.terms.items,
            )

    def read(self, found: Frame) -> None:
        """What a node sends is such as its server takes, whatever it was asked with."""
        m, users = found.head.about["users"], self.users
        if found.head.kind == "update":
            user = next((int(u) for u in users if self.sender_is(found, int(u))), int(users[0]))
            contribution.read_update(found.body, self.sides.contract, user)
        else:
            fields = shown_schema(self.sides.contract, m)
            shown = self.senders(found) if fields else users[:m]
            contribution.read_total(found.body, self.sides.contract, shown)

    def sender_is(self, found: Frame, user: int) -> bool:
        """Whether an update says that it is of a user; one without a sender is of anybody."""
        return not self.sides.contract.way("shown") or self.senders(found).tolist() == [user]

    def senders(self, found: Frame) -> Int64Array:
        """Who shows something in an answer."""
        from safetensors.numpy import load

        return np.sort(load(bytes(found.body))["sender"])

    def do(self) -> None:
        """A correct request, which is answered; unless lies that were legal, each a step, have led
        the private numbers far away: then the node begins anew."""
        found = opened(self.node.answer(self.sides.request("work", self.round, self.users)))
        if found.head.kind == "refused" and self.far():
            self.counts["(begun anew)"] += 1
            self.renew(self.first)
            found = opened(self.node.answer(self.sides.request("work", self.round, self.users)))
        assert found.head.kind == "sum", (code_of(found), bytes(found.body))
        self.check(found)
        if self.round > MANY // 2:
            self.renew()

    def far(self) -> bool:
        """Whether private numbers are so large that what is made of two of them is more than an
        update can say.
        """
        return any(bool(np.abs(array).max(initial=0) > FAR) for array in self.private().values())

    def private(self) -> dict[str, Array]:
        """The node's private arrays."""
        found = self.node.store.newest_state()
        assert found is not None
        return found[1]

    def renew(self, private: dict[str, Array] | None = None) -> None:
        """As the node's owner may: its rounds begin anew, with the private state of now, or
        another.
        """
        now = self.private() if private is None else private
        with self.node.store.connection as db:
            for table in ("state", "answer", "model"):
                db.execute(f"delete from {table}")
        self.node.store.begin(now)


def code_of(found: Frame) -> str:
    """What became of a request; of one that failed, the class of the error, which must be one that
    is foreseen.
    """
    if found.head.kind != "refused":
        return f"answered: {found.head.kind}"
    code, _, text = bytes(found.body).decode().partition("\n")
    assert code != Code.FAILED.value or text in FORESEEN, text
    return f"{code}: {text}" if code == Code.FAILED.value else code


# ---- a node lies to the server -------------------------------------------------------------------


class LyingNode:
    """Answers with hostile values to a server's open round, and whether it refuses, or what it
    counts is such as devices may send.
    """

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        self.sides = sides = Sides(folder, name, "public")
        self.hostile, self.counts = Hostile(seed, sides.sizes), Counter[str]()
        self.held, self.tries, self.path = ServerFolder(sides.made.server), 0, folder / "journal"
        self.asked = {
            one: node.shard.users[:m]
            for (one, node), m in zip(sides.nodes.items(), (1, 5, 3, 1), strict=True)
        }
        self.model = announced_of(sides.contract, sides.whole)
        self.good = {
            one: sides.nodes[one].answer(sides.request("work", 1, users))
            for one, users in self.asked.items()
        }
        self.journal: Journal | None = None
        self.begin()

    def begin(self) -> None:
        """Opens the round anew: one good answer is in it."""
        if self.journal is not None:
            self.journal.close()
        self.path.unlink(missing_ok=True)
        self.journal = Journal(self.path)
        self.intake = RoundIntake(
            self.sides.terms, self.held.members, self.sides.contract, lambda line: None
        )
        self.intake.begin(Open(1, self.model, self.asked), self.journal, [])
        assert self.intake.receive(self.good["node-4"]).code is Code.ACCEPTED

    def kept(self) -> bytes:
        """All that the server has of the round."""
        total, size = self.intake.total, self.path.stat().st_size
        shown = [array for part in total.shown for array in (part.sender, *part.arrays.values())]
        arrays = (*total.rows.values(), *total.dense.values(), total.senders, total.weight, *shown)
        return (
            b"".join(array.tobytes() for array in arrays)
            + repr((size, total.devices, self.intake.taken)).encode()
        )

    def lie(self, name: str) -> bytes:
        """A signed answer, most of it correct."""
        found, draw = opened(self.good[name]), self.hostile.draw
        said, body = taken_apart(found), bytes(found.body)
        if draw.random() < 0.85:
            read = {one: array.copy() for one, array in loaded(body).items()}
            body = tensors.write(self.hostile.arrays(read))
        if draw.random() < 0.2:
            said = self.hostile.head(said)
        return signed(
            said,
            body,
            self.sides.nodes[name].key,
        )

    def try_one(self) -> None:
        """One lie; then, now and then, the node's good answer, which must be taken."""
        name = self.hostile.draw.choice(NODES[:3])
        lie, before = self.lie(name), self.kept()
        code = self.intake.receive(lie).code
        self.counts[code.value] += 1
        self.tries += 1
        if code is Code.ACCEPTED:
            self.check()
        else:
            assert self.kept() == before, code
            if self.tries % AGAIN:
                return
            assert self.intake.receive(self.good[name]).code is Code.ACCEPTED
        self.begin()

    def check(self) -> None:
        """What was counted is a sum that the devices can have, and the model that follows from it
        is finite.
        """
        total = self.intake.total
        check_total(total, self.sides.contract, total.devices)
        after = self.sides.algorithm.aggregate(self.sides.state, total)
        assert finite(arrays_of(after)), "the model"

    def close(self) -> None:
        """Ends it."""
        self.held.close()
        self.sides.close()


def loaded(body: bytes) -> dict[str, Array]:
    """The arrays of a body."""
    from safetensors.numpy import load

    return dict(load(body))


# ---- both, many times ----------------------------------------------------------------------------


def lying_server(name: str, count: int, seed: int) -> Counter[str]:
    """So many lies of a server to a node, by code."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        made = LyingServer(folder, name, seed, ("secret", "public")[seed % 2])
        for _ in range(count):
            made.try_one()
        made.do()
        made.sides.close()
        return made.counts
    finally:
        shutil.rmtree(folder)


def lying_nodes(name: str, count: int, seed: int) -> Counter[str]:
    """So many lies of nodes to their server, by code."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        made = LyingNode(folder, name, seed)
        for _ in range(count):
            made.try_one()
        made.close()
        return made.counts
    finally:
        shutil.rmtree(folder)
