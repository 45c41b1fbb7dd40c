"""The epsilon of a training with user-level differential privacy, by the library dp-accounting
(Google): each round is Poisson sampling, a clip, and Gaussian noise on the sum.

The unit is a user with all of their data; two data sets are neighbours if one has a user more.
Where one user is exchanged for another, epsilon is larger, and is reported as well. Every round's
sum is released. PLD (privacy loss distributions, numerical and tight) decides; RDP (Renyi, a closed
bound, a little larger) begins searches. Discrete Gaussian noise of this spread
is accounted for as Gaussian: C. Canonne, G. Kamath, T. Steinke, NeurIPS 2020.

Cohorts of a fixed size are not offered: without Poisson sampling the same noise proves far less.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from ..core.errors import InputError

TOLERANCE = 1e-3  # of a noise multiplier that is looked for: it is found from above
FINE = 1e-4  # PLD's grid: dp-accounting's own
COARSE = 1e-3  # for searches: ten times as fast, and some 1e-5 of epsilon more


class SampledGaussian(NamedTuple):
    """A round as the accountant sees it: sampled users and Gaussian noise."""

    multiplier: float
    """The noise's standard deviation in units of the clip."""
    rate: float
    """The probability that a user takes part."""


def epsilon_of(
    mechanism: SampledGaussian,
    rounds: int,
    delta: float,
    grid: float = FINE,
    exchanged: bool = False,
) -> float:
    """Epsilon at `delta` after so many rounds.

    grid: the step of PLD's loss distributions. A coarser one gives a little more, never less.
    exchanged: one user is exchanged for another, in place of left out.

    Raises InputError where dp-accounting is not installed.
    """
    if rounds == 0:
        return 0.0
    accountant = _accountant("pld", grid, exchanged)
    accountant.compose(_event(mechanism, rounds))
    return float(accountant.get_epsilon(delta))


def epsilon_of_all(trainings: Sequence[tuple[SampledGaussian, int]], delta: float) -> float:
    """Epsilon at `delta` of all releases of several trainings on the same people, by PLD.

    trainings: the mechanism of each, and its number of rounds.

    Raises InputError where dp-accounting is not installed.
    """
    accountant = _accountant("pld", FINE)
    for mechanism, rounds in trainings:
        if rounds:
            accountant.compose(_event(mechanism, rounds))
    return float(accountant.get_epsilon(delta))


def multiplier_for(epsilon: float, delta: float, rate: float, rounds: int) -> float:
    """The least noise multiplier, to 0.001, with which so many rounds spend at most `epsilon` at
    `delta`.
    """
    dpa = _library()

    def least(by: Literal["pld", "rdp"], bracket: Any) -> float:
        multiplier = dpa.calibrate_dp_mechanism(
            partial(_accountant, by, COARSE),
            lambda z: _event(SampledGaussian(z, rate), rounds),
            epsilon,
            delta,
            bracket,
            tol=TOLERANCE,
        )
        return float(multiplier)

    # RDP is quick; PLD takes seconds for each small multiplier that it need not try then.
    enough = least("rdp", dpa.LowerEndpointAndGuess(0.05, 1.0))
    return least("pld", dpa.LowerEndpointAndGuess(enough / 2, enough))


def most_rounds(mechanism: SampledGaussian, epsilon: float, delta: float, asked: int) -> int:
    """The number of rounds, `asked` at most, that spend no more than `epsilon` at `delta`."""
    if epsilon_of(mechanism, asked, delta, grid=COARSE) <= epsilon:
        return asked
    # Bisection: `low` rounds are within the budget, `high` are not.
    low = 0
    high = asked
    while high - low > 1:
        middle = (low + high) // 2
        if epsilon_of(mechanism, middle, delta, grid=COARSE) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def _event(mechanism: SampledGaussian, rounds: int) -> Any:
    """So many rounds of a mechanism in dp-accounting's words."""
    dpa = _library()
    noise = dpa.GaussianDpEvent(mechanism.multiplier)
    return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(mechanism.rate, noise), rounds)


def _accountant(by: str, grid: float, exchanged: bool = False) -> Any:
    """An accountant of dp-accounting that has accounted for nothing yet."""
    neighbours = _library().NeighboringRelation
    from dp_accounting import pld, rdp

    if by == "rdp":
        return rdp.RdpAccountant()
    relation = neighbours.REPLACE_ONE if exchanged else neighbours.ADD_OR_REMOVE_ONE
    return pld.PLDAccountant(relation, value_discretization_interval=grid)


def _library() -> Any:
    """The module dp_accounting. Raises InputError where it is not installed."""
    try:
        import dp_accounting
    except ImportError:
        raise InputError(
            "--protect epsilon",
            "dp-accounting is not installed",
            fix="pip install 'entrenous[privacy]'",
        ) from None
    # It warns of orders that it leaves out of a minimum.
    logging.getLogger("absl").setLevel(logging.ERROR)
    return dp_accounting
