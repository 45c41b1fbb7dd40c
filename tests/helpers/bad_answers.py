"""A round of a server that takes answers, and answers that are wrong in one way each, for tests."""

from __future__ import annotations

import gzip
import hashlib
import os
import pickle
import random
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.files import read_identity
from entrenous_network.frames import frames
from entrenous_network.frames.frames import Code, seal
from entrenous_network.node.node import FederatedNode
from entrenous_network.server.intake import Open, RoundIntake
from entrenous_network.server.journal import Journal, read
from entrenous_network.server.server_folder import ServerFolder
from entrenous_network.wire import tensors
from entrenous_network.wire.statement import DOMAIN
from federation_links import federation, server_of
from safetensors.numpy import load

from entrenous.core.contract.protocols import arrays_of, model_sha256
from entrenous.core.keys import key

BAD, OTHER, CALM = "node-01", "node-02", "node-03"  # of 20 with one user each


class Desk:
    """A server's intake in round 1, and its nodes, one of which, `calm`, has answered already."""

    def __init__(self, tmp_path, nodes: int, calm: str) -> None:
        self.founded, self.calm = federation(tmp_path / "federation", nodes=nodes), calm
        self.folder = ServerFolder(self.founded.server)
        self.server = server_of(self.folder)
        few = list(self.founded.nodes.items())[:3]
        self.nodes = {name: FederatedNode(folder) for name, folder in few}
        self.keys = {name: read_identity(folder / "identity.key") for name, folder in few}
        algorithm, catalogue = self.server.algorithm, self.founded.terms.catalogue
        self.state = algorithm.init_server(catalogue, key(1, "server"))
        self.download = algorithm.download(self.state)
        self.model = bytes.fromhex(model_sha256(arrays_of(self.download)))
        self.contract = self.server.contract
        self.lines: list[str] = []
        self.journal = Journal(self.founded.server / "desk.journal")

    def fresh(self) -> Desk:
        """As at the start."""
        self.lines.clear()
        self.journal.close()
        self.journal.path.unlink()
        self.journal = Journal(self.journal.path)
        self.intake = self.begun(1)
        assert self.intake.receive(self.good(self.calm)).code is Code.ACCEPTED
        return self

    def begun(self, number: int) -> RoundIntake:
        """An intake with a round open, as a process that starts again has it."""
        asked = self.folder.members.by_node(np.arange(self.founded.terms.users))
        intake = RoundIntake(
            self.founded.terms, self.folder.members, self.contract, self.lines.append
        )
        intake.begin(
            Open(number, self.model, asked),
            self.journal,
            read(self.journal.path).records,
        )
        return intake

    def good(self, name: str, number: int = 1) -> bytes:
        """What the node itself answers."""
        users = self.nodes[name].shard.users
        body = tensors.write({**arrays_of(self.download), "users": users})
        about = {"users": len(users)}
        request = seal(
            self.folder.key,
            "work",
            body,
            run=self.founded.terms.run,
            node="server",
            round=number,
            model=self.model,
            items=self.founded.terms.items,
            about=about,
        )
        return self.nodes[name].answer(request)

    def close(self) -> None:
        self.journal.close()
        self.folder.close()
        for node in self.nodes.values():
            node.close()

    def model_if_closed(self) -> str:
        """The sha256 of the model that the round would end with, and of all that was summed."""
        total = self.intake.total
        after = arrays_of(self.server.algorithm.aggregate(self.state, total))
        return model_sha256(
            {
                **after,
                **{f"total.{name}": rows for name, rows in total.rows.items()},
                "senders": total.senders,
            }
        )


def built(said: dict[str, Any], body: bytes, signer: Any, **head: Any) -> bytes:
    """A signed frame with whatever head, also one that lies."""
    whole = {
        **said,
        "size": len(body),
        "digest": hashlib.sha256(body).digest(),
        **head,
    }
    packed = msgspec.msgpack.encode(list(whole.values()))
    return framed(packed, signer, body)


def framed(said: bytes, signer: Ed25519PrivateKey, body: bytes = b"") -> bytes:
    """A frame of whatever bytes as its head, rightly signed."""
    return bytes(frames.framed(said, signer.sign(DOMAIN + said), [body]))


class Taken:
    """A good answer taken apart, to be put together with something wrong. arrays: of the body."""

    def __init__(self, desk: Desk, name: str = BAD) -> None:
        self.desk, self.good = desk, desk.good(name)
        frame = frames.opened(self.good)
        self.said, self.body, self.key = (
            msgspec.structs.asdict(frame.head),
            bytes(frame.body),
            desk.keys[name],
        )
        self.arrays = {name: array.copy() for name, array in load(self.body).items()}

    def head(self, **changed: Any) -> bytes:
        return built(self.said, self.body, self.key, **changed)

    def arr(self, **changed: Any) -> bytes:
        """With other arrays; a name with _ for the dot."""
        named = {name.replace("row_", "row.", 1): array for name, array in changed.items()}
        return self.raw(tensors.write({**self.arrays, **named}))

    def raw(self, body: bytes) -> bytes:
        """With another body, signed."""
        return built(self.said, body, self.key)

    def value(self, value: float) -> bytes:
        rows = self.arrays["row.q"].copy()
        rows[1, 2] = value
        return self.arr(row_q=rows)

    def item(self, value: int) -> bytes:
        item = self.arrays["item"].copy()
        item[-1] = value
        return self.arr(item=item)

    def rows(self, n: int) -> bytes:
        """n rows of the first n items."""
        f = self.arrays["row.q"].shape[1]
        return self.arr(
            item=np.arange(n, dtype=np.int32),
            row_q=np.zeros((n, f), np.float32),
            row_b=np.zeros(n, np.float32),
        )


def lying(t: Taken, size: int) -> bytes:
    """A frame whose head says another length of the body than there is."""
    return t.head(size=len(t.body) + size)


CANARY: list[str] = []


class Bomb:
    """Unpickled, it would leave a file."""

    def __reduce__(self):
        return os.mkdir, (CANARY[-1],)


def pickled(t: Taken) -> bytes:
    CANARY.append(str(t.desk.founded.server / "canary"))
    return t.raw(pickle.dumps(Bomb()))


def bomb(t: Taken) -> bytes:
    """10 MB of zeros in 10 kB."""
    return t.raw(zlib.compress(bytes(10_000_000), 9))


BADS: dict[str, tuple[Code, Callable[[Taken], bytes]]] = {
    "b01-nan": (Code.NOT_FINITE, lambda t: t.value(np.nan)),
    "b02-inf": (Code.NOT_FINITE, lambda t: t.value(np.inf)),
    "b03-minus-inf": (Code.NOT_FINITE, lambda t: t.value(-np.inf)),
    "b05-1e30": (Code.TOO_LARGE, lambda t: t.value(1e30)),
    "b06-wrong-factors": (
        Code.WRONG_SHAPE,
        lambda t: t.arr(row_q=np.zeros((len(t.arrays["item"]), 5), np.float32)),
    ),
    "b07-wrong-items": (Code.WRONG_ITEMS, lambda t: t.head(items=19)),
    "b08-transposed": (
        Code.WRONG_SHAPE,
        lambda t: t.arr(row_q=np.ascontiguousarray(t.arrays["row.q"].T)),
    ),
    "b09-broadcastable": (Code.WRONG_SHAPE, lambda t: t.arr(row_q=t.arrays["row.q"][:1])),
    "b10-float64": (Code.WRONG_TYPE, lambda t: t.arr(row_q=t.arrays["row.q"].astype("f8"))),
    "b10-float16": (Code.WRONG_TYPE, lambda t: t.arr(row_q=t.arrays["row.q"].astype("f2"))),
    "b10-int32": (Code.WRONG_TYPE, lambda t: t.arr(row_q=t.arrays["row.q"].astype("i4"))),
    "b12-duplicate-item": (Code.DUPLICATE_ITEM, lambda t: t.item(int(t.arrays["item"][0]))),
    "b13-negative-item": (Code.NEGATIVE_ITEM, lambda t: t.item(-1)),
    "b14-item-beyond": (Code.UNKNOWN_ITEM, lambda t: t.item(18)),
    "b15-too-many-rows": (Code.TOO_MANY_ROWS, lambda t: t.rows(11)),  # 2T = 10
    "b17-count-zero": (Code.WRONG_COUNT, lambda t: t.head(about={"users": 0})),
    "b17-count-negative": (Code.WRONG_COUNT, lambda t: t.head(about={"users": -1})),
    "b17-count-1e9": (Code.WRONG_COUNT, lambda t: t.head(about={"users": 10**9})),
    "b17-count-nan": (Code.BAD_HEAD, lambda t: t.head(about={"users": np.nan})),
    "b17-weight-zero": (Code.WRONG_WEIGHT, lambda t: t.arr(weight=np.float32([0]))),
    "b17-weight-negative": (Code.WRONG_WEIGHT, lambda t: t.arr(weight=np.float32([-1]))),
    "b17-weight-1e9": (Code.WRONG_WEIGHT, lambda t: t.arr(weight=np.float32([1e9]))),
    "b17-weight-2": (
        Code.WRONG_WEIGHT,
        lambda t: t.arr(weight=np.float32([2])),
    ),  # where every device weighs 1
    "b17-weight-nan": (Code.NOT_FINITE, lambda t: t.arr(weight=np.float32([np.nan]))),
    "b18-round-before": (Code.PAST_ROUND, lambda t: t.head(round=0)),
    "b19-round-after": (Code.FUTURE_ROUND, lambda t: t.head(round=2)),
    "b20-wrong-run": (Code.WRONG_RUN, lambda t: t.head(run="0" * 32)),
    "b21-wrong-model": (Code.WRONG_MODEL, lambda t: t.head(model=bytes(32))),
    "b24-unknown-node": (Code.UNKNOWN_NODE, lambda t: t.head(node=b"node-99")),
    "b25-bad-signature": (
        Code.BAD_SIGNATURE,
        lambda t: t.good[: -len(t.body) - 1] + bytes([t.good[-len(t.body) - 1] ^ 1]) + t.body,
    ),
    "b26-foreign-signature": (
        Code.BAD_SIGNATURE,
        lambda t: built(t.said, t.body, t.desk.keys[OTHER]),
    ),
    "b28-length-short": (Code.WRONG_LENGTH, lambda t: lying(t, -1)),
    "b28-length-long": (Code.TRUNCATED, lambda t: lying(t, 1)),
    "b29-2-gb-body": (Code.TOO_LONG, lambda t: t.head(size=2**31)),
    "b29-2-gb-head": (
        Code.TOO_LONG,
        lambda t: frames.START.pack(frames.MAGIC, frames.VERSION, 2**31) + t.good[9:],
    ),
    "b30-cut-in-body": (Code.TRUNCATED, lambda t: t.good[:-7]),
    "b30-cut-in-head": (Code.TRUNCATED, lambda t: t.good[:40]),
    "b30-cut-at-start": (Code.TRUNCATED, lambda t: t.good[:5]),
    "b32-pickle": (Code.MALFORMED, pickled),
    "b32-pickle-alone": (Code.NOT_A_FRAME, lambda t: pickle.dumps([1])),
    "b33-gzip": (Code.NOT_A_FRAME, lambda t: gzip.compress(t.good)),
    "b33-bomb": (Code.MALFORMED, bomb),
    "b34-name-not-utf8": (Code.BAD_NAME, lambda t: t.head(node=b"node-\xff\xfe")),
    # beyond the list
    "kind": (Code.WRONG_KIND, lambda t: t.head(kind="taken")),
    "version": (Code.WRONG_VERSION, lambda t: t.good[:4] + b"\x02" + t.good[5:]),
    "digest": (Code.WRONG_DIGEST, lambda t: t.good[:-1] + bytes([t.good[-1] ^ 1])),
    "head-is-no-head": (
        Code.BAD_HEAD,
        lambda t: frames.START.pack(frames.MAGIC, frames.VERSION, 3) + b"\xff\xff\xff" + bytes(64),
    ),
    "head-says-more": (Code.BAD_HEAD, lambda t: t.head(more=1)),
    "sum-of-one": (Code.WRONG_COUNT, lambda t: t.head(kind="sum")),
    "other-arrays": (Code.WRONG_ARRAYS, lambda t: t.arr(more=np.zeros(1, np.float32))),
    "array-of-other-length": (Code.WRONG_SHAPE, lambda t: t.arr(row_b=t.arrays["row.b"][:-1])),
    "refused": (Code.WITHHELD, lambda t: t.head(kind="refused")),
}


def mutated(rng: random.Random, content: bytes) -> bytes:
    """1 to 4 bytes changed, removed, repeated or put in."""
    bytes_ = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(bytes_) or 1), rng.randrange(5)
        if kind <= 1 and bytes_:
            bytes_[at] = rng.randrange(256) if kind else bytes_[at] ^ (1 << rng.randrange(8))
        elif kind == 2:
            del bytes_[at : at + rng.choice((1, 4, 64))]
        elif kind == 3:
            bytes_[at:at] = rng.randbytes(rng.choice((1, 4, 64)))
        else:
            bytes_[at:at] = bytes_[at : at + 16]
    return bytes(bytes_) if bytes_ != content else mutated(rng, content)
