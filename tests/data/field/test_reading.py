"""The report of a reading, after reports from the field of columns that were taken for each other,
labels that nobody read, and ids that were missing ones.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from paths import ROOT

from entrenous.cli.data import app
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.load import from_frame, load
from entrenous.data.reading import LeftOut, Reading, add_up
from entrenous.report.html import write_report
from entrenous.runs import pipeline, store


def table(header: str, *columns: list[Any]) -> str:
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join([header, *lines]) + "\n"


USERS = [f"u{n}" for n in range(8)]
ITEMS = [f"i{n % 5}" for n in range(8)]


def written(folder: Path, content: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(content)
    return path


def check(*arguments: object) -> None:
    words = ["check", *map(str, arguments)]
    app(words, exit_on_error=False, result_action="return_value")


def options(data: Interactions) -> list[str]:
    return [guess.option for guess in data.reading.guesses]


def role_of(data: Interactions, name: str) -> tuple[str, str]:
    (use,) = (use for use in data.reading.columns if use.name == name)
    return use.role, use.why


# ---- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values", "option"),
    [
        ("watch_ratio", [0.25, 0.5] * 4, "value=watch_ratio"),
        ("Book-Rating", [7, 3] * 4, "value=Book-Rating"),
        ("listenCount", [12, 800] * 4, "value=listenCount"),
        ("hours", [1.5, 2] * 4, "value=hours"),
        ("is_click", [1, 1, 1, 3] * 2, "value=is_click"),
        ("tapped", [0, 1] * 4, "likes=tapped"),
        ("opinion", [-1, 1] * 4, "likes=opinion"),
        ("when", [1_500_000_000, 1_500_000_001] * 4, "time=when"),
    ],
)
def test_an_unread_column_that_may_be_missed_is_named_with_the_option_that_reads_it(
    tmp_path: Path, name: str, values: list[Any], option: str
) -> None:
    path = written(tmp_path, table(f"user_id,item_id,{name}", USERS, ITEMS, values))
    data = load(path)
    role, why = role_of(data, name)
    assert role == "" and f"is not read: say {option.partition('=')[0]}='{name}'" in why
    assert why.endswith(f"(--load {option})")
    # It is a guess that it may stay unread, which either option settles.
    (guess,) = data.reading.guesses
    assert guess.option.startswith(f"{option} or ")
    read = load(path, **dict([option.split("=")]), strict=True)  # type: ignore[arg-type]
    assert not read.reading.guesses
    left_out = guess.option.rpartition(" or ")[2]
    assert not load(path, **dict([left_out.split("=")])).reading.guesses  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["title", "age", "zip"])
def test_other_unread_columns_are_no_loss(tmp_path: Path, name: str) -> None:
    values = ["a", "b"] * 4 if name == "title" else [17, 44] * 4
    data = load(written(tmp_path, table(f"user_id,item_id,{name}", USERS, ITEMS, values)))
    assert not data.reading.guesses and f"not read: {name}" in data.notes


def test_many_unread_columns_take_one_line(tmp_path: Path) -> None:
    header = ",".join(["user_id", "item_id", *(f"c{n}" for n in range(40))])
    path = written(tmp_path, table(header, USERS, ITEMS, *[["x"] * 8] * 40))
    (line,) = (note for note in load(path).notes if note.startswith("not read: "))
    assert line.endswith("c10, c11, and 28 more")


def test_a_table_of_thousands_of_columns_with_hostile_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {"user_id": range(8), "item_id": [n % 5 for n in range(8)]}
    columns |= {f"score {n}\nOK: \x1b[31m" + "x" * 300: [n % 9] * 8 for n in range(2000)}
    pl.DataFrame(columns).write_parquet(tmp_path / "wide.parquet")
    check(tmp_path / "wide.parquet")
    printed = capsys.readouterr().out
    assert printed.count("\n") < 30 and len(printed) < 20_000
    assert "\x1b" not in printed and printed.count("\nOK") == 0
    assert "and 1,988 more columns that may be missed" in printed


# ---- what could be read in two ways --------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "columns", "role", "names"),
    [
        ("user_id,item_id,rating,plays", (range(1, 9), range(8, 0, -1)), "value", "rating plays"),
        ("user_id,item_id,customer_id", ([1, 1, 2, 2, 3, 3, 4, 4],), "user", "user_id customer_id"),
        ("user_id,track_id,artist_id", ([1, 1, 2, 2, 3, 3, 4, 4],), "item", "track_id artist_id"),
    ],
)
def test_two_columns_for_one_role_are_a_question(
    tmp_path: Path, header: str, columns: tuple[Any, ...], role: str, names: str
) -> None:
    path = written(tmp_path, table(header, USERS, ITEMS, *columns))
    with pytest.raises(InputError) as refusal:
        load(path)
    message = str(refusal.value)
    assert f"could each be the {role} column" in message
    for name in names.split():
        assert f"{role}='{name}' (--load {role}={name})" in message
        assert role_of(load(path, **{role: name}), name)[0] == role  # type: ignore[arg-type]
    if role == "value":
        assert (load(path, value="").value == 1).all()


def test_a_number_and_a_name_of_the_same_users_are_no_question(tmp_path: Path) -> None:
    names = [f"Ann {n}" for n in range(8)]
    path = written(tmp_path, table("user_id,user_name,item_id", USERS, names, ITEMS))
    assert options(load(path)) == ["user=user_id"]
    assert load(path, user="user_name").sha256() != load(path).sha256()


def test_columns_with_one_plain_name_are_a_question(tmp_path: Path) -> None:
    path = written(tmp_path, table("User-ID,user_id,item_id", [*"aabbccdd"], USERS, ITEMS))
    with pytest.raises(InputError, match=r"'User-ID' and 'user_id' could each be the user column"):
        load(path)


# ---- strict --------------------------------------------------------------------------------------


def test_strict_refuses_every_guess_and_names_the_option_of_each(tmp_path: Path) -> None:
    lines = table("", USERS, ITEMS, [5, 4] * 4).lstrip("\n")
    path = written(tmp_path, lines.replace("u", "1").replace("i", "2"))
    with pytest.raises(InputError) as refusal:
        load(path, strict=True)
    assert "names=user_id,item_id,rating" in str(refusal.value)
    data = load(path, names="user_id,item_id,rating", strict=True)  # type: ignore[arg-type]
    assert len(data) == 8 and not data.reading.guesses


def test_names_that_say_the_role_are_no_guess(tmp_path: Path) -> None:
    for header in ("user_id,item_id,rating,timestamp", "User,Item,Value,Time"):
        times = [1_500_000_000 + n for n in range(8)]
        path = written(tmp_path, table(header, USERS, ITEMS, range(1, 9), times))
        assert load(path, strict=True).reading.guesses == ()
    path = written(tmp_path, table("uid,movie,count", USERS, ITEMS, range(1, 9)))
    assert options(load(path)) == ["user=uid", "item=movie", "value=count"]
    assert options(load(path, user="uid", item="movie", value="count")) == []


# ---- odd ids -------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["NA", "nan", "NULL", "None", "n/a", "<NA>", "\\N", "-"])
def test_ids_that_look_like_missing_ones_are_counted_with_the_first_line(
    tmp_path: Path, missing: str
) -> None:
    """Case 12's kind: what a program wrote for an empty id is one very busy item."""
    items = ["a", "b", missing, "c", missing, "a", "b", "c"]
    data = load(written(tmp_path, table("user_id,item_id", USERS, items)))
    assert (
        f"item ids that look like a missing one and are kept: 1 in 2 rows ('{missing}'), the first"
        f" at {tmp_path}/rows.csv:4"
    ) in data.notes


def test_other_odd_ids_are_said() -> None:
    items = ["'a'", "b c", "item_id", "\u200bd", "E", "e", "7", "007", "\xe9", "e\u0301"]
    notes = from_frame({"user_id": [*USERS, "x", "y"], "item_id": items}).notes
    said = " | ".join(note for note in notes if note.startswith("item ids"))
    assert re.findall(r"item ids that ([\w ]+): (\d) in (\d) rows", said) == [
        ("carry quotes and keep them", "1", "1"),
        ("hold characters that nobody sees", "1", "1"),
        ("hold blanks", "1", "1"),
        ("equal the name of a column", "1", "1"),
        ("differ from another one in case alone", "2", "2"),
        ("differ from another one in the form of Unicode alone", "2", "2"),
        ("differ from another one in zeros at the start alone", "2", "2"),
    ]


def test_plain_ids_are_not_mentioned(tmp_path: Path) -> None:
    data = load(written(tmp_path, table("user_id,item_id", range(8), range(100, 108))))
    assert not [note for note in data.notes if " ids that " in note]


# ---- the report ----------------------------------------------------------------------------------


def test_rows_of_one_reason_add_up() -> None:
    entries = [LeftOut("x", 2, "a:1"), LeftOut("y", 1, "a:2"), LeftOut("x", 3, "b:1")]
    assert add_up(entries) == (LeftOut("x", 5, "a:1"), LeftOut("y", 1, "a:2"))


def test_a_report_survives_storage(tmp_path: Path) -> None:
    lines = table("uid,item_id,hours", [*USERS, ""], [*ITEMS, "i1"], range(1, 10))
    data = load(written(tmp_path, lines), bad_rows="drop", min_rows=1)
    assert data.reading.guesses and data.reading.left_out and data.reading.columns
    assert Reading.parse(json.loads(json.dumps(data.reading.as_json()))) == data.reading


@pytest.mark.parametrize(
    "wrong",
    [None, 3, "x", {"source": 1}, {"columns": [1]}, {"left_out": [{"reason": "a", "rows": "b"}]}],
)
def test_other_values_are_no_report(wrong: Any) -> None:
    with pytest.raises(ValueError):
        Reading.parse(wrong)


def test_a_run_keeps_the_report_and_the_page_shows_it(tmp_path: Path) -> None:
    users = [f"u{n // 4}" for n in range(40)]
    items = [f"i{(n * 7) % 23}" for n in range(40)]
    times = [1_500_000_000 + n for n in range(40)]
    content = table("uid,item_id,hours,time", users, items, range(1, 41), times)
    path = written(tmp_path, content)
    made = pipeline.run("popular", str(path), protocol="loo-5", out=tmp_path / "runs")
    stored = store.read(str(made.path), tmp_path / "runs")
    (report,) = stored.manifest["reading"]
    assert report["source"] == str(path)
    assert {"assumed": "the user column is 'uid'", "option": "user=uid"} in report["guesses"]
    page = write_report([stored], tmp_path / "page.html").read_text()
    assert "Columns of rows.csv" in page and "looks like a column of values" in page
    assert str(tmp_path) not in page
    broken = stored._replace(manifest={**stored.manifest, "reading": [{"columns": 3}]})
    with pytest.raises(InputError, match="'reading' has no reports of a reading"):
        write_report([broken], tmp_path / "page.html")


# ---- the file of items ---------------------------------------------------------------------------


def items_file(folder: Path, content: str) -> str:
    path = folder / "items.csv"
    path.write_text(content)
    return str(path)


def test_items_without_an_id_follow_the_policy_for_bad_rows(tmp_path: Path) -> None:
    rows = written(tmp_path, table("user_id,item_id", USERS, ITEMS))
    items = items_file(tmp_path, "item_id,title\ni0,A\n,B\ni1,C\nx9,D\n")
    with pytest.raises(InputError, match=r"items\.csv:3: the item id is empty.*bad_rows='drop'"):
        load(rows, items=items)
    data = load(rows, items=items, bad_rows="drop")
    assert data.features["title"].tolist() == ["A", "C", "", "", ""]
    assert data.reading.left_out == (LeftOut("the item id is empty", 1, f"{items}:3"),)
    assert "items.csv: items that it does not describe: 3" in data.notes
    assert "items.csv: its rows of items without interactions: 1" in data.notes


def test_the_last_row_of_an_item_counts_and_the_others_are_counted(tmp_path: Path) -> None:
    rows = written(tmp_path, table("user_id,item_id", USERS, ITEMS))
    items = items_file(tmp_path, "item_id,title\ni0,A\ni1,B\ni0,A\ni0,C\nx,1\nx,2\n")
    data = load(rows, items=items)
    assert data.features["title"][0] == "C"
    assert data.reading.left_out[0] == LeftOut(
        "repeats of an item, of which the last is kept", 2, f"{items}:2"
    )


# ---- the documentation ---------------------------------------------------------------------------


def test_the_documentation_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file that docs/data.md shows gives the three outputs that follow it there."""
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    content, refused, report, strict = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("plays.csv").write_text(content)
    dirt = ["--load", "bad_rows=drop", "--load", "duplicates=sum"]
    with pytest.raises(InputError) as refusal:
        check("plays.csv")
    assert f"error: {refusal.value}\n" == refused
    check("plays.csv", *dirt)
    assert capsys.readouterr().out == report
    with pytest.raises(InputError) as refusal:
        check("plays.csv", *dirt, "--strict")
    assert f"error: {refusal.value}\n" == strict
