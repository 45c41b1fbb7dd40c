"""What the tests of deploy/flower run in other processes: a server that counts rounds of echoes, a node that echoes, a supervisor."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from entrenous.deploy.flower.keys import load_node_keys
from entrenous.deploy.flower.node import FlowerNode, serve_many
from entrenous.deploy.flower.node import serve as serve_node
from entrenous.deploy.flower.superlink import SuperlinkPlan, Supervisor, supervise


def rounds(link: Any, state: Path) -> None:
    """plan.json: nodes, rounds, size (bytes), again (s until a request is sent again), pause (s). One line of rounds.jsonl per round;
    a process that starts again goes on after the last one."""
    plan = json.loads((state / "plan.json").read_text())
    (state / "server.pid").write_text(str(os.getpid()))
    log = state / "rounds.jsonl"
    first = len(log.read_text().splitlines()) if log.exists() else 0
    for number in range(first, plan["rounds"]):
        began = time.monotonic()
        again = one_round(link, plan, number.to_bytes(4, "big") + os.urandom(plan["size"]))
        with open(log, "a") as file:
            seconds = round(time.monotonic() - began, 3)
            file.write(json.dumps({"round": number, "seconds": seconds, "again": again, "pid": os.getpid()}) + "\n")
        time.sleep(plan.get("pause", 0.0))


def one_round(link: Any, plan: dict[str, Any], frame: bytes) -> int:
    """Until as many nodes as planned have echoed `frame`; returns how often a request was sent again."""
    answered: set[str] = set()
    asked: dict[str, float] = {}
    again = -plan["nodes"]
    while len(answered) < plan["nodes"]:
        for address in link.present():
            if address not in answered and time.monotonic() - asked.get(address, -1e9) > plan["again"]:
                link.send(address, frame, plan["again"])
                asked[address] = time.monotonic()
                again += 1
        answered.update(address for address, answer in link.receive(0.2) if answer in (frame, frame[::-1]))
    return again


def forever(link: Any, state: Path) -> None:
    (state / "serving").touch()
    while True:
        link.receive(0.2)


def fails(link: Any, state: Path) -> None:
    raise RuntimeError("this server cannot serve")


def refuses(link: Any, state: Path) -> None:
    from entrenous.core.errors import InputError

    raise InputError("plan", "asks for the impossible")


def slow_echo(frame: bytes) -> bytes:
    time.sleep(0.3)
    return frame[::-1]  # other bytes than the request's, which Flower would not send again


def federation(state: Path, stop: threading.Event) -> None:
    """Server and nodes, all that `state`/keys/nodes has keys for, until the server's rounds are done."""
    with Supervisor(SuperlinkPlan(state=state, port=0, keys=state / "keys", target="flower_processes:rounds")) as running:
        paths = sorted((state / "keys" / "nodes").glob("*.key"))
        nodes = [FlowerNode(load_node_keys(state / "keys" / "ca.crt", path), slow_echo) for path in paths]
        threading.Thread(target=serve_many, args=(running.address, nodes, stop), daemon=True).start()
        while not stop.wait(0.1) and not running.step():
            pass
        stop.set()
        time.sleep(3.5)


def main(role: str, *arguments: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if role == "node":
        address, ca, key = arguments
        serve_node(address, load_node_keys(Path(ca), Path(key)), slow_echo, stop)
    elif role == "federation":
        federation(Path(arguments[0]), stop)
    else:
        state, port, target = arguments
        supervise(SuperlinkPlan(state=Path(state), port=int(port), target=f"flower_processes:{target}"), stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
