"""A federation in one process over real sockets: TLS 1.3, node keys, a connection for each node."""

from __future__ import annotations

import ssl
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
from entrenous_network.links.admission import Admission
from entrenous_network.links.application import Front, Traffic, application
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.links.polling import serve
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate import running
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.running_node import polling
from entrenous_network.server.server import serve_opened
from entrenous_network.server.server_folder import ServerFolder
from gathered_model import gathered
from starlette.routing import Route

from entrenous.core.contract.protocols import Progress, silent


def routes() -> list[str]:
    """The paths that the application of a server's nodes answers."""
    front = Front(Admission("", {}), Traffic(), None, 1, Counter())
    paths = {route.path for route in application(front).routes if isinstance(route, Route)}
    return sorted(paths)


def client_of(link: HttpsServerLink, keys: Path) -> httpx.Client:
    """A client that trusts the server's authority."""
    trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    return httpx.Client(
        base_url=f"https://{link.address}", verify=trust, trust_env=False, timeout=60.0
    )


def over_https(made: FoundedFederation, progress: Progress = silent) -> str:
    """The model of a federation whose nodes are tasks of this process, each with a connection of
    its own, TLS 1.3; `model_sha256` of all of it."""
    nodes = [FederatedNode(folder) for folder in made.nodes.values()]
    stop = threading.Event()
    plan = HttpsPlan(port=0, keys=made.server / "keys")
    with (
        closing(ServerFolder(made.server)) as held,
        closing(running.https_link(held, plan)) as link,
    ):
        link.start()
        polled = [polling(node) for node in nodes]
        ca = made.server / "keys" / "ca.crt"
        at_work = threading.Thread(
            target=serve,
            args=(link.address, ca, polled, stop),
            kwargs={"say": lambda text: None},
        )
        at_work.start()
        try:
            assert serve_opened(link, held, progress=progress)
        finally:
            stop.set()
            at_work.join(240)
    for node in nodes:
        node.close()
    return gathered(made.server.parent).sha256
