"""Speed of a real federation: seconds a round over sockets, and where they go."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.protocols import Progress
from ..data.interactions import Interactions
from ..data.synthetic import synthetic
from ..federation.rounds import Rounds

USERS, ITEMS, ROWS, GATEWAYS = 6040, 3706, 1_000_209, 4  # MovieLens-1M's, in four gateways of 1,510 users
SETTINGS, ROUNDS, SECURE_ROUNDS = {"factors": 20}, 12, 5
COUNTS, CEILING = (10, 50), 10.0  # nodes of one user; answers a second
STUDY, AIM = 5.0, 2.0  # seconds a round: of Flower as it comes (research/engines.md, 1.6), and what we aim for


def federation(threads: int, progress: Progress) -> dict[str, Any]:
    """FPL (F = 20, X+ / |U| triples a device) of four gateways of 1,510 users: the median round in one process; the same with nodes,
    frames, signatures, stores and journal in one process, over memory; and over Flower on loopback, each part a process, TLS and node
    keys on, without and with secure sums."""
    data = synthetic(users=USERS, items=ITEMS, interactions=ROWS)
    alone = _in_process(data)
    progress(1, 4, "measured")
    found: dict[str, float] = {}
    for done, (name, secure, over) in enumerate(
        [("memory", "none", _memory), ("flower", "none", _flower), ("flower_secure", "masks", _flower)], start=2
    ):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = over(Path(folder) / "f", data, secure)
        progress(done, 4, "measured")
    return {
        "seconds_a_round": found["flower"],
        "ratio_to_aim": found["flower"] / AIM,
        "ratio_to_flower_as_it_comes": found["flower"] / STUDY,
        "training": alone,
        "frames_stores_journal": found["memory"] - alone,
        "flower_and_sockets": found["flower"] - found["memory"],
        "seconds_a_secure_round": found["flower_secure"],
        "against": f"the aim of {AIM:g} s and the study's {STUDY:g} s a round of 4 SuperNodes of 1,510 users; all on this machine at once",
    }


def _in_process(data: Interactions) -> float:
    """The median round of a simulation on one thread."""
    rounds = Rounds(_terms_algorithm(), data, seed=0)
    training, took = rounds.start(), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        training = rounds.one_round(training)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _terms_algorithm() -> Any:
    from ..algorithms.fpl import FPL

    return FPL(**SETTINGS)  # type: ignore[arg-type]


def _founded(folder: Path, data: Interactions, secure: str, count: int = GATEWAYS) -> Any:
    from ..deploy.founding import Place, found, free_ports
    from ..privacy.secure_sum.terms import Floors

    return found(
        folder, data, nodes=count, place=Place(port=free_ports()[0]), floors=Floors(cohort=3, occupancy=0.0), algorithm="fpl",
        settings=SETTINGS, rounds=ROUNDS if secure == "none" else SECURE_ROUNDS, secure=secure,
    )  # fmt: skip


def _memory(folder: Path, data: Interactions, secure: str) -> float:
    from ..deploy.links.port import MemoryServerLink
    from ..deploy.node import FederatedNode
    from ..deploy.running import status
    from ..deploy.server import serve

    made = _founded(folder, data, secure)
    nodes = {name: FederatedNode(path) for name, path in made.nodes.items()}
    link = MemoryServerLink({name: node.answer for name, node in nodes.items()}, workers=1)
    serve(link, made.server)
    link.close()
    for node in nodes.values():
        node.close()
    return float(status(made.server)["seconds_a_round"])


def _flower(folder: Path, data: Interactions, secure: str) -> float:
    from ..deploy.running import run_all, status

    made = _founded(folder, data, secure)
    run_all(folder, lambda text: None)
    return float(status(made.server)["seconds_a_round"])


def nodes(threads: int, progress: Progress) -> dict[str, Any]:
    """The load of one server: FPL rounds of 10 and of 50 nodes of one user each. The nodes are threads of this process, but
    connect, sign and answer over TLS as devices do. Measures the SuperLink's processor time for each answer, with the
    requests for work before it."""
    found: dict[str, Any] = {}
    for number, count in enumerate(COUNTS, start=1):
        with tempfile.TemporaryDirectory() as folder:
            found |= {f"{name}_{count}": value for name, value in _carried(Path(folder) / "f", count).items()}
        progress(number, len(COUNTS), "measured")
    most = COUNTS[-1]
    return {
        **found,
        "ratio": found[f"answers_a_second_{most}"] / CEILING,
        "against": f"{CEILING:g} answers a second, the study's ceiling of a SuperLink as it comes (research/engines.md, 1.6)",
    }


def _carried(folder: Path, count: int) -> dict[str, float]:
    """Median seconds of a round with so many nodes, and what it costs the SuperLink."""
    from ..deploy.flower.superlink import SuperlinkPlan, Supervisor
    from ..deploy.running import status

    made = _founded(folder, synthetic(users=count, items=ITEMS, interactions=165 * count), "none", count)
    plan = SuperlinkPlan(state=made.server, port=0, keys=made.server / "keys")
    with Supervisor(plan, lambda text: None) as server, _serving(made, server.address):
        before = after = 0.0
        now: dict[str, Any] = {"round": 0}
        while not server.step():
            time.sleep(0.1)
            now = status(made.server) or now
            spent = _cpu_seconds(server.pids["superlink"]) if now["round"] < ROUNDS else after
            before, after = before if now["round"] else spent, spent
        done = status(made.server)
    answers = count * (ROUNDS - 1)
    return {
        "seconds_a_round": done["seconds_a_round"], "answers_a_second": count / done["seconds_a_round"],
        "superlink_cpu_ms_an_answer": 1e3 * (after - before) / answers,
        "kilobytes_down_and_up": (done["bytes_down"] + done["bytes_up"]) / 1e3 / done["answers"]["accepted"],
    }  # fmt: skip


@contextmanager
def _serving(made: Any, address: str) -> Iterator[None]:
    """All nodes of a federation as threads of this process."""
    from ..deploy.flower.keys import load_node_keys
    from ..deploy.flower.node import FlowerNode, serve_many
    from ..deploy.node import FederatedNode

    stop, opened = threading.Event(), [FederatedNode(path) for path in made.nodes.values()]
    keys = [load_node_keys(path / "ca.crt", path / "flower.key") for path in made.nodes.values()]
    served = [FlowerNode(own, node.answer) for own, node in zip(keys, opened, strict=True)]
    at_work = threading.Thread(target=serve_many, args=(address, served, stop), kwargs={"say": lambda text: None})
    at_work.start()
    try:
        yield
    finally:
        stop.set()
        at_work.join()
        for node in opened:
            node.close()


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, as Linux counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


BENCHES = {"federation": federation, "federation-nodes": nodes}
