"""The server's side over real sockets: what is asked is held, what is sent is acknowledged when it
is on the disk, the rest is refused.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import httpx
import pytest
from entrenous_network.frames.frames import FrameParts
from entrenous_network.links import admission, application
from entrenous_network.links.admission import Bounds
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from federation_links import until
from over_https import RUN, client_of, connected, members, received, shown

from entrenous.core.errors import InputError

LARGEST, PATIENCE = 100_000, 60.0


@pytest.fixture
def link(keys: Path) -> Iterator[HttpsServerLink]:
    plan = HttpsPlan(port=0, keys=keys, bounds=Bounds(patience=1.0))
    own = HttpsServerLink(plan, RUN, members(), LARGEST)
    own.start()
    yield own
    own.close()


@pytest.fixture
def client(link: HttpsServerLink, keys: Path) -> Iterator[httpx.Client]:
    with client_of(link, keys) as own:
        yield own


def test_a_question_is_held_until_there_is_work_and_work_waits_for_its_question(
    link: HttpsServerLink, client: httpx.Client
) -> None:
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(client.get, "/v1/work", headers=shown())
        until(lambda: "node-1" in link.present())
        link.send("node-1", FrameParts([b"first"]), 60.0)
        assert asking.result(PATIENCE).content == b"first"
    assert (
        client.get("/v1/work", headers=shown()).content == b"first"
    )  # it was not answered: perhaps it did not arrive
    link.send("node-1", FrameParts([b"second"]), 60.0)
    assert client.get("/v1/work", headers=shown()).content == b"second"
    link.send("node-2", FrameParts([b"stale"]), -1.0)
    link.send("node-2", FrameParts([b"other"]), 60.0)
    assert client.get("/v1/work", headers=shown("node-2")).content == b"other"


def test_a_server_that_ends_answers_whoever_asks(
    link: HttpsServerLink, client: httpx.Client
) -> None:
    """Before: 500, after the second that it gives its connections."""
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(client.get, "/v1/work", headers=shown())
        until(lambda: "node-1" in link.present())
        link.close()
        assert asking.result(PATIENCE).status_code == 204


def test_requests_of_nodes_that_have_gone_are_not_kept(
    link: HttpsServerLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "KEPT", 0.2)
    for n in range(4):
        link.send(f"node-{n}", FrameParts([b"x" * 1000]), 600.0)
    until(lambda: len(link._parked) == 4)
    until(lambda: not link._parked)


def test_an_answer_is_acknowledged_when_the_server_says_so_and_not_before(
    link: HttpsServerLink, client: httpx.Client
) -> None:
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(client.post, "/v1/answer", content=b"x" * 50_000, headers=shown())
        assert received(link) == [("node-1", b"x" * 50_000)]
        time.sleep(0.3)
        assert not sending.done()
        link.acknowledge()
        assert sending.result(PATIENCE).status_code == 200


def ask(own: ssl.SSLSocket, node: str) -> None:
    """Asks for work, and waits for no answer."""
    key = shown(node)["authorization"]
    own.sendall(f"GET /v1/work HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\n\r\n".encode())


def test_who_hangs_up_is_not_there(link: HttpsServerLink, keys: Path) -> None:
    with connected(link, keys) as own:
        ask(own, "node-3")
        until(lambda: "node-3" in link.present())
    until(lambda: "node-3" not in link.present())


def asking(link: HttpsServerLink, keys: Path, node: str) -> ssl.SSLSocket:
    """A connection on which a node has got a request."""
    link.send(node, FrameParts([b"request"]), PATIENCE)
    own = connected(link, keys)
    ask(own, node)
    assert own.recv(1)
    return own


def test_who_hangs_up_while_computing_has_left_until_it_comes_back(
    link: HttpsServerLink, keys: Path
) -> None:
    first = asking(link, keys, "node-1")
    other = asking(link, keys, "node-2")
    assert not set(link.left()) and {"node-1", "node-2"} <= set(link.present())
    first.close()
    until(lambda: set(link.left()) == {"node-1"})
    assert "node-1" not in link.present()
    back = asking(link, keys, "node-1")
    assert not set(link.left()) and "node-1" in link.present()
    # A line that is older than the newest says nothing.
    newest = asking(link, keys, "node-1")
    back.close()
    other.close()
    until(lambda: set(link.left()) == {"node-2"})
    newest.close()
    until(lambda: set(link.left()) == {"node-1", "node-2"})


def test_who_comes_back_soon_was_never_away(
    link: HttpsServerLink, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may renew its line before it brings an answer."""
    monkeypatch.setattr(application, "BACK", 2 * PATIENCE)
    asking(link, keys, "node-1").close()
    until(lambda: "node-1" not in link._lines)
    assert not set(link.left()) and "node-1" in link.present()
    asking(link, keys, "node-1").close()
    until(lambda: "node-1" not in link._lines)
    monkeypatch.setattr(application, "BACK", 0.0)
    assert set(link.left()) == {"node-1"}
    # The next word of it, on any line.
    with asking(link, keys, "node-1"):
        assert not set(link.left())


@pytest.mark.parametrize(
    ("method", "path", "headers", "content", "status", "word"),
    [
        ("GET", "/v1/work", {}, None, 401, "no-key"),
        ("POST", "/v1/answer", {}, b"x" * 10, 401, "no-key"),
        ("POST", "/v1/answer", "shown", b"x" * (LARGEST + 1), 413, "too-long"),
        ("POST", "/v1/answer", "shown", iter([b"x" * 10]), 411, "no-length"),
        ("GET", "/v1/answer", "shown", None, 405, "no-such-thing"),
        ("GET", "/admin", {}, None, 404, "no-such-thing"),
    ],
)
def test_what_is_refused_says_why_in_a_word(
    link: HttpsServerLink,
    client: httpx.Client,
    method: str,
    path: str,
    headers: object,
    content: object,
    status: int,
    word: str,
) -> None:
    found = client.request(
        method, path, headers=shown() if headers == "shown" else {}, content=content
    )  # type: ignore[arg-type]
    assert found.status_code == status and found.text.strip() == word
    assert link.receive(0.05) == [] and client.get("/v1/health").status_code == 200


def test_b35_a_flood_of_one_key_is_refused_and_others_are_answered(
    link: HttpsServerLink, keys: Path
) -> None:
    """100 connections that show one key, over sockets: few are kept, and another node is answered
    meanwhile.
    """

    def flood(n: int) -> int:
        with client_of(link, keys) as own:
            try:
                return own.post(
                    "/v1/answer", content=b"x" * (LARGEST + 1), headers=shown("node-2")
                ).status_code
            except httpx.HTTPError:
                return 0  # hung up on

    with ThreadPoolExecutor(20) as pool:
        flooding = [pool.submit(flood, n) for n in range(100)]
        link.send("node-1", FrameParts([b"work"]), 60.0)
        with client_of(link, keys) as other:
            assert other.get("/v1/work", headers=shown()).content == b"work"
        assert {each.result(PATIENCE) for each in flooding} <= {0, 413, 429, 503}


def test_a_flood_of_strangers_shuts_their_address_out_and_known_nodes_stay(
    link: HttpsServerLink, keys: Path, client: httpx.Client
) -> None:
    link.send("node-1", FrameParts([b"work"]), 60.0)
    assert client.get("/v1/work", headers=shown()).content == b"work"
    trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    codes: list[int] = []
    with httpx.Client(
        base_url=f"https://{link.address}",
        verify=trust,
        trust_env=False,
        timeout=PATIENCE,
        transport=httpx.HTTPTransport(verify=trust, local_address="127.0.0.2"),
    ) as stranger:
        try:
            for _ in range(400):
                codes.append(stranger.get("/v1/work").status_code)
        except httpx.HTTPError:
            codes.append(0)
    assert codes[0] == 401 and codes[-1] == 0 and link.guard.refused + link.guard.evicted > 0
    assert client.get("/v1/work", headers=shown()).content == b"work"


def test_b31_a_body_of_one_byte_a_second_is_given_up_and_others_are_answered(
    link: HttpsServerLink, keys: Path, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "BODY_SECONDS", 0.5)

    def slowly() -> Iterator[bytes]:
        while True:
            yield b"x"
            time.sleep(0.2)

    with ThreadPoolExecutor(1) as pool, client_of(link, keys) as slow:
        dripping = pool.submit(
            slow.post,
            "/v1/answer",
            content=slowly(),
            headers=shown("node-2") | {"content-length": "1000"},
        )
        link.send("node-1", FrameParts([b"work"]), 60.0)
        assert client.get("/v1/work", headers=shown()).content == b"work"
        with suppress(httpx.HTTPError):  # hung up on in the middle of its body
            assert dripping.result(PATIENCE).status_code == 408
    assert link.receive(0.05) == []


def test_a_head_that_never_ends_is_hung_up_on(link: HttpsServerLink, keys: Path) -> None:
    with connected(link, keys) as slow, suppress(ConnectionError):
        slow.sendall(b"GET /v1/work HTTP/1.1\r\nhost: x\r\n")
        assert slow.recv(1) == b""
    assert link.guard.evicted >= 1


def test_tls_1_2_is_refused(link: HttpsServerLink, keys: Path) -> None:
    old = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    host, port = link.address.split(":")
    with pytest.raises(ssl.SSLError), socket.create_connection((host, int(port))) as plain:
        old.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a10_plain_text_beyond_loopback_is_refused_unless_asked_for() -> None:
    with pytest.raises(InputError, match="plain text"):
        HttpsServerLink(HttpsPlan(host="0.0.0.0", port=0), RUN, {}, LARGEST)
    HttpsServerLink(HttpsPlan(host="0.0.0.0", port=0, insecure=True), RUN, {}, LARGEST).close()


def test_a_port_that_is_taken_and_a_certificate_that_is_none_are_one_line(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InputError, match="cannot listen on 127"),
    ):
        HttpsServerLink(HttpsPlan(port=taken.getsockname()[1]), RUN, {}, LARGEST)
    for name in ("server.crt", "server.key"):
        (tmp_path / name).write_text("no certificate")
    with pytest.raises(InputError, match="no certificate can be read"):
        HttpsServerLink(HttpsPlan(port=0, keys=tmp_path), RUN, {}, LARGEST)


def test_answers_that_nobody_waits_for_are_few(link: HttpsServerLink, client: httpx.Client) -> None:
    """A node may send an answer again, but not by the hundred: the server's own thread hears of
    few.
    """
    from entrenous_network.links.admission import UNASKED

    codes: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        sent = Event()

        def taken() -> int:
            found = 0
            while not sent.is_set():
                found += len(link.receive(0.05))
                link.acknowledge()
            return found

        taking = pool.submit(taken)
        with suppress(httpx.HTTPError):
            for _ in range(40):
                codes.append(
                    client.post("/v1/answer", content=b"again", headers=shown("node-2")).status_code
                )
        sent.set()
        assert (
            codes[:10] == [200] * 10 and 429 in codes and taking.result(PATIENCE) <= UNASKED[1] + 3
        )
    link.send("node-1", FrameParts([b"work"]), 60.0)
    assert client.get("/v1/work", headers=shown()).content == b"work"
