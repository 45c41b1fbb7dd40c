"""The 35 kinds of bad update of research/privacy.md, 5.4 (but those of a connection: B31, B35), and
10,000 mutated frames: each refused with its own code, one log line and a counter; the model is the
same, and the same node's good answer is still taken.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from bad_answers import (
    BAD,
    BADS,
    CALM,
    CANARY,
    Desk,
    Taken,
    built,
    framed,
    mutated,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.frames import frames
from entrenous_network.frames.frames import Code
from entrenous_network.server import intake
from entrenous_network.server.intake import Open


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
    # what does not begin as a frame is none; a body that is shorter than its head says was cut off,
    # or its head lies; any number may be not finite, and any array of another shape; what is no
    # array is malformed; whose a signature is that is not its sender's would take a search among
    # all members
    assert shared == {
        Code.NOT_A_FRAME: {"b32", "b33"},
        Code.TRUNCATED: {"b28", "b30"},
        Code.NOT_FINITE: {"b01", "b02", "b03", "b17"},
        Code.WRONG_SHAPE: {"b06", "b08", "b09"},
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


def test_b27_an_answer_is_remembered_over_a_restart(desk):
    desk.intake = desk.begun(1)
    assert desk.intake.taken.keys() == {CALM}
    before, taken = desk.model_if_closed(), Taken(desk)
    desk.lines.clear()
    assert desk.intake.receive(desk.good(CALM)).code is Code.DUPLICATE
    assert len(desk.lines) == 1 and desk.model_if_closed() == before
    assert desk.intake.receive(taken.good).code is Code.ACCEPTED


def test_b29_length_of_2_gb_is_refused_before_it_is_read(desk):
    taken = Taken(desk)
    bad = [
        taken.head(size=2**31),
        frames.START.pack(frames.MAGIC, frames.VERSION, 2**31) + taken.good[9:],
    ]
    assert all(desk.intake.receive(frame).code is Code.TOO_LONG for frame in bad * 20)


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


def test_b_10000_mutated_frames(desk, record_property):
    """Half are good frames with changed bytes, half have a changed head or body and a valid
    signature over it.
    """
    rng, began, taken = random.Random(6), time.monotonic(), Taken(desk)
    packed, before, plausible = (
        msgspec.msgpack.encode(list(taken.said.values())),
        desk.model_if_closed(),
        0,
    )
    counts = Counter[Code]()
    for number in range(10_000):
        frame = mutated(rng, taken.good)
        if number % 4 == 1:
            frame = taken.raw(mutated(rng, taken.body))
        if number % 4 == 3:
            said = mutated(rng, packed)
            frame = framed(said, taken.key, taken.body)
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
