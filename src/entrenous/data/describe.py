"""A summary of `Interactions` as plain values, for people and for JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..core.types import Int64Array
from .interactions import NO_TIME, Interactions

QUANTILES = {"min": 0, "p10": 10, "median": 50, "p90": 90, "max": 100}


def describe(data: Interactions) -> dict[str, Any]:
    """data, users, items, rows, density (share of pairs that occur), rows_per_user, rows_per_item,
    values, times, features, notes.

    Times are in ISO 8601 (UTC); `times` is None if the data has none, `values` if all are 1.
    """
    users, items = len(data.users), len(data.items)
    return {
        "data": data.name,
        "users": users,
        "items": items,
        "rows": len(data),
        "density": len(data) / (users * items),
        "rows_per_user": quantiles(data.counts),
        "rows_per_item": quantiles(data.popularity),
        "values": _values(data),
        "times": _times(data),
        "features": sorted(data.features),
        "notes": list(data.notes),
    }


def quantiles(counts: Int64Array) -> dict[str, float]:
    """Minimum, 10 %, median, mean, 90 % and maximum of some counts."""
    points = np.percentile(counts, list(QUANTILES.values()))
    return {**dict(zip(QUANTILES, points.tolist(), strict=True)), "mean": float(counts.mean())}


def _values(data: Interactions) -> dict[str, float] | None:
    low, high = float(data.value.min()), float(data.value.max())
    return (
        None
        if low == high == 1
        else {"min": low, "max": high, "mean": float(data.value.mean(dtype=np.float64))}
    )


def _times(data: Interactions) -> dict[str, Any] | None:
    if data.time is None:
        return None
    known = data.time[data.time != NO_TIME]
    first, last = (
        datetime.fromtimestamp(int(time), UTC).isoformat() for time in (known.min(), known.max())
    )
    return {"first": first, "last": last, "missing": len(data) - len(known)}
