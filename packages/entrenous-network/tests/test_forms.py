"""Messages of which one value has another type, or a size that it cannot have: a device in JavaScript
refuses the same ones as Python, before it makes anything of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from entrenous_network.agreement.catalogue import FurtherItems
from entrenous_network.agreement.members import LongerLog
from entrenous_network.frames import contribution, frames
from entrenous_network.frames.frames import FrameRefused
from entrenous_network.secure_sum import messages
from entrenous_network.secure_sum.refusal import SumRefused
from javascript import DEVICE, NODE, done

from entrenous.core.contract.update import NO_GROUPS, Update
from entrenous.privacy.clip import within

pytestmark = pytest.mark.skipif(NODE is None, reason="Node is absent")

HASH = bytes(range(32))
SIGNATURE = bytes(64)
BOX = bytes(messages.BOX)
ENTRY = [["node-1", HASH, 1, 1, b""], 1, [HASH]]
SIGNED = [ENTRY, SIGNATURE, b"advert"]
# A good message of each kind that a device opens.
GOOD: dict[str, Any] = {
    "advert": [HASH, HASH, HASH, HASH],
    "roster": [SIGNED, SIGNED],
    "inbox": [b"\7", [BOX, BOX]],
    "consents": [b"\7", bytes(192)],
    "members": [2, HASH, [HASH]],
    "items": [2, HASH, b"{}"],
    "head": [
        *("work", "ab" * 16, b"server", 3, 1),
        *(HASH, HASH, 9, {"users": 1}, 4, HASH),
    ],
}
KINDS: dict[str, Any] = {
    **{"members": LongerLog, "items": FurtherItems},
    **{"advert": messages.Advert, "consents": messages.Consents},
    **{"roster": messages.Roster, "inbox": messages.Inbox},
}
# Values in place of others: of each type, too short, too long, too small, and too large.
OTHERS: tuple[Any, ...] = (
    *(None, True, -1, 0, 7, 2**41, 1.0, 2.5, "", "1", "x" * 129, "é" * 100),
    *(b"", b"1", b"A.b", bytes(31), bytes(33), bytes(63), bytes(65), bytes(65)),
    *([], [1], ["1"], {}, {"a": 1}, {"a": "1"}, {1: 1}),
)


class Nothing(NamedTuple):
    """The private state of a device that keeps nothing."""


def changed(value: Any) -> Iterator[Any]:
    """Yields a value with each of its parts exchanged, left out, and said once more; and what is no
    such value at all.
    """
    yield from OTHERS
    if isinstance(value, list):
        for at, part in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in changed(part))
            yield [*value[:at], *value[at + 1 :]]
            yield [*value[:at], part, part, *value[at + 1 :]]
    if isinstance(value, dict):
        for name, part in value.items():
            yield from ({**value, name: other} for other in changed(part))
            yield {other: value[other] for other in value if other != name}
        yield from ({**value, name: 1} for name in ("more", "constructor", 1))


def is_message(kind: str, data: bytes) -> bool:
    """Tells whether our own types take a message for one of its kind."""
    try:
        if kind == "head":
            frames.claimed_node(bytes(frames.framed(data, SIGNATURE, [])))
        else:
            messages.decode(data, KINDS[kind], 1 << 20)
    except (FrameRefused, SumRefused, msgspec.MsgspecError):
        return False
    return True


def leaves(number: float, most: float | None) -> bool:
    """Tells whether our devices let a number of a message leave. most: as far as words of 32 bits
    let it be; None = words of 64 bits.
    """
    values = np.array([[[number]]], np.float32)
    weight = np.ones(1, np.float32)
    nothing = np.empty(0, np.int32)
    update = Update(np.zeros(2, np.int64), nothing, {}, {"f": values}, weight, NO_GROUPS)
    if most is not None:
        update = within(most)(update, np.empty(0, np.uint64))
    try:
        contribution.check_numbers(Nothing(), update, None)  # type: ignore[arg-type]
    except FrameRefused:
        return False
    return True


def test_a_device_in_javascript_refuses_the_messages_that_ours_refuse(tmp_path: Path) -> None:
    made = [(kind, msgspec.msgpack.encode(good)) for kind, good in GOOD.items()]
    expected = [is_message(*message) for message in made]
    assert all(expected)
    for kind, good in GOOD.items():
        made += [(kind, msgspec.msgpack.encode(other)) for other in changed(good)]
        whole = msgspec.msgpack.encode(good)
        made += [(kind, whole[:-1]), (kind, whole + b"\0"), (kind, b"")]
    expected = [is_message(*message) for message in made]
    sizes = ("0", "1.5", "-32767.99", "32768", "-32768", "1e8", "3e38", "NaN")
    numbers = [(size, most) for size in sizes for most in (None, 32.0)]
    kept = [leaves(float(number), most) for number, most in numbers]
    cases = {"messages": [(kind, data.hex()) for kind, data in made], "numbers": numbers}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    ended = done(DEVICE.with_name("forms_cases.mjs"), tmp_path / "cases.json")
    assert ended.returncode == 0, ended.stderr
    taken, left = json.loads(ended.stdout)
    pairs = zip(made, expected, taken, strict=True)
    unlike = [(kind, ours, data) for (kind, data), ours, theirs in pairs if ours != theirs]
    # Of a head, items and users below 0, which mean nothing: only ours read on.
    assert [(kind, ours) for kind, ours, _ in unlike] == [("head", True)] * 2, unlike
    assert expected.count(False) > 1500 and expected.count(True) > 50
    assert left == kept
    assert True in kept and False in kept
