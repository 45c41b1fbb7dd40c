"""The step of a model: how far one round may move it, whatever the sum of the round says.

An operator who designs a model needs one that no training gives: a few items along one direction,
and nothing else. So the server shortens the move of each round, and a device refuses a model that
has moved further than the rounds since the last one that it saw allow. A designed model then takes
many rounds, and a device gives few answers. A member who lies moves a model no further either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.protocols import State, arrays_of
from ..core.errors import InputError
from ..core.types import Array, Float64Array

# Rows that were shortened in float64 are kept in float32: by this much they may be further.
ROUNDED: Final = 1 + 1e-3
LEAST: Final = 1e-6


def check_step(contract: Contract) -> None:
    """Raises InputError for an algorithm whose server does not hold its model as devices receive
    it: nobody could say by how much a round has moved that.
    """
    held = getattr(contract.declaration.holds, "_fields", ())
    for name, _ in _moving(contract):
        if name not in contract.shared or name not in held:
            problem = f"'{name}' of {contract.name} is not held by the server as it is sent"
            raise InputError("--protect step", problem, expected="0", fix="leave it out")


def within_step(contract: Contract, before: State, after: State, step: float) -> State:
    """Returns the state in which no row of the model is further than `step` from where it was
    `before`: longer moves are shortened. A row belongs to an item; an array without items is one.

    before, after: states of a server, or downloads.
    """
    arrays = arrays_of(after)
    for name, move in _moves(contract, before, after):
        start = arrays_of(before)[name]
        factor = np.minimum(1, step / np.maximum(_lengths(move), 1e-300))
        shorter = move * factor[:, None]
        arrays[name] = (start + shorter.reshape(start.shape)).astype(start.dtype)
    return type(after)(**arrays)


def longest_move(contract: Contract, before: State, after: State) -> float:
    """Returns the length of the move of the row of a model that has moved furthest."""
    moves = _moves(contract, before, after)
    return max(float(_lengths(move).max(initial=0)) for _, move in moves)


def _moving(contract: Contract) -> Iterator[tuple[str, bool]]:
    """Yields the name of each array of a model that rounds move, and whether its rows are items."""
    for field in contract.receives:
        if field.dtype.startswith("float"):
            yield field.name, field.axes.sizes[:1] == ("items",)


def _moves(contract: Contract, before: State, after: State) -> Iterator[tuple[str, Float64Array]]:
    """Yields the move of each row, float64 [rows, numbers], of each array of a model."""
    for name, of_items in _moving(contract):
        start: Array = arrays_of(before)[name]
        move = arrays_of(after)[name].astype(np.float64) - start
        yield name, move.reshape(len(move) if of_items else 1, -1)


def _lengths(move: Float64Array) -> Float64Array:
    return np.asarray(np.sqrt((move**2).sum(axis=1)))
