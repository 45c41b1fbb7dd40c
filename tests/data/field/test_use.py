"""A split that was made elsewhere: options of reading reach its parts, and rows that are held out
although they are training rows have an option.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import entrenous
from entrenous.core.errors import InputError
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.read import read

TRAIN = "user_id,item_id\n1,10\n1,11\n2,10\n2,12\n3,11\n3,13\n"
# Of these, (1, 10) and (3, 13) are training rows.
TEST = "user_id,item_id\n1,10\n1,12\n2,11\n3,13\n"


def folder_of(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def test_options_of_reading_reach_the_parts(tmp_path: Path) -> None:
    """Case 15."""
    train = "visitor;video;stars\n1;10;5\n1;11;4\n2;10;3\n2;12;1\n"
    test = "visitor;video;stars\n1;12;5\n2;11;4\n"
    folder = folder_of(tmp_path, train=train, test=test)
    load = {"user": "visitor", "item": "video", "value": "stars", "delimiter": ";"}
    run = entrenous.run("popular", str(folder), split="given", load=load, progress=False)
    assert run.manifest["load"] == load
    assert len(run.train) == 4 and run.split.test.rows.value.tolist() == [5, 4]


@pytest.mark.parametrize("header", ["visitor;video;negative", "user;item;candidate"])
def test_candidates_are_read_with_the_options_of_the_parts(header: str, tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        train="visitor;video;stars\n1;10;1\n1;11;2\n2;10;3\n2;12;1\n",
        test="visitor;video;stars\n1;12;1\n2;11;1\n",
        test_candidates=f"{header}\n1;12;13\n2;11;13\n",
    )
    names = {"user": "visitor", "item": "video", "value": "stars"}
    split = read(folder, {**names, "delimiter": ";"})
    assert split.train.items[int(split.test.candidates[0, 0])] == "13"


def test_repeats_are_dropped_and_counted(tmp_path: Path) -> None:
    """Case 43."""
    folder = folder_of(
        tmp_path,
        train=TRAIN,
        test=TEST,
        test_candidates="user,item,candidate\n1,10,13\n1,12,13\n2,11,13\n3,13,12\n",
    )
    run = entrenous.run("popular", str(folder), split="given", progress=False)
    assert len(run.split.test.rows) == 2 and run.split.test.candidates.shape == (2, 1)
    (note,) = [note for note in run.manifest["notes"] if "repeats=drop" in note]
    assert note == "test rows that are rows of an earlier part too, left out (repeats=drop): 2"
    assert run.manifest["protocol"] == "given"


def test_kept_repeats_can_be_hit(tmp_path: Path) -> None:
    """Case 43: the items that a user has compete, and one that is held out again counts."""
    train = "user_id,item_id\n" + "".join(f"{user},10\n{user},{user}\n" for user in range(1, 6))
    test = "user_id,item_id\n" + "".join(f"{user},10\n" for user in range(1, 6))
    folder = folder_of(tmp_path, train=train, test=test)
    run = entrenous.run("popular", str(folder), split="given,repeats=keep", progress=False)
    # Item 10 is everybody's, and the most popular one.
    assert run.metrics["mrr@10"] == 1 and run.metrics["auc"] == 1
    assert len(run.split.all_rows) == len(run.train) == 10
    assert any("repeats=keep" in line for line in run.manifest["protocol_text"])


def test_kept_repeats_stay_in_files_and_in_lists_for_other_evaluators(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, train=TRAIN, test=TEST)
    run = entrenous.run("popular", str(folder), split="given,repeats=keep", progress=False)
    again = read(write(run.split, tmp_path / "again"))
    assert again.test.repeats and len(again.test.rows) == 4
    lines = run.trec(tmp_path / "trec").run.read_text().splitlines()
    listed = {tuple(line.split()[:3:2]) for line in lines}
    assert {("1", "10"), ("3", "13")} <= listed


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ("given,repeats=sometimes", "repeats is 'sometimes'; expected drop or keep"),
        ("given,colour=red", "it has no option 'colour'; expected one of its options: repeats"),
        ("given,repeats", "expected NAME, or NAME,option=value"),
        ("loo-full,repeats=drop", "it has no option 'repeats'"),
    ],
)
def test_options_of_a_protocol_are_checked(protocol: str, said: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, train=TRAIN, test=TEST)
    data = entrenous.load(folder / "train.csv")
    with pytest.raises(InputError, match=said):
        splits(protocol, data, given=folder)
