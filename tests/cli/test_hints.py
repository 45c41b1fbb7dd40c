"""What a file's reader suggests: options that there are, with columns that are there; a suggestion,
followed, works.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from command_line import Command, write_shop

from entrenous.core.errors import InputError
from entrenous.data.interactions import SECOND
from entrenous.data.load import load

RUN = ["run", "popular", "--protocol", "loo-20", "--data"]


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Command(capsys)


def shop(header: str, delimiter: str = ",") -> str:
    """The rows of a shop under another header, which may be none."""
    text = write_shop(Path("whole.csv")).read_text().partition("\n")[2]
    return f"{header}\n{text}".removeprefix("\n").replace(",", delimiter)


def suggested(said: str) -> list[str]:
    """The options in a message, as a shell reads them."""
    return [word for found in re.findall(r"(--load [^)]*)\)", said) for word in shlex.split(found)]


@pytest.mark.parametrize(
    "start",
    [RUN, ["data", "check"], ["data", "info"], ["split", "--out", "parts", "--protocol", "loo-20"]],
)
def test_a_delimiter_of_a_csv_is_found_and_said(start: list[str], command: Command) -> None:
    Path("shop.csv").write_text(shop("user_id;item_id;rating;timestamp", ";"))
    assert command(*start, "shop.csv").code == 0
    assert "delimiter" in command("data", "check", "shop.csv").out


def test_a_column_that_looks_like_times_is_named(command: Command) -> None:
    Path("shop.csv").write_text(
        re.sub(r",1(\d{6})$", r",881\1", shop("user_id,item_id,rating,when"), flags=re.MULTILINE)
    )
    lacking = ["run", "popular", "--protocol", "temporal-80-20", "--data", "shop.csv"]
    said = command(*lacking).error
    assert said.startswith(
        "shop: the data has no times; expected a time column; 'when' looks like a column of times"
        " and is not read"
    )
    assert suggested(said) == ["--load", "time=when"] and said.endswith(
        "; or use random-80-20, or ncf-99 for a data set of which NCF published test rows"
    )
    assert command(*lacking, *suggested(said)).code == 0
    said = command("data", "check", "shop.csv").out
    assert re.search(r"when +-  +looks like a column of times", said)
    assert "looks like" not in command("data", "check", "shop.csv", "--load", "time=").out
    assert "looks like" not in command("data", "check", "shop.csv", "--load", "time=when").out


# ---- times with an offset ------------------------------------------------------------------------

EIGHT = 1_577_865_600  # 2020-01-01 08:00 UTC
WRITTEN = {
    "as pandas writes them": ("2020-01-01 10:00:00+02:00", "2020-01-01 09:00:01+01:00"),
    "with parts of a second in some": (
        "2020-01-01 10:00:00+02:00",
        "2020-01-01 09:00:01.250000+01:00",
    ),
    "ISO 8601": ("2020-01-01T10:00:00+02:00", "2020-01-01T08:00:01Z"),
    "without a colon": ("2020-01-01 10:00:00+0200", "2020-01-01 03:00:01-0500"),
    "hours alone": ("2020-01-01 10:00:00+02", "2020-01-01 03:00:01-05"),
    "apart": ("2020-01-01 10:00:00 +0200", "2020-01-01 08:00:01 +0000"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_times_with_an_offset_are_read(name: str, tmp_path: Path) -> None:
    first, second = WRITTEN[name]
    (tmp_path / "x.csv").write_text(
        f"user,item,time\na,x,{first}\na,y,{second}\nb,x,{first}\nb,z,\n"
    )
    found = load(tmp_path / "x.csv")
    assert found.time is not None
    assert np.array_equal(found.time[:3] // SECOND, [EIGHT, EIGHT + 1, EIGHT])
    assert found.time[1] % SECOND == (250_000 if ".25" in second else 0)
    assert "times are dates with their offset from UTC" in found.notes


def test_what_pandas_writes_is_read_as_it_was_meant(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    times = pandas.to_datetime(
        ["2020-01-01 10:00:00+02:00", "2020-07-01 10:00:00.5+02:00", "2020-12-31 23:59:59+02:00"],
        format="ISO8601",
    )
    frame = pandas.DataFrame(
        {
            "user": ["a", "b", "c"],
            "item": ["x", "y", "z"],
            "timestamp": times.tz_convert("Europe/Paris"),
        }
    )
    frame.to_csv(tmp_path / "x.csv", index=False)
    found = load(tmp_path / "x.csv").time
    assert found is not None and found.tolist() == [
        round(when.timestamp() * SECOND) for when in times
    ]


def test_an_offset_that_is_missing_in_a_row_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        "user,item,time\na,x,2020-01-01 10:00:00+02:00\nb,y,2020-01-01 10:00:00\nb,z,\n"
    )
    with pytest.raises(
        InputError,
        match=r"x\.csv:3: the time '2020-01-01 10:00:00' has no offset from UTC, which others",
    ):
        load(tmp_path / "x.csv")
