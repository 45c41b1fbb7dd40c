"""The bench of a crowd by lot, in small: its devices must still be what the package asks of one."""

from __future__ import annotations

from entrenous_lab.benches.crowds import crowds

from entrenous.core.contract.protocols import silent


def test_a_crowd_of_two_hundred_makes_its_sums() -> None:
    """Before: every device failed, and `AssertionError: 0.0 people a round`."""
    found = crowds(1, silent, enrolled=200, present=200)
    # The lot draws twenty a round on average.
    assert found["people_in_sums_per_round"] > 10
    assert found["answers"].keys() == {"accepted"}
