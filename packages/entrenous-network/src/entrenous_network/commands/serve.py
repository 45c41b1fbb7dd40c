"""`entrenous server` and `entrenous node`: the services of a federation, each on its own machine.
Both run until they are told to end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from cyclopts import Parameter

from entrenous.cli.console import say
from entrenous.core.errors import InputError
from entrenous.core.keywords import at_least

from .libraries import NETWORK, OF_NODE, PEERS, need_libraries

LogFormat = Literal["text", "json"]
Insecure = Annotated[bool, Parameter(name="--insecure", negative="")]


def server(
    folder: Path,
    /,
    *,
    workers: int = 1,
    insecure: Insecure = False,
    metrics: int | None = None,
    log_format: LogFormat = "text",
    proxy: str = "",
    pace: float = 0.0,
    origin: Annotated[list[str] | None, Parameter(negative="")] = None,
    ray: str | None = None,
    journal: Path | None = None,
) -> None:
    """Run the server of a federation until its rounds are done. Started again, it continues where
    it stopped, whatever ended it.

    Parameters
    ----------
    folder:
        The server's folder, which `entrenous federation new` or `try` made.
    workers:
        Number of processes that receive answers on the same port; 1: the server itself alone. Never
        changes a result. The secure sums of several groups are then computed in parallel. Not
        available with a defence.
    insecure:
        Listen beyond loopback without TLS: anybody on the network path can read and change the
        messages. For private networks that are encrypted otherwise.
    metrics:
        Port on 127.0.0.1 that answers GET /metrics (counters, in Prometheus' format) and GET
        /v1/health (can the server work?). A halted server then keeps reporting that until it is
        stopped. Default: none.
    log_format:
        Format of server.log: text, or json for one object a line.
    proxy:
        Address of a proxy in front of the server that limits connections itself. If proxy and
        server are both on loopback, the proxy ends TLS.
    pace:
        Least number of seconds between the end of a round and the start of the next: 3600 = about
        one round an hour. Nodes need not know it.
    origin:
        The origin of a web page that may speak to this server from a browser, such as
        https://app.example; may be repeated. Default: none.
    ray:
        Run the workers as actors of Ray, which places them on the machines of a cluster: HOST:PORT
        of a cluster that this machine belongs to, or local. Each actor listens at the address of
        its machine, on the port in place.json.
    journal:
        With --ray: the folder in which the actors on each machine keep their journals. Default: a
        folder in the server's.
    """
    need_libraries("federation", *NETWORK)
    from ..operate.running import RayPlan, run_server

    at_least("--workers", workers, 1)
    if not 0 <= pace < float("inf"):
        raise InputError("--pace", f"got {pace:g}", expected="seconds, from 0")
    if ray is None and journal is not None:
        problem = "is an option of actors of Ray"
        fix = "add --ray local, or leave it out"
        raise InputError("--journal", problem, expected="--ray as well", fix=fix)
    if ray is not None and origin:
        fix = "have the proxy in front of the actors allow it"
        raise InputError("--origin", "is not for actors of Ray", expected="no --ray", fix=fix)
    plan = None
    if ray is not None:
        # Actors have working directories of their own.
        journals = (journal or folder / "actors").absolute()
        plan = RayPlan(ray, journals)
    with _until_stopped() as stop:
        run_server(
            folder,
            stop,
            say,
            insecure=insecure,
            workers=workers,
            metrics=metrics,
            log_format=log_format,
            proxy=proxy,
            pace=pace,
            origins=origin or (),
            ray=plan,
        )


def node(
    folder: Path,
    /,
    *,
    threads: int = 0,
    insecure: Insecure = False,
    metrics: int | None = None,
    serve: int | None = None,
) -> None:
    """Run a node until it is stopped, or has the trained model: the device of one user, a gateway
    of many users, a shop with a device for each customer, or a peer. It connects, and reconnects,
    by itself.

    Parameters
    ----------
    folder:
        The node's folder, which `entrenous federation join` or `try` made.
    threads:
        Number of threads that train the users' devices, 0 = all cores. Never changes a result.
    insecure:
        Connect to a server beyond loopback without TLS.
    metrics:
        Port on 127.0.0.1 that answers GET /metrics (counters, in Prometheus' format) and GET
        /v1/health (can the node work?). Default: none.
    serve:
        Port on 127.0.0.1 that serves the device to apps on this machine: recommendations, new rows,
        forgetting (GET /openapi.json has the routes). Requests carry the token in serve.token of
        the folder; those to a shop name the customer: user=ID. Default: none.
    """
    need_libraries("federation", *OF_NODE)
    given = NodeOptions(threads, insecure, metrics, serve)
    name = _kind_of(folder)
    kind = NODES[name]
    for option, value in given._asdict().items():
        if option not in kind.takes and value != NodeOptions._field_defaults[option]:
            fix = f"leave it out at a {name}"
            raise InputError(f"--{option}", f"a {name} does not have it", fix=fix)
    with _until_stopped() as stop:
        kind.run(folder, stop, given)


class NodeOptions(NamedTuple):
    """The options of `entrenous node`, as its docstring explains them."""

    threads: int = 0
    insecure: bool = False
    metrics: int | None = None
    serve: int | None = None


class NodeKind(NamedTuple):
    """A kind of folder that `entrenous node` runs."""

    run: Callable[[Path, threading.Event, NodeOptions], None]
    """Runs it until the event is set."""
    takes: frozenset[str]
    """The options that it has; another one is refused where it is given."""


def _kind_of(folder: Path) -> str:
    """Returns the kind of a node's folder, a name of `NODES`."""
    from ..agreement.terms import TERMS, FederationTerms
    from ..node.node_store import NODE
    from ..operate.shop import devices_of

    if devices_of(folder):
        return "shop"
    # A folder without node.json is none of a node: `run_node` says so.
    if not (folder / NODE).exists() or FederationTerms.read(folder / TERMS).has_server:
        return "node"
    return "peer"


# Each imports its own libraries: a gateway needs no iroh and no server, a peer no httpx.


def _run_node(folder: Path, stop: threading.Event, given: NodeOptions) -> None:
    from entrenous.federation.shard import Threads

    from ..operate.running_node import run_node

    run_node(
        folder,
        stop,
        say,
        threads=Threads(given.threads).workers,
        insecure=given.insecure,
        metrics=given.metrics,
        served_at=given.serve,
    )


def _run_peer(folder: Path, stop: threading.Event, given: NodeOptions) -> None:
    need_libraries("node", *PEERS)
    from ..peers.running import run

    run(folder, stop, say, given.metrics)
    sys.stdout.flush()
    sys.stderr.flush()
    # All is saved and closed. A normal exit would wait up to half a minute, in iroh's library, for
    # peers that are dead.
    os._exit(0)


NODES: Mapping[str, NodeKind] = MappingProxyType(
    {
        "shop": NodeKind(_run_node, frozenset({"insecure", "metrics", "serve"})),
        "node": NodeKind(_run_node, frozenset(NodeOptions._fields)),
        "peer": NodeKind(_run_peer, frozenset({"metrics"})),
    }
)


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """Yields an event that SIGTERM and SIGINT set, and the death of a parent of a trial."""
    from ..operate.processes import orphaned

    stop = threading.Event()
    # Only a flag: a round under way ends, and all is saved, before the process does.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    orphaned(stop)
    yield stop
