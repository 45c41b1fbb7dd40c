"""The layouts that the field uses (issue 41, section 3), as small look-alikes: Parquet of Hugging
Face, and columns that say that nothing was consumed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from lookalikes import rows

from entrenous.core.errors import InputError
from entrenous.data.load import load

ROWS = list(rows())
PAIRS = {(str(user), str(item)) for user, item, _ in ROWS}


def pairs(data: Any) -> set[tuple[str, str]]:
    return set(
        zip(data.users.ids[data.user].tolist(), data.items.ids[data.item].tolist(), strict=True)
    )


def frame(**columns: list[Any]) -> pl.DataFrame:
    user, item, time = zip(*ROWS, strict=True)
    return pl.DataFrame({"user_id": user, "item_id": item, "timestamp": time, **columns})


# ---- Parquet of Hugging Face ---------------------------------------------------------------------


def test_parquet_of_hugging_face(tmp_path: Path) -> None:
    folder = tmp_path / "set" / "data"
    folder.mkdir(parents=True)
    (tmp_path / "set" / "README.md").write_text("a data set")
    frame()[:200].write_parquet(folder / "train-00000-of-00002-3f2a.parquet")
    frame()[200:300].write_parquet(folder / "train-00001-of-00002-3f2b.parquet")
    for place in (tmp_path / "set", folder):
        data = load(place)
        assert len(data) == 300 and "parts of one table: 2" in data.notes
    frame()[300:].write_parquet(folder / "test-00000-of-00001-77aa.parquet")
    data = load(folder)
    assert pairs(data) == PAIRS
    assert "splits that are read as one table: test, train" in data.notes


# ---- nothing is silently counted as consumption --------------------------------------------------


@pytest.mark.parametrize(
    ("column", "cells", "says"),
    [
        ("click", "10", "says no"),
        ("is_liked", ["true", "false"], "says no"),
        ("consumed", ["yes", "no"], "says no"),
        ("is_recommended", ["True", "False"], "says no"),
        ("long_view", "10", "says no"),
        ("click", "203", "is 0 or less"),
        ("skipped", "01", "says yes"),
        ("not_interested", ["false", "true"], "says yes"),
        ("event", ["play", "skip"], "says 'skip'"),
        ("behavior", ["pv", "impression"], "says 'impression'"),
    ],
)
@pytest.mark.parametrize("rating", ["", ",rating"])
def test_a_column_that_says_no_is_asked_about(
    column: str, cells: list[str], says: str, rating: str, tmp_path: Path
) -> None:
    lines = [f"user_id,item_id,{column}{rating}"]
    for number, (user, item, _) in enumerate(ROWS):
        lines.append(f"{user},{item},{cells[number % len(cells)]}{',3' if rating else ''}")
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=f"the column '{column}' is not read and {says} in") as no:
        load(tmp_path / "a.csv")
    assert "a.csv:3: " in str(no.value)
    everything = load(tmp_path / "a.csv", likes="any")
    assert len(everything) == len(ROWS)


def test_an_actions_column_without_refusals_is_no_question(tmp_path: Path) -> None:
    text = "user_id,item_id,event\n" + "".join(f"{u},{i},view\n" for u, i, _ in ROWS)
    (tmp_path / "a.csv").write_text(text)
    assert len(load(tmp_path / "a.csv")) == len(ROWS)
