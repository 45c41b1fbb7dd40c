"""Tables of Entrenous made of files as their authors published them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Command
from entrenous_lab import own_tables
from entrenous_lab.own_tables import italy, ncf
from entrenous_lab.trials import replayed
from paths import SHARED, absent
from small_data import rows_of

from entrenous.core.errors import InputError
from entrenous.data.dataset import dataset
from entrenous.data.load import load
from entrenous.data.split.protocol import splits


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for one test."""
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    return tmp_path


FIRST = [
    ("1", "1193"),
    ("1", "661"),
    ("2", "914"),
    ("2", "1193"),
    ("2", "661"),
    ("3", "50"),
    ("3", "914"),
]
RATINGS = FIRST + [
    (str(4 + n // 20), str(2000 + n)) for n in range(120)
]  # users 4 to 9 have twenty films each
LATEST = {
    0: 1,
    1: 1,
    2: 2,
    **{3 + n: 23 + 20 * n for n in range(6)},
}  # in NCF's numbers: 1193, 661, 914, 50, 2000, 2001, ... are 0, 1, 2, ...


def grouplens(home: Path, first: str = "") -> Path:
    """`ml-1m` as GroupLens ships it; beside it NCF's file: the latest row of each user and the 99
    lowest numbers they never had.
    """
    folder = home / "ml-1m"
    folder.mkdir()
    (folder / "ratings.dat").write_text(
        "".join(f"{u}::{i}::4::{978300000 + n}\n" for n, (u, i) in enumerate(RATINGS))
    )
    films = list(dict.fromkeys(item for _, item in RATINGS))
    lines = []
    for user, item in LATEST.items():
        own = {films.index(film) for name, film in RATINGS if name == str(user + 1)}
        lines.append(
            "\t".join([f"({user},{item})", *(str(n) for n in range(124) if n not in own)][:100])
            + "\n"
        )
    (folder / "ml-1m.test.negative").write_text(first + "".join(lines))
    return folder


def test_ncfs_numbers_are_users_less_one_and_films_by_first_appearance(home: Path) -> None:
    ncf(grouplens(home))
    split = splits("ncf-99", load("ml-1m"))[0]
    assert rows_of(split.test.rows) == {("1", "661"), ("2", "661"), ("3", "914")} | {
        (str(4 + n), str(2019 + 20 * n)) for n in range(6)
    }
    assert split.test.candidates is not None
    films = [split.train.items[item] for item in split.test.candidates[0].tolist()]
    assert films == ["914", "50", *(str(2000 + n) for n in range(97))]
    assert split.validation is not None and ("2", "1193") in rows_of(split.validation.rows)
    assert split.notes[1] == "validation rows: the latest remaining row of 7 users"


def test_it_runs_from_the_command_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ncf(grouplens(home))
    said = Command(capsys)(
        "run",
        "popular",
        "--data",
        "ml-1m",
        "--protocol",
        "ncf-99",
        "--out",
        home / "runs",
        "--json",
    ).json
    assert said["protocol"] == "ncf-99" and said["users_evaluated"] == 9
    assert (
        "sampled ranking: each held-out item against its own 99 frozen candidates"
        in said["protocol_text"]
    )


@pytest.mark.parametrize(
    "first", ["(0,1)\n", "0,1\t5\n", "(0,1)\t5\n", "(0,1)\t5\tx\n", "<html>\n"]
)
def test_a_line_that_is_not_ncfs_is_named(first: str, home: Path) -> None:
    with pytest.raises(
        InputError, match=r"test.negative:[12]: not a line of held-out row and negatives"
    ):
        ncf(grouplens(home, first))


def test_a_file_of_other_ratings_is_refused(home: Path) -> None:
    folder = grouplens(home)
    (folder / "ml-1m.test.negative").write_text("(0,1)\t124\n")
    with pytest.raises(InputError, match=r"numbers a film 124, but ratings\.dat has only 124"):
        ncf(folder)


def test_foursquare_italy_from_the_authors_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))
    if not dataset("foursquare-italy-all").present():
        absent("foursquare-italy-all")
    whole = load("foursquare-italy-all", fetch=False)
    rows = pl.read_parquet(SHARED / "foursquare-italy" / "interactions.parquet")
    rows = rows.join(
        pl.read_parquet(SHARED / "foursquare-italy" / "items.parquet").select(
            "item_id", "category"
        ),
        on="item_id",
        how="left",
    )
    folder = tmp_path / "foursquare-italy"
    folder.mkdir()
    for (city,), part in rows.group_by(["city"], maintain_order=True):
        lines = ["user_id\tvenue_id\ttype\tutc"]
        for user, item, time, _, category in part.iter_rows():
            stamp = datetime.fromtimestamp(time, UTC).strftime("%a %b %d %H:%M:%S +0000 %Y")
            lines.append(f"{user}\t{item}\t{category}\t{stamp}")
        (folder / f"{city}.tsv").write_bytes(
            "\n".join([*lines, ""]).encode().replace("Café".encode(), b"Caf\x1a\x1a")
        )
    italy(folder)
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    other = load("foursquare-italy-all")
    assert np.array_equal(other.item, whole.item) and np.array_equal(other.time, whole.time)
    assert np.array_equal(other.features["title"], whole.features["title"])
    assert "Café" in set(other.features["title"])


@pytest.mark.parametrize("words", [[], ["ml-1m"], ["ml-1m", "nowhere"], ["other", "nowhere"]])
@pytest.mark.parametrize("command", [own_tables.main, replayed.main])
def test_what_cannot_be_read_is_one_line_and_exit_code_2(
    command: Callable[[list[str]], object], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command(words)
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "error: " in last
