"""How soon a federation recommends items that appear while it goes on, and whether those could who
have everybody's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import entrenous
from entrenous.core.contract.protocols import Progress, Scorer
from entrenous.core.types import Int64Array
from entrenous.data.interactions import Interactions, Vocabulary
from entrenous.evaluation.recommend import Allowed, recommend
from entrenous.privacy.protection import Protection
from entrenous.runs.recommenders import FederatedRecommender

from .season_rates import terms_of, windows_of
from .season_rows import LISTED, Season, SeasonRows

if TYPE_CHECKING:
    from entrenous_lab.trials.again import StageAgain

USES = 20
LATER = 2  # windows
# The share of the rows before the founding: after four tenths of them, hardly any item is new.
FOUNDERS = 0.1
# Central references: FCF's own loss with as many factors, the same with more, and neighbours.
CENTRAL: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "ials_32": ("ials", {"factors": 32}),
    "ials_64": ("ials", {"factors": 64, "alpha": 4.0, "reg": 3.0}),
    "item_knn": ("item-knn", {}),
}


def new_items(threads: int, progress: Progress, *, plan: Season | None = None) -> dict[str, Any]:
    """Of the items that appear in a season, each asked two windows after it had 20 uses: the share
    that somebody's list of ten has. The season is made in one process, under its noise, where those
    who are awake and do not vanish are in the sums.

    Compared with the same where everybody is in every sum and there is no noise, and with central
    algorithms that have all rows at the end of each window.
    """
    plan = plan or Season(founders=FOUNDERS)
    rows = SeasonRows(plan)
    steps = 2 + len(CENTRAL)
    lists = list(_lists_of(rows, windows_of(rows, {})))
    progress(1, steps, "the season")
    everybody = list(_lists_of(rows, _with_everybody(rows)))
    progress(2, steps, "everybody in every sum")
    found = _counts(rows, lists)
    said: dict[str, Any] = {
        "new_items": len(found),
        "recommended": int(np.count_nonzero(found)),
        "recommended_with_everybody": int(np.count_nonzero(_counts(rows, everybody))),
    }
    for place, (name, (algorithm, settings)) in enumerate(CENTRAL.items(), 3):
        central = []
        for window in range(plan.windows):
            so_far = _so_far(rows, window)
            fitted = entrenous.Recommender(algorithm, settings=settings, threads=threads)
            central.append(_lists(fitted.fit(so_far, progress=False).recommender, so_far))
        said[f"recommended_by_{name}"] = int(np.count_nonzero(_counts(rows, central)))
        progress(place, steps, f"{algorithm} with all rows")
    return {
        **said,
        "lists_of_the_median_item": float(np.median(found)),
        "people": rows.people,
        "windows": plan.windows,
        "ratio": float(np.mean(found > 0)),
        "against": "all items that appeared and had 20 uses two windows before",
    }


def _counts(rows: SeasonRows, lists: Sequence[Int64Array]) -> Int64Array:
    """Returns for each new item how many lists have it two windows after its twentieth use; those
    are left out for which the season ends before. lists: by window and item.
    """
    windows = rows.plan.windows
    counts = []
    for item in range(rows.listed(-1), rows.listed(windows - 1)):
        window = _used_by(rows, item)
        if window + LATER < windows:
            counts.append(int(lists[window + LATER][item]))
    return np.array(counts)


def _used_by(rows: SeasonRows, item: int) -> int:
    """Returns the window by whose end an item has its twentieth use; one that never comes if it
    has none.
    """
    places = np.flatnonzero(rows.rows.item == item)
    if len(places) < USES:
        return rows.plan.windows
    return max(0, int(np.searchsorted(rows.cuts, places[USES - 1], side="right")) - 1)


def _with_everybody(rows: SeasonRows) -> Iterator[StageAgain]:
    """Makes the season with everybody in every sum, and without noise."""
    from entrenous_lab.trials.again import each_again

    stages = map(rows.everybody, range(rows.plan.windows))
    return each_again(terms_of(rows, {}), stages, Protection())


def _lists_of(rows: SeasonRows, windows: Iterator[StageAgain]) -> Iterator[Int64Array]:
    """Yields for each window how many lists of a federation have each item at its end."""
    for window, stage in enumerate(windows):
        rounds = stage.rounds
        training = stage.training
        download = rounds.algorithm.download(training.server)
        recommender = FederatedRecommender(
            rounds.algorithm, download, training.devices, rounds.data, rounds.seed
        )
        yield _lists(recommender, rounds.data, rows.joined(window))


def _so_far(rows: SeasonRows, window: int) -> Interactions:
    """Returns all rows by the end of a window, as whoever collects them has them."""
    own = rows.rows
    count = int(rows.cuts[window + 1])
    people = rows.joined(window)
    order = np.lexsort((own.item[:count], own.user[:count]))
    of_each = np.bincount(own.user[:count], minlength=people)
    return Interactions(
        ptr=np.concatenate(([0], np.cumsum(of_each))),
        item=own.item[order].astype(np.int32),
        value=own.value[order],
        time=own.time[order],
        row=np.arange(count),
        users=Vocabulary(size=people, kind="user"),
        items=Vocabulary(own.ids[: rows.listed(window)], kind="item"),
    )


def _lists(recommender: Scorer, data: Interactions, people: int | None = None) -> Int64Array:
    """Returns for each item how many of the first `people` people, None = all, have it in a list of
    ten that they have not had.
    """
    users = np.arange(len(data.users) if people is None else people)
    every_item = Allowed(np.ones(len(data.items), np.bool_))
    best = recommend(recommender, data, users, LISTED, allowed=every_item, label="new-items")
    return np.bincount(best.item[best.item >= 0], minlength=len(data.items))


BENCHES = {"new-items": new_items}
