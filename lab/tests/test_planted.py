"""Synthetic data with planted tastes: exact counts, keyed bytes, and a structure that is there."""

from __future__ import annotations

import numpy as np
from entrenous_lab.planted import planted


def test_the_same_arguments_give_the_same_bytes_and_exact_counts() -> None:
    one, again, other = planted(users=500), planted(users=500), planted(users=500, seed=1)
    assert one.sha256() == again.sha256() != other.sha256()
    assert len(one) == 10_000 and one.counts.min() >= 1
    assert all(
        len(set(one.item[low:high].tolist())) == high - low
        for low, high in zip(one.ptr, one.ptr[1:], strict=False)
    )


def test_users_of_a_taste_share_items_and_rate_their_own_higher() -> None:
    data = planted(users=4000, items=400, each=20, tastes=4)
    taste_of_row = data.user % 4
    shares = np.array(
        [np.bincount(data.item[taste_of_row == taste], minlength=400) for taste in range(4)]
    )
    own = shares.argmax(axis=0)[data.item] == taste_of_row
    assert own.mean() > 0.6, (
        "twelve times as likely as one of a quarter of all items: .8 of a history"
    )
    assert data.value[own].mean() - data.value[~own].mean() > 0.8
    assert set(np.unique(data.value)) == {1, 2, 3, 4, 5}
