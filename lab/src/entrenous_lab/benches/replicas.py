"""Replicas of Ray Serve: seconds a round over real sockets, beside as many workers without Ray."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from entrenous.core.contract.protocols import Progress

from .nodes import ROUNDS, SETTINGS, as_founded, data_of, run_devices
from .serving import crowd

DEVICES, REPLICAS = 1000, 2


def replicas(threads: int, progress: Progress, *, devices: int = DEVICES) -> dict[str, Any]:
    """FPL rounds of `devices` nodes of one user each, all of whom are asked, over TLS 1.3 on
    loopback: by two replicas of Ray Serve behind its proxy, and by two workers of the server
    itself. The devices live in two processes on the same cores; see `federation-nodes`.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "server"
        terms = crowd(folder, data_of(devices), SETTINGS, ROUNDS)
        progress(0, 2, "workers")
        workers = _measured(folder, devices, _by_workers)
        progress(1, 2, "replicas")
        found = _measured(folder, devices, _by_ray)
    progress(2, 2, "measured")
    return {
        "devices": devices,
        "rounds": terms.rounds,
        "replicas": REPLICAS,
        "seconds_per_round": found,
        "answers_per_second": round(devices / found),
        "seconds_per_round_workers": workers,
        "ratio": found / workers,
        "against": f"{REPLICAS} workers without Ray",
    }


def _measured(
    folder: Path, devices: int, serve: Callable[[Path, Callable[[str], None]], None]
) -> float:
    from entrenous.deploy.operate.running import status

    as_founded(folder)
    serve(folder, lambda address: run_devices(address, folder, devices))
    done = status(folder)
    assert done["status"] == "finished", done
    return float(done["seconds_a_round"])


def _by_workers(folder: Path, live: Callable[[str], None]) -> None:
    from entrenous.deploy.links.https import HttpsPlan
    from entrenous.deploy.operate.running import serve_by_workers
    from entrenous.deploy.server.server_folder import ServerFolder

    with closing(ServerFolder(folder)) as held:
        plan = HttpsPlan(port=0, keys=folder / "keys")
        serve_by_workers(
            held, plan, REPLICAS, threading.Event(), lambda pool: _alive(live, pool.address)
        )


def _by_ray(folder: Path, live: Callable[[str], None]) -> None:
    from entrenous.deploy.links.https import HttpsPlan
    from entrenous.deploy.ray_serve import LOCAL, RayPlan, serve_by_ray
    from entrenous.deploy.server.server_folder import ServerFolder

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with closing(ServerFolder(folder)) as held:
        plan, https = (
            RayPlan(LOCAL, REPLICAS, folder / "replicas"),
            HttpsPlan(port=port, keys=folder / "keys"),
        )
        serve_by_ray(held, https, plan, threading.Event(), lambda pool: _alive(live, pool.address))


def _alive(live: Callable[[str], None], address: str) -> None:
    """The devices, in processes that a thread waits for."""
    threading.Thread(target=live, args=(address,), daemon=True).start()


BENCHES = {"federation-ray": replicas}
