"""How long a node takes to recommend to one of its users: opened for each call, held open, and
served over loopback HTTP.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from entrenous.core.contract.protocols import Progress, arrays_of
from entrenous.data.synthetic import synthetic

if TYPE_CHECKING:
    from entrenous_network.operate.device import Device

USERS, ITEMS, ROWS, FACTORS = 300, 10_000, 15_000, 32
OPENED, CALLS = 10, 2000  # calls that open the node, and calls of one that is held open
AIM = 5.0  # ms of 99 of 100 calls


def recommending(threads: int, progress: Progress) -> dict[str, Any]:
    """The 10 best of 10,000 items by a model of 32 factors, for each user of a gateway of 300 in
    turn: what a shop's page waits for.
    """
    from entrenous_network.operate.device import Device, recommend

    with tempfile.TemporaryDirectory() as place:
        progress(0, 4, "a node with a model")
        folder = _node_with_a_model(Path(place) / "f")
        recommend(folder, None, 10)  # compiles
        progress(1, 4, "opened for each call")
        opened = [_milliseconds(partial(recommend, folder, None, 10)) for _ in range(OPENED)]
        progress(2, 4, "held open")
        with Device(folder) as device:
            held = _calls(lambda user: device.recommend(user=user), device.users)
            progress(3, 4, "over loopback HTTP")
            served = _requests(device, folder)
    progress(4, 4, "measured")
    p99 = float(np.percentile(served, 99))
    return {
        "opened_each_call_ms": round(statistics.median(opened), 2),
        "held_open_ms": round(statistics.median(held), 3),
        "held_open_p99_ms": round(float(np.percentile(held, 99)), 3),
        "http_ms": round(statistics.median(served), 3),
        "http_p99_ms": round(p99, 3),
        "users": USERS,
        "items": ITEMS,
        "ratio": p99 / AIM,
        "against": (
            f"the limit of {AIM:g} ms for 99 of 100 requests over loopback HTTP (below 1 is better)"
        ),
    }


def _node_with_a_model(folder: Path) -> Path:
    """The folder of a gateway that has trained nothing, and has the federation's first model."""
    from entrenous_network.node.node import FederatedNode
    from entrenous_network.operate.founding import found
    from entrenous_network.operate.plans import FoundingPlan

    from entrenous.core.keys import key

    data = synthetic(users=USERS, items=ITEMS, interactions=ROWS, seed=0)
    settings = {"factors": FACTORS}
    plan = FoundingPlan(algorithm="fpl", settings=settings, rounds=1, profile="paper")
    made = found(folder, data, plan, nodes=1)
    place = made.nodes["node-1"]
    with closing(FederatedNode(place)) as node:
        state = node.algorithm.init_server(made.terms.catalogue, key(0, "server"))
        node.store.receive_model(1, arrays_of(node.algorithm.download(state)))
    return place


def _calls(ask: Callable[[str], object], users: Sequence[str]) -> list[float]:
    """Milliseconds of each of many calls, a user after the other."""
    ask(users[0])
    return [_milliseconds(partial(ask, users[n % len(users)])) for n in range(CALLS)]


def _requests(device: Device, folder: Path) -> list[float]:
    """Milliseconds of each of many requests of an app, over one connection."""
    import httpx
    from entrenous_network.operate.device_http import OneDevice, serving, token_of

    headers = {"Authorization": f"Bearer {token_of(folder)}"}
    with serving(OneDevice(device), folder, 0) as port, httpx.Client(headers=headers) as client:
        place = f"http://127.0.0.1:{port}/v1/recommend"

        def ask(user: str) -> None:
            client.get(place, params={"user": user}).raise_for_status()

        return _calls(ask, device.users)


def _milliseconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return 1e3 * (time.perf_counter() - began)


BENCHES = {"recommend": recommending}
