"""A federation in one process over real sockets: TLS 1.3, node keys, a connection for each node."""

from __future__ import annotations

import socket
import ssl
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.files import public_bytes
from entrenous_network.agreement.members import Member
from entrenous_network.links.admission import Admission, here
from entrenous_network.links.application import Front, Traffic, application
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.links.polling import serve
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate import running
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.running_node import polling
from entrenous_network.server.server import serve_opened
from entrenous_network.server.server_folder import ServerFolder
from federation_links import PATIENCE, until
from gathered_model import gathered
from starlette.routing import Route

from entrenous.core.contract.protocols import Progress, silent

RUN = "ab" * 16
KEY = Ed25519PrivateKey.generate()


def shown(node: str = "node-1") -> dict[str, str]:
    """The header by which a node shows its key."""
    return {"authorization": here(KEY, RUN, node)}


def members(count: int = 4) -> dict[str, Member]:
    """Nodes of one key, each with a user."""
    return {f"node-{n}": Member(f"node-{n}", public_bytes(KEY).hex(), n, n) for n in range(count)}


def received(link: HttpsServerLink) -> list[tuple[str, bytes]]:
    """The next answers that a server has got."""
    found: list[tuple[str, bytes]] = []

    def some() -> bool:
        found.extend(link.receive(0.1))
        return bool(found)

    until(some)
    return found


def connected(link: HttpsServerLink, keys: Path) -> ssl.SSLSocket:
    """A connection to a server, on which nothing has been said."""
    host, port = link.address.split(":")
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    plain = socket.create_connection((host, int(port)), PATIENCE)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def socket_there(port: int) -> bool:
    """Tells whether somebody listens at a port."""
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


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
