"""A node that lives on: servers that are away, clocks that are off, keys that are not known."""

from __future__ import annotations

import re
import socket
import threading
import time
from base64 import urlsafe_b64encode
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement import certificates
from entrenous_network.agreement.certificates import make_keys
from entrenous_network.frames.frames import FrameParts, seal
from entrenous_network.links import admission, polling
from entrenous_network.links.admission import here
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.links.polling import Backoff, PollingNode, Unwatched, serve
from entrenous_network.operate.founding import free_ports
from federation_links import until
from over_https import KEY, RUN, members, received

from entrenous.core.errors import InputError

PATIENCE = 120.0


class Running:
    """A node in a thread: what it says, and how it ended."""

    def __init__(self, address: str, ca: Path | None, node: PollingNode, **more: bool) -> None:
        self.stop, self.said, self.ended = threading.Event(), list[str](), list[Exception]()
        self.thread = threading.Thread(target=self._run, args=(address, ca, node), kwargs=more)
        self.thread.start()

    def _run(self, address: str, ca: Path | None, node: PollingNode, **more: bool) -> None:
        try:
            serve(address, ca, [node], self.stop, say=self.said.append, **more)
        except Exception as error:
            self.ended.append(error)

    def close(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def node(key: Ed25519PrivateKey = KEY) -> PollingNode:
    return PollingNode(lambda: here(key, RUN, "node-1"), lambda frame: frame[::-1])


def link_at(port: int, keys: Path | None) -> HttpsServerLink:
    own = HttpsServerLink(HttpsPlan(port=port, keys=keys), RUN, members(), 1000)
    own.start()
    return own


def exchanged(link: HttpsServerLink, said: bytes) -> bytes:
    """What the node answers."""
    link.send("node-1", FrameParts([said]), 60.0)
    found = received(link)
    link.acknowledge()
    return found[0][1]


def test_a_node_outlives_its_server(tmp_path: Path) -> None:
    make_keys(tmp_path)
    port = free_ports()[0]
    with closing(Running(f"127.0.0.1:{port}", tmp_path / "ca.crt", node())) as running:
        until(lambda: running.said)
        for said in (b"abc", b"def"):  # it began before its server, which then comes twice
            with closing(link_at(port, tmp_path)) as link:
                assert exchanged(link, said) == said[::-1]
        assert not running.ended


class Finished(Unwatched):
    """The observer of a node that has the trained model."""

    def finished(self) -> bool:
        """Returns True."""
        return True


def test_a_node_that_has_all_ends_without_a_word_when_its_server_does(tmp_path: Path) -> None:
    """Before: the held question was answered with 500, `lost` was said, and it went on for ever."""
    make_keys(tmp_path)
    with closing(link_at(0, tmp_path)) as link:
        done = node()._replace(watch=Finished())
        running = Running(link.address, tmp_path / "ca.crt", done)
        assert exchanged(link, b"abc") == b"cba"
    running.thread.join(PATIENCE)
    assert not running.thread.is_alive() and not running.said and not running.ended


def test_an_answer_that_fails_is_said_and_the_node_goes_on(tmp_path: Path) -> None:
    def fails(frame: bytes) -> bytes:
        if frame == b"bad":
            raise RuntimeError("no\nsuch thing")
        return frame

    with (
        closing(link_at(0, None)) as link,
        closing(Running(link.address, None, PollingNode(node().here, fails), tls=False)) as running,
    ):
        link.send("node-1", FrameParts([b"bad"]), 60.0)
        until(lambda: running.said)
        assert running.said[0] == "a request was not answered: RuntimeError: no such thing"
        assert exchanged(link, b"good") == b"good"


def test_r10_a_clock_an_hour_off_is_named_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    there = SimpleNamespace(time=lambda: time.time() - 3600, monotonic=time.monotonic)
    monkeypatch.setattr(polling, "time", there)
    late = PollingNode(lambda: _signed_at(int(there.time())), bytes)
    with (
        closing(link_at(0, None)) as link,
        closing(Running(link.address, None, late, tls=False)) as running,
    ):
        until(lambda: running.said)
        assert re.search(
            r"this machine's clock is 3[56]\d\d s behind the server's: set both by a time server",
            running.said[0],
        )
        assert not running.ended


def _signed_at(seconds: int) -> str:
    frame = seal(KEY, admission.KIND, run=RUN, node="node-1", about={"time": seconds})
    return admission.SCHEME + urlsafe_b64encode(frame).decode()


def test_a_node_that_the_server_does_not_know_ends_with_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "PATIENCE", 0.5)
    with closing(link_at(0, None)) as link:
        running = Running(link.address, None, node(Ed25519PrivateKey.generate()), tls=False)
        running.thread.join(PATIENCE)
        assert isinstance(
            running.ended[0], InputError
        ) and "does not let this node in (bad-signature)" in str(running.ended[0])


def test_the_wrong_authority_and_the_wrong_protocol_end_with_a_line(tmp_path: Path) -> None:
    for name in ("own", "other"):
        make_keys(tmp_path / name)
    with closing(link_at(0, tmp_path / "own")) as link:
        for ca, more, word in (
            (tmp_path / "other" / "ca.crt", {}, "not to be trusted"),
            (None, {"tls": False}, "plain HTTP"),
        ):
            running = Running(link.address, ca, node(), **more)
            running.thread.join(PATIENCE)
            assert running.ended and word in str(running.ended[0]), (running.ended, running.said)
    with closing(link_at(0, None)) as plain:
        running = Running(plain.address, tmp_path / "own" / "ca.crt", node())
        running.thread.join(PATIENCE)
        assert "does not speak TLS" in str(running.ended[0])
    with pytest.raises(InputError, match="plain text"):
        serve("10.1.2.3:8443", None, [node()], threading.Event(), tls=False)


def test_a_first_handshake_that_is_cut_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a server that is full, or restarts: it was taken for one that does not speak TLS, and the
    node ended with code 2.
    """
    monkeypatch.setattr(Backoff, "pause", lambda self: 0.05)
    make_keys(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as cutting:
        port = cutting.getsockname()[1]
        running = Running(f"127.0.0.1:{port}", tmp_path / "ca.crt", node())
        for _ in range(3):
            connection, _ = cutting.accept()
            with connection:
                assert connection.recv(5)
    with closing(running), closing(link_at(port, tmp_path)) as link:
        assert exchanged(link, b"abc") == b"cba"
        assert not running.ended and len(running.said) >= 3


@pytest.mark.parametrize(("wrong", "word"), [("early", "not valid yet"), ("late", "has expired")])
def test_a_certificate_whose_time_is_not_this_is_named_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, word: str
) -> None:
    """A node whose clock was an hour behind a new certificate ended with code 2, and no service
    manager starts that again.
    """
    monkeypatch.setattr(Backoff, "pause", lambda self: 0.05)
    make_keys(tmp_path)
    port = free_ports()[0]

    def renewed(days: float) -> None:
        for name in ("server.crt", "server.key"):
            (tmp_path / name).unlink()
        make_keys(tmp_path, days=days)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        if wrong == "early":
            patched.setattr(certificates, "BACKDATED", timedelta(hours=-1))
        renewed(365 if wrong == "early" else -0.5)
    with closing(Running(f"127.0.0.1:{port}", tmp_path / "ca.crt", node())) as running:
        with closing(link_at(port, tmp_path)):
            until(lambda: any(word in line for line in running.said))
        renewed(365)
        with closing(link_at(port, tmp_path)) as link:
            assert exchanged(link, b"abc") == b"cba"
        assert not running.ended


def test_c5_at_most_ten_attempts_a_minute_and_then_again() -> None:
    """In virtual time: a server that is away for ten minutes, then back."""
    clock = [0.0]
    waits, times = Backoff(lambda: clock[0]), list[float]()
    while clock[0] < 600:
        clock[0] += waits.pause()
        waits.attempt()
        times.append(clock[0])
    assert (
        all(sum(at <= then < at + 60 for then in times) <= 10 for at in times) and len(times) > 20
    )
    waits.success()
    clock[0] += 60
    assert waits.pause() == 0.0 and waits.ever
