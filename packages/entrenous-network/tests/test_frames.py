"""Frames: read back as they were sealed, refused by code when anything about them is wrong, before
anything of that length is read.
"""

from __future__ import annotations

import random
import tracemalloc

import msgspec
import pytest
from bad_answers import framed
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.files import NODE_NAME, public_bytes
from entrenous_network.frames import frames
from entrenous_network.frames.frames import (
    Code,
    FrameRefused,
    head_length,
    opened,
    seal,
    signed_by,
)
from msgspec import structs

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = public_bytes(KEY).hex()
GOOD = seal(KEY, "update", b"twelve bytes", run="ab", node="node-1", round=3, about={"users": 2})


def code_of(buffer: bytes, largest: int = 1 << 20) -> Code:
    with pytest.raises(FrameRefused) as refused:
        opened(buffer, largest)
    return refused.value.code


def headed(**fields):
    """The bytes of a good head with other fields."""
    return msgspec.msgpack.encode(structs.replace(opened(GOOD).head, **fields))


def test_read_back():
    frame = opened(GOOD)
    assert bytes(frame.body) == b"twelve bytes" and frame.node == "node-1"
    assert (frame.head.kind, frame.head.run, frame.head.round, frame.head.about) == (
        "update",
        "ab",
        3,
        {"users": 2},
    )
    assert signed_by(frame, PUBLIC) and not signed_by(
        frame, public_bytes(Ed25519PrivateKey.generate()).hex()
    )


def test_any_change_of_the_head_breaks_the_signature_and_of_the_body_the_digest():
    rng, start = random.Random(1), frames.START.size
    for _ in range(300):
        at = rng.randrange(start, len(GOOD))
        changed = GOOD[:at] + bytes([GOOD[at] ^ (1 << rng.randrange(8))]) + GOOD[at + 1 :]
        try:
            assert not signed_by(opened(changed), PUBLIC)
        except FrameRefused:
            continue


def test_b30_every_cut_is_refused():
    assert all(
        code_of(GOOD[:length]) in (Code.TRUNCATED, Code.NOT_A_FRAME) for length in range(len(GOOD))
    )


def test_b29_a_length_is_refused_before_anything_of_it_is_read():
    long = headed(size=2**31)
    tracemalloc.start()
    assert code_of(framed(long, KEY)) is Code.TOO_LONG
    assert code_of(frames.START.pack(frames.MAGIC, 1, 2**31) + bytes(100)) is Code.TOO_LONG
    with pytest.raises(FrameRefused, match="too-long"):
        head_length(frames.START.pack(frames.MAGIC, 1, frames.HEAD + 1))
    # of 2 GB that the heads say; threads of other tests may allocate a little meanwhile
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


NO_HEADS = [
    {"size": -1},
    {"round": -1},
    {"attempt": -1},
    {"node": "text, not bytes"},
    {"about": {"users": 0.5}},
    {"kind": 3},
    {"run": None},
]


@pytest.mark.parametrize("fields", NO_HEADS)
def test_heads_that_are_none(fields):
    assert code_of(framed(headed(**fields), KEY)) is Code.BAD_HEAD


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"a" * 65,
        b"\xff",
        "née".encode(),
        b"A",
        b"a b",
        b"a/b",
        b"a\n",
        b"..\\",
        b"..",
        b".",
        b"--help",
        b".ssh",
    ],
)
def test_b34_names_that_are_none(name):
    assert not NODE_NAME.fullmatch(name)
    assert code_of(framed(headed(node=name), KEY)) is Code.BAD_NAME


def test_deep_heads_end_no_process():
    assert code_of(framed(b"\x91" * 4000, KEY)) is Code.BAD_HEAD
    assert code_of(framed(b"\x81" * 4000, KEY)) is Code.BAD_HEAD
    assert code_of(framed(b"\xdf\xff\xff\xff\xff", KEY)) is Code.BAD_HEAD


def test_lengths():
    assert code_of(GOOD + b"x") is Code.WRONG_LENGTH
    assert code_of(GOOD[:-1] + b"x") is Code.WRONG_DIGEST
    assert code_of(GOOD, largest=11) is Code.TOO_LONG
    assert code_of(b"GET / HTTP/1.1\r\n\r\n") is Code.NOT_A_FRAME
    assert code_of(b"ENTR\x02" + GOOD[5:]) is Code.WRONG_VERSION
