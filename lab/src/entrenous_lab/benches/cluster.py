"""What sharing a round out costs and saves: one process, threads, and Ray's workers, side by
side.
"""

from __future__ import annotations

import statistics
from typing import Any

from entrenous_ray.crew import Crew
from entrenous_ray.engine import EngineOptions, crew
from entrenous_ray.rounds import ShardedRounds
from entrenous_ray.shards import ShardHand

from entrenous.core.contract.protocols import Progress, model_sha256
from entrenous.core.errors import EntrenousError
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads
from entrenous.runs.recommenders import fitted
from entrenous.systems.fcf import FCF
from entrenous.systems.fpl import FPL

from .timing import interleaved

SHARDS, TURNS = 2, 3
ALGORITHMS: dict[str, Any] = {"fpl": FPL(factors=20, triples=0, cohort=0), "fcf": FCF(factors=20)}


def cluster(threads: int, progress: Progress) -> dict[str, Any]:
    """Wall seconds of a round of everybody on data of MovieLens-1M's size (6,040 users, 3,706
    items, 10^6 rows): two threads and two Ray workers of one thread against one process.
    """
    data, found = (
        synthetic(users=6040, items=3706, interactions=1_000_000, skew=0.65, seed=0),
        dict[str, Any](),
    )
    with crew(EngineOptions(SHARDS, None, 1), ShardHand, SHARDS) as hired:
        for number, name in enumerate(ALGORITHMS):
            progress(number, len(ALGORITHMS), name)
            found |= {
                f"{name}_{what}": value for what, value in _measured(hired, name, data).items()
            }
    progress(len(ALGORITHMS), len(ALGORITHMS), "done")
    return {**found, "shards": SHARDS, "against": f"one process; {SHARDS} threads of it"}


def _measured(hired: Crew, name: str, data: Interactions) -> dict[str, float]:
    algorithm = ALGORITHMS[name]
    ways: list[Any] = [
        Rounds(algorithm, data),
        Rounds(algorithm, data, executor=Threads(SHARDS)),
        ShardedRounds(hired, algorithm, data),
    ]
    now: list[Any] = [rounds.advance(rounds.start(), 2) for rounds in ways]

    def one_more(way: int) -> None:
        now[way] = ways[way].advance(now[way], now[way].round + 1)

    costs = interleaved(TURNS, *(lambda way=way: one_more(way) for way in range(len(ways))))
    one, threads, shards = (statistics.median(each.wall for each in of) for of in costs)
    models = {
        model_sha256(fitted(rounds, training).arrays)
        for rounds, training in zip(ways, now, strict=True)
    }
    if len(models) != 1:
        raise EntrenousError(f"{name}: the models differ")
    return {
        "seconds_one_process": one,
        "threads_to_one": threads / one,
        "shards_to_one": shards / one,
    }


BENCHES = {"cluster": cluster}
