"""A summary of `Interactions` as plain values, for people and for JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..core.types import Int32Array, Int64Array
from .interactions import NO_TIME, SECOND, Interactions

# The units of times in microseconds, the largest first.
RESOLUTIONS = {
    "days": 86_400 * SECOND,
    "hours": 3_600 * SECOND,
    "minutes": 60 * SECOND,
    "seconds": SECOND,
    "milliseconds": 1_000,
    "microseconds": 1,
}
QUANTILES = {"min": 0, "p10": 10, "median": 50, "p90": 90, "max": 100}


def describe(data: Interactions) -> dict[str, Any]:
    """Returns data, users, items, rows, density (the share of pairs that occur), rows_per_user,
    rows_per_item, values, times, features and reading, the report of loading.

    Times are in ISO 8601 (UTC). `times` is None if the data has none, `values` if all are 1.
    """
    users = len(data.users)
    items = len(data.items)
    return {
        "data": data.name,
        "users": users,
        "items": items,
        "rows": len(data),
        # Of all pairs of a user and an item.
        "density": len(data) / (users * items),
        "rows_per_user": quantiles(data.counts),
        "rows_per_item": quantiles(data.popularity),
        "values": _values(data),
        "times": _times(data),
        "features": sorted(data.features),
        "reading": data.reading.as_json(),
    }


def quantiles(counts: Int64Array) -> dict[str, float]:
    """Returns minimum, 10 %, median, 90 %, maximum and mean of some counts."""
    points = np.percentile(counts, list(QUANTILES.values()))
    summary = dict(zip(QUANTILES, points.tolist(), strict=True))
    summary["mean"] = float(counts.mean())
    return summary


def _values(data: Interactions) -> dict[str, float] | None:
    low = float(data.value.min())
    high = float(data.value.max())
    if low == high == 1:
        return None
    # In float64, since float32 sums of millions of ratings lose digits.
    return {"min": low, "max": high, "mean": float(data.value.mean(dtype=np.float64))}


def _times(data: Interactions) -> dict[str, Any] | None:
    if data.time is None:
        return None
    known = data.time[data.time != NO_TIME]
    missing = len(data) - len(known)
    return {
        "first": iso(known.min()),
        "last": iso(known.max()),
        "missing": missing,
        "resolution": _resolution(known),
        "users_with_ties": users_with_ties(data.user, data.time),
    }


def _resolution(known: Int64Array) -> str:
    """Returns the largest unit of which all times are whole numbers, such as "days"."""
    return next(unit for unit, size in RESOLUTIONS.items() if not (known % size).any())


def users_with_ties(user: Int32Array, time: Int64Array) -> int:
    """Returns the number of users of whom two rows have one time, so that the time does not say
    which of them is the later one. user, time: of each row.
    """
    order = np.lexsort((time, user))
    by_user = user[order]
    by_time = time[order]
    tied = (by_user[1:] == by_user[:-1]) & (by_time[1:] == by_time[:-1])
    tied &= by_time[1:] != NO_TIME
    return len(np.unique(by_user[1:][tied]))


def iso(time: int) -> str:
    """Returns a time in ISO 8601 (UTC)."""
    # In whole numbers: a float would round the last microseconds.
    seconds, micros = divmod(int(time), SECOND)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros).isoformat()
