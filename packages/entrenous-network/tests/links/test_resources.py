"""What strangers and members may cost a server: the attacks of the review, over real sockets, and
the ledger that bounds them.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.address import checked_origin
from entrenous_network.frames.frames import FrameParts, seal
from entrenous_network.links import admission, application, https
from entrenous_network.links.admission import (
    HEAD,
    ROOM,
    Bodies,
    Bounds,
    Denied,
    is_number,
)
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from federation_links import in_one_line, until
from over_https import KEY, RUN, client_of, connected, members, received, shown

PATIENCE = 60.0
LARGEST = 10_400_000  # bytes of an answer of 15,000 items and 80 factors
HEAD_LINE = b"GET /v1/work HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture
def link(keys: Path) -> Iterator[HttpsServerLink]:
    """A server whose patience with strangers is so long that it is not what ends an attack."""
    plan = HttpsPlan(port=0, keys=keys, bounds=Bounds(patience=600.0))
    own = HttpsServerLink(plan, RUN, members(), LARGEST)
    own.start()
    yield own
    own.close()


def head_of(node: str, method: str, path: str, more: str = "") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization:"
        f" {shown(node)['authorization']}\r\n{more}\r\n".encode()
    )


def is_open(own: ssl.SSLSocket) -> bool:
    """Whether a connection is still there after a moment."""
    own.settimeout(0.3)
    try:
        return own.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False
    finally:
        own.settimeout(PATIENCE)


def hung_up(own: ssl.SSLSocket) -> bool:
    """Whether a connection ends."""
    try:
        while own.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def enrolled(link: HttpsServerLink, keys: Path, node: str) -> ssl.SSLSocket:
    """A connection on which a member has shown its key, between two requests."""
    own = connected(link, keys)
    own.sendall(head_of(node, "POST", "/v1/answer", "content-length: 3\r\n") + b"xyz")
    assert received(link)
    link.acknowledge()
    assert own.recv(65536).startswith(b"HTTP/1.1 200")
    return own


# ---- heads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["stranger", "member"])
@pytest.mark.parametrize("unit", [b"a:b\r\n", b"x", b"\r\n"])
def test_m3_a_head_without_end_is_hung_up_on_after_16_kb(
    link: HttpsServerLink, keys: Path, who: str, unit: bytes
) -> None:
    """Short lines, one line without end, and lines before any head."""
    with connected(link, keys) if who == "stranger" else enrolled(link, keys, "node-2") as own:
        begun = HEAD_LINE if unit != b"\r\n" else b""
        begun += b"x-long: " if unit == b"x" else b""
        fill = unit * ((HEAD - len(begun)) // len(unit))
        own.sendall(begun + fill)
        assert is_open(own) and not link.counts["long-head"]
        with suppress(OSError):
            own.sendall(unit * (4096 // len(unit)))
        assert hung_up(own)
    until(lambda: link.counts["long-head"])


def test_m3_a_members_head_of_a_byte_a_second_is_hung_up_on(
    link: HttpsServerLink, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https, "HEAD_SECONDS", 0.5)
    with enrolled(link, keys, "node-2") as own:
        time.sleep(1.0)  # between two requests there is no hurry
        assert is_open(own)
        own.sendall(HEAD_LINE)
        assert hung_up(own)
    until(lambda: link.counts["slow-head"])


def test_m3_requests_that_come_before_an_answer_are_not_kept(
    link: HttpsServerLink, keys: Path
) -> None:
    with connected(link, keys) as own, suppress(OSError):
        own.sendall(head_of("node-2", "GET", "/v1/work") * 40)
        assert hung_up(own)
    until(lambda: link.counts["out-of-turn"])


@pytest.mark.parametrize("after", [b"5;" + b"x" * HEAD, b"0\r\n" + b"a:b\r\n" * (HEAD // 5 + 1)])
def test_m3_what_frames_a_body_counts_as_well(
    link: HttpsServerLink, keys: Path, after: bytes
) -> None:
    """Extensions of chunks, and lines after the last of them, while a question for work is held."""
    with connected(link, keys) as own, suppress(OSError):
        own.sendall(head_of("node-2", "GET", "/v1/work", "transfer-encoding: chunked\r\n"))
        own.sendall(after)
        assert hung_up(own)


def test_m3_a_question_has_no_body(link: HttpsServerLink, keys: Path) -> None:
    with client_of(link, keys) as client:
        for path in ("/v1/work", "/v1/health"):
            found = client.request("GET", path, headers=shown(), content=b"x" * 10)
            assert found.status_code == 400 and found.text.strip() == "no-body-here"


# ---- bodies --------------------------------------------------------------------------------------


def test_m5_one_key_and_four_bytes_a_second_cost_the_others_nothing(
    link: HttpsServerLink, keys: Path
) -> None:
    """Four connections that each announce the largest answer and send hardly anything, as in the
    review; then others answer.
    """
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(link, keys)) for _ in range(4)]
        for own in slow:
            own.sendall(
                head_of("node-2", "POST", "/v1/answer", f"content-length: {LARGEST}\r\n") + b"x"
            )
        for node in ("node-1", "node-3"):
            link.send(node, FrameParts([b"work"]), 60.0)
            with client_of(link, keys) as client, ThreadPoolExecutor(1) as pool:
                assert client.get("/v1/work", headers=shown(node)).content == b"work"
                sending = pool.submit(
                    client.post, "/v1/answer", content=b"x" * LARGEST, headers=shown(node)
                )
                (found,) = received(link)
                link.acknowledge()
                assert (
                    found == (node, b"x" * LARGEST) and sending.result(PATIENCE).status_code == 200
                )


def test_m5_a_node_sends_one_body_at_a_time(link: HttpsServerLink, keys: Path) -> None:
    """A second one ends the first while that is read; once it waits for the server, the second has
    to come later.
    """
    with (
        connected(link, keys) as first,
        client_of(link, keys) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        first.sendall(head_of("node-2", "POST", "/v1/answer", "content-length: 1000\r\n") + b"x")
        time.sleep(0.2)
        sending = pool.submit(client.post, "/v1/answer", content=b"second", headers=shown("node-2"))
        assert received(link) == [("node-2", b"second")] and hung_up(first)
        with client_of(link, keys) as third:
            found = third.post("/v1/answer", content=b"third", headers=shown("node-2"))
            assert found.status_code == 429 and found.text.strip() == "one-at-a-time"
        link.acknowledge()
        assert sending.result(PATIENCE).status_code == 200


def test_m5_who_sends_all_but_the_last_byte_is_given_up_within_a_stretch(
    link: HttpsServerLink, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the average of bytes a second it might have held ten megabytes for minutes."""
    monkeypatch.setattr(admission, "BODY_SECONDS", 2.0)
    with connected(link, keys) as own:
        own.sendall(head_of("node-2", "POST", "/v1/answer", f"content-length: {LARGEST}\r\n"))
        with suppress(OSError):
            own.sendall(b"x" * (LARGEST - 1))
        assert hung_up(own)
    until(lambda: link.counts["too-slow"])


def test_a_frame_that_names_another_node_is_not_looked_at(
    link: HttpsServerLink, keys: Path
) -> None:
    frame = seal(Ed25519PrivateKey.generate(), "update", b"x", run=RUN, node="node-1")
    with client_of(link, keys) as client:
        found = client.post("/v1/answer", content=frame, headers=shown("node-2"))
    assert found.status_code == 403 and found.text.strip() == "another-node"
    assert link.receive(0.1) == []


# ---- the ledger by itself ------------------------------------------------------------------------


async def fed(ledger: Bodies, node: str, asked: bool, size: int, piece: int, turns: int = 0) -> int:
    """Bring a body of `size` bytes, in pieces, with so many turns of others between; returns when
    all had come, in the order of bodies.
    """
    async with ledger.of(node, asked) as body, body.stretches.limit:
        for at in range(0, size, piece):
            await body.came(min(piece, size - at))
            for _ in range(turns):
                await asyncio.sleep(0)
        body.whole = True
    return body.place


@pytest.mark.parametrize("seed", range(5))
def test_the_ledger_never_holds_more_than_its_room_and_a_body_and_everybody_is_served(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LINE_SECONDS", 10.0)
    draw = random.Random(seed)
    largest = 1000
    ledger = Bodies(largest, room=draw.choice([2000, 5000]))
    most = 0

    async def watched() -> None:
        nonlocal most
        while True:
            most = max(most, ledger.held)
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        watching = asyncio.create_task(watched())
        bodies = [
            fed(
                ledger,
                f"node-{n}",
                draw.random() < 0.7,
                draw.randint(1, largest),
                draw.randint(1, 300),
                draw.randint(0, 5),
            )
            for n in range(60)
        ]
        await asyncio.wait_for(asyncio.gather(*bodies), PATIENCE)
        watching.cancel()

    asyncio.run(all_of_them())
    assert 0 < most <= ledger.room + largest
    assert ledger.held == ledger.held_unasked == 0


def test_who_is_not_asked_leaves_room_for_who_is() -> None:
    async def scene() -> None:
        ledger = Bodies(1000, room=8000)
        async with (
            ledger.of("idle-1", False) as one,
            ledger.of("idle-2", False) as two,
            ledger.of("asked", True) as asked,
        ):
            assert ledger.takes(one, 1000) and ledger.takes(two, 1000)  # a quarter is theirs
            assert ledger.takes(one, 1) and not ledger.takes(two, 1)  # and one goes on
            assert ledger.takes(asked, 1000)
        assert ledger.held == ledger.held_unasked == 0

    asyncio.run(scene())


def test_the_room_is_at_least_that_of_two_bodies() -> None:
    assert Bodies(100).room == ROOM <= 64 << 20
    assert Bodies(ROOM).room == 2 * ROOM


def test_who_waits_in_vain_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LINE_SECONDS", 0.1)

    async def scene() -> None:
        ledger = Bodies(1000, room=2000)
        async with (
            ledger.of("a", True) as first,
            ledger.of("b", True) as second,
            ledger.of("c", True) as third,
        ):
            assert ledger.takes(first, 1000) and ledger.takes(second, 1000)
            async with ledger.of("d", True) as beyond, third.stretches.limit:
                assert ledger.takes(beyond, 1000)  # the first in line goes on beyond the room
                with pytest.raises(Denied, match="no-room"):
                    await third.came(1)

    asyncio.run(scene())


def test_a_number_in_a_head_is_of_digits_of_ascii() -> None:
    assert is_number("0") and is_number("10400000")
    for text in ("", "\xb2", "٣", "-1", "+1", "1e3", "1 ", "9" * 16):
        assert not is_number(text)


# ---- a server at rest ----------------------------------------------------------------------------


def test_at_rest_a_node_is_told_when_to_ask_again_and_is_there_all_the_while(
    link: HttpsServerLink, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "HELD_AT_REST", 0.05)
    with client_of(link, keys) as client:
        link.rest(3600.0)
        said = client.get("/v1/work", headers=shown())
        assert (said.status_code, said.headers["retry-after"]) == (204, "600")
        link.rest(100.0)
        said = client.get("/v1/work", headers=shown("node-2"))
        assert 90 <= int(said.headers["retry-after"]) <= 100
        # Ten minutes without a word are no reason to think that it has gone.
        now = time.monotonic
        monkeypatch.setattr(application.time, "monotonic", lambda: now() + 599)
        assert list(link.present()) == ["node-1"]
        monkeypatch.setattr(application.time, "monotonic", lambda: now() + 640)
        assert not link.present()


def test_at_rest_a_node_that_comes_is_given_what_there_is_for_it(
    link: HttpsServerLink, keys: Path
) -> None:
    """Whatever was sent to it before it came, or while its question is held."""
    frame = seal(KEY, "model", b"x", run=RUN, node="server")
    link.rest(3600.0)
    with client_of(link, keys) as client, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(client.get, "/v1/work", headers=shown())
        until(lambda: "node-1" in link.ready())
        link.send("node-1", FrameParts((frame,)), 30.0)
        assert asking.result().content == frame


# ---- web pages -----------------------------------------------------------------------------------

PAGE = {"origin": "https://app.example"}
ASKS = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization",
}


def test_a_page_may_speak_to_a_server_that_allows_its_origin(keys: Path) -> None:
    plan = HttpsPlan(port=0, keys=keys, origins=("https://app.example",))
    own = HttpsServerLink(plan, RUN, members(), LARGEST)
    own.start()
    try:
        with client_of(own, keys) as client:
            allowed = client.options("/v1/answer", headers={**PAGE, **ASKS})
            other = client.options("/v1/answer", headers={**ASKS, "origin": "https://evil.example"})
            said = client.get("/v1/health", headers=PAGE)
            refused = client.get("/v1/work", headers=PAGE)
    finally:
        own.close()
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
    assert other.status_code == 400
    assert "access-control-allow-origin" not in other.headers
    assert said.headers["access-control-allow-origin"] == "https://app.example"
    # A page reads why it is refused, and after how long it may ask again.
    assert (refused.status_code, refused.text) == (401, "no-key\n")
    assert refused.headers["access-control-expose-headers"] == "retry-after, date"


def test_a_page_may_not_speak_to_a_server_that_allows_none(
    link: HttpsServerLink, keys: Path
) -> None:
    with client_of(link, keys) as client:
        asked = client.options("/v1/answer", headers={**PAGE, **ASKS})
        said = client.get("/v1/health", headers=PAGE)
    assert asked.status_code == 405
    assert "access-control-allow-origin" not in {**asked.headers, **said.headers}


@pytest.mark.parametrize("origin", ["app.example", "https://app.example/", "https://", "*", ""])
def test_an_origin_that_is_none_gets_one_line(origin: str) -> None:
    with in_one_line("--origin"):
        checked_origin(origin)
    assert checked_origin("http://127.0.0.1:8080") == "http://127.0.0.1:8080"
