"""`entrenous server`, `gateway` and `device`: the parts of a federation, each on its own machine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from .console import say
from .options import NETWORK, need_libraries

LogFormat = Literal["text", "json"]
Insecure = Annotated[bool, Parameter(name="--insecure", negative="")]


def server(
    folder: Path, /, *, insecure: Insecure = False, metrics: int | None = None, log_format: LogFormat = "text", proxy: str = ""
) -> None:
    """Run a federation's server until its rounds are done. It goes on from where it was, whatever ended it.

    Parameters
    ----------
    folder:
        The server's, as `entrenous federation new` or `try` made it.
    insecure:
        Beyond loopback without TLS: everybody on the way may read and change what passes. For a private network that is encrypted itself.
    metrics:
        The port on 127.0.0.1 where GET /metrics tells what the server counts, as Prometheus reads it. Default: none.
    log_format:
        Of server.log: text, or json for one object a line.
    proxy:
        The address from which a proxy connects that limits connections itself. If it and the server are on loopback, TLS ends there.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.running import run_server

    with _until_stopped() as stop:
        run_server(folder, stop, say, insecure=insecure, metrics=metrics, log_format=log_format, proxy=proxy)


def gateway(folder: Path, /, *, threads: int = 0, insecure: Insecure = False) -> None:
    """Run a node that serves many users (a shop, a clinic, a company) until it is stopped. It connects by itself, again and again.

    Parameters
    ----------
    folder:
        The node's, as `entrenous federation join` or `try` made it.
    threads:
        Threads over its users' devices, 0 = all cores. Never changes a result.
    insecure:
        Speak to a server beyond loopback without TLS.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.running import run_node
    from ..federation.executors import Threads

    with _until_stopped() as stop:
        run_node(folder, stop, say, threads=Threads(threads).workers, insecure=insecure)


def device(folder: Path, /, *, insecure: Insecure = False) -> None:
    """Run the node of one user until it is stopped: the same program as a gateway, which refuses a second user.

    Parameters
    ----------
    folder:
        The node's folder.
    insecure:
        Speak to a server beyond loopback without TLS.
    """
    need_libraries("federation", *NETWORK)
    from ..deploy.running import run_node

    with _until_stopped() as stop:
        run_node(folder, stop, say, insecure=insecure, most=1)


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    from ..deploy.running import orphaned

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    orphaned(stop)
    yield stop
