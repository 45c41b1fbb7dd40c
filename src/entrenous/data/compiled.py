"""Compiled loops of loading: the fields of a plain file of numbers, the numbers of ids, and the
order of rows. They are loaded for large files alone, since numba takes a second to start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.compiling import njit
from ..core.types import Array, BoolArray, Float64Array, Int32Array, Int64Array

# Digits of a whole number that fit in 64 bits, and of a decimal that fit in a float64.
MOST_DIGITS = 18
EXACT_DIGITS = 15
# The line does not have the plain form.
OTHER = -1
POWERS = np.array([10.0**digits for digits in range(EXACT_DIGITS + 1)])
POINT = 46
MINUS = 45
ZERO = 48
LINE_FEED = 10
RETURN = 13


@njit(cache=True, nogil=True)
def count_lines(content: Array, start: int, end: int) -> int:
    """Returns the number of line feeds between two places."""
    lines = 0
    for place in range(start, end):
        lines += content[place] == LINE_FEED
    return lines


@njit(cache=True, nogil=True)
def parse_rows(
    content: Array,
    span: tuple[int, int],
    separator: tuple[int, int],
    crlf: bool,
    real: BoolArray,
    whole_out: Int64Array,
    real_out: Float64Array,
    row: int,
) -> int:
    """Reads the rows of some lines, each of them numbers in their only plain form, into the columns
    from `row` on: no field is empty, starts with a plus or with a zero before other digits.

    content: uint8 [bytes]. span: where the lines begin and end; the last byte is a line feed.
    separator: the byte between two fields, and how often it stands there. real: the columns of
    decimals, bool [columns].
    whole_out, real_out: [columns, rows]. Returns the row behind the last one; OTHER if a field has
    another form, and OTHER - 1 - c if column c of whole numbers has a decimal.
    """
    place, end = span
    delimiter, times = separator
    columns = len(real)
    while place < end:
        for column in range(columns):
            # A sign is no digit, and may stand first alone.
            negative = content[place] == MINUS
            if negative:
                place += 1
            first = place
            number = 0
            # A byte below zero becomes a large one.
            digit: Any = np.uint8(content[place] - ZERO)
            while digit <= 9:
                number = number * 10 + digit
                place += 1
                digit = np.uint8(content[place] - ZERO)
            digits = place - first
            if digits == 0 or digits > MOST_DIGITS:
                return OTHER
            if content[first] == ZERO and digits > 1:
                return OTHER
            behind = 0
            if content[place] == POINT:
                if not real[column]:
                    return OTHER - 1 - column
                place += 1
                first = place
                digit = np.uint8(content[place] - ZERO)
                while digit <= 9:
                    number = number * 10 + digit
                    place += 1
                    digit = np.uint8(content[place] - ZERO)
                behind = place - first
                if behind == 0 or digits + behind > EXACT_DIGITS:
                    return OTHER
            if negative:
                # -0 is not the plain form of 0.
                if number == 0:
                    return OTHER
                number = -number
            if real[column]:
                if digits > EXACT_DIGITS:
                    return OTHER
                # Both are exact, so that the quotient is the float64 next to the decimal.
                real_out[column, row] = number / POWERS[behind]
            else:
                whole_out[column, row] = number
            if column < columns - 1:
                for _ in range(times):
                    if content[place] != delimiter:
                        return OTHER
                    place += 1
        if crlf:
            if content[place] != RETURN:
                return OTHER
            place += 1
        if content[place] != LINE_FEED:
            return OTHER
        place += 1
        row += 1
    return row


@njit(cache=True, nogil=True)
def mark(numbers: Int64Array, lowest: int, present: BoolArray) -> None:
    """Sets present[number - lowest] for every number."""
    for number in numbers:
        present[number - lowest] = True


@njit(cache=True, nogil=True)
def encode(numbers: Int64Array, lowest: int, code: Int32Array, out: Int32Array) -> None:
    """Writes code[number - lowest] of every number to `out`."""
    for row in range(len(numbers)):
        out[row] = code[numbers[row] - lowest]


@njit(cache=True, nogil=True)
def disorder(user: Array, item: Array) -> int:
    """Returns 0 if the pairs of user and item ascend and none repeats, 1 if they ascend with
    repeats, 2 if they do not ascend.
    """
    repeats = 0
    for row in range(1, len(user)):
        if user[row] < user[row - 1]:
            return 2
        if user[row] == user[row - 1]:
            if item[row] < item[row - 1]:
                return 2
            if item[row] == item[row - 1]:
                repeats = 1
    return repeats


@njit(cache=True, nogil=True)
def order_of_pairs(user: Array, item: Array, users: int, items: int) -> Int64Array:
    """Returns the positions of the rows sorted by user, then item, then place, int64 [rows]."""
    # The second sort keeps the order of the first among the rows of a user.
    by_item = _counted_order(item, np.arange(len(item)), items)
    return _counted_order(user, by_item, users)


@njit(cache=True, nogil=True)
def _counted_order(keys: Array, before: Int64Array, most: int) -> Int64Array:
    """Returns the positions `before` sorted by key; equal keys keep their order."""
    # Where the rows of each key begin.
    start = np.zeros(most + 1, np.int64)
    for key in keys:
        start[key + 1] += 1
    for key in range(most):
        start[key + 1] += start[key]
    order = np.empty(len(keys), np.int64)
    for position in before:
        key = keys[position]
        order[start[key]] = position
        start[key] += 1
    return order


@njit(cache=True, nogil=True)
def repeats(user: Array, item: Array, order: Int64Array) -> bool:
    """Returns True if two rows in an order have the same user and item as their neighbour."""
    for place in range(1, len(order)):
        row = order[place]
        other = order[place - 1]
        if user[row] == user[other] and item[row] == item[other]:
            return True
    return False
