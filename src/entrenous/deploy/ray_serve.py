"""`ReplicaPool`: a round collected by replicas of Ray Serve, on the machines of a cluster. The only place that imports `ray.serve`.

Serve starts the replicas, starts them again when they die, and spreads requests over them; its proxy speaks HTTP, with TLS where it is
given keys. Each replica journals before it acknowledges. One actor, which lives on the server's machine, merges what they have taken.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, final

import numpy as np
from cryptography.hazmat.primitives import serialization

from .. import __version__
from ..core.declared import Contract
from ..core.errors import EntrenousError, InputError, at_least, one_line
from ..core.protocols import State, arrays_of
from ..core.types import Array
from ..core.update import Total
from ..federation.workers.engine import EngineOptions, engine
from .address import refuse_plain
from .codes import Code
from .contribution import read_total
from .coordinator import Coordinator, ReplicaPlan, ReplicasSummary
from .exchange import LONG, ServerStopped
from .links.https import HttpsPlan
from .links.traffic import HELD, WAITING
from .replica import App, Replica
from .request import RoundWork
from .rounds import standing
from .server import FederationServer
from .server_folder import ServerFolder

READY = 120.0  # seconds for replicas to come up, also for one that takes a dead one's place
LOOK = 0.02  # seconds between two looks at what they have done
TRIES = 10  # of closing one round, when replicas are lost over it
LOCAL = "local"  # the address that means: a Ray of this machine alone
ALONE = 8  # requests that are answered at once, beside questions that are held


class RayPlan(NamedTuple):
    """What --ray asks for. address: of a cluster, or LOCAL; journal: the folder for journals on each machine."""

    address: str
    replicas: int
    journal: Path

    def check(self) -> None:
        """Raise InputError for what makes no sense, and where Ray Serve is not installed."""
        at_least("--replicas", self.replicas, 1)
        if importlib.util.find_spec("ray") is None:
            raise InputError("--ray", "Ray is not installed", fix="pip install 'entrenous[serve]'")


def serve_by_ray(
    held: ServerFolder, https: HttpsPlan, plan: RayPlan, stop: Event, ready: Callable[[ReplicaPool], None] = lambda pool: None
) -> str | None:
    """Run the server of an open folder with answers taken by replicas of Ray Serve; see `server.serve`. ready: is given the pool once nodes
    can reach it. Raises InputError for secure sums, of which one process must hear all nodes."""
    plan.check()
    if https.keys is None:
        refuse_plain("server", https.host, https.insecure)
    if held.terms.secure == "masks":
        problem = "a secure sum is of all nodes of a round, which one process hears"
        raise InputError("--ray", problem, expected="secure=none", fix="leave --ray out")
    server = FederationServer(held, stop)
    address = None if plan.address == LOCAL else plan.address
    with (
        engine(EngineOptions(plan.replicas, address, 1)) as ray,
        _serve(ray, _name(held)) as serve,
        closing(ReplicaPool(ray, serve, held, server, https, plan, stop)) as pool,
    ):
        ready(pool)
        return server.served_by(pool)


@contextmanager
def _serve(ray: Any, name: str) -> Iterator[Any]:
    """Ray Serve for one application, shut down afterwards. Raises InputError where it serves others: its port and keys are theirs."""
    try:
        serve = importlib.import_module("ray.serve")
    except ImportError as cause:
        raise InputError("--ray", f"Ray Serve is not installed ({cause.name})", fix="pip install 'entrenous[serve]'") from None
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    with suppress(ValueError):  # there is none
        ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
        if others := sorted(serve.status().applications.keys() - {name}):
            problem = f"Ray Serve is serving {one_line(', '.join(others), 80)} on this cluster already"
            raise InputError("--ray", problem, expected="a cluster without Serve", fix="serve shutdown")
        serve.shutdown()  # left by a server that was killed
    try:
        yield serve
    finally:
        serve.shutdown()


@final
class ReplicaPool:
    """The `Collecting` of replicas, which nodes reach by Serve's proxy. One that dies is replaced, and has lost nothing that it
    acknowledged, unless its machine's disk is lost: then the nodes are asked again, and say the same."""

    def __init__(
        self, ray: Any, serve: Any, held: ServerFolder, server: FederationServer, https: HttpsPlan, plan: RayPlan, stop: Event
    ) -> None:
        self._ray, self._serve, self._held, self._server, self._stop, self._plan = ray, serve, held, server, stop, plan
        self._contract: Contract = server.contract
        self.lengths: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._read = 0
        self._last = ReplicasSummary(0, 0, [], {}, (0, 0, 0), 0)
        self._work: RoundWork | None = None
        told = replica_plan(held, plan.journal)
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        kind = ray.remote(Coordinator).options(num_cpus=0, scheduling_strategy=here)
        self._coordinator = kind.remote(told)
        self._ask("summary", 0)
        self.address = f"[{https.host}]:{https.port}" if ":" in https.host else f"{https.host}:{https.port}"
        serve.start(http_options=_http_options(https))
        try:
            serve.run(_deployment(serve, told, self._coordinator, plan.replicas), name=_name(held), route_prefix="/")
        except RuntimeError as cause:
            raise EntrenousError(f"replicas do not start: {one_line(str(cause), 400)}") from None
        self._until_all(READY)

    def close(self) -> None:
        """End the replicas and the coordinator."""
        self._serve.delete(_name(self._held))
        self._ray.kill(self._coordinator)

    # ---- what a server asks of it -------------------------------------------------------------------------------------------------------

    @property
    def present(self) -> int:
        return min(self._last.present, len(self._held.roll.members))

    @property
    def taken(self) -> Collection[str]:
        return self._done.keys()

    @property
    def without(self) -> Collection[str]:
        return set() if self._work is None else self._work.asked.keys() - self._done.keys()

    @property
    def counts(self) -> Mapping[Code, int]:
        return {Code(name): count for name, count in self._last.counts.items()}

    @property
    def bytes_up(self) -> int:
        return self._last.sent[0]

    @property
    def bytes_down(self) -> int:
        return self._last.sent[1]

    @property
    def messages(self) -> int:
        return self._last.sent[2]

    def begin(self, work: RoundWork) -> None:
        self._open("round", work)

    def offer(self, work: RoundWork) -> None:
        self._open("model", work)

    def gather(self, seconds: float) -> None:
        began = told = time.monotonic()
        while (left := self.without) and time.monotonic() - began < seconds:
            if time.monotonic() - told > LONG:
                told = time.monotonic()
                self._server.wait(sorted(left))
            self._look()

    def give(self, seconds: float) -> None:
        self.gather(seconds)

    def end(self) -> Total:
        """The sum of what all replicas have. Where one is lost for good before it has told its sum, its nodes are asked again."""
        for _ in range(TRIES):
            wanted = set(self._done)
            found = self._totals()
            if wanted <= found[0]:
                return self._read_total(*found)
            self._held.log(f"{len(wanted - found[0])} answers are lost with a replica: these nodes are asked again")
            self._ask("again", "round")
            self.gather(self._held.terms.deadline)
        raise EntrenousError(f"replicas were lost {TRIES} times over one round; see `ray status`")

    # ---- replicas --------------------------------------------------------------------------------------------------------------------

    def _open(self, word: str, work: RoundWork) -> None:
        self._work, self.lengths, self._done, self._read = work, {}, {}, 0
        _, state, _ = standing(self._held, self._server.algorithm)
        self._ask("begin", word, work.round, work.model, stored(state))

    def _totals(self) -> tuple[frozenset[str], bytes]:
        assert self._work is not None
        found = None
        self._ask("again", "total")
        while found is None:
            self._until_all(READY)
            found = self._ask("total", self._work.asked)
        return frozenset(found[0]), bytes(found[1])

    def _read_total(self, names: Collection[str], body: bytes) -> Total:
        assert self._work is not None
        if not names:
            return self._contract.empty_total()
        users = np.sort(np.concatenate([self._work.asked[name] for name in names]))
        return read_total(memoryview(body), self._contract, users)

    def _until_all(self, seconds: float) -> None:
        """Waits until as many replicas as there should be have done the last thing they were told; then for those that are there. Raises
        EntrenousError where there is none."""
        began = time.monotonic()
        while True:
            self._look()
            late = time.monotonic() - began > seconds
            if self._last.ready == self._last.live >= (1 if late else self._plan.replicas):
                return
            if late and not self._last.live:
                raise EntrenousError(f"no replica is up after {seconds:g} s; see `ray status` and the logs of Ray Serve")

    def _look(self) -> None:
        """What has been done since the last look. Raises ServerStopped."""
        if self._stop.wait(LOOK):
            raise ServerStopped
        self._last = found = self._ask("summary", self._read)
        self._read += len(found.events)
        for node, length in found.events:
            if length >= 0.0:
                self._done[node] = self.lengths[node] = length
            else:
                self._done.pop(node, None), self.lengths.pop(node, None)

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Calls the coordinator. Raises EntrenousError when it has died: the server is to be started again, and goes on."""
        try:
            return self._ray.get(getattr(self._coordinator, method).remote(*arguments))
        except self._ray.exceptions.RayActorError as died:
            raise EntrenousError(f"the coordinator of the replicas has died ({one_line(str(died), 200)})") from None


def _name(held: ServerFolder) -> str:
    """What the application is called in Serve."""
    return f"entrenous-{held.terms.run[:12]}"


def replica_plan(held: ServerFolder, journal: Path) -> ReplicaPlan:
    """What the replicas of a server are told."""
    raw = serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    key = held.key.private_bytes(*raw)
    return ReplicaPlan(held.terms.text(), held.roll.text(), key, held.start, held.algorithm, str(journal), __version__)


def stored(state: State) -> dict[str, Array]:
    """A server's state as it is stored, arrays by name."""
    return {f"server.{name}": array for name, array in arrays_of(state).items()}


# ---- in the processes of Ray Serve -------------------------------------------------------------------------------------------------------


class ServedReplica:
    """What Serve makes in each process: the replica in a thread, and its application."""

    def __init__(self, plan: ReplicaPlan, coordinator: Any) -> None:
        ray = importlib.import_module("ray")
        self.replica = Replica(plan, uuid.uuid4().hex, lambda name, said: ray.get(coordinator.report.remote(name, said)))
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


def _deployment(serve: Any, plan: ReplicaPlan, coordinator: Any, replicas: int) -> Any:
    """The application as Serve takes it. Questions that are held never keep out answers."""
    made = serve.deployment(serve.ingress()(ServedReplica)).options(
        num_replicas=replicas, max_ongoing_requests=WAITING * ALONE, health_check_period_s=1.0, health_check_timeout_s=30.0,
        graceful_shutdown_timeout_s=2.0, graceful_shutdown_wait_loop_s=0.5,
    )  # fmt: skip
    return made.bind(plan, coordinator)


def _http_options(https: HttpsPlan) -> dict[str, Any]:
    keys = {} if https.keys is None else {
        "ssl_certfile": str((https.keys / "server.crt").absolute()), "ssl_keyfile": str((https.keys / "server.key").absolute())
    }  # fmt: skip
    return {"host": https.host, "port": https.port, "keep_alive_timeout_s": int(2 * HELD), **keys}
