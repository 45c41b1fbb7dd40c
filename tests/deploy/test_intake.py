"""The 35 kinds of bad update of research/privacy.md, 5.4 (but those of a connection: B31, B35), and
10,000 mutated frames: each refused with its own code, one log line and a counter; the model is the
same, and the same node's good answer is still taken.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import pickle
import random
import resource
import time
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from federation_links import federation, server_of
from safetensors.numpy import load

from entrenous.core.contract.protocols import arrays_of, model_sha256
from entrenous.core.keys import key
from entrenous.deploy.agreement.files import read_identity
from entrenous.deploy.frames import frames
from entrenous.deploy.frames.frames import Code, seal
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.server import intake
from entrenous.deploy.server.intake import Open, RoundIntake
from entrenous.deploy.server.journal import Journal, read
from entrenous.deploy.server.server_folder import ServerFolder
from entrenous.deploy.wire import tensors

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
            self.founded.terms.run, self.folder.members, self.contract, self.lines.append
        )
        intake.begin(
            Open(number, self.model, asked),
            self.journal,
            [record.content for record in read(self.journal.path).records],
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


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    made = Desk(tmp_path_factory.mktemp("single"), 20, CALM)
    yield made
    made.close()


@pytest.fixture
def desk(single):
    """Nodes with one user each."""
    return single.fresh()


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    made = Desk(tmp_path_factory.mktemp("many"), 4, "node-3")
    yield made
    made.close()


@pytest.fixture
def gateways(many):
    """Nodes with five users each."""
    return many.fresh()


def built(said: dict[str, Any], body: bytes, signer: Any, **head: Any) -> bytes:
    """A signed frame with whatever head, also one that lies."""
    whole = {
        **said,
        "size": len(body),
        "digest": hashlib.sha256(body).digest(),
        "nonce": os.urandom(16),
        **head,
    }
    packed = msgspec.msgpack.encode(whole)
    start = frames.START.pack(frames.MAGIC, frames.VERSION, len(packed))
    return start + packed + signer.sign(frames.DOMAIN + packed) + body


class Taken:
    """A good answer taken apart, to be put together with something wrong. arrays: of the body."""

    def __init__(self, desk: Desk, name: str = BAD) -> None:
        self.desk, self.good = desk, desk.good(name)
        frame = frames.opened(self.good)
        self.said, self.body, self.key = (
            msgspec.to_builtins(frame.head, builtin_types=(bytes,)),
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
    "b01-nan": (Code.NAN, lambda t: t.value(np.nan)),
    "b02-inf": (Code.INF, lambda t: t.value(np.inf)),
    "b03-minus-inf": (Code.MINUS_INF, lambda t: t.value(-np.inf)),
    "b05-1e30": (Code.TOO_LARGE, lambda t: t.value(1e30)),
    "b06-wrong-factors": (
        Code.WRONG_FACTORS,
        lambda t: t.arr(row_q=np.zeros((len(t.arrays["item"]), 5), np.float32)),
    ),
    "b07-wrong-items": (Code.WRONG_ITEMS, lambda t: t.head(items=19)),
    "b08-transposed": (
        Code.TRANSPOSED,
        lambda t: t.arr(row_q=np.ascontiguousarray(t.arrays["row.q"].T)),
    ),
    "b09-broadcastable": (Code.BROADCAST, lambda t: t.arr(row_q=t.arrays["row.q"][:1])),
    "b10-float64": (Code.WRONG_TYPE, lambda t: t.arr(row_q=t.arrays["row.q"].astype("f8"))),
    "b10-float16": (Code.WRONG_TYPE, lambda t: t.arr(row_q=t.arrays["row.q"].astype("f2"))),
    "b10-int32": (Code.WRONG_TYPE, lambda t: t.arr(row_q=t.arrays["row.q"].astype("i4"))),
    "b11-big-endian": (Code.WRONG_BYTE_ORDER, lambda t: t.head(order=">")),
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
    "b17-weight-nan": (Code.NAN, lambda t: t.arr(weight=np.float32([np.nan]))),
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
    "b33-gzip": (Code.COMPRESSED, lambda t: gzip.compress(t.good)),
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
    "array-of-other-length": (Code.WRONG_COUNT, lambda t: t.arr(row_b=t.arrays["row.b"][:-1])),
    "refused": (Code.WITHHELD, lambda t: t.head(kind="refused")),
    "short-nonce": (Code.REPLAYED_NONCE, lambda t: t.head(nonce=b"")),
}


@pytest.mark.parametrize("bad", BADS)
def test_bad_update(bad, desk):
    code, make = BADS[bad]
    taken = Taken(desk)
    frame, before, good = make(taken), desk.model_if_closed(), taken.good
    desk.lines.clear()
    journalled = desk.journal.path.stat().st_size
    assert desk.intake.receive(frame).code is code
    assert (
        desk.intake.counts[code] == 1 and desk.intake.counts.total() == 2
    )  # the calm node's, and this
    assert len(desk.lines) == 1 and code.value in desk.lines[0]
    assert desk.model_if_closed() == before and desk.journal.path.stat().st_size == journalled
    assert not any(os.path.exists(path) for path in CANARY)
    assert desk.intake.receive(good).code is Code.ACCEPTED
    assert desk.model_if_closed() != before and desk.intake.total.devices == 2


def test_b_codes_differ():
    """Kinds that can be told apart have codes of their own."""
    by_code: dict[Code, set[str]] = {}
    for bad, (code, _) in BADS.items():
        if bad[0] == "b" and bad[1:3].isdigit():
            by_code.setdefault(code, set()).add(bad[:3])
    shared = {code: kinds for code, kinds in by_code.items() if len(kinds) > 1}
    # a body that is shorter than its head says was cut off, or its head lies; a weight or a value
    # may be NaN; what is no array is
    # malformed; whose a signature is that is not its sender's would take a search among all members
    assert shared == {
        Code.TRUNCATED: {"b28", "b30"},
        Code.NAN: {"b01", "b17"},
        Code.MALFORMED: {"b32", "b33"},
        Code.BAD_SIGNATURE: {"b25", "b26"},
    }


def test_a_signature_of_nobody_costs_one_check(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was tried against every member up to 1,000, on the server's own thread."""
    checked: list[str] = []

    def counted(frame, key) -> bool:
        checked.append(frame.node)
        return frames.signed_by(frame, key)

    monkeypatch.setattr(intake, "signed_by", counted)
    taken = Taken(desk)
    assert (
        desk.intake.receive(built(taken.said, taken.body, Ed25519PrivateKey.generate())).code
        is Code.BAD_SIGNATURE
    )
    assert len(checked) == 1 < len(desk.intake.members.nodes)


def test_b04_denormals_are_accepted(desk):
    assert desk.intake.receive(Taken(desk).value(1e-42)).code is Code.ACCEPTED


def test_b16_no_rows_are_accepted_as_nothing(desk):
    before = {name: rows.copy() for name, rows in desk.intake.total.rows.items()}
    assert desk.intake.receive(Taken(desk).rows(0)).code is Code.ACCEPTED
    assert desk.intake.total.devices == 2
    assert all(np.array_equal(rows, before[name]) for name, rows in desk.intake.total.rows.items())


@pytest.mark.parametrize("bad", ["b22-exact-duplicate", "b23-other-bytes"])
def test_second_answer(bad, desk):
    taken = Taken(desk)
    assert desk.intake.receive(taken.good).code is Code.ACCEPTED
    before = desk.model_if_closed()
    desk.lines.clear()
    code, again = (
        (Code.DUPLICATE, taken.good)
        if bad.startswith("b22")
        else (Code.CONFLICT, taken.value(0.25))
    )
    for _ in range(3):
        assert desk.intake.receive(again).code is code
    assert desk.intake.counts[code] == 3 == len(desk.lines)
    assert desk.model_if_closed() == before and desk.intake.total.devices == 2
    desk.intake.end()  # the next round takes the node's answer again
    desk.intake.begin(Open(2, desk.model, desk.folder.members.by_node(np.arange(20))), None, [])
    assert desk.intake.receive(desk.good(BAD, 2)).code is Code.ACCEPTED


def test_b27_nonce_is_remembered_over_a_restart(desk):
    used = frames.opened(
        next(record.content for record in read(desk.journal.path).records)
    ).head.nonce
    desk.intake = desk.begun(1)
    assert desk.intake.taken.keys() == {CALM}
    before, taken = desk.model_if_closed(), Taken(desk)
    desk.lines.clear()
    assert desk.intake.receive(taken.head(nonce=used)).code is Code.REPLAYED_NONCE
    assert desk.intake.receive(desk.good(CALM)).code is Code.DUPLICATE
    assert len(desk.lines) == 2 and desk.model_if_closed() == before
    assert desk.intake.receive(taken.good).code is Code.ACCEPTED


def test_b29_length_of_2_gb_costs_no_memory(desk):
    taken = Taken(desk)
    bad = [
        taken.head(size=2**31),
        frames.START.pack(frames.MAGIC, frames.VERSION, 2**31) + taken.good[9:],
    ]
    desk.intake.receive(bad[0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert all(desk.intake.receive(frame).code is Code.TOO_LONG for frame in bad * 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024  # kB


def test_b_answers_between_rounds_are_late(desk):
    good = desk.good(BAD)
    desk.intake.end()
    assert desk.intake.receive(good).code is Code.LATE
    desk.intake.begin(Open(2, desk.model, desk.folder.members.by_node(np.arange(20))), None, [])
    assert desk.intake.receive(good).code is Code.LATE  # the round before went on without it
    assert desk.intake.receive(desk.good(CALM)).code is Code.PAST_ROUND  # which had been taken


# ---- gateways: sums of many ----------------------------------------------------------------------

SUMS: dict[str, tuple[Code, Callable[[Taken], bytes]]] = {
    "too-large": (Code.TOO_LARGE, lambda t: t.arr(row_q=t.arrays["row.q"] + 2**40)),
    "least-number": (
        Code.TOO_LARGE,
        lambda t: t.arr(row_q=np.full_like(t.arrays["row.q"], -(2**63))),
    ),
    "senders-none": (Code.WRONG_COUNT, lambda t: t.arr(senders=t.arrays["senders"] * 0)),
    "senders-too-many": (Code.WRONG_COUNT, lambda t: t.arr(senders=t.arrays["senders"] + 5)),
    "weight-negative": (Code.WRONG_WEIGHT, lambda t: t.arr(weight=-t.arrays["weight"])),
    "weight-too-much": (Code.WRONG_WEIGHT, lambda t: t.arr(weight=t.arrays["weight"] + 2**60)),
    "weight-of-one-more": (Code.WRONG_WEIGHT, lambda t: t.arr(weight=t.arrays["weight"] + 65536)),
    "floats": (Code.WRONG_TYPE, lambda t: t.arr(row_q=t.arrays["row.q"].astype("f4"))),
    "update-of-many": (Code.WRONG_COUNT, lambda t: t.head(kind="update")),
    "fewer-devices": (Code.WRONG_COUNT, lambda t: t.head(about={"users": 4})),
}


@pytest.mark.parametrize("bad", SUMS)
def test_bad_sum(bad, gateways):
    desk, (code, make) = gateways, SUMS[bad]
    taken, before = Taken(desk, "node-1"), desk.model_if_closed()
    assert desk.intake.receive(make(taken)).code is code
    assert desk.model_if_closed() == before and len(desk.lines) == 1
    assert desk.intake.receive(taken.good).code is Code.ACCEPTED


# ---- any bytes -----------------------------------------------------------------------------------


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


def test_b_10000_mutated_frames(desk, record_property):
    """Half are good frames with changed bytes, half have a changed head or body and a valid
    signature over it.
    """
    rng, began, taken = random.Random(6), time.monotonic(), Taken(desk)
    packed, before, plausible = msgspec.msgpack.encode(taken.said), desk.model_if_closed(), 0
    counts = Counter[Code]()
    for number in range(10_000):
        frame = mutated(rng, taken.good)
        if number % 4 == 1:
            frame = taken.raw(mutated(rng, taken.body))
        if number % 4 == 3:
            said = mutated(rng, packed)
            frame = (
                frames.START.pack(frames.MAGIC, frames.VERSION, len(said))
                + said
                + taken.key.sign(frames.DOMAIN + said)
                + taken.body
            )
        code = desk.intake.receive(frame).code
        if (
            code is Code.ACCEPTED
        ):  # other numbers, signed by the node itself, are an answer like any other
            assert number % 4 in (1, 3)
            counts += desk.intake.counts
            plausible += 1
            desk.fresh()
    seconds = time.monotonic() - began
    assert desk.model_if_closed() == before
    counts += desk.intake.counts
    assert len(counts) > 12, counts
    record_property(
        "measured",
        f"{seconds:.1f} s; {len(counts) - 1} codes; {plausible} were other numbers that their node"
        " had signed",
    )


def test_2000_mutated_requests_train_nobody(desk):
    """What a node makes of requests that nobody signed, and of signed nonsense: a refusal."""
    rng, node = random.Random(7), desk.nodes[OTHER]
    rounds = node.store.newest_state()[0]
    body = tensors.write({**arrays_of(desk.download), "users": node.shard.users})
    said = dict(
        run=desk.founded.terms.run,
        node="server",
        round=1,
        model=desk.model,
        items=18,
        about={"users": 1},
    )
    good = seal(desk.folder.key, "work", body, **said)
    for number in range(2_000):
        request = (
            seal(desk.folder.key, "work", mutated(rng, body), **said)
            if number % 2
            else mutated(rng, good)
        )
        assert frames.opened(node.answer(request)).head.kind == "refused"
    assert node.store.newest_state()[0] == rounds  # nobody was trained
