"""Errors that lead out: every remedy that `data/` (with `data/split/`) and `api/` print is followed, and
leads further.

To add one: write a generator in this file, as `helpers/remedies.py` shows. A call that prints a remedy
and is in no case fails `test_every_remedy_is_followed`, which names it; if nothing can follow it
mechanically, it gets a line with the reason in BY_HAND.
"""

from __future__ import annotations

import gzip
import inspect
import io
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from published_splits import write_all, write_all_pepper
from remedies import Case, Site, load_options, must_lead_further, option, quoted, sites, tried
from small_data import interactions, random_data

import entrenous
from entrenous.core.errors import InputError
from entrenous.data import files
from entrenous.data.filters import min_user_rows
from entrenous.data.home import data_home, write_atomic
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.data.likes import keep_likes
from entrenous.data.load import from_frame, load
from entrenous.data.published import read_negatives
from entrenous.data.recipe import read_recipes, recipes
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.read import read
from entrenous.data.split.stream import first_half
from entrenous.data.split.types import refitted

ROOMS = ("data", "api", "python")
# Calls that no test can follow, by the words of `str(site)`, with the reason.
BY_HAND = {
    "data/fetch.py fetch": "check the network: the network of the machine",
    "data/home.py _user_data": "set ENTRENOUS_DATA: the machine has no home folder",
    "data/files.py _only_member": "do not trust this file: nothing is to be done with it",
    "data/sets/ml_1m.py ncf": "the file is in another repository",
    "data/sets/pinterest_20.py ncf": "the file is in another repository",
    "data/sets/ml_1m.py _renamed": "get both again: two downloads",
    "data/features.py features": "rename the column: two columns of one file have a usual name",
    "data/likes.py keep_likes": "a smaller number: rows are left, as is checked before",
    # Of processes that were forked after data was read; tests/data/test_forked.py forks them.
    "data/load.py loaded": "load the data before the fork",
    "data/load.py from_frame": "make the Interactions before the fork",
    "data/table.py refuse_without_threads": "start the pool by spawn",
    "data/split/export.py write": "write the split before the fork",
    "data/split/read.py read": "read the split before the fork",
}

HEADER = "user_id,item_id,rating,timestamp\n"
ROWS = (
    "1,10,5,1500000000\n1,11,4,1500000100\n2,10,3,1500000200\n2,12,1,1500000300\n"
    "3,11,2,1500000400\n3,13,5,1500000500\n"
)
ROWS_OF_TWO_VALUES = "user_id,item_id,rating,plays\n1,10,5,9\n1,11,4,2\n2,10,3,1\n3,12,2,8\n"
PAIRS = "user_id,item_id\n1,10\n1,11\n2,10\n2,12\n3,11\n3,13\n"


def text(path: Path, content: str | bytes) -> Path:
    """A file with some content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def corrected(content: str, old: str, new: str) -> Callable[[Path], Case]:
    """The case of a file of rows with a wrong piece, which its remedy says to correct or remove."""

    def case(tmp: Path) -> Case:
        wrong = content.replace(old, new, 1)
        assert wrong != content
        error = yield lambda: load(text(tmp / "a.csv", wrong))
        if "--load" in error.fix:
            must_lead_further(error, lambda: load(tmp / "a.csv", **load_options(error)))
        yield lambda: load(text(tmp / "a.csv", content))

    return case


def by_its_option(
    content: str | bytes, name: str = "a.csv", **options: Any
) -> Callable[[Path], Case]:
    """The case of a file that the option of the remedy reads."""

    def case(tmp: Path) -> Case:
        path = text(tmp / name, content)
        error = yield lambda: load(path, **options)
        yield lambda: load(path, **options, **load_options(error))

    return case


def mended(
    wrong: str | bytes, right: str | bytes, name: str = "a.csv", **options: Any
) -> Callable[[Path], Case]:
    """The case of a file that has to be written otherwise."""

    def case(tmp: Path) -> Case:
        yield lambda: load(text(tmp / name, wrong), **options)
        yield lambda: load(text(tmp / name, right), **options)

    return case


def of_frame(**columns: Any) -> Callable[[Path], Case]:
    """The case of a frame with columns of a wrong kind, which its remedy says to convert."""

    def case(tmp: Path) -> Case:
        frame = pl.DataFrame({"user_id": [1, 1, 2, 2], "item_id": [10, 11, 10, 12]})
        wrong = frame.with_columns(**columns)
        yield lambda: from_frame(wrong)
        whole = [pl.Series(range(1, 5)).alias(name) for name in columns if name not in frame]
        yield lambda: from_frame(frame.with_columns(whole))

    return case


# ---- files: what they are ------------------------------------------------------------------------


def a_file_of_a_kind_that_is_not_read(tmp: Path) -> Case:
    yield lambda: load(text(tmp / "a.xlsx", "PK"))
    yield lambda: load(text(tmp / "a.csv", HEADER + ROWS))


an_empty_file = mended("", HEADER + ROWS)


def a_file_that_is_not_there(tmp: Path) -> Case:
    yield lambda: load(tmp / "a.csv")
    yield lambda: load(text(tmp / "a.csv", HEADER + ROWS))


def a_path_through_a_file(tmp: Path) -> Case:
    text(tmp / "a", "")
    yield lambda: load(tmp / "a" / "b.csv")
    yield lambda: load(text(tmp / "b.csv", HEADER + ROWS))


def a_file_beyond_the_limit(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS)
    limited = pytest.MonkeyPatch()
    limited.setattr(files, "LIMIT", 10)
    yield lambda: load(path)
    # A file in two halves is small enough.
    limited.undo()
    yield lambda: load(path)


def a_compressed_file_without_its_ending(tmp: Path) -> Case:
    path = text(tmp / "a.csv", gzip.compress((HEADER + ROWS).encode()))
    error = yield lambda: load(path)
    renamed = path.rename(tmp / error.fix.removeprefix("rename it to "))
    yield lambda: load(renamed)


def a_file_that_its_ending_calls_compressed(tmp: Path) -> Case:
    path = text(tmp / "a.csv.gz", HEADER + ROWS)
    yield lambda: load(path)
    renamed = path.rename(tmp / "a.csv")
    yield lambda: load(renamed)


def a_compressed_file_that_is_cut_off(tmp: Path) -> Case:
    whole = gzip.compress((HEADER + ROWS).encode())
    yield lambda: load(text(tmp / "a.csv.gz", whole[:-9]))
    yield lambda: load(text(tmp / "a.csv.gz", whole))


def packed(**members: str) -> bytes:
    """An archive of CSV files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.csv", content)
    return buffer.getvalue()


def a_zip_file_that_is_cut_off(tmp: Path) -> Case:
    whole = packed(rows=HEADER + ROWS)
    yield lambda: load(text(tmp / "a.csv.zip", whole[:-30]))
    yield lambda: load(text(tmp / "a.csv.zip", whole))


def an_archive_of_two_files(tmp: Path) -> Case:
    path = text(tmp / "a.zip", packed(rows=HEADER + ROWS, readme="see rows"))
    yield lambda: load(path)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp)
    yield lambda: load(tmp / "rows.csv")


def a_parquet_file_that_is_cut_off(tmp: Path) -> Case:
    path = tmp / "a.parquet"
    pl.read_csv(io.StringIO(HEADER + ROWS)).write_parquet(path)
    whole = path.read_bytes()
    yield lambda: load(text(path, whole[:-5]))
    yield lambda: load(text(path, b"PAR1" + b"\0" * 40 + b"PAR1"))
    yield lambda: load(text(path, whole))


def a_folder_without_known_files(tmp: Path) -> Case:
    text(tmp / "mine.csv", HEADER + ROWS)
    yield lambda: load(tmp)
    yield lambda: load(tmp / "mine.csv")


def a_folder_that_holds_a_split(tmp: Path) -> Case:
    (tmp / "set").mkdir()
    text(tmp / "set/train.txt", HEADER + ROWS)
    text(tmp / "set/test.txt", HEADER + "1,13,5,1500000900\n")
    error = yield lambda: load(tmp / "set")
    assert "protocol='given'" in error.fix
    yield lambda: entrenous.run("popular", tmp / "set", protocol="given", progress=False)


a_column_of_actions_with_a_refusal = by_its_option(
    "user_id,item_id,event\n1,a,play\n1,b,skip\n2,c,play\n"
)


def a_data_set_that_is_misspelt(tmp: Path) -> Case:
    error = yield lambda: load("synthetic-smal", fetch=False)
    yield lambda: load(quoted(error), fetch=False)


RECIPE = """[fair]
about = "ratings of stalls"

[[fair.files]]
name = "stalls.csv"
header = "who;stall"
user = "who"
item = "stall"
"""


def a_misspelt_key_of_a_recipe(tmp: Path) -> Case:
    path = text(tmp / "more.toml", RECIPE.replace("about", "abuot"))
    error = yield lambda: read_recipes(path)
    path.write_text(RECIPE.replace("about", quoted(error)))
    yield lambda: read_recipes(path)


def two_options_of_a_recipe_that_exclude_each_other(tmp: Path) -> Case:
    both = 'likes = "any"\nmin_value = 4\n'
    path = text(tmp / "more.toml", RECIPE + both)
    yield lambda: read_recipes(path)
    path.write_text(RECIPE + both.splitlines()[0])
    yield lambda: read_recipes(path)


def a_recipe_with_a_name_that_is_taken(tmp: Path) -> Case:
    paths = {name: text(tmp / f"{name}.toml", RECIPE) for name in ("one", "two")}
    patch = pytest.MonkeyPatch()
    patch.setattr("entrenous.data.recipe.plugged", lambda group: paths)
    try:
        yield recipes.__wrapped__
        paths["two"].write_text(RECIPE.replace("fair", "market"))
        yield recipes.__wrapped__
    finally:
        patch.undo()


def an_option_that_a_data_set_declares(tmp: Path) -> Case:
    patch = home_of(tmp)
    try:
        folder = write_all(tmp, small_set("ml-1m"))
        yield lambda: load("ml-1m", delimiter=",", fetch=False)
        # "load the file itself instead"
        yield lambda: load(folder / "interactions.csv", delimiter=",")
    finally:
        patch.undo()


# ---- text: encodings, lines, quotes --------------------------------------------------------------


text_in_latin_1 = by_its_option(
    "user_id,item_id\nJosé,10\nJosé,11\nana,10\nana,12\n".encode("latin-1")
)


text_in_utf_16 = by_its_option((HEADER + ROWS).encode("utf-16"))


text_in_utf_16_without_a_mark = by_its_option((HEADER + ROWS).encode("utf-16-le"))


def text_that_is_not_in_the_declared_encoding(tmp: Path) -> Case:
    path = text(tmp / "a.csv", (HEADER + ROWS + "é,1,1,1\n").encode())
    yield lambda: load(path, encoding="ascii")
    yield lambda: load(path)


a_control_character = mended(HEADER + ROWS + "4,1\x002,3,1500000600\n", HEADER + ROWS)


def lines_that_end_in_a_carriage_return(tmp: Path) -> Case:
    path = text(tmp / "a.csv", (HEADER + ROWS).replace("\n", "\r"))
    error = yield lambda: load(path)
    assert "tr '\\r' '\\n'" in error.fix
    yield lambda: load(text(path, path.read_bytes().replace(b"\r", b"\n")))


a_carriage_return_inside_a_line = corrected(HEADER + ROWS, "2,12", "2\r,12")
a_quoted_field_over_two_lines = corrected(
    'user_id,item_id\n"1",10\n1,11\n2,10\n2,12\n', '"1",10', '"1\n",10'
)
a_quote_inside_a_field = corrected(
    'user_id,item_id\n"a ""b""",10\n1,11\n2,10\n', '"a ""b"""', 'a "b"'
)
a_line_that_is_too_short = corrected(HEADER + ROWS, "2,12,1,", "2,12,")
a_header_inside_the_file = corrected(PAIRS, "2,10\n", "2,10\nuser_id,item_id\n")
a_name_that_occurs_twice = corrected(HEADER + ROWS, "rating", "item_id")


a_line_without_end = mended(HEADER + "1" * (2 << 20) + "\n" + ROWS, HEADER + ROWS)


another_delimiter_than_the_ending_says = by_its_option((HEADER + ROWS).replace(",", ";"))


a_header_of_unusual_names = by_its_option("kunde,artikel\n1,10\n1,11\n2,10\n2,12\n")


def no_header_and_more_columns_than_can_be_guessed(tmp: Path) -> Case:
    path = text(tmp / "a.csv", ROWS.replace(",15", ",0,15"))
    error = yield lambda: load(path)
    assert "--load names=user_id,item_id,rating,column4,column5" in error.fix
    yield lambda: load(path, names="user_id,item_id,rating,other,timestamp")


# ---- columns -------------------------------------------------------------------------------------


def two_columns_for_one_role(tmp: Path) -> Case:
    path = text(tmp / "a.csv", ROWS_OF_TWO_VALUES)
    error = yield lambda: load(path)
    for name in ("rating", "plays", ""):
        assert f"(--load value={name})" in error.fix
        must_lead_further(error, lambda name=name: load(path, value=name))  # type: ignore[misc]
    yield lambda: load(path, **load_options(error))


def an_item_file_with_a_row_without_an_item(tmp: Path) -> Case:
    rows = text(tmp / "a.csv", PAIRS)
    items = text(tmp / "b.csv", "item_id,title\n10,A\n,B\n")
    error = yield lambda: load(rows, items=items)
    must_lead_further(error, lambda: load(rows, items=items, **load_options(error)))
    yield lambda: load(rows, items=text(items, "item_id,title\n10,A\n11,B\n"))


a_column_that_is_not_found = by_its_option(PAIRS.replace("item_id", "artikel"))


def a_column_whose_name_is_misspelt(tmp: Path) -> Case:
    path = text(tmp / "a.csv", PAIRS.replace("item_id", "artikel"))
    error = yield lambda: load(path, item="artikle")
    yield lambda: load(path, item=quoted(error))


def one_column_in_two_roles(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS)
    yield lambda: load(path, item="user_id")
    yield lambda: load(path, item="item_id")


rows_that_repeat_with_another_value = by_its_option(HEADER + ROWS + "1,10,1,1500000700\n")


def a_single_user(tmp: Path) -> Case:
    path = text(tmp / "a.csv", "user_id,who,item_id\n1,a,10\n1,a,11\n1,b,12\n")
    yield lambda: load(path)
    yield lambda: load(path, user="who")


a_user_of_all_items = mended(PAIRS + "4,10\n4,11\n4,12\n4,13\n", PAIRS)


def a_filter_that_leaves_nothing(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS)
    yield lambda: load(path, min_rows=9)
    yield lambda: load(path, min_rows=1)


def rows_that_repeat_in_a_call(tmp: Path) -> Case:
    names = {"users": Vocabulary(["a"], kind="user"), "items": Vocabulary(["i"], kind="item")}
    yield lambda: build([0, 0], [0, 0], **names)
    yield lambda: build([0], [0], **names)


def a_filter_of_values_that_leaves_nothing(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS)
    yield lambda: load(path, likes="at_least=9")
    yield lambda: load(path, likes="at_least=2")


def a_limit_that_leaves_no_user(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS)
    yield lambda: load(path, max_items_of_a_user=1)
    yield lambda: load(path, max_items_of_a_user=2)


def users_with_more_rows_than_there_are(tmp: Path) -> Case:
    yield lambda: min_user_rows(random_data(), 99)
    yield lambda: min_user_rows(random_data(), 2)


def a_guess_that_is_refused(tmp: Path) -> Case:
    path = text(tmp / "a.csv", ROWS)
    error = yield lambda: load(path, strict=True)
    said = re.findall(r"\(([a-z_]+)=([^)]*)\)", error.problem)
    assert said
    yield lambda: load(path, strict=True, **dict(said))


def more_bad_rows_than_are_left_out(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS + "4,10,good,1500000600\n5,,2,1500000700\n")
    error = yield lambda: load(path)
    must_lead_further(error, lambda: load(path, **load_options(error)))
    error = yield lambda: load(path, bad_rows="drop")
    yield lambda: load(path, bad_rows="drop", **load_options(error))


def a_file_cut_off_in_a_bad_row(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS + "4,10,go,1500000600")
    yield lambda: load(path, bad_rows="drop")
    yield lambda: load(text(path, HEADER + ROWS), bad_rows="drop")


def a_sum_beyond_the_scale(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS + "1,10,5,1500000600\n")
    error = yield lambda: load(path, duplicates="sum", scale="1,5")
    must_lead_further(error, lambda: load(path, duplicates="sum"))
    yield lambda: load(path, **{"scale": "1,5", **load_options(error)})


def an_option_of_files_for_a_frame(tmp: Path) -> Case:
    frame = {"user_id": [1, 1, 2, 2], "item_id": [10, 11, 10, 12]}
    asked: dict[str, Any] = {"delimiter": ";"}
    yield lambda: from_frame(frame, **asked)
    yield lambda: from_frame(frame)


# ---- JSON ----------------------------------------------------------------------------------------

OBJECTS = [json.dumps({"user_id": row[0], "item_id": row[2:]}) for row in PAIRS.split()[1:]]
LINES = "\n".join(OBJECTS) + "\n"


def of_json(whole: str, old: str, new: str) -> Callable[[Path], Case]:
    """The case of a file of JSON with a wrong piece, which its remedy says to correct."""

    def case(tmp: Path) -> Case:
        wrong = whole.replace(old, new, 1)
        assert wrong != whole
        yield lambda: load(text(tmp / "a.json", wrong))
        yield lambda: load(text(tmp / "a.json", whole))

    return case


a_line_that_is_no_object = of_json(LINES, OBJECTS[1], OBJECTS[1][:-4])
a_list_among_objects = of_json(LINES, OBJECTS[1], "[1, 10]")
a_list_of_objects = of_json(LINES, LINES, "[" + ",\n".join(OBJECTS) + "]\n")
objects_without_fields = of_json(LINES, LINES, "{}\n{}\n")
objects_with_a_key_for_each_item = of_json(
    LINES, LINES, json.dumps({f"item {number}": 1 for number in range(3000)}) + "\n"
)
one_object_of_columns = of_json(
    LINES, LINES, json.dumps({"user_id": [1, 1, 2, 2], "item_id": [10, 11, 10, 12]}) + "\n"
)


def objects_over_several_lines(tmp: Path) -> Case:
    spread = "\n".join(json.dumps(json.loads(line), indent=1) for line in OBJECTS)
    error = yield lambda: load(text(tmp / "a.json", spread))
    assert "jq -c . FILE" in error.fix
    yield lambda: load(text(tmp / "a.json", LINES))


# ---- ids, values, times --------------------------------------------------------------------------

an_empty_id = corrected(PAIRS, "2,12", ",12")
an_endless_id = corrected(PAIRS, "2,12", "2" * 5000 + ",12")
an_empty_value = corrected(HEADER + ROWS, "2,12,1,", "2,12,,")
a_value_that_is_no_number = corrected(HEADER + ROWS, "2,12,1,", "2,12,good,")
an_infinite_value = corrected(HEADER + ROWS, "2,12,1,", "2,12,inf,")
a_date_unlike_the_first = corrected(
    "user_id,item_id,date\n1,10,2020-01-01\n1,11,2020-01-02\n2,10,2020-01-03\n2,12,2020-01-04\n",
    "01-02",
    "30-30",
)
a_negative_time = corrected(HEADER + ROWS, ",1500000300", ",-5")
a_time_after_2100 = corrected(HEADER + ROWS, ",1500000300", ",9e30")
floating_ids = of_frame(user_id=pl.Series([1.0, 1.0, 2.0, 2.0]))
dates_as_ids = of_frame(item_id=pl.Series([True, False, True, True]))
bytes_as_values = of_frame(rating=pl.Series([b"1", b"2", b"3", b"4"]))
lists_as_values = of_frame(rating=pl.Series([[1], [2], [3], [4]]))
truths_as_times = of_frame(timestamp=pl.Series([True, False, True, False]))


def a_decimal_id(tmp: Path) -> Case:
    path = text(tmp / "a.csv", PAIRS.replace("2,12", "2.0,12"))
    error = yield lambda: load(path)
    must_lead_further(error, lambda: load(path, **load_options(error)))
    # "write 2, or a text that is no number"
    must_lead_further(error, lambda: load(text(path, PAIRS.replace("2,12", "v2.0,12"))))
    yield lambda: load(text(path, PAIRS.replace("2,12", f"{error.fix.split()[1][:-1]},12")))


def a_value_outside_the_scale(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS)
    error = yield lambda: load(path, scale="1,4")
    must_lead_further(error, lambda: load(path, scale="1,4", **load_options(error)))
    yield lambda: load(path, scale="1,5")


# ---- likes and counts ----------------------------------------------------------------------------

LOW = "user_id,item_id,rating\n1,10,0\n1,11,4\n2,10,3\n2,12,0\n3,11,2\n3,13,5\n"
LABELLED = "user_id,item_id,is_click\n1,10,0\n1,11,1\n2,10,1\n2,12,0\n3,11,1\n3,13,1\n"


def zeros_that_may_be_likes(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LOW)
    error = yield lambda: load(path)
    answers = re.findall(r"(likes|not_rated|scale|value)=(\S*)", error.fix.replace("=X", "=3"))
    assert {name for name, _ in answers} == {"likes", "not_rated", "scale", "value"}
    for name, value in answers:
        load(path, **{name: value.rstrip(";)")})
    yield lambda: load(path, **load_options(error))


def valued(value: Callable[[int, int], int]) -> str:
    """Rows of 12 users, each with some of 10 items, with a value for each."""
    pairs = [
        (user, item) for user in range(12) for item in range(10) if (7 * user + 3 * item) % 5 < 3
    ]
    lines = [f"u{user},i{item},{value(user, item)}" for user, item in pairs]
    return "\n".join(["user_id,item_id,rating", *lines, ""])


def in_python(error: InputError) -> dict[str, str]:
    """The options of loading that a remedy names in the words of Python."""
    return dict(re.findall(r"load\['(\w+)'\]=(\w+)", error.fix))


def zeros_for_an_algorithm_that_learns_likes(tmp: Path) -> Case:
    path = str(text(tmp / "a.csv", valued(lambda user, item: (user + item) % 6)))
    split = {"protocol": "random-80-20"}
    loaded = {"scale": "0,5"}
    error = yield lambda: entrenous.run("popular", path, load=loaded, **split)
    more = loaded | in_python(error)
    yield lambda: entrenous.run("popular", path, load=more, **split)


def labels_that_are_not_read(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LABELLED)
    error = yield lambda: load(path)
    assert len(load(path, likes="any")) == 6
    yield lambda: load(path, **load_options(error))


def a_slip_for_a_rule(tmp: Path) -> Case:
    path = text(tmp / "a.csv", HEADER + ROWS)
    error = yield lambda: load(path, likes="postive")
    yield lambda: load(path, likes=quoted(error))


def a_slip_for_a_rule_of_named_data(tmp: Path) -> Case:
    error = yield lambda: keep_likes(random_data(), "postive")
    yield lambda: keep_likes(random_data(), quoted(error))


def a_column_that_is_no_label(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LABELLED.replace("1\n", "0.5\n"))
    yield lambda: load(path, likes="is_click")
    yield lambda: load(path, value="is_click", likes="positive")


def a_rule_for_values_that_are_not_read(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LABELLED)
    yield lambda: load(path, likes="positive")
    yield lambda: load(path, likes="positive", value="is_click")


def a_bar_above_all_values(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LOW)
    error = yield lambda: load(path, likes="at_least=6")
    highest = error.fix.split()[-1]
    assert highest == "5"
    yield lambda: load(path, likes="at_least=3")


def a_negative_count(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LOW.replace(",0\n", ",-2\n"))
    yield lambda: load(path, scale="log")
    yield lambda: load(path, scale="log", likes="positive")


def a_mark_outside_the_scale(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LOW)
    yield lambda: load(path, scale="1,5")
    yield lambda: load(path, scale="1,5", not_rated=0)


def counts_as_ratings(tmp: Path) -> Case:
    path = str(text(tmp / "a.csv", valued(lambda user, item: 7 + 300 * (user % 4))))
    split = {"protocol": "random-80-20"}
    error = yield lambda: entrenous.run("user-mean", path, **split)
    assert "scale=7,907" in error.fix
    entrenous.run("user-mean", path, load={"scale": "7,907"}, **split)
    yield lambda: entrenous.run("user-mean", path, load=in_python(error), **split)


def a_filter_that_leaves_users_with_everything(tmp: Path) -> Case:
    path = text(tmp / "a.csv", "user_id,item_id\n1,10\n1,11\n2,10\n2,11\n3,12\n")
    yield lambda: load(path, min_rows=2)
    yield lambda: load(path)


def a_filter_that_leaves_one_user(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LOW)
    yield lambda: load(path, likes="at_least=5")
    yield lambda: load(path, likes="at_least=3")


a_file_cut_off_in_its_last_time = mended((HEADER + ROWS)[:-8], HEADER + ROWS)


def columns_without_names(tmp: Path) -> Case:
    yield lambda: from_frame({0: [1, 1, 2, 2], 1: [10, 11, 10, 12]})
    yield lambda: from_frame({"user_id": [1, 1, 2, 2], "item_id": [10, 11, 10, 12]})


def times_that_are_not_read(tmp: Path) -> Case:
    path = text(tmp / "a.csv", (HEADER + ROWS).replace("timestamp", "wann"))
    error = yield lambda: splits("loo-full", load(path))
    yield lambda: splits("loo-full", load(path, **load_options(error)))


def data_without_times(tmp: Path) -> Case:
    data = load(text(tmp / "a.csv", PAIRS))
    yield lambda: splits("temporal-50-50", data)
    yield lambda: splits("random-50-50", data)


def rows_without_times(tmp: Path) -> Case:
    data = load(text(tmp / "a.csv", HEADER + ROWS.replace("1500000300", "")))
    yield lambda: splits("temporal-50-50", data)
    yield lambda: splits("random-50-50", data)


def timed(tmp: Path, *times: str, name: str = "timestamp") -> Path:
    """A file of six rows with some times, the first of which are repeated."""
    column = (times * 6)[:6]
    pairs = PAIRS.splitlines()[1:]
    lines = [f'{pair},"{time}"' for pair, time in zip(pairs, column, strict=True)]
    return text(tmp / "timed.csv", "\n".join([f"user_id,item_id,{name}", *lines]) + "\n")


def small_numbers_next_to_days(tmp: Path) -> Case:
    path = timed(tmp, '20191112","134500', '20191113","80000', name="date,time")
    error = yield lambda: load(path)
    must_lead_further(error, lambda: load(path, time="time"))
    yield lambda: load(path, time="date", time_form="yyyymmdd")


def times_of_day_without_days(tmp: Path) -> Case:
    path = timed(tmp, '2019-11-12","13:45', name="date,time")
    error = yield lambda: load(path, time="time")
    must_lead_further(error, lambda: load(path, time=""))
    yield lambda: load(path, **load_options(error))


def a_day_that_does_not_exist(tmp: Path) -> Case:
    days = load(timed(tmp, "2020-01-30", "2020-02-14"))
    error = yield lambda: splits("global-at-2020-02-31", days)
    yield lambda: splits(error.fix.removeprefix("use "), days)


# ---- splits --------------------------------------------------------------------------------------


def a_protocol_that_is_misspelt(tmp: Path) -> Case:
    data = random_data()
    error = yield lambda: splits("temporal-80.20", data)
    yield lambda: splits(quoted(error), data)


def a_protocol_without_data(tmp: Path) -> Case:
    yield lambda: splits("random-80-20")
    yield lambda: splits("random-80-20", random_data())


def an_option_that_a_protocol_lacks(tmp: Path) -> Case:
    data = random_data()
    yield lambda: splits("random-80-20,repeats=drop", data)
    yield lambda: splits("random-80-20", data)


def a_choice_that_an_option_lacks(tmp: Path) -> Case:
    folder = parts(tmp)
    error = yield lambda: splits("given,repeats=often", given=folder)
    name = option(error, "protocol")
    yield lambda: splits(name, given=folder)


def shares_that_do_not_add_up(tmp: Path) -> Case:
    error = yield lambda: splits("random-80-30", random_data())
    yield lambda: splits(error.fix.removeprefix("use "), random_data())


def shares_that_leave_no_test_row(tmp: Path) -> Case:
    yield lambda: splits("random-99-1", random_data(rows=40))
    yield lambda: splits("random-50-50", random_data(rows=40))


def windows_without_rows(tmp: Path) -> Case:
    error = yield lambda: splits("stream-0", random_data())
    yield lambda: splits(error.fix.removeprefix("use "), random_data())


def one_window_has_no_second_half(tmp: Path) -> Case:
    yield lambda: first_half(splits("stream-100000", random_data())[0])
    yield lambda: first_half(splits("stream-25", random_data())[0])


def folds_that_cannot_be_cut(tmp: Path) -> Case:
    error = yield lambda: splits("kfold-1", random_data())
    yield lambda: splits(error.fix.removeprefix("use "), random_data())


def no_candidates_to_draw(tmp: Path) -> Case:
    error = yield lambda: splits("loo-0", random_data())
    assert "loo-full" in error.fix
    yield lambda: splits("loo-full", random_data())


def more_candidates_than_items(tmp: Path) -> Case:
    error = yield lambda: splits("loo-99", random_data())
    yield lambda: splits(error.fix.split()[1], random_data())


def more_candidates_than_ncf_published(tmp: Path) -> Case:
    error = yield lambda: splits("ncf-5", random_data())
    yield lambda: splits(error.fix.split()[-1], random_data())


def rows_that_nobody_published(tmp: Path) -> Case:
    data = random_data()
    yield lambda: splits("ncf-99", data)
    yield lambda: splits("loo-5", data)


def pepper_with_too_many_test_rows(tmp: Path) -> Case:
    data = random_data(items=400)
    error = yield lambda: splits("pepper-50-50", data)
    yield lambda: splits(error.fix.removeprefix("use "), data)


def pepper_on_a_small_catalogue(tmp: Path) -> Case:
    error = yield lambda: splits("pepper-80-20", random_data())
    yield lambda: splits(error.fix.split()[1], random_data())


def refitting_without_validation_rows(tmp: Path) -> Case:
    (split,) = splits("given", given=parts(tmp))
    yield lambda: refitted(split, True)
    yield lambda: split.final_train


def home_of(tmp: Path) -> pytest.MonkeyPatch:
    """The data folder of a case."""
    patch = pytest.MonkeyPatch()
    patch.setenv("ENTRENOUS_DATA", str(tmp))
    return patch


def a_data_set_that_is_not_there(tmp: Path) -> Case:
    patch = home_of(tmp / "home")
    try:
        yield lambda: load("ml-1m", fetch=False)
        # Fetched, or put there by hand: what the files hold is as below.
        write_all(tmp / "home", small_set("ml-1m"))
        yield lambda: load("ml-1m", fetch=False)
    finally:
        patch.undo()


def small_set(name: str) -> Interactions:
    """Four users with three of 120 items each, in the name of a data set."""
    items = [f"i{number:03}" for number in range(120)]
    rows = [(f"u{user}", items[user + place]) for user in range(4) for place in range(3)]
    return interactions(rows, items=items, name=name)


def ncf_on_other_rows(tmp: Path) -> Case:
    patch = home_of(tmp)
    try:
        whole = small_set("ml-1m")
        write_all(tmp, whole)
        all_but_last = np.arange(len(whole)) < len(whole) - 1
        yield lambda: splits("ncf-99", whole.select(all_but_last))
        yield lambda: splits("ncf-99", whole)
    finally:
        patch.undo()


def published(tmp: Path) -> Interactions:
    """A small set, with all parts in its folder as PEPPER published them."""
    data = small_set("ml-100k")
    write_all_pepper(tmp, data)
    return data


def a_line_of_negatives_that_is_damaged(tmp: Path) -> Case:
    whole = "(0,1)\t2\t3\n(1,2)\t3\t4\n"
    yield lambda: read_negatives(text(tmp / "ncf.negative", whole.replace("\t4", "")))
    yield lambda: read_negatives(text(tmp / "ncf.negative", whole))


def no_line_of_negatives(tmp: Path) -> Case:
    yield lambda: read_negatives(text(tmp / "ncf.negative", "\n"))
    yield lambda: read_negatives(text(tmp / "ncf.negative", "(0,1)\t2\t3\n"))


def a_published_table_without_a_column(tmp: Path) -> Case:
    patch = home_of(tmp)
    try:
        data = published(tmp)
        path = tmp / "ml-100k" / "pepper_splits.parquet"
        whole = pl.read_parquet(path)
        whole.rename({"user_id": "who"}).write_parquet(path)
        error = yield lambda: splits("pepper-given", data)
        assert "the columns are: who, item_id, split" in error.fix
        whole.write_parquet(path)
        yield lambda: splits("pepper-given", data)
    finally:
        patch.undo()


def a_data_folder_that_cannot_be_written(tmp: Path) -> Case:
    patch = home_of(text(tmp / "file", ""))
    try:
        yield lambda: write_atomic(data_home() / "rows.csv", b"")
        patch.setenv("ENTRENOUS_DATA", str(tmp / "folder"))
        yield lambda: write_atomic(data_home() / "rows.csv", b"")
    finally:
        patch.undo()


def more_users_than_pepper_published(tmp: Path) -> Case:
    patch = home_of(tmp)
    try:
        data = published(tmp)
        error = yield lambda: splits("pepper-given-9", data)
        yield lambda: splits(error.fix.removeprefix("use "), data)
    finally:
        patch.undo()


def pepper_on_other_items(tmp: Path) -> Case:
    patch = home_of(tmp)
    try:
        data = published(tmp)
        few = data.of_items(data.popularity > 0)
        yield lambda: splits("pepper-given", few)
        yield lambda: splits("pepper-given", data)
    finally:
        patch.undo()


def parts_that_pepper_did_not_publish(tmp: Path) -> Case:
    patch = home_of(tmp)
    try:
        data = random_data(items=400)
        data = replace(data, name="ml-100k")
        error = yield lambda: splits("pepper-given", data)
        yield lambda: splits(error.fix.split()[-1], data)
    finally:
        patch.undo()


# ---- given splits --------------------------------------------------------------------------------


def parts(tmp: Path, **files: str) -> Path:
    """A folder with a given split."""
    folder = tmp / "parts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in {"train": PAIRS, "test": "user_id,item_id\n1,12\n2,11\n", **files}.items():
        text(folder / f"{name}.csv", content)
    return folder


def no_given_split(tmp: Path) -> Case:
    yield lambda: splits("given")
    yield lambda: splits("given", given=parts(tmp))


def a_part_of_unusual_names(tmp: Path) -> Case:
    train, test = (PAIRS, "user_id,item_id\n1,12\n2,11\n")
    folder = parts(tmp, train=train.replace("_id", "o"), test=test.replace("_id", "o"))
    error = yield lambda: splits("given", given=folder)
    yield lambda: splits("given", given=folder, load=load_options(error))


def a_part_in_latin_1(tmp: Path) -> Case:
    folder = parts(tmp, test="user_id,item_id\n1,12\n2,11\n")
    text(folder / "train.csv", (PAIRS + "josé,10\n").encode("latin-1"))
    error = yield lambda: splits("given", given=folder)
    yield lambda: splits("given", given=folder, load=load_options(error))


def candidates_of_no_row(tmp: Path) -> Case:
    table = "user,item,candidate\n1,12,13\n2,11,13\n1,10,13\n"
    yield lambda: read(parts(tmp, test_candidates=table))
    yield lambda: read(parts(tmp, test_candidates=table.replace("1,10,13\n", "")))


def a_row_without_candidates(tmp: Path) -> Case:
    table = "user,item,candidate\n1,12,13\n"
    yield lambda: read(parts(tmp, test_candidates=table))
    yield lambda: read(parts(tmp, test_candidates=table + "2,11,13\n"))


def candidates_without_a_column(tmp: Path) -> Case:
    table = "user,item,other\n1,12,13\n2,11,13\n"
    yield lambda: read(parts(tmp, test_candidates=table))
    yield lambda: read(parts(tmp, test_candidates=table.replace("other", "candidate")))


def a_filter_of_the_whole_for_parts(tmp: Path) -> Case:
    folder = parts(tmp)
    yield lambda: read(folder, {"min_rows": "2"})
    yield lambda: read(folder, {})


def exported(tmp: Path) -> Path:
    """A split as `entrenous split` writes it."""
    shutil.rmtree(tmp / "split", ignore_errors=True)
    return write(splits("loo-5", random_data())[0], tmp / "split")


def options_for_files_that_need_none(tmp: Path) -> Case:
    folder = exported(tmp)
    yield lambda: read(folder, {"delimiter": ";"})
    yield lambda: read(folder)


def a_damaged_description(tmp: Path) -> Case:
    folder = exported(tmp)
    text(folder / "split.json", "{")
    yield lambda: read(folder)
    yield lambda: read(exported(tmp))


def a_removed_description(tmp: Path) -> Case:
    """The other way that the remedy names: without it the folder is one from elsewhere."""
    folder = parts(tmp)
    text(folder / "split.json", "{")
    error = yield lambda: read(folder)
    assert "remove the file" in error.fix
    (folder / "split.json").unlink()
    yield lambda: read(folder)


def a_part_that_is_missing(tmp: Path) -> Case:
    folder = exported(tmp)
    (folder / "users.csv").unlink()
    yield lambda: read(folder)
    yield lambda: read(exported(tmp))


def an_id_that_is_not_listed(tmp: Path) -> Case:
    folder = exported(tmp)
    lines = (folder / "users.csv").read_text().splitlines()
    text(folder / "users.csv", "\n".join(lines[:-1]) + "\n")
    yield lambda: read(folder)
    text(folder / "users.csv", "\n".join(lines) + "\n")
    yield lambda: read(folder)


def weighting_sets_without_candidates(tmp: Path) -> Case:
    data = random_data(items=400)

    def export() -> Path:
        shutil.rmtree(tmp / "split", ignore_errors=True)
        return write(splits("pepper-85-15", data)[0], tmp / "split")

    folder = export()
    (folder / "validation_candidates.csv").unlink()
    yield lambda: read(folder)
    yield lambda: read(export())


def a_folder_that_is_there_already(tmp: Path) -> Case:
    (split,) = splits("loo-5", random_data())
    (tmp / "split").mkdir()
    yield lambda: write(split, tmp / "split")
    yield lambda: write(split, tmp / "other")


def a_folder_that_cannot_be_made(tmp: Path) -> Case:
    (split,) = splits("loo-5", random_data())
    text(tmp / "file", "")
    yield lambda: write(split, tmp / "file" / "split")
    yield lambda: write(split, tmp / "split")


# ---- Python --------------------------------------------------------------------------------------

QUICK = {"split": "random-80-20", "progress": False}


def items_where_a_number_belongs(tmp: Path) -> Case:
    asked = {"rounds": 1, "protocol": "random-80-20", "defences": ["none"], "progress": False}
    error = yield lambda: entrenous.attack("fcf", random_data(), targets=["i3"], **asked)
    assert 'target=("ID", ...)' in error.fix
    yield lambda: entrenous.attack("fcf", random_data(), target=("i3",), **asked)


def an_option_that_a_stored_run_has(tmp: Path) -> Case:
    path = str(text(tmp / "a.csv", HEADER + ROWS))
    run = entrenous.run("fcf", path, rounds=1, out=tmp, split="kfold-2", progress=False)
    asked = {"quick": True, "progress": False}
    yield lambda: entrenous.audit(run.path, settings={"factors": 4}, **asked)
    yield lambda: entrenous.audit(run.path, **asked)


def a_reference_that_is_not_compared(tmp: Path) -> Case:
    asked = {"seeds": 1, **QUICK}
    error = yield lambda: entrenous.compare(
        ["popular", "random"], random_data(), reference="populer", **asked
    )
    yield lambda: entrenous.compare(
        ["popular", "random"], random_data(), reference=quoted(error), **asked
    )


def one_algorithm_twice(tmp: Path) -> Case:
    error = yield lambda: entrenous.compare(["popular", "popular"], random_data(), seeds=1, **QUICK)
    assert "LABEL=NAME" in error.fix
    yield lambda: entrenous.compare(["popular", "again=popular"], random_data(), seeds=1, **QUICK)


def a_run_of_folds(tmp: Path) -> Case:
    folds = entrenous.run("popular", random_data(), split="kfold-2", progress=False)
    asked = {"seeds": 1, "split": "kfold-2", "progress": False}
    yield lambda: entrenous.compare([folds, "random"], random_data(), **asked)
    yield lambda: entrenous.compare(["popular", "random"], random_data(), **asked)


def a_folder_of_another_run(tmp: Path) -> Case:
    run = entrenous.run("popular", random_data(), **QUICK)
    (tmp / "kept").mkdir()
    yield lambda: run.save(tmp / "kept")
    yield lambda: run.save(tmp / "other")


def held_out_rows_that_are_not_stored(tmp: Path) -> Case:
    run = entrenous.run("popular", random_data(), out=tmp, **QUICK)
    yield lambda: entrenous.open(run.path).trec(tmp / "trec")
    yield lambda: run.trec(tmp / "trec")


# ---- formats -------------------------------------------------------------------------------------


def a_folder_of_partitions(tmp: Path) -> Case:
    for year in ("2019", "2020"):
        (tmp / "log" / f"year={year}").mkdir(parents=True)
        text(tmp / "log" / f"year={year}" / "part-0.csv", PAIRS)
    error = yield lambda: load(tmp / "log")
    folder = re.search(r"such as (\S+),", error.fix)
    assert folder is not None
    yield lambda: load(Path(folder[1]))


def a_part_without_a_column(tmp: Path) -> Case:
    (tmp / "log").mkdir()
    text(tmp / "log" / "part-0.csv", HEADER + ROWS)
    text(tmp / "log" / "part-1.csv", "user_id,item_id,rating\n9,10,5\n9,11,4\n")
    yield lambda: load(tmp / "log")
    text(tmp / "log" / "part-1.csv", HEADER + "9,10,5,1500000000\n9,11,4,1500000001\n")
    yield lambda: load(tmp / "log")


def a_file_of_items_in_another_encoding(tmp: Path) -> Case:
    path = text(tmp / "a.csv", PAIRS)
    items = text(tmp / "items.csv", "item_id,title\n10,Caf\xe9\n".encode("latin-1"))
    yield lambda: load(path, items=items)
    items.write_text(items.read_text("latin-1"))
    yield lambda: load(path, items=items)


def rows_of_which_none_can_be_split(tmp: Path) -> Case:
    path = text(tmp / "a.csv", "user_id,item_id\n1;10\n2;11\n")
    yield lambda: load(path, bad_rows="drop", bad_share=1)
    yield lambda: load(text(path, PAIRS), bad_rows="drop", bad_share=1)


IMPRESSIONS = (
    "1\tU1\t11/11/2019 9:05:58 AM\tN1 N2\tN3-1 N4-0\n"
    "2\tU2\t11/12/2019 9:05:58 AM\tN1\tN3-0 N4-1\n"
    "3\tU3\t11/12/2019 9:15:58 AM\tN2\tN1-1 N4-0\n"
)


def impressions_without_a_time(tmp: Path) -> Case:
    path = tmp / "behaviors.tsv"
    wrong = IMPRESSIONS.replace("11/12/2019 9:05:58 AM", "yesterday")
    yield lambda: load(text(path, wrong))
    yield lambda: load(text(path, IMPRESSIONS))


def impressions_without_clicks(tmp: Path) -> Case:
    path = tmp / "behaviors.tsv"
    yield lambda: load(text(path, IMPRESSIONS.replace("N3-0 N4-1", "N3 N4")), format="mind")
    yield lambda: load(text(path, IMPRESSIONS), format="mind")


def a_list_with_a_control_character(tmp: Path) -> Case:
    path = tmp / "lists.txt"
    yield lambda: load(text(path, "0 10 1\x011\n1 10 12\n"), format="item-lists")
    yield lambda: load(text(path, "0 10 11\n1 10 12\n"), format="item-lists")


def a_list_with_another_count(tmp: Path) -> Case:
    path = text(tmp / "lists.txt", "2 10 11\n2 10 11 12\n")
    error = yield lambda: load(path, format="counted-item-lists")
    assert "--load format=item-lists" in error.fix
    yield lambda: load(text(path, "2 10 11\n3 10 13 12\n"), format="counted-item-lists")


a_comment_that_may_be_a_row = by_its_option(
    "# 1,10\n1,10\n1,11\n2,10\n2,12\n", names="user_id,item_id"
)


def a_header_with_a_number(tmp: Path) -> Case:
    path = text(tmp / "a.csv", "user_id,7\n1,10\n1,11\n2,10\n2,12\n")
    error = yield lambda: load(path)
    must_lead_further(error, lambda: load(path, user="user_id", item="7"))
    yield lambda: load(path, names="user_id,item_id")


def columns_in_another_order(tmp: Path) -> Case:
    lines = "".join(f"2019-01-0{n % 9 + 1},u{n % 3},i{n}\n" for n in range(9))
    path = text(tmp / "a.csv", lines)
    error = yield lambda: load(path)
    names = re.search(r"--load (names=\S+)", error.fix)
    assert names is not None
    yield lambda: load(path, names=names[1].partition("=")[2])


def a_frame_of_mixed_kinds(tmp: Path) -> Case:
    ids = [1, 2, 3]
    yield lambda: from_frame({"user_id": ids, "item_id": ["x", True, "z"]})
    yield lambda: from_frame({"user_id": ids, "item_id": ["x", "True", "z"]})


def a_number_and_the_same_as_text(tmp: Path) -> Case:
    ids = [1, 2, 3]
    yield lambda: from_frame({"user_id": ids, "item_id": [10, "10", "z"]})
    yield lambda: from_frame({"user_id": ids, "item_id": ["10", "10", "z"]})


def a_preset_of_another_file(tmp: Path) -> Case:
    path = text(tmp / "a.csv", PAIRS)
    yield lambda: load(path, format="book-crossing")
    yield lambda: load(path, user="user_id", item="item_id")


# ---- days and moments ----------------------------------------------------------------------------


def dated(*days: str) -> str:
    """Rows of two users with these days."""
    lines = [f"{n % 2 + 1},{10 + n},{day}\n" for n, day in enumerate(days)]
    return "user_id,item_id,date\n" + "".join(lines)


days_and_months_in_two_orders = by_its_option(
    dated("15/11/2019", "11/15/2019", "01/02/2019", "03/02/2019")
)


days_that_may_be_months = by_its_option(
    dated("01/02/2019", "03/02/2019", "03/04/2019", "05/04/2019")
)


days_that_may_be_seconds = by_its_option(dated("20190102", "20190203", "20190304", "20190405"))


a_time_without_an_offset = by_its_option(
    dated(
        "2019-01-02T10:00:00+01:00",
        "2019-01-02T11:00:00",
        "2019-01-03T10:00:00+01:00",
        "2019-01-04T10:00:00+01:00",
    )
)


def a_moment_outside_the_times(tmp: Path) -> Case:
    data = load(text(tmp / "a.csv", dated("2019-01-02", "2019-01-03", "2019-02-02", "2019-02-03")))
    error = yield lambda: splits("global-at-2030-01-01", data)
    must_lead_further(error, lambda: splits("temporal-80-20", data))
    yield lambda: splits("global-at-2019-01-31", data)


# ---- files of a split ----------------------------------------------------------------------------


def a_folder_of_several_splits(tmp: Path) -> Case:
    folder = tmp / "parts"
    folder.mkdir()
    for name in ("u1", "u2"):
        text(
            folder / f"{name}.base",
            "1\t10\t5\t881250949\n1\t11\t4\t881250950\n2\t10\t3\t881250951\n",
        )
        text(folder / f"{name}.test", "1\t12\t5\t881250952\n2\t11\t4\t881250953\n")
    error = yield lambda: splits("given", given=folder)
    path = re.search(r"such as (\S+)$", error.fix)
    assert path is not None
    yield lambda: splits("given", given=Path(path[1]))


def a_folder_without_a_test_part(tmp: Path) -> Case:
    folder = parts(tmp)
    (folder / "test.csv").unlink()
    yield lambda: splits("given", given=folder)
    yield lambda: splits("given", given=parts(tmp))


def a_row_of_which_no_candidate_is_left(tmp: Path) -> Case:
    table = "user,item,candidate\n1,12,10\n2,11,13\n"
    yield lambda: read(parts(tmp, test_candidates=table))
    yield lambda: read(parts(tmp, test_candidates=table + "1,12,13\n"))


def a_name_of_json_for_something_else(tmp: Path) -> Case:
    yield lambda: load(text(tmp / "a.jsonl", PAIRS))
    yield lambda: load(text(tmp / "a.csv", PAIRS))


def a_row_that_fills_the_spare_column(tmp: Path) -> Case:
    rows = "user_id,item_id\n1,10,\n1,11,\n2,10,\n2,12,more\n"
    yield lambda: load(text(tmp / "a.csv", rows))
    yield lambda: load(text(tmp / "a.csv", rows.replace("12,more", '"12,more",')))


def lists_that_may_begin_with_a_count(tmp: Path) -> Case:
    path = text(tmp / "lists.txt", "2 10 11\n3 10 11 12\n1 13\n")
    error = yield lambda: load(path)
    for name in ("item-lists", "counted-item-lists"):
        assert f"--load format={name} " in error.fix
    must_lead_further(error, lambda: load(path, format="item-lists"))
    yield lambda: load(path, format="counted-item-lists")


a_title_above_the_header = by_its_option("Exported by the shop\n" + HEADER + ROWS)


def rows_with_the_names_of_r(tmp: Path) -> Case:
    rows = "".join(f"{n},{line}\n" for n, line in enumerate(ROWS.splitlines(), 1))
    path = text(tmp / "a.csv", HEADER + rows)
    error = yield lambda: load(path)
    names = "row,user_id,item_id,rating,timestamp"
    assert f"--load names={names} --load skip_lines=1" in error.fix
    yield lambda: load(path, names=names, skip_lines=1)


def a_control_character_in_the_header(tmp: Path) -> Case:
    path = tmp / "a.csv"
    yield lambda: load(text(path, PAIRS.replace("item_id", "item\x01_id", 1)))
    yield lambda: load(text(path, PAIRS))


def a_control_character_in_a_longer_row(tmp: Path) -> Case:
    path = tmp / "a.csv"
    yield lambda: load(text(path, PAIRS + "4,1\x010,5\n"))
    yield lambda: load(text(path, PAIRS + "4,10\n"))


def an_id_that_is_not_known(tmp: Path) -> Case:
    pairs = "user_id,item_id\nanna,10\nanna,11\nbert,10\nbert,12\n"
    users = load(text(tmp / "a.csv", pairs)).users
    error = yield lambda: users.index("ana")
    nearest = error.fix.partition("'")[2].partition("'")[0]
    yield lambda: users.index(nearest)


# ---- the caller's own frames and splits ----------------------------------------------------------


def own_halves(data: Interactions) -> entrenous.Split:
    last = np.arange(len(data)) % 5 == 4
    held = entrenous.Held(data.select(last))
    return entrenous.Split("mine", data.select(~last), None, held, refit=False)


def own_frame(prefix: str = "") -> pl.DataFrame:
    rows = [
        (f"{prefix}u{user}", f"{prefix}i{(user + item) % 9}")
        for user in range(9)
        for item in range(5)
    ]
    return pl.DataFrame(rows, ["user_id", "item_id"], orient="row")


def data_beside_a_split_of_other_rows(tmp: Path) -> Case:
    split = own_halves(random_data())
    yield lambda: entrenous.run("popular", own_frame(), split=split)
    yield lambda: entrenous.run("popular", split=split)


def a_split_of_two_vocabularies(tmp: Path) -> Case:
    train, test = own_frame()[:30], own_frame()[30:]
    held = entrenous.Held(from_frame(test, part=True))
    split = entrenous.Split("mine", from_frame(train), None, held, refit=False)
    yield lambda: entrenous.run("popular", split=split)
    yield lambda: entrenous.run(
        "popular", split=entrenous.split(train=own_frame()[::2], test=own_frame()[1::2])
    )


def a_test_of_other_users(tmp: Path) -> Case:
    train = own_frame()[::2]
    yield lambda: entrenous.split(train=train, test=own_frame("x")[1::2])
    yield lambda: entrenous.split(train=train, test=own_frame()[1::2])


def ids_of_two_types(tmp: Path) -> Case:
    whole = own_frame().with_columns(user_id=pl.col("user_id").str.slice(1).cast(pl.Int64))
    text = whole.with_columns(user_id=pl.col("user_id").cast(pl.String))
    yield lambda: entrenous.split(train=whole[::2], test=text[1::2])
    yield lambda: entrenous.split(train=text[::2], test=text[1::2])


def options_of_rows_that_are_read(tmp: Path) -> Case:
    renamed = own_frame().rename({"user_id": "who"})
    model = entrenous.Recommender("popular")
    yield lambda: model.fit(from_frame(own_frame()), user="who")
    yield lambda: model.fit(from_frame(renamed, user="who"))


def a_recommender_that_is_not_fitted(tmp: Path) -> Case:
    model = entrenous.Recommender("popular")
    yield lambda: model.recommend()
    model.fit(own_frame())
    yield lambda: model.recommend()


def a_metric_that_is_unknown(tmp: Path) -> Case:
    split = own_halves(random_data())
    error = yield lambda: entrenous.run("popular", split=split, metrics=["ndgc"])
    yield lambda: entrenous.run("popular", split=split, metrics=[quoted(error)])


def a_plot_of_an_unknown_metric(tmp: Path) -> Case:
    result = entrenous.compare(["popular", "random"], split=own_halves(random_data()), seeds=1)
    error = yield lambda: result.plot("recal@10")
    yield lambda: result.plot(quoted(error))


def a_curve_without_looks(tmp: Path) -> Case:
    asked: dict[str, Any] = {"rounds": 1, "threads": 1, **QUICK}
    yield lambda: entrenous.run("fcf", random_data(), **asked).plot()
    yield lambda: entrenous.run("fcf", random_data(), every=1, **asked).plot()


def a_curve_of_an_unknown_metric(tmp: Path) -> Case:
    run = entrenous.run("fcf", random_data(), **{"rounds": 1, "threads": 1, "every": 1, **QUICK})
    error = yield lambda: run.plot("recal@10")
    yield lambda: run.plot(quoted(error))


# ---- the tests -----------------------------------------------------------------------------------


def cases() -> dict[str, Callable[[Path], Case]]:
    """Every case of this file by name: the functions that return one."""
    here = sys.modules[__name__]
    found = {}
    for name, function in vars(here).items():
        if inspect.isfunction(function) and function.__annotations__.get("return") == "Case":
            found[name] = function
    return found


@pytest.fixture(scope="module")
def known() -> list[Site]:
    return sites(*ROOMS)


@pytest.mark.parametrize("name", cases())
def test_a_remedy_leads_further(name: str, tmp_path: Path, known: list[Site]) -> None:
    assert tried(cases()[name](tmp_path), known).hit


def test_every_remedy_is_followed(tmp_path: Path, known: list[Site]) -> None:
    hit = set()
    for number, case in enumerate(cases().values()):
        (tmp_path / str(number)).mkdir()
        hit |= tried(case(tmp_path / str(number)), known).hit
    missed = {site for site in known if site not in hit}
    not_followed = [f"{site}:{site.first}" for site in missed if str(site) not in BY_HAND]
    assert not not_followed, f"add a case for each of {sorted(not_followed)}"
    assert {str(site) for site in missed} == set(BY_HAND), "a line of BY_HAND is of no use"


def test_a_remedy_that_leads_nowhere_is_seen(tmp_path: Path, known: list[Site]) -> None:
    def dead_end(tmp: Path) -> Case:
        yield lambda: load(tmp / "a.csv")
        yield lambda: load(tmp / "a.csv")

    with pytest.raises(AssertionError, match="the remedy leads nowhere"):
        tried(dead_end(tmp_path), known)
