"""Runs the parts of a federation over HTTPS that are servers: a server, or a whole federation
on this machine. A node alone is run by running_node.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final

from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.keywords import at_least
from entrenous.core.lock import is_held
from entrenous.core.registry.neighbours import engine

from ..agreement.address import checked_address, checked_origin, is_loopback
from ..agreement.files import read_json
from ..agreement.members import MEMBERS, Member, Members
from ..agreement.terms import ENDLESS, TERMS, FederationTerms
from ..frames.contribution import RoundHalted
from ..frames.secure import SPARE, largest_answer
from ..links.admission import STANDARD
from ..links.https import HttpsPlan, HttpsServerLink
from ..links.metrics import Metrics, served
from ..server.local_workers import LocalWorkers, WorkerProcess
from ..server.pool import H, WorkerPool, Workers
from ..server.server import FederationServer, ListsChanged, serve_opened
from ..server.server_folder import LogFormat, LogLine, ServerFolder, told
from ..server.worker import bounds_of
from .membership import certificate_ends
from .newcomers import JoinDesk

Say = Callable[[str], None]
LOOK = 0.5  # seconds between two looks at the server's status


class RayPlan(NamedTuple):
    """The options of `entrenous server --ray`."""

    address: str
    """Of a cluster, HOST:PORT or `auto`; or `local`: a Ray of this machine alone."""
    journal: Path
    """The folder for journals on each machine."""


def run_server(
    folder: Path,
    stop: threading.Event,
    say: Say,
    *,
    insecure: bool = False,
    workers: int = 1,
    metrics: int | None = None,
    log_format: LogFormat = "text",
    proxy: str = "",
    pace: float = 0.0,
    origins: Sequence[str] = (),
    ray: RayPlan | None = None,
    progress: Progress = silent,
) -> None:
    """Runs a server until its rounds are done or `stop` is set.

    workers: number of processes that receive answers. metrics: port on 127.0.0.1 that answers GET
    /metrics; None = none. log_format: of server.log. proxy: address of a proxy in front of the
    server; "" = as place.json says. pace: least seconds between two rounds. origins: of web pages
    that may speak to the server. ray: runs the workers as actors of Ray. progress: is told of each
    round of a server without workers, which goes on when it returns.

    A server that was halted ends at once if it has no port for metrics; else it reports that there
    until `stop` is set.

    Raises InputError for a folder or an address that cannot be used, and RoundHalted.
    """
    by_actors = None
    if ray is not None:
        by_actors = partial(engine("actors", "--ray"), plan=ray)
    allowed = tuple(checked_origin(origin) for origin in origins)
    plan = _plan(folder, insecure, proxy)._replace(origins=allowed)
    with (
        closing(ServerFolder(folder, log_format=log_format, pace=pace)) as held,
        _telling(folder, say),
    ):
        _warn_of_source(held, say)
        telling = _told_by(held)
        with served(telling, metrics), closing(OpenPort(plan)) as port:
            form = _Form(workers, by_actors, metrics is not None, progress)
            while _served_to_a_change(held, telling, port, stop, say, form):
                held.reload()


class _Form(NamedTuple):
    """The form in which a server runs, also after its lists have changed."""

    workers: int
    """The number of processes that receive answers."""
    by_actors: Callable[..., str | None] | None
    """Runs a server as `serve_by_workers` does, by actors of Ray; None = workers are processes."""
    watched: bool
    """True if it has a port for metrics."""
    progress: Progress
    """Is told of each round of a server without workers."""


def _served_to_a_change(
    held: ServerFolder,
    telling: Metrics,
    port: OpenPort,
    stop: threading.Event,
    say: Say,
    form: _Form,
) -> bool:
    """Runs a server from its folder. Returns True if its lists have changed meanwhile, so
    that it has to begin anew; False at its end. Other arguments as of `run_server`.
    """
    until_stopped = _halted_until(stop, say) if form.watched else nullcontext()

    def ready(pool: WorkerPool[Any]) -> None:
        telling.link = pool.tally

    try:
        # In each form the metrics count the messages of whatever receives them.
        with until_stopped:
            if form.by_actors is not None:
                form.by_actors(held, port.plan, form.workers, stop, ready, say)
            elif form.workers > 1:
                serve_by_workers(held, port.plan, form.workers, stop, ready, say)
            else:
                link = port.opened(held)
                telling.link = link.tally
                serve_opened(link, held, stop, form.progress)
    except ListsChanged as why:
        say(str(why))
        return True
    return False


@final
class OpenPort:
    """The port of a server to its nodes, which stays open while members and items change: nobody
    has to connect anew.
    """

    def __init__(self, plan: HttpsPlan) -> None:
        self.plan = plan
        self._link: HttpsServerLink | None = None
        # The bytes of the longest answer, by what they follow from: few joins change that.
        self._longest: dict[tuple[str, int], int] = {}

    def opened(self, held: ServerFolder) -> HttpsServerLink:
        """Returns the link, at which the members of the folder are let in."""
        of = held.terms.items_root, held.members.most_users
        if of not in self._longest:
            self._longest = {of: largest_answer(held.terms, held.members, held.algorithm)}
        largest = self._longest[of]
        if self._link is not None and largest <= self._link.largest:
            self._link.admission.change(held.members.nodes)
            return self._link
        # Answers become longer with more items, and the room for them is fixed. With some to spare
        # that is seldom.
        self.close()
        self._link = https_link(held, self.plan, SPARE * largest)
        self._link.admission.joins = JoinDesk(held.path, self._welcome)
        self._link.start()
        return self._link

    def _welcome(self, member: Member) -> None:
        """Lets a new member in at once: the server asks it from its next round on."""
        link = self._link
        if link is not None:
            link.admission.welcome(member)

    def close(self) -> None:
        """Hangs up on everybody."""
        if self._link is not None:
            self._link.close()
        self._link = None


def _told_by(held: ServerFolder) -> Metrics:
    """Returns the metrics of a server, which can be read before its first round too."""
    first = {"rounds": held.terms.rounds, "of": len(held.members.nodes)}
    certificate = certificate_ends(held.path)
    ends = None if certificate is None else certificate.timestamp()
    return Metrics(
        lambda: {**first, **held.said, **held.standing()},
        trouble=held.trouble,
        certificate_ends=ends,
    )


@contextmanager
def _halted_until(stop: threading.Event, say: Say) -> Iterator[None]:
    """Keeps the process of a halted server alive until `stop` is set: its metrics report the halt,
    and its port answers 503. A monitor that reads every few seconds would miss a process that ends.
    """
    try:
        yield
    except RoundHalted as why:
        say(f"halted: {why}; /metrics says so until this process is stopped")
        stop.wait()
        raise


def _warn_of_source(held: ServerFolder, say: Say) -> None:
    """Warns and logs if the source of the algorithm has changed since the founding. Raises
    InputError if it also computes other results.
    """
    if line := held.terms.other_source(held.algorithm):
        held.log(LogLine(line, "source", level="warning"))
        say(f"warning: {line}")


def _plan(folder: Path, insecure: bool, proxy: str) -> HttpsPlan:
    """Returns where a server listens. Behind a proxy on the same machine, which ends TLS, it serves
    plain HTTP on loopback.
    """
    place = read_json(folder / "place.json")
    proxy = proxy or str(place.get("proxy", ""))
    if proxy:
        checked_address("--proxy", proxy)
    local = bool(proxy) and is_loopback(proxy) and is_loopback(place["host"])
    keys = None
    if place["tls"] and not local:
        keys = folder / "keys"
    return HttpsPlan(place["host"], int(place["port"]), keys, insecure, proxy=proxy)


def serve_by_workers(
    held: ServerFolder,
    plan: HttpsPlan,
    workers: int,
    stop: threading.Event,
    ready: Callable[[WorkerPool[WorkerProcess]], None] = lambda pool: None,
    say: Say = lambda line: None,
) -> str | None:
    """Runs the server of an open folder with several processes that receive answers; see
    `server.serve`. ready: is called with the pool once nodes can reach it. Raises ListsChanged
    where the workers have no room for the answers that come with more items.
    """
    at_least("--workers", workers, 1)
    return served_by(held, LocalWorkers(held, plan, workers), workers, stop, ready, say)


def served_by(
    held: ServerFolder,
    hiring: Workers[H],
    count: int,
    stop: threading.Event,
    ready: Callable[[WorkerPool[H]], None],
    say: Say,
) -> str | None:
    """Runs the server of an open folder with workers, which stay while members and items change."""
    server = FederationServer(held, stop)
    room = SPARE * largest_answer(held.terms, held.members, held.algorithm)
    desk = partial(JoinDesk, held.path)
    pool = WorkerPool(held, server.contract, hiring, count, stop, server.wait, desk)
    with closing(pool):
        ready(pool)
        while True:
            try:
                return server.served_by(pool)
            except ListsChanged as why:
                held.reload()
                if largest_answer(held.terms, held.members, held.algorithm) > room:
                    raise
                say(str(why))
            server = FederationServer(held, stop)
            pool.change(server.contract, server.wait)


def https_link(held: ServerFolder, plan: HttpsPlan, largest: float = 0.0) -> HttpsServerLink:
    """Returns the port of a server to its nodes, which does not listen yet. largest: bytes of an
    answer, at most; 0 = those of now. Raises InputError for an address that cannot be used.
    """
    most = int(largest) or largest_answer(held.terms, held.members, held.algorithm)
    if plan.bounds == STANDARD:
        plan = plan._replace(bounds=bounds_of(held))
    return HttpsServerLink(plan, held.terms.run, held.members.nodes, most, trouble=held.trouble)


@contextmanager
def _telling(folder: Path, say: Say) -> Iterator[None]:
    """Says when a round is over, by the status that the server's process writes."""
    # In a thread of its own, since the caller waits for processes.
    over = threading.Event()

    def look() -> None:
        before = status(folder)
        told = _standing(before) if before else ""
        while not over.wait(LOOK):
            now = status(folder)
            if now and _standing(now) != told:
                told = _standing(now)
                say(told)

    watching = threading.Thread(target=look, daemon=True, name="status")
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _standing(now: Mapping[str, Any]) -> str:
    """Returns a status as one line."""
    number = now["round"]
    if now["waiting_for"]:
        return f"round {number} waits for {', '.join(now['waiting_for'])}"
    nodes = f"{now['nodes']} of {now['of']} nodes"
    seconds = f"{now['seconds_a_round']:.2f} s a round"
    of = "" if now["rounds"] == ENDLESS else f" of {now['rounds']}"
    return f"round {number}{of}: {nodes}, {seconds}"


def status(folder: Path) -> dict[str, Any]:
    """Returns the status that a server last wrote about itself; {} before it has written one."""
    return told(folder)


def status_of_server(folder: Path) -> dict[str, Any]:
    """Returns the status that a server last wrote, and whether its process runs. Before the first
    one, returns a status made from the folder. Raises InputError for a folder that is no server's.
    """
    terms = FederationTerms.read(folder / TERMS)
    # A server holds the lock of its folder while it runs, even if it was killed before.
    running = is_held(folder / "lock")
    written = told(folder)
    if written:
        return {"running": running, **written}
    members = Members.read(folder / MEMBERS, terms.users)
    standing = "starting" if running else "not started yet: entrenous server FOLDER"
    return {
        "running": running,
        "status": standing,
        "run": terms.run,
        "profile": terms.limits(),
        "round": 0,
        "rounds": terms.rounds,
        "nodes": 0,
        "of": len(members.nodes),
        "waiting_for": [],
        "answers": {},
    }
