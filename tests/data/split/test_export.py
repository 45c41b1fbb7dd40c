"""Export and reading back: identical, all or nothing, and safe to open in a spreadsheet."""

import csv
import json

import numpy as np
import properties  # noqa: F401  # how patient Hypothesis is
import pytest
from small_data import interactions, random_data, rows_of

from entrenous.core.errors import InputError
from entrenous.data.interactions import NO_TIME
from entrenous.data.load import load
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.read import read


def assert_same_rows(one, other):
    for name in ("ptr", "item", "value", "time", "row"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None) and (
            left is None or np.array_equal(left, right)
        ), name
        assert left is None or left.dtype == right.dtype, name
    assert (one.visits is None) == (other.visits is None)
    for left, right in zip(one.visits or (), other.visits or (), strict=True):
        assert np.array_equal(left, right) and left.dtype == right.dtype
    assert one.users.ids.tolist() == other.users.ids.tolist()
    assert one.items.ids.tolist() == other.items.ids.tolist()
    assert {name: text.tolist() for name, text in one.features.items()} == {
        name: text.tolist() for name, text in other.features.items()
    }
    assert (one.name, one.notes) == (other.name, other.notes)


def assert_same(one, other):
    assert (one.name, one.refit, one.notes) == (other.name, other.refit, other.notes)
    assert_same_rows(one.train, other.train)
    for left, right in ((one.validation, other.validation), (one.test, other.test)):
        assert (left is None) == (right is None)
        if left is not None:
            assert_same_rows(left.rows, right.rows)
            assert np.array_equal(left.candidates, right.candidates)
            assert (left.absent is None) == (right.absent is None) and (
                left.absent is None or np.array_equal(left.absent, right.absent)
            )


@pytest.mark.parametrize("name", ["loo-9", "random-80-20", "fpl-80-20"])
def test_a_split_comes_back_identical(name, tmp_path):
    split = splits(name, random_data(), seed=3)[0]
    assert_same(split, read(write(split, tmp_path / "split")))
    assert [path.name for path in tmp_path.iterdir()] == ["split"]


def test_repeated_visits_come_back_and_those_of_no_row_are_refused(tmp_path):
    (tmp_path / "visits.csv").write_text(
        "user_id,item_id,timestamp\n"
        + "".join(f"u{k % 4},i{(k % 7) * (k % 4 + 1)},{k}\n" for k in range(60))
    )
    split = splits("random-50-50", load(str(tmp_path / "visits.csv")))[0]
    folder = write(split, tmp_path / "split")
    assert split.train.visits is not None and split.test.rows.visits is not None
    assert_same(split, read(folder))
    kept = (folder / "test_visits.csv").read_text()
    (folder / "test_visits.csv").write_text((folder / "train_visits.csv").read_text())
    with pytest.raises(
        InputError,
        match=r"test_visits: \d+ visits are of no row, such as that of user 'u.', item 'i.'",
    ):
        read(folder)
    (folder / "test_visits.csv").write_text(kept.replace(",time,", ",when,"))
    with pytest.raises(InputError, match="test_visits: no column 'time'"):
        read(folder)


@pytest.mark.parametrize("lines", ["u0,0", "u0,1\nu0,1", "u0,100001", "u0,-3", "u0,x", "nobody,1"])
def test_rows_that_are_not_in_the_catalogue_are_counted_or_refused(tmp_path, lines):
    split = splits("fpl-50-50", random_data())[0]
    folder = write(split, tmp_path / "split")
    assert split.test.absent is not None and np.array_equal(
        read(folder).test.absent, split.test.absent
    )
    (folder / "test_absent.csv").write_text(f"user,rows\n{lines}\n")
    with pytest.raises(InputError, match="test_absent"):
        read(folder)


def test_somebodys_files_with_repeated_visits_stand_one_behind_the_other(tmp_path):
    (tmp_path / "train.csv").write_text(
        "user_id,item_id,timestamp\nann,a,1\nann,a,9\nann,b,5\nbob,c,2\n"
    )
    (tmp_path / "test.csv").write_text("user_id,item_id,timestamp\nann,c,1\nann,c,10\nbob,a,3\n")
    split = read(tmp_path)
    places = np.concatenate([split.train.visits.row, split.test.rows.visits.row]).tolist()
    assert sorted(places) == list(range(7)) and max(split.train.visits.row) < min(
        split.test.rows.visits.row
    )


def test_data_without_times_and_rows_with_a_missing_time(tmp_path):
    untimed = splits(
        "random-80-20", interactions([("ann", f"i{n}") for n in range(10)], times=False)
    )[0]
    assert_same(untimed, read(write(untimed, tmp_path / "untimed")))
    partly = splits(
        "random-80-20", interactions([("ann", f"i{n}", NO_TIME if n % 3 else n) for n in range(10)])
    )[0]
    assert_same(partly, read(write(partly, tmp_path / "partly")))


NASTY = [
    "=cmd()",
    "+1",
    "-1",
    "@x",
    "'=x",
    "''-",
    "'plain",
    "a,b",
    'say "no"',
    "two\nlines",
    " blank ",
    "\tcell",
    "007",
    "1.0",
    "null",
    "é",
]


def test_strange_ids_come_back(tmp_path):
    split = splits(
        "loo-2", interactions([(user, item) for user in NASTY for item in NASTY[:12]], items=NASTY)
    )[0]
    assert_same(split, read(write(split, tmp_path / "split")))


def test_no_cell_of_a_csv_starts_a_formula(tmp_path):
    rows = [(user, item) for user in NASTY for item in NASTY[:12]]
    features = {"title": np.array([f"={name}" for name in NASTY])}
    folder = write(
        splits("loo-2", interactions(rows, items=NASTY, features=features))[0], tmp_path / "split"
    )
    for path in folder.glob("*.csv"):
        with open(path, newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t"))], (
            path.name
        )
    assert "'=cmd()" in (folder / "train.csv").read_text()


def test_an_existing_folder_is_left_alone(tmp_path):
    split = splits("loo-2", random_data())[0]
    (tmp_path / "here").mkdir()
    with pytest.raises(InputError, match="already exists"):
        write(split, tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "entrenous.data.split.export._columns", lambda rows: {"user": [1], "item": [1, 2]}
    )
    with pytest.raises(Exception, match="2"):
        write(splits("loo-2", random_data())[0], tmp_path / "split")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    split = splits("loo-2", random_data())[0]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        write(split, tmp_path / "file" / "split")


def exported(tmp_path):
    return write(splits("loo-2", random_data())[0], tmp_path / "split")


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        (
            "train.csv",
            lambda text: text.replace("user,item", "who,item"),
            r"train: no column 'user'",
        ),
        (
            "train.csv",
            lambda text: text + "u1,nowhere,1.0,3,99999\n",
            r"train:\d+: item 'nowhere' is not in the items file",
        ),
        (
            "train.csv",
            lambda text: text + "u1,i3,many,3,99999\n",
            r"train:\d+: the value 'many' is not a number",
        ),
        ("train.csv", lambda text: text + "u1,i3,nan,3,99999\n", r"train:\d+: the value is nan"),
        (
            "train.csv",
            lambda text: text + "u1,i3,1.0,soon,99999\n",
            r"train:\d+: the time 'soon' cannot be read",
        ),
        ("train.csv", lambda text: text + ",i3,1.0,3,99999\n", r"train:\d+: the user is empty"),
        ("test.csv", lambda text: "", "test: cannot be read"),
        ("test.csv", lambda text: text + "a,b,c,d,e,f,g\n", "test: cannot be read"),
        ("test.csv", None, "no test file"),
        ("users.csv", None, "no users file"),
        ("split.json", lambda text: "{", "split.json: does not describe a split"),
        (
            "split.json",
            lambda text: json.dumps({"name": 3}),
            "split.json: does not describe a split",
        ),
        (
            "split.json",
            lambda text: json.dumps({**json.loads(text), "whole": ["evil", ""]}),
            "split.json: does not describe a split",
        ),
        (
            "split.json",
            lambda text: json.dumps({**json.loads(text), "scale": [float("nan"), 5]}),
            "split.json: does not describe a split",
        ),
    ],
)
def test_a_spoiled_export_is_refused_with_its_place(file, change, said, tmp_path):
    path = exported(tmp_path) / file
    path.unlink() if change is None else path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=said):
        read(tmp_path / "split")


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        read(tmp_path / "nowhere")


def foreign(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_somebodys_folder_is_a_split(tmp_path):
    foreign(
        tmp_path,
        train__csv="user_id,movie_id,rating\nann,a,5\nann,b,3\nbob,a,4\n",
        test__tsv="user\titem\trating\nbob\tb\t2\n",
        test_candidates__csv="user_id,item_id,negative\nbob,b,c\nbob,b,d\n",
    )
    split = splits("given", given=tmp_path)[0]
    assert (rows_of(split.train), rows_of(split.test.rows)) == (
        {("ann", "a"), ("ann", "b"), ("bob", "a")},
        {("bob", "b")},
    )
    assert [split.train.items[item] for item in split.test.candidates[0]] == ["c", "d"]
    assert (split.validation, split.refit, split.name) == (None, False, tmp_path.name)
    assert split.train.value.tolist() == [5, 3, 4]


def test_somebodys_folder_is_read_with_file_and_line(tmp_path):
    foreign(
        tmp_path,
        train__csv="user_id,item_id,rating\nann,a,5\nann,b,x\nbob,a,4\n",
        test__csv="user,item\nbob,b\n",
    )
    with pytest.raises(InputError, match=r"train.csv:3: the value 'x' is not a number"):
        read(tmp_path)
    (tmp_path / "train.csv").unlink()
    with pytest.raises(InputError, match=r"no train file; expected train\.csv"):
        read(tmp_path)
