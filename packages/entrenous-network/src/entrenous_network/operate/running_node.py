"""Runs a node over HTTPS, with what a node needs and no more: it starts on small machines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from entrenous.core.compiling import INSTALLED, UNCOMPILED
from entrenous.core.lock import holding
from entrenous.core.printed import counted

from ..agreement.files import read_json
from ..agreement.notice import known_addresses
from ..frames.request import largest_request
from ..links.admission import here
from ..links.metrics import served
from ..links.port import Answer
from ..node.common import Common
from ..node.node import FederatedNode
from ..node.node_store import NODE
from ..node.node_watch import EVERY, NodeWatch, ShopWatch
from .shop import devices_of

if TYPE_CHECKING:
    from ..links.polling import PollingNode

Say = Callable[[str], None]


def run_node(
    folder: Path,
    stop: threading.Event,
    say: Say,
    *,
    threads: int = 1,
    insecure: bool = False,
    metrics: int | None = None,
    served_at: int | None = None,
) -> None:
    """Runs a node, or the devices of a shop, until `stop` is set, or each has the trained model and
    serves no apps.

    threads: of a node. metrics: port on 127.0.0.1 that answers GET /metrics; None = none.
    served_at: port on 127.0.0.1 that serves the devices to apps; None = none. Raises InputError for
    a folder, a port or a server that cannot be used.
    """
    shop = devices_of(folder)
    devices = shop or [folder]
    about = read_json(devices[0] / NODE)
    # All customers know the same members, and in a sum are shown the same signatures.
    common = Common()
    every = EVERY * len(devices)
    nodes = []
    watches = []
    with ExitStack() as stack:
        if shop:
            # A customer's device has one user: there is nothing to divide among threads.
            threads = 1
            stack.enter_context(holding(folder / "lock"))
        for device in devices:
            # Nobody may run one of them by itself meanwhile.
            stack.enter_context(holding(device / "lock"))
            node = FederatedNode(device, threads=threads, common=common)
            stack.callback(node.close)
            watch = NodeWatch(device, node.terms, node.store.standing, every=every)
            stack.callback(watch.close)
            nodes.append(node)
            watches.append(watch)
        who = str(folder) if shop else nodes[0].name
        users = sum(len(node.shard.users) for node in nodes)
        rows = counted(sum(len(node.rows) for node in nodes), "row")
        newest, *_ = known_addresses(devices[0], about["server"])
        say(f"{who}: {counted(users, 'customer' if shop else 'user')}, {rows}, server {newest}")
        say(nodes[0].terms.limits())
        if not INSTALLED:
            say(UNCOMPILED)
        if line := nodes[0].terms.other_source(str(about.get("algorithm", ""))):
            say(f"warning: {line}")
        stack.enter_context(served(ShopWatch(watches), metrics))
        own = common if shop else None
        stack.enter_context(_served_to_apps(folder, served_at, say, own))
        asked = [polling(node, watch) for node, watch in zip(nodes, watches, strict=True)]
        ask(devices[0], asked, stop, say, insecure)
        if not stop.is_set():
            say(f"{who}: finished, the trained model is here")
            if served_at is not None:
                stop.wait()


def ask(
    folder: Path,
    nodes: Sequence[PollingNode],
    stop: threading.Event,
    say: Say,
    insecure: bool = False,
) -> None:
    """Has nodes of one federation ask its server for work until `stop` is set. folder:
    of one of them. Raises InputError for a server that cannot be used.
    """
    from ..links.polling import serve  # with httpx, which only a node that runs needs

    about = read_json(folder / NODE)
    # Without a certificate of its federation, a node trusts those that the system trusts.
    ca = folder / "ca.crt"
    trusted = ca if ca.exists() else None
    serve(about["server"], trusted, nodes, stop, tls=about["tls"], insecure=insecure, say=say)


@contextmanager
def _served_to_apps(
    folder: Path, port: int | None, say: Say, common: Common | None = None
) -> Iterator[None]:
    """Serves the device of a node, or the devices of a shop, to apps meanwhile, if there is a port
    for that. common: of a shop, as in `ShopDevices`.
    """
    if port is None:
        yield
        return
    # A server, and a node without apps, need none of these.
    from .device import Device
    from .device_http import HOST, TOKEN, OneDevice, ServedDevices, serving
    from .served_shop import ShopDevices

    with ExitStack() as stack:
        devices: ServedDevices
        if common is None:
            devices = OneDevice(stack.enter_context(Device(folder)))
        else:
            devices = stack.enter_context(closing(ShopDevices(folder, common)))
        number = stack.enter_context(serving(devices, folder, port))
        say(f"serving apps at http://{HOST}:{number}, with the token in {folder / TOKEN}")
        yield


def polling(node: FederatedNode, watch: NodeWatch | None = None) -> PollingNode:
    """Returns the object by which a node asks a server for work. watch: learns of every answer."""
    from ..links.polling import PollingNode

    shown = lambda: here(node.key, node.terms.run, node.name)  # noqa: E731
    request = largest_request(node.contract, len(node.shard.users), node.terms.masked)
    # A list of items may grow to twice its length while this process lives.
    largest = 2 * max(request, node.listed.length)
    addresses = partial(known_addresses, node.folder)
    asked = PollingNode(shown, node.answer, largest=largest, addresses=addresses)
    if watch is None:
        return asked
    return asked._replace(answer=watched(node.answer, watch), watch=watch)


def watched(answer: Answer, watch: NodeWatch) -> Answer:
    """Returns a function that answers as `answer` does, and shows each answer to `watch`."""

    def answered(request: bytes) -> bytes:
        frame = answer(request)
        watch.answered(frame)
        return frame

    return answered
