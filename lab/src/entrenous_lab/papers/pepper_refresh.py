"""PEPPER, section 4.1: weighting sets that are refreshed while new rows arrive.

The paper says that a node may put new ratings into its weighting set and the old ones of that set
into training, and measures nothing. Here the rows of a user arrive by their times in STAGES stages:
at first the earlier half, at the last stage all. With fixed sets the weighting rows of the first
stage stay, and all later rows are trained on. With refreshed sets the newest 15 % of what has
arrived weigh, and older ones are trained on. With drawn sets as many rows are drawn at random at
each stage, as algorithm 2 draws them once. Nodes keep their models and what they know of others.
All are tested on the same test rows at the end of each stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.contract.declared import is_gossip
from entrenous.core.keys import folds, key
from entrenous.core.types import BoolArray, Float64Array, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.data.split.leave_one_out import draw_candidates
from entrenous.data.split.types import Held, share, union
from entrenous.evaluation.protocol import evaluate
from entrenous.federation.gossip import Gossip, device_data
from entrenous.runs.plan import make
from entrenous.runs.recommenders import fitted

from .cell import APART
from .findings import tested_columns, verdict
from .opened import pepper
from .pepper_accuracy import MOVIELENS
from .pepper_network import HR
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import worded

STAGES = 6
FIRST = 0.5
"""The share of a user's rows that is there at the first stage."""
ROUNDS, QUICK_ROUNDS = 50, 3
"""The rounds of a stage."""
AMONG = 100
"""The candidates that a weighting row is ranked among."""
FIXED, REFRESHED, DRAWN = "fixed at the start", "refreshed by the newest rows", "drawn anew"
POLICIES = (FIXED, REFRESHED, DRAWN)
PEPPER = System("pepper-gmf")
NDCG = "ndcg@10"
METRICS = (HR, NDCG)
HALFWAY = f"after {STAGES // 2} of {STAGES} stages"


class StageRows(NamedTuple):
    """The rows that the nodes have at a stage."""

    train: Interactions
    weighting: Interactions


class Refreshed(NamedTuple):
    """A metric under one policy: [seeds, stages, users]."""

    of_users: dict[str, Float64Array]

    def at_end(self, metric: str) -> list[float]:
        """The mean over users at the last stage, a value for each seed."""
        return [float(value) for value in self.of_users[metric][:, -1].mean(axis=1)]

    def halfway(self, metric: str) -> list[float]:
        """The same at the middle stage."""
        return [float(value) for value in self.of_users[metric][:, STAGES // 2 - 1].mean(axis=1)]


# ---- rows that arrive ----------------------------------------------------------------------------


def places_by_time(rows: Interactions) -> Int64Array:
    """The place of each row among those of its user by time, the earliest first, int64 [rows]."""
    assert rows.time is not None
    order = np.lexsort((np.arange(len(rows)), rows.time, rows.user))
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows)) - rows.ptr[rows.user[order]]
    return place


def arrived(rows: Interactions, place: Int64Array, stage: int) -> BoolArray:
    """Tells which rows have arrived at a stage, bool [rows]."""
    there = FIRST + (1 - FIRST) * stage / (STAGES - 1)
    return place < np.ceil(there * rows.counts)[rows.user]


def newest(rows: Interactions, place: Int64Array, there: BoolArray) -> BoolArray:
    """Tells which rows are among the newest 15 % of those of its user that are there."""
    counts = np.bincount(rows.user[there], minlength=len(rows.users))
    first = counts - share(counts, APART)
    return there & (place >= first[rows.user])


def at_random(rows: Interactions, there: BoolArray, seed: int, stage: int) -> BoolArray:
    """Tells which rows are drawn, as many of each user as `newest` has."""
    counts = np.bincount(rows.user[there], minlength=len(rows.users))
    drawn = folds(key(seed, "refreshed", f"stage {stage}"), np.arange(len(rows)))
    # Rows that are not there come last.
    order = np.lexsort((drawn, ~there, rows.user))
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows)) - rows.ptr[rows.user[order]]
    return there & (place < share(counts, APART)[rows.user])


def stage_rows(rows: Interactions, policy: str, seed: int, stage: int) -> StageRows:
    """Divides the rows that have arrived into those that train and those that weigh."""
    place = places_by_time(rows)
    there = arrived(rows, place, stage)
    if policy == DRAWN:
        weighs = at_random(rows, there, seed, stage)
    else:
        of_set = arrived(rows, place, 0) if policy == FIXED else there
        weighs = newest(rows, place, of_set)
    return StageRows(rows.select(there & ~weighs), rows.select(weighs))


def weighting_set(now: StageRows, seed: int) -> Held:
    """The weighting rows, each among AMONG items that its user has no row of so far."""
    known = union(now.train, now.weighting)
    rows = now.weighting
    drawn = draw_candidates(
        known, rows.user, AMONG, key(seed, "candidates", "refreshed"), items=rows.item
    )
    return Held(rows, drawn)


# ---- nodes that go on learning -------------------------------------------------------------------


def gone_on(study: Study, policy: str, seed: int) -> dict[str, Float64Array]:
    """Trains through all stages. Returns each metric at the end of each stage, [stages, users]."""
    part = study.part("test")
    assert part.weighting is not None
    rows = union(part.rows, part.weighting.rows)
    rounds = QUICK_ROUNDS if study.quick else ROUNDS
    cell = study.cell(PEPPER, "test", seed, ())
    algorithm = make(cell.plan, rows)
    assert is_gossip(algorithm)
    gossip = Gossip(algorithm, rows, seed=seed, weighting=part.weighting)
    found: dict[str, list[Any]] = {metric: [] for metric in METRICS}
    swarm = None
    for stage in range(STAGES):
        now = stage_rows(rows, policy, seed, stage)
        # Negatives are of what a node has no row of so far.
        known = union(now.train, now.weighting)
        gossip.private = device_data(now.train, weighting_set(now, seed), known)
        swarm = gossip.start() if swarm is None else swarm
        swarm = gossip.advance(swarm, rounds * (stage + 1))
        recommender = fitted(gossip, swarm).recommender
        evaluation = evaluate(recommender, rows, part.held, label=policy, seed=seed)
        for metric in METRICS:
            found[metric].append(evaluation.per_user[metric])
    return {metric: np.array(values) for metric, values in found.items()}


def refreshed(study: Study, _: Sequence[System]) -> Trained:
    """Trains under each policy, once a seed; `more`: {policy: `Refreshed`}."""
    more = dict[str, Refreshed]()
    # A count of missing trainings trains nothing.
    if study.cells.stand_in is None:
        study.cells.algorithms.add(PEPPER.algorithm)
        for policy in POLICIES:
            of_seeds = [gone_on(study, policy, seed) for seed in study.seeds]
            more[policy] = Refreshed(
                {metric: np.array([one[metric] for one in of_seeds]) for metric in METRICS}
            )
    return Trained(study=study, systems=[], more=more)


# ---- the table -----------------------------------------------------------------------------------


def rows_of(trained: Trained) -> list[Row]:
    """A row for each policy and metric, at the last stage and halfway."""
    study = trained.study
    rounds = QUICK_ROUNDS if study.quick else ROUNDS
    rows = list[Row]()
    for policy, figures in trained.more.items():
        said = (
            f"{study.name}; {STAGES} stages of {rounds} rounds, the first with {FIRST:.0%} of each"
            f" user's rows; seeds {', '.join(map(str, study.seeds))}"
        )
        more = {"seeds": list(study.seeds), "settings": study.settings(PEPPER)}
        for metric in METRICS:
            at_end, halfway = figures.at_end(metric), figures.halfway(metric)
            rows.append(seed_row(study.name, policy, metric, at_end, None, said, **more))
            name = f"{metric}, {HALFWAY}"
            rows.append(seed_row(study.name, policy, name, halfway, None, said, **more))
    return rows


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """The other policies against fixed sets at the last stage, over users and seeds."""
    if not trained.more:
        return []
    found = list[dict[str, Any]]()
    for metric in METRICS:
        last = {policy: figures.of_users[metric][:, -1] for policy, figures in trained.more.items()}
        pairs = [(policy, FIXED, last[policy], last[FIXED]) for policy in POLICIES[1:]]
        found += tested_columns(trained.name, metric, pairs)
    return found


def refreshed_note(trained: Trained) -> list[str]:
    """States what refreshed sets are worth at the last stage."""
    said = "; ".join(verdict(test) for test in trained.tests if test["metric"] == HR)
    return [worded("pepper", "refreshed", name=trained.name, said=said or "nothing was trained")]


EXPERIMENTS = {
    "pepper-refresh": PaperTable(
        title="weighting sets that new rows refresh (PEPPER, section 4.1)",
        data=pepper(MOVIELENS),
        systems=(PEPPER,),
        train=refreshed,
        metrics=METRICS,
        rows=rows_of,
        tests=tests_of,
        findings=(refreshed_note,),
    )
}
