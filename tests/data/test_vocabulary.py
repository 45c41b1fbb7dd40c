"""External ids in, external ids out."""

from __future__ import annotations

import numpy as np
import properties  # noqa: F401  # how patient Hypothesis is
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrenous.core.errors import InputError
from entrenous.data.interactions import Vocabulary


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
        unique=True,
        min_size=1,
    )
)
def test_every_id_comes_back(ids: list[str]) -> None:
    names = Vocabulary(ids)
    assert len(names) == len(ids) and not names.is_range
    assert [names[index] for index in range(len(ids))] == ids == names.ids.tolist()
    assert (
        [names.index(name) for name in ids] == names.indices(ids).tolist() == list(range(len(ids)))
    )
    assert all(name in names for name in ids)


def test_ids_are_text_and_stay_as_they_are() -> None:
    names = Vocabulary(["007", "7", "7.0", " 7"])
    assert [names.index(name) for name in ("007", "7", "7.0", " 7")] == [0, 1, 2, 3]
    assert names.index(7) == 1 and 7 in names  # a number means its text
    assert "07" not in names and "" not in names


def test_without_ids_the_index_is_the_id() -> None:
    names = Vocabulary(size=1_000_000, kind="user")
    assert names.is_range and len(names) == 1_000_000
    assert names[999_999] == "999999"
    small = Vocabulary(size=3)
    assert small.ids.tolist() == ["0", "1", "2"] and small.index("2") == small.index(2) == 2
    assert "3" not in small and "-1" not in small
    assert len(Vocabulary(size=0)) == len(Vocabulary([])) == 0


def test_unknown_ids_among_many_are_minus_1() -> None:
    found = Vocabulary(["a", "b"]).indices(["b", "c", "a", "b", 1])
    assert found.tolist() == [1, -1, 0, 1, -1] and found.dtype == np.int32


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alicia", "user: unknown user 'alicia'; expected one of 3 ids; did you mean 'alice'?"),
        ("zebra", "user: unknown user 'zebra'; expected one of 3 ids; known: alice, bob, carol"),
        ("x", "user: unknown user 'x'; expected one of 3 ids; for example 'alice'"),
        ("", "user: unknown user ''; expected one of 3 ids; for example 'alice'"),
    ],
)
def test_an_unknown_id_is_one_line_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        Vocabulary(["alice", "bob", "carol"], kind="user").index(name)
    assert str(refused.value) == said


def test_an_unknown_id_among_very_many_is_still_answered_at_once() -> None:
    names = Vocabulary(size=200_000, kind="item")
    with pytest.raises(
        InputError, match=r"^item: unknown item 'film'; expected one of 200000 ids; "
    ):
        names.index("film")
    with pytest.raises(InputError, match=r"^item: unknown item '200000'"):
        names.index(200_000)


def test_nobody_is_known_to_an_empty_vocabulary() -> None:
    with pytest.raises(InputError, match="expected one of 0 ids"):
        Vocabulary([], kind="user").index("a")


def test_ids_that_would_spoil_a_line_are_cleaned_in_errors() -> None:
    with pytest.raises(InputError) as refused:
        Vocabulary(["a"], kind="user").index("b\n\x1b[31mred" + "x" * 2000)
    assert str(refused.value).isprintable() and len(str(refused.value)) <= 600
