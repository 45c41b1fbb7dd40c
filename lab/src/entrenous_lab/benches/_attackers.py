"""One process that floods a server on this machine, for the bench `floods`: few connections are
looked at often, many are left alone.

Reads a `Disturbance` as JSON from its standard input, attacks until it is told to end (SIGTERM) or
LONGEST is over, then prints a `Tally`.
"""

from __future__ import annotations

import json
import resource
import select
import signal
import socket
import ssl
import struct
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import NamedTuple, final

LONGEST = 300.0  # seconds, whatever happens
TICK = 0.02  # seconds between two looks around
ENOUGH = 64  # descriptors beside those of connections
NO_PORT_YET = 24  # IP_BIND_ADDRESS_NO_PORT of Linux: a port is found when the other end is known
RESET = struct.pack("ii", 1, 0)  # closing forgets the connection at once


class Disturbance(NamedTuple):
    """What one process does. source: the address that it comes from; sockets: connections that it
    wants open; opened: connections that it opens a second, at most; silent: without a byte.

    shown: a request that each connection sends, and has answered, before anything else; first,
    then, every: what it sends after that, and what follows every so many seconds; requests: sent in
    turn on whichever connection is free, `sent` times a second, at most. Texts are bytes, as
    latin-1 has them.
    """

    host: str
    port: int
    source: str
    sockets: int
    opened: float
    silent: bool = False
    shown: str = ""
    first: str = ""
    then: str = ""
    every: float = 0.0
    requests: tuple[str, ...] = ()
    sent: float = 0.0


def most_files() -> int:
    """How many descriptors this process may have, after asking for as many as the machine
    allows.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@final
class AttackLine:
    """One connection of an attacker. state: connecting, shaking hands, open."""

    def __init__(self, attack: Disturbance, trust: ssl.SSLContext) -> None:
        self._attack, self._trust, self.state = attack, trust, "connecting"
        self.may_speak = not attack.shown
        self.due = 0.0  # when the next piece of what it sends without end is
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_IP, NO_PORT_YET, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.socket.bind((attack.source, 0))
        self.socket.connect_ex((attack.host, attack.port))

    def ready(self) -> int:
        """What to do when the socket can be read or written. Returns how many responses were read.
        Raises OSError when it is over.
        """
        if self.state == "connecting":
            if error := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, "refused")
            self.state = "open"
            if not self._attack.silent:
                self.socket, self.state = (
                    self._trust.wrap_socket(self.socket, do_handshake_on_connect=False),
                    "shaking",
                )
        if self.state == "shaking":
            self._shake()
            return 0
        return self._read()

    def _shake(self) -> None:
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            assert isinstance(self.socket, ssl.SSLSocket)
            self.socket.do_handshake()
            self.state = "open"

    def _read(self) -> int:
        try:
            said = self.socket.recv(65536)
        except (BlockingIOError, ssl.SSLWantReadError):
            return 0
        if not said:
            raise OSError("hung up on")
        return said.count(b"HTTP/1.1 ")

    def say(self, text: bytes) -> int:
        """Send something, as much as the socket takes. Returns how many bytes. Raises OSError."""
        with suppress(BlockingIOError, ssl.SSLWantWriteError):
            return self.socket.send(text)
        return 0


@final
class Attacker:
    """All connections of the process."""

    def __init__(self, attack: Disturbance) -> None:
        self._attack, self._over = attack, False
        self._most = min(attack.sockets, most_files() - ENOUGH)
        self._lines: dict[int, AttackLine] = {}
        self._free: list[int] = []  # connections that may send a request
        self._poll, self.tally = select.epoll(), Counter[str]()
        self._trust = ssl.create_default_context()
        self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE

    def run(self) -> dict[str, float]:
        """Disturbance until told to end. Returns what was done, by name."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_over", True))
        began = last = time.monotonic()
        may_open = may_send = 0.0
        while not self._over and last - began < LONGEST:
            now = time.monotonic()
            may_open = self._open(
                min(may_open + (now - last) * self._attack.opened, self._attack.opened)
            )
            may_send = self._send(
                min(may_send + (now - last) * self._attack.sent, self._attack.sent), now
            )
            last = now
            self._look()
            time.sleep(max(0.0, now + TICK - time.monotonic()))
        self.tally["held"] = sum(line.state == "open" for line in self._lines.values())
        return {**self.tally, "seconds": last - began, "cpu_seconds": time.process_time()}

    def _open(self, budget: float) -> float:
        while budget >= 1.0 and len(self._lines) < self._most:
            budget -= 1.0
            self.tally["opened"] += 1
            try:
                line = AttackLine(self._attack, self._trust)
            except OSError:
                self.tally["no_port"] += 1
                continue
            self._lines[line.socket.fileno()] = line
            self._poll.register(
                line.socket.fileno(),
                select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET,
            )
        return budget

    def _look(self) -> None:
        for number, _ in self._poll.poll(0, 1024):
            line = self._lines.get(number)
            if line is None:
                continue
            try:
                before = line.state
                answered = line.ready()
                if line.state == "open" and (answered or before != "open"):
                    self.tally["answered"] += answered
                    self.tally["established"] += before != "open"
                    line.may_speak = line.may_speak or answered > 0
                    self._free.append(number)
                if line.state == "open" and before != "open" and self._attack.shown:
                    line.say(self._attack.shown.encode("latin-1"))
            except OSError:
                self._closed(number)

    def _closed(self, number: int) -> None:
        self.tally["hung_up_on"] += 1
        with suppress(OSError):
            self._poll.unregister(number)
        self._lines.pop(number).socket.close()

    def _send(self, budget: float, now: float) -> float:
        if self._attack.first:
            self._go_on(now)
            return 0.0
        while budget >= 1.0 and self._free:
            number = self._free.pop()
            if number in self._lines:
                budget -= 1.0
                turn = self.tally["requests"] % len(self._attack.requests)
                self.tally["requests"] += 1
                self._say(number, self._attack.requests[turn].encode("latin-1"))
        return budget

    def _go_on(self, now: float) -> None:
        """Send what each connection sends without end."""
        for number, line in list(self._lines.items()):
            if line.state == "open" and line.may_speak and line.due <= now:
                text = self._attack.then if line.due else self._attack.first
                line.due = now + self._attack.every
                self._say(number, text.encode("latin-1"))

    def _say(self, number: int, text: bytes) -> None:
        try:
            self.tally["bytes"] += self._lines[number].say(text)
        except OSError:
            self._closed(number)


if __name__ == "__main__":
    print(json.dumps(Attacker(Disturbance(*json.loads(sys.stdin.readline()))).run()))
