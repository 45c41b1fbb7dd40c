"""What a server, a node or a peer counts, for operators: GET /metrics and GET /v1/health on
127.0.0.1; the first is in the text format of Prometheus.

It has numbers of rounds, nodes, answers, requests, connections and bytes; no name of a node, no
item, no user, nothing of a model."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Protocol, final

from ... import __version__
from ...core.errors import InputError, NotYet, may_pass
from .health import Trouble, no_trouble

TYPE = "text/plain; version=0.0.4; charset=utf-8"
HOST = "127.0.0.1"
METRICS, HEALTH = "/metrics", "/v1/health"
STATM = "/proc/self/statm"  # of Linux: sizes of this process in pages
Rows = list[tuple[str, float]]  # labels and value


class Family(NamedTuple):
    """Samples of one name. kind: gauge or counter; rows: labels and value of each."""

    name: str
    kind: str
    help: str
    rows: Rows


class LinkTally(NamedTuple):
    """What a server's port to its nodes has counted. requests: by what became of them; open:
    connections now; refused, evicted: so far.
    """

    requests: Mapping[str, int] = {}  # never written to
    open: int = 0
    refused: int = 0
    evicted: int = 0

    def plus(self, other: LinkTally) -> LinkTally:
        """Both together, as of several processes."""
        requests = Counter(self.requests) + Counter(other.requests)
        return LinkTally(
            requests,
            self.open + other.open,
            self.refused + other.refused,
            self.evicted + other.evicted,
        )


# ---- families ------------------------------------------------------------------------------------


def gauge(name: str, help: str, value: float) -> Family:
    """One number that rises and falls."""
    return Family(name, "gauge", help, [("", float(value))])


def counter(name: str, help: str, value: float) -> Family:
    """One number that only grows while its process lives."""
    return Family(name, "counter", help, [("", float(value))])


def counters(name: str, help: str, found: Mapping[str, float], label: str = "code") -> Family:
    """A number that only grows, for each value of a label."""
    return Family(
        name,
        "counter",
        help,
        [(f'{{{label}="{key}"}}', float(n)) for key, n in sorted(found.items())],
    )


def process() -> list[Family]:
    """What is told of every process: its version and its memory."""
    version = Family(
        "build_info",
        "gauge",
        "Always 1; the version of this package.",
        [(f'{{version="{__version__}"}}', 1.0)],
    )
    return [
        version,
        gauge(
            "memory_bytes",
            "Resident memory of this process; 0 where the system does not tell.",
            resident(),
        ),
    ]


def resident() -> int:
    """The bytes of memory that this process has now; 0 where the system does not tell."""
    try:
        with open(STATM, encoding="ascii") as sizes:
            return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def text_of(families: Sequence[Family]) -> str:
    """The text of /metrics."""
    return "".join(_written(family) for family in families)


def _written(family: Family) -> str:
    full = f"entrenous_{family.name}"
    head = f"# HELP {full} {family.help}\n# TYPE {full} {family.kind}\n"
    return head + "".join(f"{full}{labels} {_number(value)}\n" for labels, value in family.rows)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.10g}"


# ---- a server ------------------------------------------------------------------------------------


def exposition(
    status: Mapping[str, Any], link: LinkTally | None, certificate_ends: float | None = None
) -> str:
    """The text of /metrics of a server. status: what it says of itself; see `FederationServer`.
    link: None where no port is its own. certificate_ends: seconds since 1970, None = it has
    none.
    """
    families = [*_of_server(status), *of_port(link), *process()]
    if certificate_ends is not None:
        families.append(
            gauge(
                "certificate_ends_seconds",
                "When the certificate ends, since 1970.",
                certificate_ends,
            )
        )
    return text_of(families)


def _of_server(status: Mapping[str, Any]) -> list[Family]:
    number = lambda key: float(status.get(key, 0))  # noqa: E731
    moved = {"down": number("bytes_down"), "up": number("bytes_up")}
    halted = float(status.get("status") == "halted")
    return [
        gauge("rounds_done", "Rounds that are over.", number("round")),
        gauge("rounds", "Rounds of the federation.", number("rounds")),
        gauge(
            "round_seconds", "Seconds a round, median of this process.", number("seconds_a_round")
        ),
        gauge(
            "last_commit_seconds",
            "When the last round was committed, since 1970; 0 before the first.",
            number("committed"),
        ),
        counter(
            "rounds_lost_total",
            "Rounds under masks that gave no sum and do not count.",
            number("lost"),
        ),
        gauge("nodes_present", "Nodes that are connected.", number("nodes")),
        gauge("nodes", "Nodes of the federation.", number("of")),
        gauge(
            "halted",
            "1 when a round was not counted and the server does no more until a person acts.",
            halted,
        ),
        gauge(
            "liars", "Nodes that have lied in a secure sum.", float(len(status.get("liars", ())))
        ),
        counter("disk_errors_total", "Writes of this process that failed.", number("disk_errors")),
        counters("answers_total", "Answers by what became of them.", status.get("answers", {})),
        counters(
            "bytes_total",
            "Bytes of requests (down) and counted answers (up), of finished rounds.",
            moved,
            "direction",
        ),
    ]


def of_port(link: LinkTally | None) -> list[Family]:
    """What a port to nodes has counted; nothing where there is none."""
    if link is None:
        return []
    return [
        counters("requests_total", "Requests of nodes by what became of them.", link.requests),
        gauge("connections_open", "Connections now.", link.open),
        counter("connections_refused_total", "Connections that were refused.", link.refused),
        counter("connections_evicted_total", "Connections that were hung up on.", link.evicted),
    ]


class Telling(Protocol):
    """What answers an operator's two questions: what was counted, and what is wrong."""

    def text(self) -> str: ...
    def trouble(self) -> Trouble | None: ...


@final
class Metrics:
    """What a server's /metrics tells. status: the last that it said of itself; link: counts its
    port, once it has one; None of it where another program has the port, such as Ray Serve;
    trouble: why it cannot do its work; certificate_ends: as in `exposition`.
    """

    def __init__(
        self,
        status: Callable[[], Mapping[str, Any]],
        link: Callable[[], LinkTally | None] = LinkTally,
        trouble: Callable[[], Trouble | None] = no_trouble,
        certificate_ends: float | None = None,
    ) -> None:
        self.status, self.link, self.trouble = status, link, trouble
        self._certificate_ends = certificate_ends

    def text(self) -> str:
        return exposition(self.status(), self.link(), self._certificate_ends)


# ---- the port ------------------------------------------------------------------------------------


@contextmanager
def served(telling: Telling, port: int | None) -> Iterator[int]:
    """Answers GET /metrics and GET /v1/health on 127.0.0.1 meanwhile, on the port that is returned
    (0 = a free one; None = not at all). Health is 200, or 503 with a line that says what is wrong.
    Raises InputError.
    """
    if port is None:
        yield 0
        return
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(telling))
    except (OSError, OverflowError) as error:
        kind = NotYet if may_pass(error) else InputError
        raise kind(
            "--metrics", f"cannot listen on {HOST}:{port}: {error}", fix="choose another port"
        ) from error
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def _handler(telling: Telling) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            if self.path == METRICS:
                self._say(200, telling.text(), TYPE)
            elif self.path == HEALTH:
                self._health()
            else:
                self._say(404, f"there is {METRICS} and {HEALTH}\n")

        def _health(self) -> None:
            why = telling.trouble()
            if why is None:
                self._say(200, "ok\n")
            else:
                self._say(503, f"{why.kind}: {why.text}\n")

        def _say(self, status: int, text: str, kind: str = "text/plain") -> None:
            said = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: who reads metrics does so every few seconds."""

    return Handler
