"""Synthetic data with planted tastes: exact counts, keyed bytes, and a structure that is there."""

from __future__ import annotations

import pytest
from entrenous_lab.planted import planted

from entrenous.runs.pipeline import run


def test_the_same_arguments_give_the_same_bytes_and_exact_counts() -> None:
    one, again, other = planted(users=500), planted(users=500), planted(users=500, seed=1)
    assert one.sha256() == again.sha256() != other.sha256()
    assert len(one) == 10_000 and one.counts.min() >= 1
    assert all(
        len(set(one.item[low:high].tolist())) == high - low
        for low, high in zip(one.ptr, one.ptr[1:], strict=False)
    )


@pytest.mark.slow
def test_many_items_with_few_rows_each_do_not_end_at_popularity() -> None:
    """2,000 users x 15,000 items, planted tastes, histories of 16 rows, the defaults."""
    rows = planted(users=2000, items=15000, each=20, lean=100)
    gmf, popular = (
        run(name, rows, protocol="random-80-20", rounds=80).metrics["ndcg@10"]
        for name in ("fedavg-gmf", "popular")
    )
    assert gmf > 2 * popular > 0
