"""Files of numbers are read without a look at each line, and give what the careful reader of lines
gives: the same rows, notes and errors.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from entrenous.core.errors import InputError
from entrenous.data.files import read_table
from entrenous.data.formats import delimited
from entrenous.data.load import load
from entrenous.data.options import LoadOptions

HEADER = "user_id,item_id,rating,timestamp"


def rows(seed: int = 0, users: int = 30, each: int = 20) -> list[list[str]]:
    """Rows of users with different items, in a random order."""
    drawn = random.Random(seed)
    made = []
    for user in range(users):
        for item in drawn.sample(range(90), each):
            time = 1_300_000_000 + drawn.randrange(10**8)
            made.append(
                [str(user - 3), str(item * 7), f"{drawn.randrange(1, 11) / 2:g}", str(time)]
            )
    drawn.shuffle(made)
    return made


def text(lines: list[list[str]], delimiter: str = ",", header: str = HEADER) -> str:
    first = [header.replace(",", delimiter)] if header else []
    return "\n".join([*first, *(delimiter.join(line) for line in lines)]) + "\n"


def outcome(path: Path, **options: Any) -> tuple[Any, ...]:
    """The data set with its notes, or the error."""
    try:
        data = load(path, **options)
    except InputError as refusal:
        return (str(refusal),)
    order = None if data.row is None else data.row.tolist()
    return data.sha256(), data.notes, data.users.ids.tolist(), order, str(data.value.dtype)


def carefully(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, ...]:
    """The same by the careful reader."""
    with monkeypatch.context() as patch:
        patch.setattr(delimited, "_numbers", lambda *_: None)
        return outcome(path, **options)


def is_plain(path: Path) -> bool:
    """True if the ids come as numbers."""
    try:
        frame = read_table(path, LoadOptions()).frame
    except InputError:
        return False
    return frame.schema["user_id"] == pl.Int64 == frame.schema["item_id"]


PLAIN = {
    "a.csv": text(rows()),
    "crlf.csv": text(rows()).replace("\n", "\r\n"),
    "ratings.dat": text(rows(), "::", header=""),
    "u.data": text(rows(), "\t", header=""),
    "a.inter": text(rows(), "\t", "user_id:token,item_id:token,rating:float,timestamp:float"),
    "konect.tsv": "% bip\n% 3 2 3\n" + text(rows(), "\t", header=""),
    "sorted.csv": text(sorted(rows(), key=lambda row: (int(row[0]), int(row[1])))),
    "repeats.csv": text([*rows(), *rows()[:9]]),
    "conflicts.csv": text([*rows(), *([*row[:2], "9", row[3]] for row in rows()[:9])]),
    "pairs.csv": text([row[:2] for row in rows()], header="user_id,item_id"),
    "days.csv": text([[*row[:3], str(86_400 * (10_000 + len(row[1])))] for row in rows()]),
    "small.csv": text([[*row[:3], str(number)] for number, row in enumerate(rows())]),
    "milliseconds.csv": text([[*row[:3], row[3] + "123"] for row in rows()]),
    "far.csv": text([[f"{row[0]}{10**9 + 7}", *row[1:]] for row in rows() if row[0] != "0"]),
    "one.csv": text([["7", str(item), "1", "881250949"] for item in range(9)]),
    "value.csv": text([[*row[:2], f"{10**16 + int(row[3])}", row[3]] for row in rows()]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_file_is_the_same_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_text(PLAIN[name])
    assert is_plain(path)
    assert outcome(path) == carefully(path, monkeypatch)
    options = {"duplicates": "last", "scale": (0, 5)}
    assert outcome(path, **options) == carefully(path, monkeypatch, **options)


FIELDS = ["", " 1", "01", "-0", "+1", "1.", ".5", "1e3", "x", '"1"', "1,2", "1\n", "1\r", "\x0b1"]
FIELDS += ["9" * 19, "0.1234567890123456", "\xfc", "1 ", "-", "--1", "1.5.2", "\0", "1;2", "nan"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("column", range(4))
def test_a_field_that_is_no_plain_number_is_read_alike(
    field: str, column: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = rows()
    lines[400][column] = field
    path = tmp_path / "a.csv"
    path.write_text(text(lines), newline="")
    # Of a number that is no id, any form has the same value.
    assert column > 1 or not is_plain(path)
    assert outcome(path) == carefully(path, monkeypatch)
