"""Random numbers of plain NumPy: those of the compiled keys, fair, the same whatever was drawn
together.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from entrenous import fold_name, generator, negatives
from entrenous.core.errors import InputError
from entrenous.core.keys import below, draw, key, normal, uniform

KEYS = [key(0, "a"), key(1, "b", 3), np.uint64(2**64 - 1), np.uint64(0)]


@pytest.mark.parametrize("own", KEYS)
def test_number_c_is_draw_c_of_the_key(own: np.uint64) -> None:
    assert generator(own).bits(5).tolist() == [int(draw(own, c)) for c in range(5)]
    assert generator(own).uniform(4).tolist() == [
        uniform(np.uint64(draw(own, c))) for c in range(4)
    ]
    assert generator(own).integers(17, 6).tolist() == [
        below(np.uint64(draw(own, c)), 17) for c in range(6)
    ]
    assert generator(own).normal(3).tolist() == [normal(own, c) for c in range(3)]


def test_the_sequence_goes_on_whatever_was_asked_for_together() -> None:
    whole, parts = generator(KEYS[1]), generator(KEYS[1])
    assert whole.bits((2, 3)).reshape(-1).tolist() == [
        *parts.bits(1).tolist(),
        *parts.bits(2).tolist(),
        *parts.bits((3, 1))[:, 0].tolist(),
    ]
    draws = generator(KEYS[0])
    first = draws.uniform(3)
    assert not np.isin(draws.normal(2), first).any() and draws.normal(4).std() > 0
    odd = generator(KEYS[0])
    odd.bits(3)
    assert odd.normal(1)[0] == normal(KEYS[0], 2)  # two words each, of those not drawn yet


def test_a_key_may_be_any_whole_number_and_a_users_key_too() -> None:
    many = [generator(fold_name(key(0, "round", 1), user)).bits(1)[0] for user in range(2000)]
    assert len(set(many)) == 2000
    assert generator(-1).bits(2).tolist() == generator(2**64 - 1).bits(2).tolist()


def test_numbers_are_fair() -> None:
    draws = generator(key(5, "fair"))
    assert stats.kstest(draws.uniform(20_000), "uniform").pvalue > 1e-3
    assert stats.kstest(draws.normal(20_000, 2.0), "norm", (0, 2)).pvalue > 1e-3
    assert stats.chisquare(np.bincount(draws.integers(7, 20_000), minlength=7)).pvalue > 1e-3
    assert (
        sorted(draws.permutation(50).tolist()) == list(range(50)) != draws.permutation(50).tolist()
    )


@pytest.mark.parametrize("below_what", [0, -3, 1 << 32])
def test_a_bound_that_makes_no_sense(below_what: int) -> None:
    with pytest.raises(
        InputError, match=r"generator.integers: below is .*; expected 1 to 2\^32 - 1"
    ):
        generator(1).integers(below_what, 3)


@pytest.mark.parametrize(
    "history", [[], [0], [9], [0, 1, 2], [7, 8, 9], [1, 4, 6], [0, 1, 2, 3, 4, 5, 6, 7, 8]]
)
def test_negatives_are_every_other_item_alike(history: list[int]) -> None:
    found = negatives(generator(key(3, "n")), np.array(history, np.int32), 10, 4_000)
    others = sorted(set(range(10)) - set(history))
    assert found.dtype == np.int32 and sorted(set(found.tolist())) == others
    counts = np.bincount(found, minlength=10)[others]
    assert len(others) == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_nobody_who_has_everything_has_negatives() -> None:
    with pytest.raises(InputError, match="negatives: the history holds all 3 items"):
        negatives(generator(1), np.arange(3), 3, 1)
