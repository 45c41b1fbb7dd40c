"""A small data folder in which a data set is a handful of rows, with what NCF (`ml-1m`) and PEPPER
(`ml-100k`) published of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from paths import SHARED, absent

from entrenous.core.errors import InputError
from entrenous.data.dataset import dataset
from entrenous.data.interactions import NO_TIME, Interactions
from entrenous.data.load import load
from entrenous.data.split.protocol import splits


def write_rows(home: Path, data: Interactions) -> Path:
    """The folder of `ml-1m` below `home`, with the rows of `data`."""
    folder = home / "ml-1m"
    folder.mkdir(parents=True)
    columns = {
        "user_id": data.users.ids[data.user],
        "item_id": data.items.ids[data.item],
        "rating": data.value,
    }
    frame = pl.DataFrame({**columns, "timestamp": data.time}).with_columns(
        pl.col("timestamp").replace(NO_TIME, None)
    )
    frame[np.argsort(data.row).tolist()].write_csv(folder / "interactions.csv")
    return folder


def held_out(data: Interactions) -> dict[str, str]:
    """{user: the item with the lowest number}: what plays the part of NCF's test rows."""
    having = np.flatnonzero(data.counts)
    return {data.users[u]: data.items[int(data.item[data.ptr[u]])] for u in having.tolist()}


def free(data: Interactions, user: str, k: int = 99) -> list[str]:
    """The k highest items that a user never had, highest first."""
    number = data.users.index(user)
    own = set(data.item[data.ptr[number] : data.ptr[number + 1]].tolist())
    return [data.items[item] for item in range(len(data.items) - 1, -1, -1) if item not in own][:k]


def write_ncf(folder: Path, test: dict[str, str], negatives: dict[str, list[str]]) -> None:
    """The tables `ncf_test` and `ncf_test_negatives`; the latter in another order of users."""
    pl.DataFrame({"user_id": list(test), "item_id": list(test.values())}).write_csv(
        folder / "ncf_test.csv"
    )
    users = list(negatives)[::-1]
    table = pl.DataFrame({"user_id": users, "item_ids": [negatives[user] for user in users]})
    table.write_parquet(folder / "ncf_test_negatives.parquet")


def write_all(home: Path, data: Interactions) -> Path:
    """The folder with everything that `ncf-99` needs."""
    folder, test = write_rows(home, data), held_out(data)
    write_ncf(folder, test, {user: free(data, user) for user in test})
    return folder


Part = tuple[str, str, str]  # user, item, and "train", "validation" or "test"


def divided(data: Interactions, *, held: int = 1) -> list[Part]:
    """Every row with its part: of each user's rows by item, the first `held` are test and as many
    validation, if some are left.
    """
    found = []
    for u in range(len(data.users)):
        items = [data.items[int(item)] for item in data.item[data.ptr[u] : data.ptr[u + 1]]]
        few = held if len(items) > 2 * held else 0
        labels = ["test"] * few + ["validation"] * few + ["train"] * len(items)
        found += [(data.users[u], item, label) for item, label in zip(items, labels, strict=False)]
    return found


def write_pepper(folder: Path, rows: list[Part], negatives: dict[Part, list[str]]) -> None:
    """The tables `pepper_splits` and `pepper_negatives`; the latter has a line for each key, in the
    order given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    users, items, parts = zip(*rows, strict=True)
    pl.DataFrame({"user_id": users, "item_id": items, "split": parts}).write_parquet(
        folder / "pepper_splits.parquet"
    )
    users, items, parts = zip(*negatives, strict=True)
    columns = {
        "split": parts,
        "user_id": users,
        "item_id": items,
        "negative_item_ids": list(negatives.values()),
    }
    pl.DataFrame(columns).write_parquet(folder / "pepper_negatives.parquet")


def write_all_pepper(home: Path, data: Interactions, k: int = 99) -> Path:
    """The folder of `ml-100k` with everything that `pepper-given` needs, `data` its rows."""
    rows, folder = divided(data), home / "ml-100k"
    write_pepper(folder, rows, {row: free(data, row[0], k) for row in rows if row[2] != "train"})
    return folder


def refused_split(match: str, data: Interactions, protocol: str) -> str:
    """The one line with which a split is refused."""
    with pytest.raises(InputError, match=match) as wrong:
        splits(protocol, data)
    assert "\n" not in str(wrong.value)
    return str(wrong.value)


def present(name: str, monkeypatch: pytest.MonkeyPatch) -> Interactions:
    """A real data set, with what was published of it."""
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))
    if not dataset(name).present():
        absent(name)
    return load(name, fetch=False)
