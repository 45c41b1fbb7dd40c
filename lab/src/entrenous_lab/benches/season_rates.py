"""Learning rates and rounds for a season, tried in one process: the first half of its windows
chooses, the second half is the test.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrenous.core.contract.protocols import Progress
from entrenous.core.types import BoolArray

from .season_rows import Season, SeasonRows, by_half, founding_plan

if TYPE_CHECKING:
    from entrenous_network.agreement.terms import FederationTerms

    from entrenous_lab.trials.again import QuietRounds, StageAgain

RATES = (0.02, 0.05, 0.1)
ROUNDS = (2, 4)  # of a window


def season_rates(
    threads: int,
    progress: Progress,
    *,
    plan: Season | None = None,
    rates: Sequence[float] = RATES,
    rounds: Sequence[int] = ROUNDS,
) -> dict[str, Any]:
    """HR@10 of a season under noise by learning rate and by rounds of a window, where those who are
    awake and do not vanish are in the sums. `ratio` is of the second half, by the choice of the
    first, to popularity.
    """
    plan = plan or Season()
    tries = list(product(rounds, rates))
    halves: dict[tuple[int, float], tuple[float, float]] = {}
    rows = SeasonRows(plan)
    for place, (number, rate) in enumerate(tries):
        progress(place, len(tries), f"{number} rounds a window, rate {rate:g}")
        rows.plan = plan._replace(rounds=number)
        halves[number, rate] = by_half(_hits(rows, {"learning_rate": rate}))
    progress(len(tries), len(tries), "measured")
    best = max(halves, key=lambda tried: halves[tried][0])
    popular = by_half(list(rows.popular()))
    found: dict[str, Any] = {}
    for (number, rate), (first, second) in halves.items():
        found[f"first_half_{number}_rounds_rate_{rate:g}"] = first
        found[f"second_half_{number}_rounds_rate_{rate:g}"] = second
    return {
        **found,
        "first_half_popularity": popular[0],
        "second_half_popularity": popular[1],
        "chosen_rounds": best[0],
        "chosen_rate": best[1],
        "ratio": halves[best][1] / popular[1],
        "against": "popularity so far (above 1 is better)",
    }


def _hits(rows: SeasonRows, settings: Mapping[str, Any]) -> list[BoolArray]:
    again = enumerate(windows_of(rows, settings))
    return [rows.ranked(window, stage.rounds, stage.training) for window, stage in again]


def windows_of(rows: SeasonRows, settings: Mapping[str, Any]) -> Iterator[StageAgain]:
    """Makes the rounds of a season in one process. Yields the end of each window."""
    from entrenous_lab.trials.again import each_again

    stages = [_with_some(rows, window) for window in range(rows.plan.windows)]
    yield from each_again(terms_of(rows, settings), stages)


def _with_some(rows: SeasonRows, window: int) -> QuietRounds:
    """Returns a window in which a few are there, who are in all of its sums."""
    plan = rows.plan
    drawn = random.Random(f"{plan.seed} {window}")
    everybody = rows.everybody(window)
    share = plan.awake * (1 - plan.vanish)
    there = frozenset(user for user in sorted(everybody.there) if drawn.random() < share)
    return everybody._replace(there=there, sums=[there] * plan.rounds)


def terms_of(rows: SeasonRows, settings: Mapping[str, Any]) -> FederationTerms:
    """Returns the terms of a season's federation, which nobody has joined."""
    from entrenous_network.operate.founding import Place, found_federation, free_ports

    items = rows.items(0, rows.listed(-1))
    place = Place(port=free_ports()[0])
    with tempfile.TemporaryDirectory() as folder:
        plan = founding_plan(rows, settings)
        return found_federation(Path(folder) / "f", items, [], plan, place).terms


BENCHES = {"season-rates": season_rates}
