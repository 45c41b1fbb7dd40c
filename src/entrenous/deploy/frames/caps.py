"""What one answer may do to the model: how far a device may push and how much it may weigh, and how
far a round may move it.

A contribution that is well-formed and signed may still be a lie. These limits do not find out who
lies; they bound what it brings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ...core.contract.declared import Contract
from ...core.contract.protocols import State, arrays_of
from ...core.contract.update import STEP, Total, Update, fixed, real
from ...core.errors import InputError
from ...core.types import Array
from ...kernels.arrays import squares
from .codes import Code, FrameRefused

ALIKE = 256.0  # what a device weighs in algorithms that count all alike (kernels/averaging.py)
ROUNDING = 1 + 1e-6  # a sum of numbers on a grid may be a little longer than those it was made of
NAMED = 3  # nodes that a reason names


class RoundHalted(InputError):
    """Raised when a round would leave the model not finite, or moved further than the terms allow.
    It was not counted.
    """


class Caps(NamedTuple):
    """The limits of what one device sends in a round. weight: that it counts with, at most; norm:
    Euclidean length of all its rows and arrays together, None = any."""

    weight: float
    norm: float | None = None

    @classmethod
    def of(cls, contract: Contract, norm: float | None = None, weight: float | None = None) -> Caps:
        """The limits that terms set; without a weight of theirs, no more than a device can have
        items, or the weight of all alike.
        """
        return cls(max(float(contract.sizes["items"]), ALIKE) if weight is None else weight, norm)

    def check(self, found: Update | Total) -> float:
        """The Euclidean length of a contribution. Raises FrameRefused for more than its devices may
        send or weigh.
        """
        length, m = norm(found), found.devices
        weight = (
            fixed(found.weight) if isinstance(found, Update) else found.weight
        )  # as it counts: half a step is nothing
        if float(weight.sum()) * STEP > m * self.weight:
            raise FrameRefused(Code.WRONG_WEIGHT, "more than these devices can have")
        if not weight.any() and length > 0:
            raise FrameRefused(Code.WRONG_WEIGHT, "rows without a weight")
        if isinstance(found, Total) and any(
            array[weight == 0].any() for array in found.dense.values()
        ):
            raise FrameRefused(Code.WRONG_WEIGHT, "a sum without a weight")
        if self.norm is not None and length > m * self.norm * ROUNDING:
            raise FrameRefused(Code.TOO_LARGE, f"longer than {self.norm:g} a device")
        return length


def norm(found: Update | Total) -> float:
    """The Euclidean length of all rows and dense arrays of a contribution together."""
    if isinstance(found, Update):
        return _length([*found.rows.values(), *found.dense.values()])
    sent = found.senders > 0
    return _length(
        [
            *(real(rows[sent]) for rows in found.rows.values()),
            *(real(array) for array in found.dense.values()),
        ]
    )


def _length(arrays: Iterable[Array]) -> float:
    return float(np.sqrt(sum(squares(np.ascontiguousarray(array).reshape(-1)) for array in arrays)))


def moved(before: State, after: State) -> float:
    """The most that any number of a model has moved; infinite where one has ceased to be finite."""
    most = 0.0
    for old, new in zip(arrays_of(before).values(), arrays_of(after).values(), strict=True):
        if new.dtype.kind != "f" or not new.size or not np.isfinite(old).all():
            continue
        if not np.isfinite(new).all():
            return np.inf
        if new.shape == old.shape:
            most = max(most, float(np.abs(new.astype(np.float64) - old).max()))
    return most


def halted(
    number: int, far: float, most: float | None, lengths: Mapping[str, float]
) -> RoundHalted | None:
    """Why a round does not count; None if it does. far: how far it would move the model; most: how
    far it may, None = anywhere finite; lengths: of each node's answer, where they were seen."""
    if np.isfinite(far) and (most is None or far <= most):
        return None
    problem = (
        f"would move the model by {far:.6g}"
        if np.isfinite(far)
        else "would leave numbers in the model that are not finite"
    )
    longest = sorted(lengths, key=lambda name: -lengths[name])[:NAMED]
    who = f", largest answers first: {', '.join(longest)}" if longest else ""
    expected = "finite numbers" if most is None else f"at most {most:g}, as the terms say"
    fix = (
        f"the round is not counted{who}; shut out who lies, or `entrenous federation rewind`, and"
        " start again"
    )
    return RoundHalted(f"round {number}", problem, expected=expected, fix=fix)
