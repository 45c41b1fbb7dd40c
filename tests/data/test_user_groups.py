"""Groups of users from a file: read in external ids, and refused with the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.data.interactions import Vocabulary, build
from entrenous.data.read_groups import read_groups
from entrenous.data.user_groups import UserGroups

DATA = build(
    np.array([0, 1, 2]),
    np.array([0, 0, 0]),
    users=Vocabulary(["ann", "bob", "cat"]),
    items=Vocabulary(size=1),
)


def test_groups_are_numbered_by_name_and_others_users_left_out(tmp_path: Path) -> None:
    file = tmp_path / "groups.csv"
    file.write_text("user,group\ncat,writer\nann,writer\nzoe,lawyer\nbob,doctor\n")
    groups = read_groups(str(file), DATA)
    assert groups.of.tolist() == [1, 0, 1] and groups.names == ("doctor", "writer")
    assert repr(groups).startswith("UserGroups(groups=2, users=3, sha256=")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user;group\n", "csv:1: there are no rows .*; expected a table with the col.* group$"),
        ("user,kind\nann,a\n", "csv: no column 'group'"),
        ("user,group\nann,a\nann,b\n", "csv:3: user 'ann' is named twice; expected one line"),
        ("user,group\nann\n", "csv:2: 1 column; expected a table"),
        (
            "user,group\nann,a\nbob,b\n",
            "csv: user 'cat' has no group; expected a line for every user",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "groups.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_groups(str(file), DATA)
    with pytest.raises(InputError, match="no such file"):
        read_groups(str(tmp_path / "none"), DATA)


def test_a_number_without_a_name_is_refused() -> None:
    with pytest.raises(
        InputError, match="numbers from 0 to 2; expected numbers from 0, below the 2 groups"
    ):
        UserGroups(np.array([0, 2], np.int32), ["a", "b"])
