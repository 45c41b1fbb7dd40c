"""`entrenous server` and `node`: the parts of a federation, each on its own machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ..core.errors import InputError
from ..core.keywords import at_least
from .console import say
from .options import NETWORK, PEERS, need_libraries

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
    ray: str | None = None,
    journal: Path | None = None,
) -> None:
    """Run a federation's server until its rounds are done. It goes on from where it was, whatever
    ended it.

    Parameters
    ----------
    folder:
        The server's, as `entrenous federation new` or `try` made it.
    workers:
        Processes that take answers, on the one port; 1: the server alone. Never changes a result.
        Secure sums of one group each are made side by side. Not with a defence.
    insecure:
        Beyond loopback without TLS: everybody on the way may read and change what passes. For a
        private network that is encrypted itself.
    metrics:
        The port on 127.0.0.1 where GET /metrics tells what the server counts, as Prometheus reads
        it, and GET /v1/health whether it can do its work. A halted server then goes on telling so
        until it is stopped. Default: none.
    log_format:
        Of server.log: text, or json for one object a line.
    proxy:
        The address from which a proxy connects that limits connections itself. If it and the server
        are on loopback, TLS ends there.
    pace:
        Seconds from the end of a round to the next one, at least: 3600 = about a round an hour.
        Nodes need not know.
    ray:
        Have the workers be actors of Ray, which places them on the machines of a cluster:
        HOST:PORT of one whose machine this is, or local. Each listens at its machine's address, on
        the port of place.json.
    journal:
        The actors' folder for journals, on each machine; with --ray. The default is one in the
        server's folder.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.operate.running import run_server
    from ..deploy.server.ray_workers import RayPlan

    at_least("--workers", workers, 1)
    if not 0 <= pace < float("inf"):
        raise InputError("--pace", f"got {pace:g}", expected="seconds, from 0")
    if ray is None and journal is not None:
        problem, fix = "is of actors of Ray", "add --ray local, or leave it out"
        raise InputError("--journal", problem, expected="--ray beside it", fix=fix)
    plan = None if ray is None else RayPlan(ray, (journal or folder / "actors").absolute())
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
            ray=plan,
        )


def node(
    folder: Path, /, *, threads: int = 0, insecure: Insecure = False, metrics: int | None = None
) -> None:
    """Run a node until it is stopped: a device of one user, a gateway of many, a relay, or a peer.
    It connects by itself, again and again.

    Parameters
    ----------
    folder:
        The node's, as `entrenous federation join` or `try` made it.
    threads:
        Threads over its users' devices, 0 = all cores. Never changes a result.
    insecure:
        Speak to a server beyond loopback without TLS.
    metrics:
        The port on 127.0.0.1 where GET /metrics tells what the node counts, as Prometheus reads it,
        and GET /v1/health whether it can do its work. Default: none.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.agreement.files import read_json
    from ..deploy.agreement.terms import TERMS, FederationTerms
    from ..deploy.node.node_store import NODE

    has_server = not (folder / NODE).exists() or FederationTerms.read(folder / TERMS).has_server
    with _until_stopped() as stop:
        if has_server:
            from ..deploy.operate.running import run_node, run_relay
            from ..federation.executors import Threads

            if read_json(folder / NODE).get("relay"):
                return run_relay(folder, stop, say, insecure=insecure, metrics=metrics)
            return run_node(
                folder,
                stop,
                say,
                threads=Threads(threads).workers,
                insecure=insecure,
                metrics=metrics,
            )
        need_libraries("node", *PEERS)
        from ..deploy.peers.running import run

        run(folder, stop, say, metrics)
    sys.stdout.flush()
    sys.stderr.flush()
    # All is saved and closed. A normal exit would wait up to half a minute, in iroh's library, for
    # peers that are dead.
    os._exit(0)


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    from ..deploy.operate.processes import orphaned

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    orphaned(stop)
    yield stop
