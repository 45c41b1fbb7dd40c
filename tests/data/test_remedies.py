"""Errors that lead out: each option, name and protocol that an error of `data/` and `api/` prints is
followed, and leads further.

To add one: write a generator in this file, as `helpers/remedies.py` shows. A function whose errors
name an option and that is in no case fails the test, which names it; if nothing can follow it
mechanically, it gets a line with the reason in BY_HAND.
"""

from __future__ import annotations

import gzip
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from remedies import Case, load_options, must_lead_further, option, quoted, sites, tried
from small_data import random_data

import entrenous
from entrenous.core.errors import InputError
from entrenous.data.interactions import Vocabulary
from entrenous.data.load import from_frame, load
from entrenous.data.obstacles import check
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.read import read
from entrenous.data.split.types import refitted

ROOMS = ("data", "api", "python")
# Calls that no test can follow, by the words of `str(site)`, with the reason.
BY_HAND = {"data/split/read.py read": "read the split before the fork"}

HEADER = "user_id,item_id,rating,timestamp\n"
ROWS = (
    "1,10,5,1500000000\n1,11,4,1500000100\n2,10,3,1500000200\n2,12,1,1500000300\n"
    "3,11,2,1500000400\n3,13,5,1500000500\n"
)
RATED = HEADER + ROWS
PAIRS = "user_id,item_id\n1,10\n1,11\n2,10\n2,12\n3,11\n3,13\n"
LOW = "user_id,item_id,rating\n1,10,0\n1,11,4\n2,10,3\n2,12,0\n3,11,2\n3,13,5\n"
LABELLED = "user_id,item_id,is_click\n1,10,0\n1,11,1\n2,10,1\n2,12,0\n3,11,1\n3,13,1\n"
NUMBERED = "".join(f"{number},{line}\n" for number, line in enumerate(ROWS.splitlines(), 1))
WITHOUT = "such as random-80-20"


def text(path: Path, content: str | bytes) -> Path:
    """A file with some content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def dated(*days: str) -> str:
    """Rows of two users with these days."""
    lines = [f"{n % 2 + 1},{10 + n},{day}\n" for n, day in enumerate(days)]
    return "user_id,item_id,date\n" + "".join(lines)


# Files that are read with the options that their error names; and options that are given before.
BY_THEIR_OPTIONS: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "actions": ("user_id,item_id,event\n1,a,play\n1,b,skip\n2,c,play\n", {}),
    "latin-1": ("user_id,item_id\nJosé,10\nJosé,11\nana,10\nana,12\n".encode("latin-1"), {}),
    "utf-16": (RATED.encode("utf-16"), {}),
    "utf-16 without a mark": (RATED.encode("utf-16-le"), {}),
    "unusual names": ("kunde,artikel\n1,10\n1,11\n2,10\n2,12\n", {}),
    "no item": (PAIRS.replace("item_id", "artikel"), {}),
    "a header with a number": ("user_id,7\n1,10\n1,11\n2,10\n2,12\n", {}),
    "names of R": (HEADER + NUMBERED, {}),
    "a title": ("Exported by the shop\n" + RATED, {}),
    "a comment": ("# 1,10\n1,10\n1,11\n2,10\n2,12\n", {"names": "user_id,item_id"}),
    "an order": ("".join(f"2019-01-0{n % 9 + 1},u{n % 3},i{n}\n" for n in range(9)), {}),
    "repeats": (RATED + "1,10,1,1500000700\n", {}),
    "too large a sum": (RATED + "1,10,5,1500000600\n", {"duplicates": "sum", "scale": "1,5"}),
    "two values": ("user_id,item_id,rating,plays\n1,10,5,9\n1,11,4,2\n2,12,3,1\n", {}),
    "bad rows": (RATED + "4,10,good,1500000600\n", {}),
    "too many bad rows": (RATED + "4,10,go,1\n5,,2,1500000700\n", {"bad_rows": "drop"}),
    "a quote": ('user_id,item_id\n"a ""b""",10\n1,11\n2,10\na "b",10\n', {}),
    "two lines": ('user_id,item_id\n"1\n",10\n1,11\n2,10\n2,12\n', {"bad_share": "1"}),
    "a short line": (RATED + "2,12\n", {}),
    "a control character": (PAIRS + "4,1\x010\n", {}),
    "a negative time": (RATED.replace("1500000300", "-5"), {}),
    "no date": (dated("2020-01-01", "2020-01-02", "2020-30-30"), {}),
    "no offset": (dated("2019-01-02T10:00:00+01:00", "2019-01-02T11:00:00", "2019-01-02"), {}),
    "days or months": (dated("01/02/2019", "03/02/2019", "03/04/2019"), {}),
    "two digits of a year": (dated("01/02/19", "13/02/97", "03/04/19"), {}),
    "days or seconds": (dated("20190102", "20190203", "20190304", "20190405"), {}),
    "times of day": (
        'user_id,item_id,date,time\n1,10,2019-11-12,"13:45"\n1,11,2019-11-12,"13:46"\n2,12,,\n',
        {"time": "time"},
    ),
    "numbers beside days": (
        "user_id,item_id,date,time\n1,10,2019-11-12,134500\n1,11,2019-11-12,80000\n2,12,,9\n",
        {},
    ),
    "labels": (LABELLED, {}),
    "a mark": (LOW, {}),
    "a program": (PAIRS + "9,10\n9,11\n9,12\n9,13\n", {}),
}


def by_its_option(content: str | bytes, before: dict[str, Any]) -> Callable[[Path], Case]:
    """The case of a file that the options of the remedy read."""

    def case(tmp: Path) -> Case:
        path = text(tmp / "a.csv", content)
        error = yield lambda: load(path, **before)
        yield lambda: load(path, **{**before, **load_options(error)})

    return case


# Protocols whose error names another one, and the items of the data.
BY_THEIR_PROTOCOL = {
    "random-80-30": 30,
    "stream-0": 30,
    "kfold-1": 30,
    "loo-0": 30,
    "loo-99": 30,
    "ncf-5": 30,
    "pepper-50-50": 400,
    "pepper-80-20": 30,
    "temporal-80.20": 30,
    "random-80-20,repeats=drop": 30,
    "global-at-2020-02-31": 30,
    "global-at-2030-01-01": 30,
}


def by_its_protocol(name: str, items: int) -> Callable[[Path], Case]:
    """The case of a protocol in whose place the remedy names another one."""

    def case(tmp: Path) -> Case:
        data = random_data(items=items)
        error = yield lambda: splits(name, data)
        (other, *_) = re.findall(r"[a-z]+-[a-z0-9-]+", f"{error.fix} {WITHOUT}")
        must_lead_further(error, lambda: splits(other, data))
        yield lambda: splits("random-80-20", data)

    return case


def a_filter_that_leaves_one_user(tmp: Path) -> Case:
    path = text(tmp / "a.csv", PAIRS + "4,10\n")
    yield lambda: load(path, max_items_of_a_user=1)
    yield lambda: load(path)


def five_obstacles(tmp: Path) -> Case:
    rows = [f"{n % 3}.0;a{n};5;{n + 10}/02/19" for n in range(9)]
    path = text(
        tmp / "a.csv", "\n".join(["kunde;artikel;wert;wann", *rows, "1.0;b;3;01/02/19;9\n"])
    )
    error = yield lambda: check(str(path), {})
    options = load_options(error)
    assert list(options) == ["user", "item", "bad_rows", "ids", "time", "time_form"]
    yield lambda: load(path, strict=True, delimiter=";", value="wert", **options)


# ---- words in quotes -----------------------------------------------------------------------------


def a_data_set_that_is_misspelt(tmp: Path) -> Case:
    error = yield lambda: load("synthetic-smal", fetch=False)
    yield lambda: load(quoted(error), fetch=False)


def a_column_whose_name_is_misspelt(tmp: Path) -> Case:
    path = text(tmp / "a.csv", PAIRS.replace("item_id", "artikel"))
    error = yield lambda: load(path, item="artikle")
    yield lambda: load(path, item=quoted(error))


def a_slip_for_a_rule(tmp: Path) -> Case:
    path = text(tmp / "a.csv", RATED)
    error = yield lambda: load(path, likes="postive")
    yield lambda: load(path, likes=quoted(error))


def an_id_that_is_not_known(tmp: Path) -> Case:
    users = Vocabulary(["anna", "bert"], kind="user")
    error = yield lambda: users.index("ana")
    yield lambda: users.index(quoted(error))


def a_file_that_its_ending_hides(tmp: Path) -> Case:
    path = text(tmp / "a.csv", gzip.compress(RATED.encode()))
    error = yield lambda: load(path)
    renamed = path.rename(tmp / error.fix.removeprefix("rename it to "))
    yield lambda: load(renamed)


# ---- several options -----------------------------------------------------------------------------


def zeros_that_may_be_likes(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LOW)
    error = yield lambda: load(path)
    answers = re.findall(r"(likes|not_rated|scale|value)=(\S*)", error.fix.replace("=X", "=3"))
    assert {name for name, _ in answers} == {"likes", "not_rated", "scale", "value"}
    for name, value in answers:
        load(path, **{name: value.rstrip(";)")})
    yield lambda: load(path, **load_options(error))


def a_rule_for_values_that_are_not_read(tmp: Path) -> Case:
    path = text(tmp / "a.csv", LABELLED)
    yield lambda: load(path, likes="positive")
    yield lambda: load(path, likes="positive", value="is_click")


def more_columns_than_can_be_guessed(tmp: Path) -> Case:
    path = text(tmp / "a.csv", ROWS.replace(",15", ",0,15"))
    error = yield lambda: load(path)
    assert "--load names=user_id,item_id,rating,column4,column5" in error.fix
    yield lambda: load(path, names="user_id,item_id,rating,other,timestamp")


def a_control_character_in_a_longer_row(tmp: Path) -> Case:
    yield lambda: load(text(tmp / "a.csv", PAIRS + "4,1\x010,5\n"))
    yield lambda: load(text(tmp / "a.csv", PAIRS + "4,10\n"))


def a_guess_that_is_refused(tmp: Path) -> Case:
    path = text(tmp / "a.csv", ROWS)
    error = yield lambda: load(path, strict=True)
    said = re.findall(r"\(([a-z_]+)=([^)]*)\)", error.problem)
    assert said
    yield lambda: load(path, strict=True, **dict(said))


def truths_as_times(tmp: Path) -> Case:
    frame = {"user_id": [1, 1, 2], "item_id": [10, 11, 12], "timestamp": [True, False, True]}
    yield lambda: from_frame(frame)
    yield lambda: from_frame(frame, time="")


# ---- splits --------------------------------------------------------------------------------------


def parts(tmp: Path) -> Path:
    """A folder with a given split."""
    folder = tmp / "parts"
    folder.mkdir()
    text(folder / "train.csv", PAIRS)
    text(folder / "test.csv", "user_id,item_id\n1,12\n2,11\n")
    return folder


def a_folder_that_holds_a_split(tmp: Path) -> Case:
    folder = parts(tmp)
    error = yield lambda: load(folder)
    assert "protocol='given'" in error.fix
    yield lambda: splits("given", given=folder)


def a_folder_of_several_splits(tmp: Path) -> Case:
    for name in ("u1", "u2"):
        text(
            tmp / f"{name}.base", "1\t10\t5\t881250949\n1\t11\t4\t881250950\n2\t10\t3\t881250951\n"
        )
        text(tmp / f"{name}.test", "1\t12\t5\t881250952\n2\t11\t4\t881250953\n")
    error = yield lambda: splits("given", given=tmp)
    (path,) = re.findall(r"such as (\S+)$", error.fix)
    yield lambda: splits("given", given=Path(path))


def a_choice_that_an_option_lacks(tmp: Path) -> Case:
    folder = parts(tmp)
    error = yield lambda: splits("given,repeats=often", given=folder)
    name = option(error, "protocol")
    yield lambda: splits(name, given=folder)


def a_filter_of_the_whole_for_parts(tmp: Path) -> Case:
    folder = parts(tmp)
    yield lambda: read(folder, {"min_rows": "2"})
    yield lambda: read(folder, {})


def options_for_files_that_need_none(tmp: Path) -> Case:
    folder = write(splits("loo-5", random_data())[0], tmp / "split")
    yield lambda: read(folder, {"delimiter": ";"})
    yield lambda: read(folder)


def refitting_without_validation_rows(tmp: Path) -> Case:
    (split,) = splits("given", given=parts(tmp))
    yield lambda: refitted(split, True)
    yield lambda: split.final_train


def data_without_times(tmp: Path) -> Case:
    data = load(text(tmp / "a.csv", PAIRS))
    error = yield lambda: splits("temporal-50-50", data)
    assert WITHOUT.split()[-1] in error.fix
    yield lambda: splits("random-50-50", data)


def rows_without_times(tmp: Path) -> Case:
    path = text(tmp / "a.csv", RATED.replace("1500000300", "-5"))
    data = load(path, bad_times="missing")
    error = yield lambda: splits("loo-full", data)
    yield lambda: splits("loo-full", load(path, **load_options(error)))


def times_that_are_not_read(tmp: Path) -> Case:
    path = text(tmp / "a.csv", RATED.replace("timestamp", "wann"))
    error = yield lambda: splits("loo-full", load(path))
    yield lambda: splits("loo-full", load(path, **load_options(error)))


# ---- Python --------------------------------------------------------------------------------------

QUICK = {"split": "random-80-20", "progress": False}


def in_python(error: InputError) -> dict[str, str]:
    """The options of loading that a remedy names in the words of Python."""
    return dict(re.findall(r"load\['(\w+)'\]=(\w+)", error.fix))


def valued(path: Path, value: Callable[[int, int], int]) -> str:
    """A file of 12 users, each with some of 10 items, with a value for each."""
    lines = [
        f"u{user},i{item},{value(user, item)}"
        for user in range(12)
        for item in range(10)
        if (7 * user + 3 * item) % 5 < 3
    ]
    return str(text(path, "\n".join(["user_id,item_id,rating", *lines, ""])))


def zeros_for_an_algorithm_that_learns_likes(tmp: Path) -> Case:
    path = valued(tmp / "a.csv", lambda user, item: (user + item) % 6)
    loaded = {"scale": "0,5"}
    error = yield lambda: entrenous.run("popular", path, load=loaded, **QUICK)
    yield lambda: entrenous.run("popular", path, load=loaded | in_python(error), **QUICK)


def counts_as_ratings(tmp: Path) -> Case:
    path = valued(tmp / "a.csv", lambda user, item: 7 + 300 * (user % 4))
    error = yield lambda: entrenous.run("user-mean", path, **QUICK)
    assert "scale=7,907" in error.fix
    entrenous.run("user-mean", path, load={"scale": "7,907"}, **QUICK)
    yield lambda: entrenous.run("user-mean", path, load=in_python(error), **QUICK)


def items_where_a_number_belongs(tmp: Path) -> Case:
    asked = {"rounds": 1, "protocol": "random-80-20", "defences": ["none"], "progress": False}
    error = yield lambda: entrenous.attack("fcf", random_data(), targets=["i3"], **asked)
    assert 'target=("ID", ...)' in error.fix
    yield lambda: entrenous.attack("fcf", random_data(), target=("i3",), **asked)


def an_option_that_a_stored_run_has(tmp: Path) -> Case:
    path = str(text(tmp / "a.csv", RATED))
    run = entrenous.run("fcf", path, rounds=1, out=tmp, split="kfold-2", progress=False)
    asked = {"quick": True, "progress": False}
    yield lambda: entrenous.audit(run.path, settings={"factors": 4}, **asked)
    yield lambda: entrenous.audit(run.path, **asked)


def a_reference_that_is_not_compared(tmp: Path) -> Case:
    two = ["popular", "random"]
    asked = {"seeds": 1, **QUICK}
    error = yield lambda: entrenous.compare(two, random_data(), reference="populer", **asked)
    yield lambda: entrenous.compare(two, random_data(), reference=quoted(error), **asked)


def one_algorithm_twice(tmp: Path) -> Case:
    error = yield lambda: entrenous.compare(["popular", "popular"], random_data(), seeds=1, **QUICK)
    assert "LABEL=NAME" in error.fix
    yield lambda: entrenous.compare(["popular", "again=popular"], random_data(), seeds=1, **QUICK)


# ---- the tests -----------------------------------------------------------------------------------


def cases() -> Iterator[Callable[[Path], Case]]:
    """Every case of this file."""
    yield from (by_its_option(*each) for each in BY_THEIR_OPTIONS.values())
    yield from (by_its_protocol(*each) for each in BY_THEIR_PROTOCOL.items())
    for function in vars(sys.modules[__name__]).values():
        if inspect.isfunction(function) and function.__annotations__.get("return") == "Case":
            yield function


@pytest.mark.beside
def test_every_option_that_an_error_names_leads_further(tmp_path: Path) -> None:
    known = sites(*ROOMS)
    hit = set()
    for number, case in enumerate(cases()):
        (tmp_path / str(number)).mkdir()
        hit |= tried(case(tmp_path / str(number)), known).hit
    missed = {site for site in known if site.names_an_option and site not in hit}
    not_followed = [f"{site}:{site.first}" for site in missed if str(site) not in BY_HAND]
    assert not not_followed, f"add a case for each of {sorted(not_followed)}"
    assert {str(site) for site in missed} == set(BY_HAND), "a line of BY_HAND is of no use"


def test_a_remedy_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    def dead_end(tmp: Path) -> Case:
        yield lambda: load(tmp / "a.csv")
        yield lambda: load(tmp / "a.csv")

    with pytest.raises(AssertionError, match="the remedy leads nowhere"):
        tried(dead_end(tmp_path), sites(*ROOMS))
