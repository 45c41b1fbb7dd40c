"""A server that lies, or whoever has its TLS key: every answer costs a node little, is named in a
line, and tried again.
"""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import aclosing, closing, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
from bad_answers import mutated
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.certificates import make_keys
from entrenous_network.agreement.join_link import JoinLink, authority_of
from entrenous_network.frames.contribution import agreed
from entrenous_network.frames.request import largest_request, write_download
from entrenous_network.links import polling
from entrenous_network.links.admission import here
from entrenous_network.links.knocking import JoiningLine
from entrenous_network.links.polling import (
    Backoff,
    BadResponse,
    PollingNode,
    ServerLine,
    ServerSaid,
    clock_of,
    pause_of,
    serve,
)
from federation_links import in_one_line, ratings

from entrenous.core.contract.declared import is_federated
from entrenous.core.keys import key
from entrenous.systems.named import algorithms

RUN, KEY, PATIENCE = "ab" * 16, Ed25519PrivateKey.generate(), 60.0
LARGEST = 100_000  # bytes of a request of this federation
GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood"
MANY = 64 << 20  # bytes that an endless response would be sent for
NAMES = [name for name, make in sorted(algorithms().items()) if is_federated(make())]
Answer = Callable[[socket.socket], None]


class LyingServer:
    """Answers the first questions with lies, each on a connection of its own, and then as it
    should. said: the requests.
    """

    def __init__(self, keys: Path | None, *lies: bytes | Answer) -> None:
        self.said, self.answered = list[bytes](), threading.Event()
        self._lies = list(lies)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._trust = None
        if keys is not None:
            self._trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._trust.load_cert_chain(keys / "server.crt", keys / "server.key")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listening.accept()
                plain.settimeout(PATIENCE)
                with suppress(OSError), self._spoken(plain) as own:
                    self._answer(own)

    def _spoken(self, plain: socket.socket) -> socket.socket:
        return plain if self._trust is None else self._trust.wrap_socket(plain, server_side=True)

    def _answer(self, own: socket.socket) -> None:
        while request := self._request(own):
            self.said.append(request)
            lie = self._lies.pop(0) if self._lies else None
            if callable(lie):
                lie(own)
                return
            if lie is not None:
                own.sendall(lie)
            elif request.startswith(b"POST"):
                own.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                self.answered.set()
            else:
                own.sendall(GOOD)

    def _request(self, own: socket.socket) -> bytes:
        """A request with its body, which is short."""
        found = b""
        while b"\r\n\r\n" not in found:
            piece = own.recv(65536)
            if not piece:
                return b""
            found += piece
        head, _, body = found.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
        while len(body) < size:
            piece = own.recv(65536)
            # A node that is stopped may hang up in the middle of its answer. Reading on would find
            # nothing, without end, and keep a core busy until the last test.
            if not piece:
                return b""
            body += piece
        return head + body


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that connects again without waiting."""
    monkeypatch.setattr(Backoff, "pause", lambda self: 0.0)
    monkeypatch.setattr(polling, "QUICK", 0.01)


def polled(server: LyingServer, keys: Path) -> list[str]:
    """What a node says until it has answered a good request of the server. It must not end by
    itself.
    """
    stop, said, ended = threading.Event(), list[str](), list[BaseException]()
    node = PollingNode(lambda: here(KEY, RUN, "node-1"), lambda frame: frame[::-1], largest=LARGEST)

    def run() -> None:
        try:
            serve(f"127.0.0.1:{server.port}", keys / "ca.crt", [node], stop, say=said.append)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    end = time.monotonic() + PATIENCE
    while not server.answered.wait(0.02):
        assert not ended and time.monotonic() < end, (ended, said)
    stop.set()
    thread.join(PATIENCE)
    assert not ended and not thread.is_alive()
    return said


def response(status: str = "200 OK", body: bytes = b"", **head: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


BOMB = gzip.compress(bytes(1 << 24))
LIES: dict[str, tuple[bytes, str]] = {
    "gzip": (
        response(body=BOMB, content_encoding="gzip", content_length=str(len(BOMB))),
        "is encoded",
    ),
    "gzip-on-a-refusal": (
        response("500 No", BOMB, content_encoding="GZIP", content_length=str(len(BOMB))),
        "is encoded",
    ),
    "br": (response(content_encoding="br", content_length="0"), "is encoded"),
    "two-encodings": (
        response(content_encoding="identity, gzip", content_length="0"),
        "is encoded",
    ),
    "too-long": (
        response(content_length="1000000000"),
        "of 1000000000 bytes; expected at most 100000",
    ),
    "a-byte-too-long": (response(content_length=str(LARGEST + 1)), "expected at most 100000"),
    "a-length-of-5000-digits": (response(content_length="9" * 5000), "trying again"),
    "a-length-that-is-none": (response(content_length="\xb2"), "trying again"),
    "two-lengths": (response(content_length="5\r\ncontent-length: 6"), "trying again"),
    "no-length": (response(body=b"x"), "does not say how long"),
    "chunked": (
        response(body=b"3\r\nabc\r\n0\r\n\r\n", transfer_encoding="chunked"),
        "does not say how long",
    ),
    "a-head-without-end": (response(x_long="y" * 200_000), "trying again"),
    "no-http": (b"220 mail.example ESMTP\r\n\r\n", "trying again"),
    "http-9": (b"HTTP/9.9 200 OK\r\n\r\n", "trying again"),
    "status-0": (response("000 Nothing"), "trying again"),
    "status-999": (response("999 Much", content_length="0"), "the server says 999"),
    "redirected": (
        response("302 Found", location="http://127.0.0.1:1/\x7f", content_length="0"),
        "the server says 302",
    ),
    "a-word": (
        response("403 No", b"another-node\n", content_length="13"),
        "the server says another-node",
    ),
    "escapes": (
        response("403 No", b"\x1b]0;owned\x07\x9b2J", content_length="13"),
        "the server says 403",
    ),
    "later-in-superscript": (
        response("429 No", b"too-often", content_length="9", retry_after="\xb2"),
        "too-often",
    ),
    "a-date-out-of-range": (
        response(
            "401 No",
            b"clock",
            content_length="5",
            date="Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        ),
        "clock",
    ),
    "a-date-of-year-1": (
        response("401 No", b"clock", content_length="5", date="Mon, 01 Jan 0001 00:00:00 GMT"),
        "clock",
    ),
    "switching": (response("101 Switching", upgrade="h2c", connection="upgrade"), "trying again"),
}


@pytest.mark.parametrize("name", LIES)
def test_m4_a_hostile_response_is_named_in_a_line_and_tried_again(
    name: str, keys: Path, at_once: None
) -> None:
    lie, word = LIES[name]
    with closing(LyingServer(keys, lie + b" " * 1000, GOOD)) as server:
        said = polled(server, keys)
    assert said and word in said[0] and said[0].endswith("; trying again"), said
    assert all(line.isprintable() and len(line) < 400 for line in said), said


@pytest.mark.parametrize("status", ["200 OK", "500 No"])
def test_m4_a_response_without_end_is_hung_up_on(status: str, keys: Path, at_once: None) -> None:
    sent = 0

    def endless(own: socket.socket) -> None:
        nonlocal sent
        own.sendall(response(status, transfer_encoding="chunked"))
        while sent < MANY:
            own.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            sent += 65536

    with closing(LyingServer(keys, endless)) as server:
        assert polled(server, keys)
    assert sent < MANY // 2  # what the machine's buffers hold


def test_m4_interim_responses_without_end_and_bodies_of_a_byte_a_second_are_given_up(
    keys: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "CALL", 0.5)
    monkeypatch.setattr(polling, "HELD", 0.5)

    def interim(own: socket.socket) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            own.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.02)

    def slow(own: socket.socket) -> None:
        own.sendall(response(content_length="1000"))
        for _ in range(1000):
            own.sendall(b"x")
            time.sleep(0.1)

    with closing(LyingServer(keys, interim, slow)) as server:
        said = polled(server, keys)
    assert "no answer within" in said[0] and any("too slowly" in line for line in said), said


def test_m4_a_connection_that_breaks_anywhere_is_tried_again(keys: Path, at_once: None) -> None:
    def cut(at: int) -> Answer:
        return lambda own: own.sendall(GOOD[:at])

    def no_tls(own: socket.socket) -> None:
        socket.socket(fileno=own.detach()).sendall(b"\x15\x03\x03plain text")

    with closing(
        LyingServer(keys, *(cut(at) for at in (0, 5, 20, len(GOOD) - 1)), no_tls)
    ) as server:
        said = polled(server, keys)
    assert len(said) == 5 and all(line.endswith("trying again") for line in said), said


def test_m4_a_server_without_work_cannot_keep_a_node_busy() -> None:
    at_once = ServerSaid(204, b"", 0.0, "")
    assert all(pause_of(at_once, 0.001) >= 0.5 for _ in range(100))
    assert pause_of(at_once, 20.0) == 0.0
    assert 2.5 <= pause_of(at_once._replace(later=5.0), 0.001) <= 5.0
    assert pause_of(at_once._replace(later=1e15), 20.0) <= 600.0


def test_m4_hundreds_of_responses_with_bytes_changed_raise_what_a_node_expects() -> None:
    draw = random.Random(36)
    whole = [
        response(
            body=b"a frame",
            content_length="7",
            date="Mon, 01 Jan 2024 00:00:00 GMT",
            retry_after="5",
        ),
        response(
            "429 Too Many", b"too-often\n", content_length="10", retry_after="5", connection="close"
        ),
        response(body=b"3\r\nabc\r\n0\r\nx: y\r\n\r\n", transfer_encoding="chunked"),
        response("401 No", b"clock\n", content_length="6", date="Mon, 01 Jan 2024 00:00:00 GMT"),
    ]
    seen = {"read": 0, "refused": 0}

    def ending(lie: bytes) -> Answer:
        return lambda own: own.sendall(lie)

    lies = [ending(mutated(draw, draw.choice(whole)) or b"\n") for _ in range(400)]

    async def ask_all(port: int) -> None:
        for _ in lies:
            async with aclosing(ServerLine(f"http://127.0.0.1:{port}", False, LARGEST)) as line:
                try:
                    said = await line.work("Entrenous x")
                    polling._good(said)
                    pause_of(said, 1.0)
                    seen["read"] += 1
                except (httpx.HTTPError, BadResponse):
                    seen["refused"] += 1
                except polling.Refused as why:
                    clock_of(why)
                    assert str(why).isprintable()
                    seen["refused"] += 1

    with closing(LyingServer(None, *lies)) as server:
        asyncio.run(ask_all(server.port))
    assert min(seen.values()) > 20, seen


# ---- how long a request may be -------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_m4_every_request_of_an_algorithm_is_within_its_limit_and_the_limit_is_near(
    name: str,
) -> None:
    data = ratings()
    algorithm = algorithms()[name]().configured(data.catalogue)
    contract = agreed(algorithm, data.catalogue)
    download = algorithm.download(algorithm.init_server(data.catalogue, key(1, "server")))
    for users in ([3], [2, 5, 11], list(range(20))):
        own = np.array(users, np.int64)
        body = sum(map(len, write_download(contract.delivered(download, own), {"users": own})))
        most = largest_request(contract, len(users), masked=False)
        assert body + 5000 < most
        assert largest_request(contract, len(users), masked=True) - most == 6 << 20
        if not any("most" in str(field) for field in contract.receives):
            assert most < body + 25_000


def test_a_node_that_is_run_reads_no_more_than_its_federation_may_say(tmp_path: Path) -> None:
    from entrenous_network.operate.running_node import polling as polling_of
    from federation_links import federation, nodes_of

    for node in nodes_of(federation(tmp_path / "f", nodes=2)).values():
        with closing(node):
            expected = largest_request(node.contract, len(node.shard.users), masked=False)
            # Twice as much, for items that come while it runs.
            assert polling_of(node).largest == 2 * expected < 1 << 16


def test_whoever_shows_the_authority_of_another_server_gets_no_token(
    keys: Path, tmp_path: Path
) -> None:
    make_keys(tmp_path)
    shown = (keys / "ca.crt").read_bytes()
    lie = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(shown), shown)
    with closing(LyingServer(tmp_path, lie)) as server:
        address = f"127.0.0.1:{server.port}"
        link = JoinLink(address, True, RUN, "cd" * 16, authority_of(shown))
        with closing(JoiningLine(link)) as line, in_one_line("not to be trusted"):
            line.terms()
    assert len(server.said) == 1 and b"cdcd" not in server.said[0]
