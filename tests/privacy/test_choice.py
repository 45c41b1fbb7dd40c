"""pi as people choose it: (user, item) before user before default, exact at 0 and 1, in external
ids from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import properties  # noqa: F401  # how patient Hypothesis is
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_data import interactions

from entrenous.core.contract.update import Update
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.privacy.choice import Choice, read_choice
from entrenous.systems.fpl import FPL

DATA = interactions([("ann", "x"), ("ann", "z"), ("bob", "x"), ("bob", "y"), ("eve", "z")])
EVERYONE = np.arange(3)


def of(choice: Choice, *users: int) -> list[float]:
    chosen = np.array(users if users else EVERYONE, np.int64)
    return choice.of(chosen, DATA.histories(chosen)).tolist()


# ---- which pi applies ----------------------------------------------------------------------------


def test_an_item_wins_over_the_user_and_the_user_over_the_default() -> None:
    #         ann x  ann z  bob x  bob y  eve z
    choice = Choice(0.5, by_user={0: 0.25}, by_item={(0, 2): 1.0, (1, 0): 0.0})
    assert of(choice) == [0.25, 1.0, 0.0, 0.5, 0.5]


def test_rows_follow_the_order_of_the_users_asked_for() -> None:
    choice = Choice(0.5, by_user={0: 0.25}, by_item={(1, 1): 1.0})
    assert of(choice, 2) == [0.5]
    assert of(choice, 1, 0) == [0.5, 1.0, 0.25, 0.25]
    assert of(choice, 2, 0) == [0.5, 0.25, 0.25]


CHANCE = st.floats(0, 1)
PAIRS = st.tuples(st.integers(0, 2), st.integers(0, 2))


@given(CHANCE, st.dictionaries(st.integers(0, 2), CHANCE), st.dictionaries(PAIRS, CHANCE))
def test_it_is_what_looking_it_up_says(
    default: float, users: Mapping[int, float], pairs: Mapping[tuple[int, int], float]
) -> None:
    rows = zip(DATA.user.tolist(), DATA.item.tolist(), strict=True)
    wanted = [np.float32(pairs.get((user, item), users.get(user, default))) for user, item in rows]
    assert of(Choice(default, users, pairs)) == wanted


@pytest.mark.parametrize("bad", [-0.001, 1.001, float("nan"), float("inf")])
def test_a_pi_that_is_no_probability(bad: float) -> None:
    with pytest.raises(
        InputError, match=r"^pi: default has .*; expected a probability from 0 to 1$"
    ):
        Choice(bad)
    with pytest.raises(InputError, match=r"^pi: user 2 has "):
        Choice(1.0, by_user={2: bad})
    with pytest.raises(InputError, match=r"^pi: user 2, item 1 has "):
        Choice(1.0, by_item={(2, 1): bad})


def test_its_name_tells_choices_apart_but_not_who_chose_what() -> None:
    a, b, c = Choice(0.5, {0: 0.25}), Choice(0.5, {0: 0.25}), Choice(0.5, {1: 0.25})
    assert repr(a) == repr(b) != repr(c)
    assert repr(a).startswith(
        "Choice(default=0.5, users=1, pairs=0, sha256="
    ) and "0.25" not in repr(a)


# ---- what it does in FPL -------------------------------------------------------------------------


def sent(choice: float | Choice, data: Interactions) -> Update:
    """What all devices send in one round of 200 triples each."""
    fpl = FPL(factors=3, triples=200, pi=choice).configured(data.catalogue)
    users = np.arange(len(data.users))
    server, devices = (
        fpl.init_server(data.catalogue, key(0, "server")),
        fpl.init_devices(users, data.catalogue, key(0, "devices")),
    )
    return fpl.local(server, devices, data.histories(users), users, key(0, "round"))[1]


def test_what_is_not_shared_never_leaves() -> None:
    """ann shares nothing, bob all but item 1, eve everything; the other rows are negatives."""
    data = interactions(
        [(user, f"i{item}") for user in ("ann", "bob", "eve") for item in range(4)]
        + [("zed", f"i{item}") for item in range(4, 30)]
    )
    item = [data.items.index(f"i{n}") for n in range(4)]
    update = sent(Choice(1.0, by_user={0: 0.0}, by_item={(1, item[1]): 0.0}), data)
    rows = [set(update.item[update.ptr[user] : update.ptr[user + 1]].tolist()) for user in range(3)]
    assert rows[0].isdisjoint(item)
    assert rows[1] & set(item) == {item[0], item[2], item[3]}
    assert rows[2] >= set(item)


def test_a_choice_of_one_number_is_that_number() -> None:
    for pi in (0.0, 0.3, 1.0):
        a, b, c = (
            sent(pi, DATA),
            sent(Choice(pi), DATA),
            sent(Choice(1 - pi, by_user={0: pi, 1: pi, 2: pi}), DATA),
        )
        assert a.item.tobytes() == b.item.tobytes() == c.item.tobytes()
        assert a.rows["q"].tobytes() == b.rows["q"].tobytes() == c.rows["q"].tobytes()


# ---- files ---------------------------------------------------------------------------------------


def read(path: Path, text: str) -> Choice:
    path.write_text(text, encoding="utf-8")
    return read_choice(str(path), DATA)


@pytest.mark.parametrize(
    ("text", "pi"),
    [
        ("user,pi\nbob,0.5\n", [1, 1, 0.5, 0.5, 1]),
        ("user,pi\n*,0.25\nbob,0.5\n", [0.25, 0.25, 0.5, 0.5, 0.25]),
        ("user,pi\nbob,0.5\n*,0.25\n", [0.25, 0.25, 0.5, 0.5, 0.25]),
        ("user,item,pi\nbob,x,0\nann,,0.5\n*,,0.25\n", [0.5, 0.5, 0, 0.25, 0.25]),
        ("pi,item,user\n0,x,bob\n", [1, 1, 0, 1, 1]),
        ("\ufeffuser,pi\r\nbob,0\r\n\r\neve,1\r\n", [1, 1, 0, 0, 1]),
        ('user,pi\n"bob","1e-1"\n', [1, 1, np.float32(0.1), np.float32(0.1), 1]),
        ("user,pi\n", [1, 1, 1, 1, 1]),
    ],
)
def test_a_file_in_external_ids(text: str, pi: list[float], tmp_path: Path) -> None:
    assert of(read(tmp_path / "pi.csv", text)) == pi


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "the header is ''; expected user,pi or user,item,pi"),
        ("user,share\nbob,1\n", 1, "the header is 'user,share'; expected user,pi or user,item,pi"),
        ("user,pi\nbob,1.01\n", 2, "pi is '1.01'; expected a number from 0 to 1"),
        ("user,pi\nbob,\n", 2, "pi is ''; expected a number from 0 to 1"),
        (
            "user,pi\nann,1\nbob,0,5\n",
            3,
            "a wrong number of columns; expected as many as in the header",
        ),
        (
            "user,pi\nbobby,1\n",
            2,
            "unknown user 'bobby'; expected one of 3 ids; did you mean 'bob'?",
        ),
        ("user,item,pi\nbob,q,1\n", 2, "unknown item 'q'; expected one of 3 ids; for example 'x'"),
        (
            "user,pi\nbob,1\nann,1\nbob,1\n",
            4,
            "user 'bob' is given twice; expected one line, as in ",
        ),
        ("user,item,pi\nbob,x,1\nbob,x,0\n", 3, "user 'bob', item 'x' is given twice"),
        ("user,pi\n*,1\n*,0\n", 3, "user '*' is given twice"),
    ],
)
def test_a_wrong_line_is_named(text: str, line: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path / "pi.csv", text)
    assert str(refused.value).startswith(f"{tmp_path / 'pi.csv'}:{line}: {said}")


@pytest.mark.parametrize("kind", ["missing", "folder", "latin-1"])
def test_a_file_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "pi.csv"
    if kind == "folder":
        path.mkdir()
    if kind == "latin-1":
        path.write_bytes("user,pi\nJosé,1\n".encode("latin-1"))
    with pytest.raises(
        InputError,
        match=r"pi\.csv: cannot be read \(.*\); expected a CSV file with the header user,pi",
    ):
        read_choice(str(path), DATA)
