"""A whole masked federation of ML-100K with a lying member, in groups and without: python
tests/grouped_federation.py --groups 9 --liars 1

Real nodes and the real server in this process, with keys, masks, noise of the system and journals,
over a link of function calls: FCF under the profile private, everybody in every round. Each liar
replaces the vector that it masks by the largest numbers of one direction. Users are dealt to nodes
in order, so a liar is a node of nine or ten users.

Prints HR@10 of all users (protocol loo-99; the nodes train on validation rows too), the largest
number of the model, the rounds that counted and were lost, and seconds a round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

from dragged_model import largest
from federation_links import FaultyLink, nodes_of

from entrenous.core.contract.update import LIMIT, STEP
from entrenous.core.types import Array
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.operate.founding import FoundedFederation, found
from entrenous.deploy.operate.plans import FoundingPlan
from entrenous.deploy.server import server
from entrenous.deploy.server.server import RoundsLost, serve
from entrenous.deploy.server.server_folder import ServerFolder, standing
from entrenous.federation.rounds import Rounds
from entrenous.privacy.secure_sum.terms import Floors
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import material
from entrenous.runs.recommenders import FederatedRecommender, tested

server.FAREWELL = 0.1  # nobody is absent


def lie(node: FederatedNode) -> None:
    """Have a node send the largest numbers that there are, all in one direction."""
    honest = node.train_sum
    drawn = np.random.default_rng(3)
    directions: dict[str, Array] = {}

    def train_sum(request: Any) -> tuple[Any, Any]:
        devices, total = honest(request)
        for name, array in (*total.rows.items(), *total.dense.items()):
            direction = directions.setdefault(name, drawn.choice((-1, 1), array.shape))
            array[...] = direction * (int(LIMIT / STEP) - 1) * total.devices
        return devices, total

    node.train_sum = train_sum  # type: ignore[method-assign]


def trained(made: FoundedFederation, liars: int) -> str:
    """Run a federation to its end. Returns how it ended."""
    nodes = nodes_of(made)
    for name in list(nodes)[:liars]:
        lie(nodes[name])
    try:
        serve(FaultyLink({name: node.answer for name, node in nodes.items()}), made.server)
    except RoundsLost:
        return "ended without all its rounds"
    return "finished"


def main(arguments: Sequence[str]) -> None:
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("--groups", type=int, default=9)
    parsed.add_argument("--nodes", type=int, default=135)
    parsed.add_argument("--rounds", type=int, default=40)
    parsed.add_argument("--liars", type=int, default=0)
    asked = parsed.parse_args(arguments)
    _, parts = material(
        RunPlan(algorithm="fcf", data="ml-100k", protocol="loo-99", rounds=asked.rounds)
    )
    train = parts[0].final_train
    protect = {"groups": str(asked.groups)} if asked.groups > 1 else {}
    with tempfile.TemporaryDirectory() as home:
        plan = FoundingPlan(algorithm="fcf", rounds=asked.rounds, protect=protect)
        made = found(Path(home) / "f", train, plan, nodes=asked.nodes, floors=Floors())
        print(made.terms.limits(), flush=True)
        began = time.monotonic()
        how = trained(made, asked.liars)
        seconds = time.monotonic() - began
        algorithm: Any = made.terms.make()
        with closing(ServerFolder(made.server)) as held:
            now = standing(held, algorithm)
    # FCF's users are the solution for the items' factors: one step of each device finds it
    rounds = Rounds(algorithm, train, seed=0)
    devices = rounds.one_round(rounds.start()._replace(server=now.state)).devices
    model = FederatedRecommender(algorithm, algorithm.download(now.state), devices, train)
    hits = tested(model, parts[0], label="groups", seed=0).metrics["hr@10"]
    count = now.tally
    done = count.counted + count.lost
    print(
        f"groups {asked.groups} nodes {asked.nodes} liars {asked.liars}: {how}, HR@10 {hits:.3f},"
        f" largest {largest(now.state):.4g}, counted {count.counted} lost {count.lost},"
        f" {seconds / max(1, done):.1f} s a round",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
