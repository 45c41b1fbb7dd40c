"""Small data for tests, and MovieLens-100K where the shared folder has it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from paths import real

from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.privacy.decoys import Mixed


def interactions(
    rows, *, users=None, items=None, times=True, name="small", features=None
) -> Interactions:
    """Interactions from (user id, item id) pairs in source order; the n-th row has time 100 + n."""
    users = Vocabulary(users or sorted({user for user, *_ in rows}), kind="user")
    items = Vocabulary(items or sorted({item for _, item, *_ in rows}), kind="item")
    user, item = users.indices([row[0] for row in rows]), items.indices([row[1] for row in rows])
    time = [row[2] if len(row) > 2 else 100 + n for n, row in enumerate(rows)] if times else None
    value = [1 + n % 5 for n in range(len(rows))]
    return build(
        user, item, value=value, time=time, users=users, items=items, name=name, features=features
    )


def random_data(users=40, items=30, rows=400, *, seed=0) -> Interactions:
    """About `rows` distinct random rows with many equal times; popular items are more likely; some
    users have one or two rows.
    """
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, items + 1)
    pairs = set(
        zip(
            rng.integers(2, users, rows).tolist(),
            rng.choice(items, rows, p=weight / weight.sum()).tolist(),
            strict=True,
        )
    )
    pairs = sorted({pair for pair in pairs if pair[1] < items - 2} | {(0, 3), (1, 4), (1, 5)})
    rng.shuffle(pairs)
    names = [f"i{n}" for n in range(items)]
    rows = [(f"u{user}", f"i{item}", int(rng.integers(0, 20))) for user, item in pairs]
    return interactions(
        rows,
        users=[f"u{n}" for n in range(users)],
        items=names,
        features={"category": np.array(["a", "b|c", ""] * items)[:items]},
    )


def few_ratings(users: int, items: int, *, idle: bool = False) -> Interactions:
    """Ratings 1 to 5, at least one of every user; idle: none of the last one."""
    rng = np.random.default_rng(0)
    has = rng.random((users, items)) < 0.4
    has[np.arange(users), np.arange(users)] = True
    has[-1] &= not idle
    user, item = np.nonzero(has)
    value = rng.integers(1, 6, len(user)).astype(np.float32)
    names = Vocabulary(size=users, kind="user"), Vocabulary(size=items, kind="item")
    return build(user, item, value=value, users=names[0], items=names[1])


def rows_of(data: Interactions) -> set[tuple[str, str]]:
    """The rows as external ids."""
    return {
        (data.users[u], data.items[i])
        for u, i in zip(data.user.tolist(), data.item.tolist(), strict=True)
    }


@cache
def movielens() -> Interactions:
    """MovieLens-100K in the order of its file."""
    import polars as pl

    frame = pl.read_parquet(real("ml-100k", "interactions.parquet"))
    user, item = (frame[column].cast(pl.String).to_list() for column in ("user_id", "item_id"))
    users, items = (
        Vocabulary(list(dict.fromkeys(user)), kind="user"),
        Vocabulary(list(dict.fromkeys(item)), kind="item"),
    )
    value, time = frame["rating"].to_numpy(), frame["timestamp"].to_numpy()
    return build(
        users.indices(user),
        items.indices(item),
        value=value,
        time=time,
        users=users,
        items=items,
        name="ml-100k",
    )


class Scores:
    """A recommender that knows its scores, [users, items]."""

    def __init__(self, scores):
        self.table = np.asarray(scores, np.float32)

    def scores(self, users):
        return self.table[users]


class Popular:
    """The most popular items of its training rows."""

    def __init__(self, train: Interactions):
        self.row = train.popularity.astype(np.float32)

    def scores(self, users):
        return np.tile(self.row, (len(users), 1))


def visited(rows: Mixed, d: int) -> tuple[Any, Any, Any]:
    """The items of device d, which of them it rated, and their values in float64."""
    part = slice(rows.ptr[d], rows.ptr[d + 1])
    return rows.item[part], rows.rated[part], rows.value[part].astype(float)
