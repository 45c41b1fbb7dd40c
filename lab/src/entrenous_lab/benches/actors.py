"""Actors of Ray: seconds a round over real sockets, compared with local workers in the same run."""

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

DEVICES, WORKERS = 1000, 2
Live = Callable[[str], None]


def actors(threads: int, progress: Progress, *, devices: int = DEVICES) -> dict[str, Any]:
    """FPL rounds of `devices` nodes of one user each, all of whom are asked, over TLS 1.3 on
    loopback: by two actors of a Ray of this machine, and by two worker processes. The devices live
    in two processes on the same cores; see `federation-nodes`.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "server"
        terms = crowd(folder, data_of(devices), SETTINGS, ROUNDS)
        progress(0, 2, "workers")
        local = _measured(folder, devices, _by_workers)
        progress(1, 2, "actors")
        by_actors = _measured(folder, devices, _by_actors)
    progress(2, 2, "measured")
    return {
        "devices": devices,
        "rounds": terms.rounds,
        "workers": WORKERS,
        "seconds_per_round": by_actors,
        "answers_per_second": round(devices / by_actors),
        "seconds_per_round_workers": local,
        "ratio": by_actors / local,
        "against": f"{WORKERS} local workers",
    }


def _measured(folder: Path, devices: int, serve: Callable[[Path, Live], None]) -> float:
    from entrenous_network.operate.running import status

    as_founded(folder)
    serve(folder, lambda address: run_devices(address, folder, devices))
    done = status(folder)
    assert done["status"] == "finished", done
    return float(done["seconds_a_round"])


def _by_workers(folder: Path, live: Live) -> None:
    from entrenous_network.links.https import HttpsPlan
    from entrenous_network.operate.running import serve_by_workers
    from entrenous_network.server.server_folder import ServerFolder

    plan, stop = HttpsPlan(port=0, keys=folder / "keys"), threading.Event()
    with closing(ServerFolder(folder)) as held:
        serve_by_workers(held, plan, WORKERS, stop, lambda pool: _alive(live, pool.address))


def _by_actors(folder: Path, live: Live) -> None:
    from entrenous_network.links.https import HttpsPlan
    from entrenous_network.operate.running import RayPlan
    from entrenous_network.server.server_folder import ServerFolder
    from entrenous_ray.actors import LOCAL, serve_by_actors

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    https, stop = HttpsPlan(port=port, keys=folder / "keys"), threading.Event()
    plan = RayPlan(LOCAL, folder / "actors")
    with closing(ServerFolder(folder)) as held:
        ready = lambda pool: _alive(live, pool.address)  # noqa: E731
        serve_by_actors(held, https, WORKERS, stop, ready, plan=plan)


def _alive(live: Live, address: str) -> None:
    """Runs the devices in processes that a thread waits for."""
    threading.Thread(target=live, args=(address,), daemon=True).start()


BENCHES = {"federation-actors": actors}
