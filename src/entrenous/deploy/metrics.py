"""What a server counts, for operators: GET /metrics on 127.0.0.1, in the text format of Prometheus.

It has numbers of rounds, nodes, answers, requests, connections and bytes; no name of a node, no item, no user, nothing of a model.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, final

from ..core.errors import InputError

TYPE = "text/plain; version=0.0.4; charset=utf-8"
HOST = "127.0.0.1"
Rows = list[tuple[str, float]]  # labels and value


class LinkTally(NamedTuple):
    """What a server's port to its nodes has counted. requests: by what became of them; open: connections now; refused, evicted: so far."""

    requests: Mapping[str, int] = {}  # never written to
    open: int = 0
    refused: int = 0
    evicted: int = 0

    def plus(self, other: LinkTally) -> LinkTally:
        """Both together, as of several processes."""
        requests = Counter(self.requests) + Counter(other.requests)
        return LinkTally(requests, self.open + other.open, self.refused + other.refused, self.evicted + other.evicted)


def exposition(status: Mapping[str, Any], link: LinkTally | None) -> str:
    """The text of /metrics. status: what a server says of itself; see `FederationServer`. link: None where no port is its own."""
    number = lambda key: [("", float(status.get(key, 0)))]  # noqa: E731
    labelled = lambda found, label="code": [(f'{{{label}="{key}"}}', float(n)) for key, n in sorted(found.items())]  # noqa: E731
    moved = {"down": status.get("bytes_down", 0), "up": status.get("bytes_up", 0)}
    families: list[tuple[str, str, str, Rows]] = [
        ("rounds_done", "gauge", "Rounds that are over.", number("round")),
        ("rounds", "gauge", "Rounds of the federation.", number("rounds")),
        ("rounds_lost_total", "counter", "Rounds under masks that gave no sum and do not count.", number("lost")),
        ("round_seconds", "gauge", "Seconds a round, median of this process.", number("seconds_a_round")),
        ("nodes_present", "gauge", "Nodes that are connected.", number("nodes")),
        ("nodes", "gauge", "Nodes of the federation.", number("of")),
        ("halted", "gauge", "1 when a round was not counted and the server stopped.", [("", float(status.get("status") == "halted"))]),
        ("liars", "gauge", "Nodes that have lied in a secure sum.", [("", float(len(status.get("liars", ()))))]),
        ("answers_total", "counter", "Answers by what became of them.", labelled(status.get("answers", {}))),
        ("bytes_total", "counter", "Bytes of requests (down) and counted answers (up), of finished rounds.", labelled(moved, "direction")),
    ]  # fmt: skip
    ports: list[tuple[str, str, str, Rows]] = [] if link is None else [
        ("requests_total", "counter", "Requests of nodes by what became of them.", labelled(link.requests)),
        ("connections_open", "gauge", "Connections now.", [("", float(link.open))]),
        ("connections_refused_total", "counter", "Connections that were refused.", [("", float(link.refused))]),
        ("connections_evicted_total", "counter", "Connections that were hung up on.", [("", float(link.evicted))]),
    ]  # fmt: skip
    return "".join(_family(*each) for each in families + ports)


def _family(name: str, kind: str, help: str, rows: Rows) -> str:
    full = f"entrenous_{name}"
    return f"# HELP {full} {help}\n# TYPE {full} {kind}\n" + "".join(f"{full}{labels} {value:.10g}\n" for labels, value in rows)


@final
class Metrics:
    """What /metrics tells. status: the last that the server said of itself; link: counts its port, once it has one; None of it where
    another program has the port, such as Ray Serve."""

    def __init__(self, status: Callable[[], Mapping[str, Any]], link: Callable[[], LinkTally | None] = LinkTally) -> None:
        self.status, self.link = status, link

    def text(self) -> str:
        return exposition(self.status(), self.link())


@contextmanager
def served(metrics: Metrics, port: int | None) -> Iterator[int]:
    """Answers GET /metrics on 127.0.0.1 meanwhile, on the port that is returned (0 = a free one; None = not at all). Raises InputError."""
    if port is None:
        yield 0
        return
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(metrics))
    except (OSError, OverflowError) as error:
        raise InputError("--metrics", f"cannot listen on {HOST}:{port}: {error}", fix="choose another port") from error
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def _handler(metrics: Metrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            found = self.path == "/metrics"
            said = metrics.text().encode() if found else b"there is only /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("content-type", TYPE if found else "text/plain")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: who reads metrics does so every few seconds."""

    return Handler
