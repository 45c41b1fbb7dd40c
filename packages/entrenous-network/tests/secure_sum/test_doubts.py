"""Wrong shares over many sums: who has them with many others is named, and nobody who has them with
as many as may be in league.
"""

from __future__ import annotations

import numpy as np
from entrenous_network.secure_sum.doubts import Doubts
from entrenous_network.secure_sum.server import GAVE_WRONG, SENT_WRONG

LIAR = ("liar", GAVE_WRONG)
MEMBERS = 100
LEAGUE = {f"friend {k}" for k in range(10)}


def test_who_loses_sum_after_sum_by_as_many_as_may_be_in_league_is_named() -> None:
    """Ten of 100 members may be in league, and all of them in a sum of 30: ten bad boxes lose it."""
    doubts = Doubts()
    draws = np.random.default_rng(0)
    named = []
    for _ in range(3):
        others = {f"member {k}" for k in draws.choice(MEMBERS - 1, 10, replace=False)}
        victims = {(name, SENT_WRONG): {"liar"} for name in others}
        named.append(doubts.after({LIAR: others, **victims}, MEMBERS))
    assert named[0] == {}
    assert named[1] == named[2] == {"liar": GAVE_WRONG}


def test_nobody_is_named_by_all_in_league_who_lie_about_everybody_in_every_sum() -> None:
    """They come to each sum, whatever their lots say."""
    doubts = Doubts()
    for _ in range(200):
        wrong = {("victim", GAVE_WRONG): LEAGUE, ("other", SENT_WRONG): LEAGUE}
        assert doubts.after(wrong, MEMBERS) == {}


def test_of_few_members_one_may_be_in_league_for_ever() -> None:
    doubts = Doubts()
    for _ in range(200):
        assert doubts.after({("victim", GAVE_WRONG): {"friend"}}, 5) == {}
    named = doubts.after({("victim", GAVE_WRONG): {"another"}}, 5)
    assert named == {"victim": GAVE_WRONG}
