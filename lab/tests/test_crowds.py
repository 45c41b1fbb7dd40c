"""The bench of a crowd by lot, in small: its devices must still be what the package asks of one."""

from __future__ import annotations

from entrenous_lab.benches.crowds import crowds

from entrenous.core.contract.protocols import silent


def test_a_crowd_of_two_hundred_makes_its_sums() -> None:
    """Before: every device failed, and `AssertionError: 0.0 people a round`."""
    found = crowds(1, silent, enrolled=200, present=200, drawn=100)
    assert found["people_in_sums_per_round"] > 50
    # The devices of the bench keep no model, and withhold where one is given.
    assert found["answers"].keys() - {"withheld"} == {"accepted"}
