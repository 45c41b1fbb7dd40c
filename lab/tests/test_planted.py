"""Synthetic data with planted tastes: exact counts, keyed bytes, and a structure that is there."""

from __future__ import annotations

from entrenous_lab.planted import planted


def test_the_same_arguments_give_the_same_bytes_and_exact_counts() -> None:
    one, again, other = planted(users=500), planted(users=500), planted(users=500, seed=1)
    assert one.sha256() == again.sha256() != other.sha256()
    assert len(one) == 10_000 and one.counts.min() >= 1
    assert all(
        len(set(one.item[low:high].tolist())) == high - low
        for low, high in zip(one.ptr, one.ptr[1:], strict=False)
    )
