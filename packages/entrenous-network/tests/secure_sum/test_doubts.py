"""Wrong shares over many sums: who sends a few in each is named, and nobody who has as many as a tenth
in league can bring about.
"""

from __future__ import annotations

import numpy as np
from entrenous_network.secure_sum.doubts import Doubts, by_chance
from entrenous_network.secure_sum.graph import IN_LEAGUE, TOO_MANY
from entrenous_network.secure_sum.server import GAVE_WRONG, SENT_WRONG

LIAR = ("liar", GAVE_WRONG)


def test_who_loses_sum_after_sum_by_as_many_as_may_be_in_league_is_named() -> None:
    """Of 100 members ten may be in league, and all of them in a sum of 30: ten bad boxes lose it."""
    doubts = Doubts()
    victim = ("victim", SENT_WRONG)
    named = []
    for _ in range(3):
        named.append(doubts.after({LIAR: 30, victim: 30}, {LIAR: 10, victim: 1}))
    assert named == [{}, {}, {"liar": GAVE_WRONG}]


def test_sums_without_a_wrong_share_speak_for_a_party() -> None:
    doubts = Doubts()
    for _ in range(20):
        assert doubts.after({LIAR: 30}, {}) == {}
    assert all(doubts.after({LIAR: 30}, {LIAR: 10}) == {} for _ in range(3))


def test_nobody_is_named_by_a_tenth_that_lies_about_everybody_in_every_sum() -> None:
    """2,000 honest parties in 100 sums each, looked at after each."""
    draws = np.random.default_rng(0)
    wrong = draws.binomial(30, IN_LEAGUE, (2_000, 100)).cumsum(axis=1)
    shown = 30 * np.arange(1, 101)
    # Of parties with one number after a sum, the one with the most.
    most = wrong.max(axis=0)
    assert all(by_chance(int(n), int(w)) >= TOO_MANY for n, w in zip(shown, most, strict=True))
