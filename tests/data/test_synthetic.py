"""Synthetic data: exact counts, keyed bytes, skewed popularity, and a size that must stay quick and
small.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from plain_python import printed

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import activity, synthetic


def digest(data: Interactions) -> str:
    return hashlib.sha256(data.ptr.tobytes() + data.item.tobytes()).hexdigest()


SIZES = [  # users, items, interactions, skew
    (1, 2, 1, 1.0),
    (5, 2, 5, 0.0),
    (7, 9, 7, 1.0),
    (7, 9, 56, 2.0),
    (300, 50, 9_000, 1.5),
    (1000, 2000, 30_000, 0.0),
    (40, 30, 1_100, 10.0),
]


@pytest.mark.parametrize(("users", "items", "interactions", "skew"), SIZES)
def test_counts_are_exact_and_rows_are_well_formed(
    users: int, items: int, interactions: int, skew: float
) -> None:
    data = synthetic(users=users, items=items, interactions=interactions, skew=skew, seed=3)
    assert (len(data.users), len(data.items), len(data)) == (users, items, interactions)
    assert data.counts.min() >= 1 and data.counts.max() < items
    for u in range(users):
        assert np.all(np.diff(data.item[data.ptr[u] : data.ptr[u + 1]]) > 0)
    assert data.item.min() >= 0 and data.item.max() < items
    assert data.time is None and data.row is None
    assert data.value.strides == (0,) and (data.value == 1).all()
    assert data.users[users - 1] == str(users - 1)
    assert "not real data" in data.notes[0]


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    size = {"users": 200, "items": 300, "interactions": 4_000}
    assert digest(synthetic(**size, seed=1)) == digest(synthetic(**size, seed=1))
    assert digest(synthetic(**size, seed=1)) != digest(synthetic(**size, seed=2))


def test_popularity_follows_the_skew() -> None:
    data = synthetic(users=20_000, items=1_000, interactions=60_000, skew=1.0, seed=0)
    share = np.sort(data.popularity)[::-1] / len(data)
    expected = 1 / np.arange(1, 1001) / (1 / np.arange(1, 1001)).sum()
    assert share[0] < expected[0]  # a user takes the top item at most once
    assert share[100:200].sum() == pytest.approx(expected[100:200].sum(), rel=0.2)
    flat = synthetic(users=20_000, items=1_000, interactions=60_000, skew=0.0, seed=0)
    assert flat.popularity.std() == pytest.approx(
        60**0.5, rel=0.15
    )  # Poisson: 60,000 rows over 1,000 items


def test_popular_items_are_not_neighbours() -> None:
    data = synthetic(users=20_000, items=1_000, interactions=60_000)
    top = np.argsort(data.popularity)[::-1][:10]
    assert top.max() - top.min() > 200


def test_activity_is_uneven_capped_and_adds_up() -> None:
    counts = activity(10_000, 50, 100_000, seed=0)
    assert counts.sum() == 100_000 and counts.min() == 1 and counts.max() == 49
    assert np.percentile(counts, 90) > 3 * np.percentile(counts, 25)


def test_numbers_that_cannot_be_met_are_refused() -> None:
    with pytest.raises(InputError, match="from 10 "):
        synthetic(users=10, items=5, interactions=9)
    with pytest.raises(InputError, match="to 40 "):
        synthetic(users=10, items=5, interactions=41)
    with pytest.raises(InputError, match="skew"):
        synthetic(users=10, items=5, interactions=20, skew=float("nan"))
    with pytest.raises(InputError, match="2 items"):
        synthetic(users=10, items=1, interactions=10)


PROGRAM = """
import hashlib, sys
from entrenous.data.synthetic import synthetic
data = synthetic(users=30, items=40, interactions=400, skew=2.0, seed=5)
print(hashlib.sha256(data.ptr.tobytes() + data.item.tobytes()).hexdigest())
"""


def test_the_kernels_give_the_same_bytes_uncompiled() -> None:
    assert printed(PROGRAM, compiled=False) == digest(
        synthetic(users=30, items=40, interactions=400, skew=2.0, seed=5)
    )


BIG = """
import re
from entrenous.data.synthetic import synthetic
synthetic(users=10, items=10, interactions=30)
data = synthetic(users=200_000, items=100_000, interactions=10_000_000)
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(int(peak.group(1)) / 1e3, len(data))
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc"
)
def test_ten_million_rows_take_little_memory() -> None:
    done = subprocess.run([sys.executable, "-c", BIG], capture_output=True, text=True, check=True)
    megabytes, rows = map(float, done.stdout.split())
    assert rows == 10_000_000
    assert megabytes < 500
