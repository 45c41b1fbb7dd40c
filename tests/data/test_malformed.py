"""The 41 kinds of malformed input files (privacy research 5.4, "Input files"): each is refused in
one line that names the place, what was expected and how to fix it, or, where the list says OK,
loads and says what was done. Nothing is written.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from forked import run

from entrenous.core.errors import InputError
from entrenous.data.interactions import SECOND
from entrenous.data.load import from_frame, load

HEADER = "user_id,item_id,rating,timestamp\n"
ROWS = [
    "1,10,5,881250949\n",
    "1,11,4,881250950\n",
    "2,10,3,881250951\n",
    "2,12,2,881250952\n",
    "3,11,1,881250953\n",
    "3,12,5,881250954\n",
]
GOOD = HEADER + "".join(ROWS)


def with_line(line: int, text: str) -> str:
    """The good file with one physical line replaced (the header is line 1)."""
    lines = [HEADER, *ROWS]
    lines[line - 1] = text
    return "".join(lines)


def text(content: str | bytes, name: str = "data.csv") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def folder_only(folder: Path) -> Path:
    (folder / "data.csv").mkdir()
    return folder / "data.csv"


def loop(folder: Path) -> Path:
    (folder / "loop.csv").symlink_to(folder / "other.csv")
    (folder / "other.csv").symlink_to(folder / "loop.csv")
    return folder / "loop.csv"


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.csv")
    return folder / "pipe.csv"


def device(folder: Path) -> Path:
    (folder / "zero.csv").symlink_to("/dev/zero")
    return folder / "zero.csv"


def traversal(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("../../outside.csv", GOOD)
    return folder / "data.zip"


def locked(folder: Path) -> Path:
    path = text(GOOD)(folder)
    path.chmod(0)
    return path


class Refused(NamedTuple):
    """A file, where the message must say the defect is (after the file's name), and what the
    message must contain.
    """

    make: Callable[[Path], Path]
    at: str
    says: tuple[str, ...]
    options: Mapping[str, Any] = MappingProxyType({})


REFUSED = {
    "01 missing file": Refused(lambda folder: folder / "nowhere.csv", "", ("no such file",)),
    "02 directory": Refused(folder_only, "", ("folder", "interactions.parquet")),
    "03 no read permission": Refused(locked, "", ("permission denied",)),
    "04 empty": Refused(text(""), "", ("empty",)),
    "05 header only": Refused(text(HEADER), ":1", ("no rows",)),
    "06 blank lines only": Refused(text("\n  \n\n"), "", ("blank lines",)),
    "07 wrong delimiter declared": Refused(text(GOOD), ":1", ("a tab",), {"delimiter": "\t"}),
    "08 mixed delimiters": Refused(
        text(with_line(4, "2;10;3;881250951\n")), ":4", ("1 column", "4", "';'")
    ),
    "09 too few columns": Refused(
        text(with_line(5, "2,12,2\n")), ":5", ("3 columns", "expected 4")
    ),
    "10 too many columns": Refused(
        text(with_line(3, "1,11,4,881250950,x\n")), ":3", ("5 columns", "expected 4")
    ),
    "11 rating is no number": Refused(
        text(with_line(4, "2,10,good,881250951\n")), ":4", ("'good'", "number")
    ),
    "12 rating NaN": Refused(text(with_line(4, "2,10,NaN,881250951\n")), ":4", ("NaN", "finite")),
    "13 rating inf": Refused(text(with_line(4, "2,10,-inf,881250951\n")), ":4", ("-inf", "finite")),
    "13 rating overflows": Refused(
        text(with_line(4, "2,10,1e300,881250951\n")), ":4", ("1e300", "finite")
    ),
    "14 rating off the scale": Refused(
        text(with_line(4, "2,10,6,881250951\n")), ":4", ("6", "1 to 5"), {"scale": (1, 5)}
    ),
    "15 negative time": Refused(text(with_line(4, "2,10,3,-1\n")), ":4", ("-1", "1970")),
    "15 time overflows": Refused(
        text(with_line(4, "2,10,3,99999999999999999999\n")), ":4", ("99999999999999999999", "2100")
    ),
    "15 largest time": Refused(text(with_line(4, f"2,10,3,{2**63 - 1}\n")), ":4", ("2100",)),
    "17 float user id": Refused(
        text(with_line(4, "1.0,10,3,881250951\n")), ":4", ("user id '1.0'", "whole number or text")
    ),
    "18 empty user id": Refused(
        text(with_line(6, ",11,1,881250953\n")), ":6", ("user id is empty",)
    ),
    "18 blank item id": Refused(
        text(with_line(6, "3,  ,1,881250953\n")), ":6", ("item id is empty",)
    ),
    "20 conflicting duplicates": Refused(
        text(GOOD + "1,10,2,881250949\n"), ":8", ("value 2", "5 at 2", "duplicates")
    ),
    "23 single user": Refused(text(HEADER + "".join(ROWS[:2])), "", ("single user", "two users")),
    "24 user with every item": Refused(
        text(GOOD + "3,10,1,881250955\n"), "", ("user '3'", "all 3 items")
    ),
    "26 UTF-16": Refused(
        text(GOOD.encode("utf-16")), ":1", ("UTF-16", "UTF-8", "--load encoding=utf-16")
    ),
    "26 UTF-16 without mark": Refused(text(GOOD.encode("utf-16-le")), ":1", ("UTF-16",)),
    "27 Latin-1 undeclared": Refused(
        text(with_line(4, "2,café,3,881250951\n").encode("latin-1")),
        ":4",
        ("0xe9", "UTF-8", "latin-1"),
    ),
    "29 cut in a line": Refused(text(GOOD[:-12]), ":7", ("cut off",)),
    "29 cut in a time": Refused(text(GOOD[:-5]), ":7", ("cut off",)),
    "30 NUL bytes": Refused(text(with_line(4, "2,1\x000,3,881250951\n")), ":4", ("NUL",)),
    "31 line end in quotes": Refused(
        text(with_line(4, '2,"a\nb",3,881250951\n')), ":4", ("quoted field",)
    ),
    "32 a line of 10 MB": Refused(text("x" * 10_000_000), ":1", ("10,000,000 bytes", "65,536")),
    "32 a row of 10 MB": Refused(
        text(with_line(4, "2," + "x" * 10_000_000 + ",3,4\n")), ":4", ("bytes long",)
    ),
    "33 gzip called .csv": Refused(text(gzip.compress(GOOD.encode())), "", ("gzip", "data.csv.gz")),
    "34 gzip cut off": Refused(
        text(gzip.compress(GOOD.encode())[:-12], "data.csv.gz"), "", ("cut off",)
    ),
    "35 zip leaves its folder": Refused(
        traversal, "", ("../../outside.csv", "outside the archive")
    ),
    "36 symlink loop": Refused(loop, "", ("symbolic links",)),
    "37 FIFO": Refused(fifo, "", ("pipe", "regular file")),
    "37 /dev/zero": Refused(device, "", ("device", "regular file")),
    "38 decimal comma": Refused(
        text(with_line(4, "2,10,3,5,881250951\n")), ":4", ("5 columns", "decimals with a point")
    ),
    "38 decimal comma after semicolons": Refused(
        text(GOOD.replace(",", ";").replace("2;10;3;", "2;10;3,5;")),
        ":4",
        ("'3,5'", "3.5"),
        {"delimiter": ";"},
    ),
    "39 thousands": Refused(
        text(with_line(4, '2,10,"1,234",881250951\n')), ":4", ("'1,234'", "thousands")
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_with_place_reason_and_fix(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = REFUSED[kind]
    path = case.make(tmp_path)
    if kind.startswith("03") and os.access(path, os.R_OK):  # root reads everything
        monkeypatch.setattr("builtins.open", _denied)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError) as refusal:
        load(str(path), **case.options)
    message = str(refusal.value)
    assert message.startswith(f"{path}{case.at}: ")
    assert all(part in message for part in case.says), message
    assert "\n" not in message
    assert "; " in message  # more than a complaint
    assert sorted(tmp_path.iterdir()) == before


def _denied(*args: object, **options: object) -> None:
    raise PermissionError(13, "Permission denied")


class Accepted(NamedTuple):
    """A file, and what the notes must say; rows: how many remain."""

    make: Callable[[Path], Path]
    notes: tuple[str, ...]
    rows: int = 6
    options: Mapping[str, Any] = MappingProxyType({})


ACCEPTED = {
    "00 good": Accepted(
        text(GOOD), ("user = user_id, item = item_id, value = rating, time = timestamp",)
    ),
    "16 milliseconds among seconds": Accepted(
        text(with_line(4, "2,10,3,881250951000\n")),
        ("times in milliseconds, read as such: 1 of 6",),
    ),
    "19 duplicates": Accepted(
        text(GOOD + "1,10,5,881250960\n"),
        ("repeats of a (user, item) pair, of which the last by time", "is kept: 1"),
    ),
    "20 conflict, policy chosen": Accepted(
        text(GOOD + "1,10,2,881250949\n"), ("is kept: 1",), options={"duplicates": "last"}
    ),
    "21 user with one row": Accepted(
        text(GOOD + "4,10,2,881250949\n"),
        ("users with one interaction, which cannot be held out and learned from at once: 1",),
        7,
    ),
    "25 byte order mark": Accepted(text(b"\xef\xbb\xbf" + GOOD.encode()), ("byte order mark",)),
    "26 UTF-16 declared": Accepted(
        text(GOOD.encode("utf-16")), ("utf-16",), options={"encoding": "utf-16"}
    ),
    "27 Latin-1 declared": Accepted(
        text(with_line(4, "2,café,3,881250951\n").encode("latin-1")),
        ("iso8859-1",),
        options={"encoding": "latin-1"},
    ),
    "28 CRLF": Accepted(text(GOOD.replace("\n", "\r\n")), ("CR LF",)),
    "29 no last line end": Accepted(text(GOOD[:-1]), ()),
    "40 id beyond 2^63": Accepted(text(with_line(4, f"{2**63},10,3,881250951\n")), ()),
    "41 formulas": Accepted(
        text(with_line(4, "=cmd(),10,3,881250951\n")),
        ("user ids that start like a formula, kept as text: 1",),
    ),
    "blank lines between": Accepted(text(GOOD.replace("\n", "\n\n")), ("blank lines skipped: 6",)),
    "gzip": Accepted(text(gzip.compress(GOOD.encode()), "data.csv.gz"), ()),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_accepted_and_said(kind: str, tmp_path: Path) -> None:
    case = ACCEPTED[kind]
    data = load(case.make(tmp_path), **case.options)
    assert len(data) == case.rows
    for note in case.notes:
        assert any(note in said for said in data.notes), data.notes


def test_every_kind_of_the_list_is_covered() -> None:
    covered = {int(kind[:2]) for kind in [*REFUSED, *ACCEPTED] if kind[:2].isdigit()}
    assert covered | {22} >= set(range(1, 42))  # 22 has its own test below, 42 is about settings


def test_22_items_only_in_the_test_part_are_counted_and_named() -> None:
    from entrenous.data.split.given import given

    train = from_frame({"user_id": [1, 1, 2], "item_id": [10, 11, 10]}, part=True)
    test = from_frame({"user_id": [2, 1], "item_id": [11, 99]}, part=True)
    notes = given(train, test).notes
    assert any("item" in note and "99" in note for note in notes), notes


def test_what_was_accepted_is_what_the_file_says(tmp_path: Path) -> None:
    milliseconds = load(ACCEPTED["16 milliseconds among seconds"].make(tmp_path))
    assert milliseconds.time is not None
    assert milliseconds.time.tolist() == [n * SECOND for n in range(881250949, 881250955)]
    repeated = load(ACCEPTED["19 duplicates"].make(tmp_path))
    assert repeated.time is not None
    assert repeated.time[0] == 881250960 * SECOND
    conflict = ACCEPTED["20 conflict, policy chosen"].make(tmp_path)
    assert load(conflict, duplicates="last").value[0] == 2
    assert load(conflict, duplicates="first").value[0] == 5
    assert "café" in load(ACCEPTED["27 Latin-1 declared"].make(tmp_path), encoding="latin-1").items
    assert "=cmd()" in load(ACCEPTED["41 formulas"].make(tmp_path)).users
    assert np.array_equal(load(ACCEPTED["28 CRLF"].make(tmp_path)).value, [5, 4, 3, 2, 1, 5])


def test_lines_are_physical_lines(tmp_path: Path) -> None:
    path = text("\n\n" + HEADER + "1,10,5,1\n\n\n1,11,4,2\n\n2,10,bad,3\n")(tmp_path)
    with pytest.raises(InputError) as refusal:
        load(path)
    assert str(refusal.value).startswith(f"{path}:9: ")


@pytest.mark.parametrize(
    "kind",
    ["09 too few columns"],
)
def test_the_command_refuses_with_exit_code_2_and_one_line(kind: str, tmp_path: Path) -> None:
    path = REFUSED[kind].make(tmp_path)
    done = _check(path, tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert f"{path}{REFUSED[kind].at}: " in done.stderr
    assert "Traceback" not in done.stderr


def _check(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "entrenous", "data", "check", str(path)]
    return run(command, capture_output=True, text=True, timeout=240, cwd=folder, check=False)
