"""Who may speak to a server: valid headers, headers of others, of other times, and floods of
them.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.files import public_bytes
from entrenous_network.agreement.members import Member
from entrenous_network.frames.frames import seal
from entrenous_network.links.admission import REMEMBERED, Admission, Denied, Rates, here

RUN = "ab" * 16
KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


def admission(now: float | None = None) -> Admission:
    members = {
        "node-1": Member("node-1", public_bytes(KEY).hex(), 0, 2),
        "node-2": Member("node-2", public_bytes(OTHER).hex(), 3, 4),
    }
    return Admission(RUN, members, time.time if now is None else lambda: now)


def header(key: Ed25519PrivateKey = KEY, kind: str = "here", **fields: object) -> str:
    said = {"run": RUN, "node": "node-1", "about": {"time": int(time.time())}, **fields}
    return "Entrenous " + urlsafe_b64encode(seal(key, kind, **said)).decode()  # type: ignore[arg-type]


def test_a_member_is_let_in_by_its_signature_and_again_by_the_same_header() -> None:
    own, said = admission(), here(KEY, RUN, "node-1")
    assert own.node(said) == "node-1" == own.node(said)
    assert own.node(here(OTHER, RUN, "node-2")) == "node-2"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("", "no-key"),
        ("Bearer abc", "no-key"),
        ("Entrenous !!!", "no-key"),
        ("Entrenous " + "A" * 3000, "no-key"),
        (header(OTHER), "bad-signature"),
        (header(node="node-2"), "bad-signature"),
        (header(node="node-9"), "unknown-node"),
        (header(run="cd" * 16), "wrong-run"),
        (header(kind="update"), "wrong-run"),
        (header(about={"time": int(time.time()) - 4000}), "clock"),
        (header(about={"time": int(time.time()) + 4000}), "clock"),
        (header(about={}), "clock"),
        (header(about={"time": -(2**62)}), "clock"),
        (header(about={"time": 2**62}), "clock"),
    ],
)
def test_anything_else_is_not(said: str, code: str) -> None:
    with pytest.raises(Denied) as why:
        admission().node(said)
    assert why.value.code == code and why.value.status == 401


def test_a_header_once_checked_grows_old_all_the_same() -> None:
    moment = time.time()
    own = admission(moment)
    said = here(KEY, RUN, "node-1")
    assert own.node(said) == "node-1"
    own._clock = lambda: moment + 400
    with pytest.raises(Denied, match="clock"):
        own.node(said)


def test_rates_are_each_ones_own_and_come_back() -> None:
    clock = [0.0]
    rates = Rates(rate=2.0, burst=4.0, now=lambda: clock[0])
    assert [rates.allow("a") for _ in range(6)] == [True] * 4 + [False] * 2
    assert rates.allow("b")
    clock[0] = 1.0
    assert [rates.allow("a") for _ in range(3)] == [True, True, False]


def test_a_flood_of_names_takes_no_more_memory_than_it_may() -> None:
    rates = Rates()
    for n in range(REMEMBERED + 100):
        rates.allow(f"10.0.{n >> 8}.{n & 255}")
    assert len(rates._left) == REMEMBERED
