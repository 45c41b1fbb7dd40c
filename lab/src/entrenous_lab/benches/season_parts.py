"""The processes of `season`: a server that waits between two rounds, and the devices of some people
in one process, of which some vanish.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from entrenous_network.links.polling import PollingNode
    from entrenous_network.node.common import Common

ROUND = "round"


def run_a_server(folder: Path) -> None:
    """Runs a server. After each round it says so, and goes on when it is told."""
    from entrenous_network.operate.running import run_server

    stop = threading.Event()

    def passed(done: int, total: int, what: str) -> None:
        print(ROUND, flush=True)
        # At its end whoever runs this has gone.
        if not sys.stdin.readline():
            stop.set()

    run_server(folder, stop, lambda line: None, progress=passed)


def run_devices(share: dict[str, Any]) -> None:
    """Adds the rows that have come to some people, and says how many each device took. Then runs
    their devices until standard input ends: each of its lines says who vanishes from now on, and
    has all others be there again. At the end says how many bytes they have got and sent.
    """
    from entrenous_network.node.common import Common

    folders = {name: Path(folder) for name, folder in share["folders"].items()}
    taken = {}
    for name, rows in share["rows"].items():
        taken[name] = _added(folders[name], rows)
    print(json.dumps(taken), flush=True)
    common = Common()
    tally = Tally()
    with ExitStack() as stack:
        nodes = {}
        for name, folder in folders.items():
            nodes[name] = tally.counted(_opened(folder, common, stack))
        running = stack.enter_context(ExitStack())
        # All of them connect to the same place.
        at = next(iter(folders.values()))
        for line in sys.stdin:
            running.close()
            _run(running, at, nodes, json.loads(line))
    print(json.dumps(tally.bytes), flush=True)


def _run(
    stack: ExitStack, at: Path, nodes: Mapping[str, PollingNode], vanish: Mapping[str, str]
) -> None:
    """Runs nodes until the end of `stack`, of which some vanish at a stage of a sum."""
    # Those that stay share one loop. Each that vanishes ends by itself.
    staying = []
    goings = []
    for name, node in nodes.items():
        stage = vanish.get(name)
        if stage is None:
            staying.append(node)
            continue
        gone = threading.Event()
        goings.append(gone)
        _begin(stack, at, [_vanishing(node, stage, gone)], gone)
    if staying:
        _begin(stack, at, staying, threading.Event())
    # All are told to end before any is waited for.
    for gone in goings:
        stack.callback(gone.set)


@final
class Tally:
    """The bytes of all requests and answers of a process."""

    def __init__(self) -> None:
        self.bytes: Counter[str] = Counter()
        """By the kind of the request."""

    def counted(self, node: PollingNode) -> PollingNode:
        """Returns a node whose messages are counted."""
        from entrenous_network.frames.frames import opened

        answer = node.answer

        def answered(request: bytes) -> bytes:
            kind = opened(request).head.kind
            self.bytes[kind] += len(request)
            said = answer(request)
            self.bytes[kind] += len(said)
            return said

        return node._replace(answer=answered)


def _added(folder: Path, rows: list[list[Any]]) -> int:
    """Adds rows to a device, up to the first one of an item that it does not know yet. Returns
    their number.
    """
    from entrenous_network.agreement.growth import current_terms
    from entrenous_network.node.node_store import STORE, AddedRow, NodeStore

    known = current_terms(folder).items
    store = NodeStore(folder / STORE)
    user = int(store.users[0])
    coming = []
    for item, value, time in rows:
        if item >= known:
            break
        coming.append(AddedRow(user, item, value, time))
    if coming:
        store.add_rows(coming)
    store.close()
    return len(coming)


def _opened(folder: Path, common: Common, stack: ExitStack) -> PollingNode:
    """Opens a node until the end of `stack`."""
    from entrenous_network.node.node import FederatedNode
    from entrenous_network.operate.running_node import polling

    node = FederatedNode(folder, common=common)
    stack.callback(node.close)
    return polling(node)


def _vanishing(node: PollingNode, stage: str, gone: threading.Event) -> PollingNode:
    """Returns a node that is gone as soon as it is asked for a stage of a sum."""
    from entrenous_network.frames.frames import opened

    answer: Callable[[bytes], bytes] = node.answer

    def answered(request: bytes) -> bytes:
        if opened(request).head.kind == stage:
            gone.set()
            raise ConnectionError("this device has vanished")
        return answer(request)

    return node._replace(answer=answered)


def _begin(stack: ExitStack, folder: Path, nodes: list[PollingNode], gone: threading.Event) -> None:
    """Runs nodes in a thread, until `gone` is set or `stack` ends."""
    from entrenous_network.agreement.files import read_json
    from entrenous_network.links.polling import serve

    address = read_json(folder / "node.json")["server"]
    thread = threading.Thread(
        target=serve,
        args=(address, folder / "ca.crt", nodes, gone),
        kwargs={"say": lambda line: None},
    )
    thread.start()
    stack.callback(thread.join)
    stack.callback(gone.set)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        run_a_server(Path(sys.argv[2]))
    else:
        run_devices(json.loads(Path(sys.argv[2]).read_text()))
