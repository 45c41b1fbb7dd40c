"""`ReplicaPool`: a round collected by replicas of Ray Serve, on the machines of a cluster.

Serve starts the replicas, starts them again when they die, and spreads requests over them; its
proxy speaks HTTP, with TLS where it is given keys. Each replica journals before it acknowledges.
One actor, which lives on the server's machine, merges what they have taken."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, final

from cryptography.hazmat.primitives import serialization

from .. import __version__
from ..core.contract.declared import Contract
from ..core.contract.update import Total
from ..core.errors import EntrenousError, InputError, StartAgain, at_least, one_line
from ..federation.workers.engine import EngineOptions, engine
from .agreement.address import refuse_plain
from .coordinator import Coordinator, Dealt, MergedTotal, ReplicaPlan, ReplicasSummary
from .frames.contribution import read_sum
from .frames.frames import Code
from .frames.request import RoundWork
from .links.https import HttpsPlan
from .ray_application import deployment, http_options, serving
from .server.exchange import ServerStopped, watch
from .server.rounds import standing, stored
from .server.server import FederationServer
from .server.server_folder import ServerFolder

READY = 120.0  # seconds for replicas to come up, also for one that takes a dead one's place
LOOK = 0.02  # seconds between two looks at what they have done
TRIES = 10  # of closing one round, when replicas are lost over it
LOCAL = "local"  # the address that means: a Ray of this machine alone


class RayPlan(NamedTuple):
    """What --ray asks for. address: of a cluster, or LOCAL; journal: the folder for journals on
    each machine.
    """

    address: str
    replicas: int
    journal: Path

    def check(self) -> None:
        """Raise InputError for what makes no sense, and where Ray Serve is not installed."""
        at_least("--replicas", self.replicas, 1)
        if importlib.util.find_spec("ray") is None:
            raise InputError("--ray", "Ray is not installed", fix="pip install 'entrenous[serve]'")


def serve_by_ray(
    held: ServerFolder,
    https: HttpsPlan,
    plan: RayPlan,
    stop: Event,
    ready: Callable[[ReplicaPool], None] = lambda pool: None,
) -> str | None:
    """Run the server of an open folder with answers taken by replicas of Ray Serve; see
    `server.serve`. ready: is given the pool once nodes can reach it. Raises InputError for secure
    sums and defences, for which one process must hear all nodes.
    """
    plan.check()
    if https.keys is None:
        refuse_plain("server", https.host, https.insecure)
    if held.terms.masked or held.terms.defended:
        problem = "a secure sum or a defence is over all nodes of a round, which one process hears"
        raise InputError("--ray", problem, expected="--profile paper", fix="leave --ray out")
    server = FederationServer(held, stop)
    address = None if plan.address == LOCAL else plan.address
    with (
        engine(EngineOptions(plan.replicas, address, 1)) as ray,
        serving(ray, _name(held)) as serve,
        closing(ReplicaPool(ray, serve, held, server, https, plan, stop)) as pool,
    ):
        ready(pool)
        return server.served_by(pool)


@final
class ReplicaPool:
    """The `Collecting` of replicas, which nodes reach by Serve's proxy. One that dies is replaced,
    and has lost nothing that it acknowledged, unless its machine's disk is lost: then the nodes are
    asked again, and say the same.
    """

    def __init__(
        self,
        ray: Any,
        serve: Any,
        held: ServerFolder,
        server: FederationServer,
        https: HttpsPlan,
        plan: RayPlan,
        stop: Event,
    ) -> None:
        self._ray, self._serve, self._held, self._server, self._stop, self._plan = (
            ray,
            serve,
            held,
            server,
            stop,
            plan,
        )
        self._contract: Contract = server.contract
        self._done: dict[str, Dealt] = {}
        self._read = self._accepted = (
            0  # events that were heard; answers in the totals of all rounds
        )
        self._last = ReplicasSummary(0, 0, [], {}, (0, 0, 0), 0)
        self._work: RoundWork | None = None
        self._word = ""  # what was begun last
        told = replica_plan(held, plan.journal)
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        kind = ray.remote(Coordinator).options(num_cpus=0, scheduling_strategy=here)
        self._coordinator = kind.remote(told)
        self._ask("summary", 0)
        self.address = (
            f"[{https.host}]:{https.port}" if ":" in https.host else f"{https.host}:{https.port}"
        )
        try:
            serve.start(http_options=http_options(https))
            serve.run(
                deployment(serve, told, self._coordinator, plan.replicas),
                name=_name(held),
                route_prefix="/",
            )
        except (RuntimeError, ray.exceptions.RayError) as cause:
            raise EntrenousError(f"replicas do not start: {one_line(str(cause), 400)}") from None
        self._until_all(READY)

    def close(self) -> None:
        """End the replicas and the coordinator."""
        self._serve.delete(_name(self._held))
        self._ray.kill(self._coordinator)

    # ---- what a server asks of it ----------------------------------------------------------------

    @property
    def present(self) -> int:
        return min(self._last.present, len(self._held.members.nodes))

    @property
    def devices(self) -> int:
        return sum(dealt.devices for dealt in self._done.values())

    @property
    def lengths(self) -> Mapping[str, float]:
        return {name: dealt.length for name, dealt in self._done.items()}

    @property
    def taken(self) -> Collection[str]:
        return self._done.keys()

    @property
    def without(self) -> Collection[str]:
        return set() if self._work is None else self._work.asked.keys() - self._done.keys()

    @property
    def counts(self) -> Mapping[Code, int]:
        """By what became of them. Of answers that count it is how many do: replicas take some
        twice, from a journal or after a loss.
        """
        found = {Code(name): count for name, count in self._last.counts.items()}
        return {
            **found,
            Code.ACCEPTED: self._accepted + (len(self._done) if self._word == "round" else 0),
        }

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
        watch(
            lambda: self.without, lambda left: self._look(), seconds, self._stop, self._server.wait
        )

    def give(self, seconds: float) -> None:
        self.gather(seconds)

    def rest(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise ServerStopped

    def end(self) -> Total:
        """The sum of what all replicas have. Where one is lost for good before it has told its sum,
        its nodes are asked again.
        """
        for _ in range(TRIES):
            wanted = set(self._done)
            found = self._totals()
            if wanted <= found.names:
                return self._closed(found)
            self._held.log(
                f"{len(wanted - found.names)} answers are lost with a replica: these nodes are"
                " asked again"
            )
            self._ask("again", "round")
            self.gather(self._held.terms.deadline)
        raise StartAgain(f"replicas were lost {TRIES} times over one round; see `ray status`")

    # ---- replicas --------------------------------------------------------------------------------

    def _open(self, word: str, work: RoundWork) -> None:
        self._work, self._word, self._done, self._read = work, word, {}, 0
        state = standing(self._held, self._server.algorithm).state
        self._ask("begin", word, work.round, work.model, stored(state))

    def _totals(self) -> MergedTotal:
        assert self._work is not None
        found: MergedTotal | None = None
        self._ask("again", "total")
        while found is None:
            self._until_all(READY)
            found = self._ask("total", self._work.asked)
        return found

    def _closed(self, found: MergedTotal) -> Total:
        """The sum of a round that is over."""
        assert self._work is not None
        self._word, self._accepted = "", self._accepted + len(found.names)
        if not found.names:
            return self._contract.empty_total()
        return read_sum(found.body, self._contract, self._work.asked, found.names, found.devices)[0]

    def _until_all(self, seconds: float) -> None:
        """Waits until as many replicas as there should be have done the last thing they were told;
        then for those that are there. Raises StartAgain where there is none."""
        began = time.monotonic()
        while True:
            self._look()
            late = time.monotonic() - began > seconds
            if self._last.ready == self._last.live >= (1 if late else self._plan.replicas):
                return
            if late and not self._last.live:
                raise StartAgain(
                    f"no replica is up after {seconds:g} s; see `ray status` and the logs of Ray"
                    " Serve"
                )

    def _look(self) -> None:
        """What has been done since the last look. Raises ServerStopped."""
        if self._stop.wait(LOOK):
            raise ServerStopped
        self._last = found = self._ask("summary", self._read)
        self._read += len(found.events)
        for node, dealt in found.events:
            if dealt is None:
                self._done.pop(node, None)
            else:
                self._done[node] = dealt

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Calls the coordinator. Raises StartAgain when it has died: the server is to be started
        again, and goes on.
        """
        try:
            return self._ray.get(getattr(self._coordinator, method).remote(*arguments))
        except self._ray.exceptions.RayActorError as died:
            raise StartAgain(
                f"the coordinator of the replicas has died ({one_line(str(died), 200)})"
            ) from None


def _name(held: ServerFolder) -> str:
    """What the application is called in Serve."""
    return f"entrenous-{held.terms.run[:12]}"


def replica_plan(held: ServerFolder, journal: Path) -> ReplicaPlan:
    """What the replicas of a server are told."""
    raw = serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    key = held.key.private_bytes(*raw)
    return ReplicaPlan(
        held.terms.text(),
        held.members.text(),
        key,
        held.start,
        held.algorithm,
        str(journal),
        __version__,
        held.log_format,
    )
