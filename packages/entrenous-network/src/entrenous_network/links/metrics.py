"""Metrics and health of a server, a node or a peer for its operator: GET /metrics, in the text
format of Prometheus, and GET /v1/health, both on 127.0.0.1.

It has numbers of rounds, answers, requests and connections; no name of a node, no item, no user,
nothing of a model."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, final

from entrenous.core.errors import InputError, NotYet, may_pass

from ..agreement.terms import ENDLESS
from .health import Trouble, no_trouble

if TYPE_CHECKING:
    from prometheus_client import Metric

# The form that `generate_latest` writes.
TYPE = "text/plain; version=0.0.4; charset=utf-8"
HOST = "127.0.0.1"
METRICS = "/metrics"
HEALTH = "/v1/health"
PREFIX = "entrenous_"


# ---- families ------------------------------------------------------------------------------------

Family: TypeAlias = "Metric"
"""Samples of one name."""


class LinkTally(NamedTuple):
    """The counts of a server's port to its nodes."""

    requests: Mapping[str, int] = {}
    """Requests by what became of them."""
    refused: int = 0
    """Connections refused so far."""

    def plus(self, other: LinkTally) -> LinkTally:
        """Returns the sum of both, as of several processes."""
        return LinkTally(
            Counter(self.requests) + Counter(other.requests), self.refused + other.refused
        )

    def since(self, before: LinkTally) -> LinkTally:
        """Returns what was counted since `before`."""
        return LinkTally(
            Counter(self.requests) - Counter(before.requests), self.refused - before.refused
        )


def gauge(name: str, help: str, value: float) -> Family:
    """Returns one number that rises and falls."""
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(PREFIX + name, help, value)


def rounds(most: float) -> Family:
    """Returns the number of rounds of a federation, infinite where they go on without end."""
    value = math.inf if most == ENDLESS else most
    return gauge("rounds", "Rounds of the federation; +Inf where they go on without end.", value)


def counter(name: str, help: str, value: float) -> Family:
    """Returns one number that only grows while its process lives. name: ends in _total."""
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(PREFIX + name, help, value)


def counters(name: str, help: str, counts: Mapping[str, float], label: str = "code") -> Family:
    """Returns a number that only grows, for each value of a label. name: ends in _total."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(PREFIX + name, help, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family


@final
class _Families:
    """The families as prometheus_client collects them."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Sequence[Family]:
        return self._families


def text_of(families: Sequence[Family]) -> str:
    """Returns the text of /metrics."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry).decode()


# ---- a server ------------------------------------------------------------------------------------


def exposition(
    status: Mapping[str, Any], link: LinkTally, certificate_ends: float | None = None
) -> str:
    """Returns the text of /metrics of a server.

    status: what the server says of itself; see `FederationServer`. certificate_ends: seconds since
    1970, None = there is no certificate.
    """
    families = [*_of_server(status), *of_port(link)]
    if certificate_ends is not None:
        ends = "When the certificate ends, since 1970."
        families.append(gauge("certificate_ends_seconds", ends, certificate_ends))
    return text_of(families)


def _of_server(status: Mapping[str, Any]) -> list[Family]:
    def number(key: str) -> float:
        return float(status.get(key, 0))

    halted = float(status.get("status") == "halted")
    liars = float(len(status.get("liars", ())))
    tested = []
    if "hit_rate" in status:
        about = "Share of new rows that lists of ten would have had, in the newest 20 rounds."
        tested.append(gauge("hit_rate", about, number("hit_rate")))
    return [
        *tested,
        gauge("rounds_done", "Rounds that are over.", number("round")),
        rounds(number("rounds")),
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
        gauge(
            "halted",
            "1 when a round was not counted and the server does no more until a person acts.",
            halted,
        ),
        gauge("liars", "Nodes that have lied in a secure sum.", liars),
        counter("disk_errors_total", "Writes of this process that failed.", number("disk_errors")),
        counters("answers_total", "Answers by what became of them.", status.get("answers", {})),
    ]


def of_port(link: LinkTally) -> list[Family]:
    """Returns what a port to nodes has counted."""
    return [
        counters("requests_total", "Requests of nodes by what became of them.", link.requests),
        counter("connections_refused_total", "Connections that were refused.", link.refused),
    ]


class Telling(Protocol):
    """An answer to an operator's two questions: what was counted, and what is wrong."""

    def text(self) -> str: ...
    def trouble(self) -> Trouble | None: ...


@final
class Metrics:
    """The `Telling` of a server.

    status: the last that the server said of itself. link: the counts of its port, which whoever
    makes that sets. trouble: why the server cannot do its work. certificate_ends: as in
    `exposition`.
    """

    def __init__(
        self,
        status: Callable[[], Mapping[str, Any]],
        trouble: Callable[[], Trouble | None] = no_trouble,
        certificate_ends: float | None = None,
    ) -> None:
        self.status = status
        self.link: Callable[[], LinkTally] = LinkTally
        self.trouble = trouble
        self._certificate_ends = certificate_ends

    def text(self) -> str:
        return exposition(self.status(), self.link(), self._certificate_ends)


# ---- the port ------------------------------------------------------------------------------------


@contextmanager
def served(telling: Telling, port: int | None) -> Iterator[int]:
    """Answers GET /metrics and GET /v1/health on 127.0.0.1 meanwhile.

    port: 0 = a free one; None = nothing is answered. Yields the port. Health is 200, or 503 with a
    line that says what is wrong. Raises InputError.
    """
    if port is None:
        yield 0
        return
    if find_spec("prometheus_client") is None:
        raise InputError(
            "--metrics",
            "prometheus-client is not installed",
            fix="pip install 'entrenous[network]'",
        )
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(telling))
    except (OSError, OverflowError) as error:
        kind = NotYet if may_pass(error) else InputError
        problem = f"cannot listen on {HOST}:{port}: {error}"
        raise kind("--metrics", problem, fix="choose another port") from error
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
            body = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: metrics are read every few seconds."""

    return Handler
