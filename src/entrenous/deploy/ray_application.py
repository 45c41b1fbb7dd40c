"""The server's application as Ray Serve carries it: Serve for that alone, a replica in each of its
processes, and its proxy's options.
"""

from __future__ import annotations

import importlib
import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..core.errors import InputError, one_line
from .coordinator import ReplicaPlan
from .links.admission import HELD
from .links.application import WAITING
from .links.https import HttpsPlan
from .replica import App, Replica

ALONE = 8  # requests that are answered at once, beside questions that are held


@contextmanager
def serving(ray: Any, name: str) -> Iterator[Any]:
    """Ray Serve for one application, shut down afterwards. Raises InputError where it serves
    others: its port and keys are theirs.
    """
    try:
        serve = importlib.import_module("ray.serve")
    except ImportError as cause:
        raise InputError(
            "--ray",
            f"Ray Serve is not installed ({cause.name})",
            fix="pip install 'entrenous[serve]'",
        ) from None
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    with suppress(ValueError):  # there is none
        ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
        if others := sorted(serve.status().applications.keys() - {name}):
            problem = (
                f"Ray Serve is serving {one_line(', '.join(others), 80)} on this cluster already"
            )
            raise InputError(
                "--ray", problem, expected="a cluster without Serve", fix="serve shutdown"
            )
        serve.shutdown()  # left by a server that was killed
    try:
        yield serve
    finally:
        serve.shutdown()


class ServedReplica:
    """What Serve makes in each process: the replica in a thread, and its application."""

    def __init__(self, plan: ReplicaPlan, coordinator: Any) -> None:
        ray = importlib.import_module("ray")
        self.replica = Replica(
            plan,
            uuid.uuid4().hex,
            lambda name, said: ray.get(coordinator.report.remote(name, said)),
        )
        self._thread = threading.Thread(target=self.replica.run, daemon=True, name="replica")
        self._thread.start()

    def __serve_build_asgi_app__(self) -> App:
        return self.replica.app

    def check_health(self) -> None:
        """Raise RuntimeError where the thread has ended: then Serve makes another."""
        if not self._thread.is_alive():
            raise RuntimeError("the replica has ended")

    def __del__(self) -> None:
        self.replica.stopping.set()
        self._thread.join(1.0)


def deployment(serve: Any, plan: ReplicaPlan, coordinator: Any, replicas: int) -> Any:
    """The application as Serve takes it. Questions that are held never keep out answers."""
    made = serve.deployment(serve.ingress()(ServedReplica)).options(
        num_replicas=replicas,
        max_ongoing_requests=WAITING * ALONE,
        health_check_period_s=1.0,
        health_check_timeout_s=30.0,
        graceful_shutdown_timeout_s=2.0,
        graceful_shutdown_wait_loop_s=0.5,
    )
    return made.bind(plan, coordinator)


def http_options(https: HttpsPlan) -> dict[str, Any]:
    """Where the proxy listens, and with which keys."""
    keys = (
        {}
        if https.keys is None
        else {
            "ssl_certfile": str((https.keys / "server.crt").absolute()),
            "ssl_keyfile": str((https.keys / "server.key").absolute()),
        }
    )
    return {"host": https.host, "port": https.port, "keep_alive_timeout_s": int(2 * HELD), **keys}
