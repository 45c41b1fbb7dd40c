"""Tables in the layout of Entrenous, made of files as their authors published them:

    python -m entrenous_lab.own_tables ml-1m FOLDER
    python -m entrenous_lab.own_tables foursquare-italy FOLDER

`ml-1m`: of NCF's `ml-1m.test.negative` beside GroupLens's `ratings.dat`, the tables of NCF's test
rows. NCF numbered users by their id less 1, and films by their first appearance in that file.
`foursquare-italy`: of the check-ins in six cities that FPL's authors published, one table of rows
and one of venues.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from entrenous.core.errors import InputError
from entrenous.data.files import read_bytes, read_table
from entrenous.data.formats.delimited import read_text
from entrenous.data.options import LoadOptions
from entrenous.data.table import stack

# (user,item), then its negatives. Nine digits fit in every integer.
LINE = re.compile(r"\(\d{1,9},\d{1,9}\)(\t\d{1,9})+")
CITIES = ("Bologna", "Florence", "Milan", "Rome", "Turin", "Venice")
# A broken name in the authors' files, and the name that was meant.
BROKEN = (b"Caf\x1a\x1a", "Café".encode())


def ncf(folder: Path) -> None:
    """Writes `ncf_test.parquet` and `ncf_test_negatives.parquet` with the ids of MovieLens. Raises
    InputError for a line of another form, and for a file of other ratings.
    """
    path = folder / "ml-1m.test.negative"
    numbers = _numbers(path)
    rated = read_table(folder / "ratings.dat", LoadOptions()).frame["item_id"].cast(pl.String)
    films = rated.unique(maintain_order=True).to_numpy()
    highest = int(numbers[:, 1:].max())
    if highest >= len(films):
        raise InputError(
            str(path),
            f"it numbers a film {highest}, but ratings.dat has only {len(films)}",
            expected="the file made from these ratings",
            fix="get both again",
        )
    users = [str(user + 1) for user in numbers[:, 0].tolist()]
    tested = pl.DataFrame({"user_id": users, "item_id": films[numbers[:, 1]]})
    tested.write_parquet(folder / "ncf_test.parquet")
    listed = films[numbers[:, 2:]].tolist()
    against = pl.DataFrame({"user_id": users, "item_ids": listed})
    against.write_parquet(folder / "ncf_test_negatives.parquet")


def _numbers(path: Path) -> np.ndarray:
    """Returns the user, the item and the negatives of each line, int64 [m, 2 + k]."""
    rows: list[list[int]] = []
    for number, line in enumerate(read_bytes(path).decode("ascii", "replace").splitlines(), 1):
        match = LINE.fullmatch(line.strip())
        if match is not None:
            rows.append([int(part) for part in re.findall(r"\d+", line)])
        if match is None or len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{path}:{number}",
                "not a line of held-out row and negatives",
                expected="(user,item) and as many negatives as on the first line, between tabs",
                fix="get it again",
            )
    return np.array(rows, np.int64).reshape(len(rows), -1)


def italy(folder: Path) -> None:
    """Writes `interactions.parquet` and `items.parquet` of the six files, with the columns user_id,
    venue_id, type, utc. The authors' files have one column for both kinds of types.
    """
    tables = []
    for city in CITIES:
        path = folder / f"{city}.tsv"
        raw = read_bytes(path).replace(*BROKEN)
        tables.append(read_text(raw, str(path), LoadOptions(), delimiter="\t"))
    frame = stack(tables).frame
    rows = frame.select("user_id", pl.col("venue_id").alias("item_id"), "utc")
    rows.write_parquet(folder / "interactions.parquet")
    kind = pl.col("type")
    venues = frame.select(
        pl.col("venue_id").alias("item_id"),
        kind.alias("category"),
        kind.alias("root_category"),
        pl.lit("").alias("city"),
    )
    venues.unique("item_id", keep="last", maintain_order=True).write_parquet(
        folder / "items.parquet"
    )


def main(words: Sequence[str] | None = None) -> None:
    """Writes the tables of a data set, or ends with the line that says why not."""
    tables = {"ml-1m": ncf, "foursquare-italy": italy}
    parser = argparse.ArgumentParser(prog="python -m entrenous_lab.own_tables")
    parser.add_argument("data", choices=tables)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args(words)
    try:
        tables[asked.data](asked.folder)
    except InputError as why:
        parser.error(str(why))


if __name__ == "__main__":
    main()
