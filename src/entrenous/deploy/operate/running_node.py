"""Runs a node over HTTPS, with what a node needs and no more: it starts on small machines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import InputError
from ...core.lock import holding
from ..agreement.files import read_json
from ..agreement.notice import known_addresses
from ..frames.request import largest_request
from ..links.admission import here
from ..links.metrics import served
from ..links.port import Answer
from ..node.common import Common
from ..node.node import FederatedNode
from ..node.node_store import NODE
from ..node.node_watch import NodeWatch
from .shop import arms_of_shop

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
    """Runs a node until `stop` is set. metrics: port on 127.0.0.1 that answers GET /metrics; None =
    none. served_at: port on 127.0.0.1 that serves the device to apps; None = none. Raises
    InputError for a folder, a port or a server that cannot be used.
    """
    from ..links.polling import serve  # with httpx, which only a node that runs needs

    about = read_json(folder / NODE)
    with holding(folder / "lock"), closing(FederatedNode(folder, threads=threads)) as node:
        newest, *_ = known_addresses(folder, about["server"])
        say(f"{node.name}: {len(node.shard.users)} users, {len(node.rows)} rows, server {newest}")
        say(node.terms.limits())
        if line := node.terms.other_source(str(about.get("algorithm", ""))):
            say(f"warning: {line}")
        # Without a certificate of its federation, a node trusts those that the system trusts.
        ca = folder / "ca.crt"
        trusted = ca if ca.exists() else None
        watch = NodeWatch(folder, node.terms, node.store.standing)
        with closing(watch), served(watch, metrics), _served_device(folder, served_at, say):
            asked = polling(node, watch)
            serve(
                about["server"],
                trusted,
                [asked],
                stop,
                tls=about["tls"],
                insecure=insecure,
                say=say,
            )


def run_shop(folder: Path, stop: threading.Event, say: Say, *, insecure: bool = False) -> None:
    """Runs the devices of a shop until `stop` is set. Raises InputError as `run_node` does; of
    several arms one that cannot be used is said, and the others go on until `stop` is set.
    """
    with ExitStack() as stack:
        stack.enter_context(holding(folder / "lock"))
        arms = []
        for devices in arms_of_shop(folder).values():
            # The customers of an arm know the same members, and in a sum are shown the same
            # signatures.
            common = Common()
            nodes = []
            for device in devices:
                # Nobody may run one of them by itself meanwhile.
                stack.enter_context(holding(device / "lock"))
                node = FederatedNode(device, common=common)
                stack.callback(node.close)
                nodes.append(node)
            arms.append(nodes)
        with ThreadPoolExecutor(len(arms)) as pool:
            asking = [pool.submit(_ask, nodes, stop, say, insecure) for nodes in arms]
            wait(asking)
        for arm in asking:
            arm.result()


def _ask(nodes: Sequence[FederatedNode], stop: threading.Event, say: Say, insecure: bool) -> None:
    """Has nodes of one federation ask its server for work until `stop` is set. Raises InputError,
    which is said too, for a server that cannot be used.
    """
    from ..links.polling import serve

    folder = nodes[0].folder
    about = read_json(folder / NODE)
    rows = sum(len(node.rows) for node in nodes)
    newest, *_ = known_addresses(folder, about["server"])
    say(f"{folder.parent}: {len(nodes)} customers, {rows} rows, server {newest}")
    say(nodes[0].terms.limits())
    ca = folder / "ca.crt"
    trusted = ca if ca.exists() else None
    asked = [polling(node) for node in nodes]
    try:
        serve(about["server"], trusted, asked, stop, tls=about["tls"], insecure=insecure, say=say)
    except InputError as why:
        say(f"{len(nodes)} customers stop: {why}")
        raise


@contextmanager
def _served_device(folder: Path, port: int | None, say: Say) -> Iterator[None]:
    """Serves the device of a node's folder to apps meanwhile, if there is a port for it."""
    if port is None:
        yield
        return
    # A server, and a node without apps, need neither.
    from ..links.device_http import HOST, TOKEN, serving
    from .device import Device

    with Device(folder) as device, serving(device, folder, port) as number:
        say(f"serving apps at http://{HOST}:{number}, with the token in {folder / TOKEN}")
        yield


def polling(node: FederatedNode, watch: NodeWatch | None = None) -> PollingNode:
    """Returns the object by which a node asks a server for work. watch: learns of every answer."""
    from ..links.polling import PollingNode

    shown = lambda: here(node.key, node.terms.run, node.name)  # noqa: E731
    request = largest_request(node.contract, len(node.shard.users), node.terms.masked)
    # A list of items may grow to twice its length while this process lives.
    largest = 2 * max(request, len(node.items.text.encode()))
    addresses = partial(known_addresses, node.folder)
    if watch is None:
        return PollingNode(shown, node.answer, largest=largest, addresses=addresses)
    return PollingNode(shown, watched(node.answer, watch), watch, largest, addresses)


def watched(answer: Answer, watch: NodeWatch) -> Answer:
    """Returns a function that answers as `answer` does, and shows each answer to `watch`."""

    def answered(request: bytes) -> bytes:
        frame = answer(request)
        watch.answered(frame)
        return frame

    return answered
