"""A summary of `Interactions` as plain values, for people and for JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..core.types import Int64Array
from .interactions import NO_TIME, SECOND, Interactions

QUANTILES = {"min": 0, "p10": 10, "median": 50, "p90": 90, "max": 100}


def describe(data: Interactions) -> dict[str, Any]:
    """Returns data, users, items, rows, density (the share of pairs that occur), rows_per_user,
    rows_per_item, values, times, features and notes.

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
        "notes": list(data.notes),
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
    return {"first": iso(known.min()), "last": iso(known.max()), "missing": missing}


def iso(time: int) -> str:
    """Returns a time in ISO 8601 (UTC)."""
    # In whole numbers: a float would round the last microseconds.
    seconds, micros = divmod(int(time), SECOND)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros).isoformat()
