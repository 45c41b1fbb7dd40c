"""How soon a federation recommends items that appear while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.types import Int64Array

from .season_rates import windows_of
from .season_rows import BLOCK, LISTED, Season, SeasonRows

if TYPE_CHECKING:
    from entrenous.deploy.operate.trial_again import StageAgain

USES = 20
LATER = 2  # windows
# The share of the rows before the founding: after four tenths of them, hardly any item is new.
FOUNDERS = 0.1


def new_items(threads: int, progress: Progress, *, plan: Season | None = None) -> dict[str, Any]:
    """Of the items that appear in a season, each asked two windows after it had 20 uses: the share
    that somebody's list of ten has. The season is made in one process, under its noise, where those
    who are awake and do not vanish are in the sums.
    """
    plan = plan or Season(founders=FOUNDERS)
    rows = SeasonRows(plan)
    lists = []
    for window, stage in enumerate(windows_of(rows, {})):
        lists.append(_lists(stage, rows.joined(window)))
        progress(window + 1, plan.windows, "windows")
    in_lists = []
    for item in range(rows.listed(-1), rows.listed(plan.windows - 1)):
        window = _used_by(rows, item)
        if window + LATER < plan.windows:
            in_lists.append(int(lists[window + LATER][item]))
    found = np.array(in_lists)
    return {
        "new_items": len(found),
        "recommended": int(np.count_nonzero(found)),
        "lists_of_the_median_item": float(np.median(found)),
        "people": rows.people,
        "windows": plan.windows,
        "ratio": float(np.mean(found > 0)),
        "against": "all items that appeared and had 20 uses two windows before",
    }


def _used_by(rows: SeasonRows, item: int) -> int:
    """Returns the window by whose end an item has its twentieth use; one that never comes if it
    has none.
    """
    places = np.flatnonzero(rows.rows.item == item)
    if len(places) < USES:
        return rows.plan.windows
    return max(0, int(np.searchsorted(rows.cuts, places[USES - 1], side="right")) - 1)


def _lists(stage: StageAgain, people: int) -> Int64Array:
    """Returns for each item how many of the first `people` people have it in a list of ten, at the
    end of a window.
    """
    from entrenous.runs.recommenders import FederatedRecommender

    rounds = stage.rounds
    training = stage.training
    download = rounds.algorithm.download(training.server)
    recommender = FederatedRecommender(
        rounds.algorithm, download, training.devices, rounds.data, rounds.seed
    )
    listed = np.zeros(len(rounds.data.items), np.int64)
    for start in range(0, people, BLOCK):
        users = np.arange(start, min(start + BLOCK, people))
        scores = recommender.scores(users)
        for own, scored in zip(users.tolist(), scores, strict=True):
            had = rounds.data.item[rounds.data.ptr[own] : rounds.data.ptr[own + 1]]
            scored[had] = -np.inf
            listed[np.argpartition(scored, -LISTED)[-LISTED:]] += 1
    return listed


BENCHES = {"new-items": new_items}
