"""What `private` brings is chosen by validation rows and by what models tell; the choice by hand, and
a small table whole.
"""

from __future__ import annotations

from entrenous_lab.papers.privacy_sets import SIZES, choice
from entrenous_lab.papers.set_trials import Tried, candidates

from entrenous.runs.plan import algorithm_of


def tried(accuracy: float, told: float) -> Tried:
    return Tried({}, [accuracy], {0.5: [told], 0.1: [0.0]})


def test_the_most_accurate_of_those_that_tell_little_is_chosen() -> None:
    """The first tells too much on the second data set; the others are allowed on both."""
    of = {
        "x": [tried(0.7, 0.01), tried(0.6, 0.02), tried(0.5, 0.0)],
        "y": [tried(0.7, 0.03), tried(0.5, 0.0), tried(0.6, 0.0)],
    }
    assert choice(of) == 1  # 0.6 / 0.7 + 0.5 / 0.7 for both: the first of equals
    of["y"][2] = tried(0.69, 0.0)
    assert choice(of) == 2


def test_where_all_tell_too_much_the_one_that_tells_least_is_chosen() -> None:
    assert choice({"x": [tried(0.7, 0.05), tried(0.2, 0.03), tried(0.6, 0.04)]}) == 1


def test_a_candidate_that_tells_little_by_luck_of_one_seed_is_not_allowed() -> None:
    """Both tell 0.019 on average; what the second tells varies."""
    steady = Tried({}, [0.5, 0.5], {0.5: [0.019, 0.019]})
    lucky = Tried({}, [0.9, 0.9], {0.5: [0.010, 0.028]})
    assert choice({"x": [steady, lucky]}) == 0
    assert choice({"x": [steady, lucky._replace(tells={0.5: [0.018, 0.020]})]}) == 1


def test_every_setting_that_is_tried_is_one_of_its_algorithm() -> None:
    for sets in SIZES:
        for algorithm, grid in sets.grid.items():
            for settings in candidates(grid):
                own = {name: value for name, value in settings.items() if name != "noise"}
                algorithm_of(algorithm, own)
