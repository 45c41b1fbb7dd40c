"""Events: made from rows, written and read back, and refused where they cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from events_file import write_events
from small_data import interactions, random_data, rows_of

import entrenous
from entrenous import Event, Events, InputError
from entrenous.data.events import KINDS, Standing
from entrenous.data.interactions import SECOND

LIFE = [
    Event(0, "join", "ann"),
    Event(0, "item", "", "a", 1.0, {"title": "=SUM(1)", "genre": "x\u2028y"}),
    Event(0, "row", "ann", "a", 3.7),
    Event(5, "item", "", "b"),
    Event(5, "join", "bob"),
    Event(6, "row", "bob", "a", 1.0),
    Event(6, "row", "bob", "b", 2.0),
    Event(7, "away", "ann"),
    Event(8, "forget", "bob", "a"),
    Event(8, "retire", "", "b"),
    Event(9, "present", "ann"),
    Event(9, "leave", "ann"),
    Event(11, "join", "ann"),
    Event(12, "row", "ann", "a"),
    Event(12, "forget", "bob"),
]


def rows_after(events: Events, stop: int) -> set[tuple[str, str]]:
    standing = Standing()
    for event in events.numbers(0, stop):
        assert not standing.take(*event)
    return rows_of(standing.interactions(events, len(events.users), len(events.items)))


def test_what_is_there_after_each_event() -> None:
    events = Events.of(LIFE)
    assert rows_after(events, 3) == {("ann", "a")}
    assert rows_after(events, 7) == {("ann", "a"), ("bob", "a"), ("bob", "b")}
    assert rows_after(events, 9) == {("ann", "a"), ("bob", "b")}
    # A retired item has no rows, and a user who leaves takes theirs along.
    assert rows_after(events, 10) == {("ann", "a")}
    assert rows_after(events, 12) == set()
    assert rows_after(events, 14) == {("ann", "a")}
    assert rows_after(events, 15) == {("ann", "a")}
    assert [user for user in events.users.ids] == ["ann", "bob"]


def same(one: Events, other: Events) -> None:
    assert list(one) == list(other)
    assert {name: texts.tolist() for name, texts in one.features.items()} == {
        name: texts.tolist() for name, texts in other.features.items()
    }


def test_a_file_says_what_events_say(tmp_path: Path) -> None:
    events = Events.of([event._replace(at=event.at * SECOND) for event in LIFE])
    same(Events.read(write_events(events, tmp_path / "life.csv")), events)


def test_the_rows_of_data_are_events_in_the_order_of_time(tmp_path: Path) -> None:
    data = random_data()
    events = Events.of_rows(data)
    same(Events.read(write_events(events, tmp_path / "rows.csv")), events)
    assert np.all(np.diff(events.at) >= 0)
    assert rows_after(events, len(events)) == rows_of(data)
    # Users and items come with their first row.
    kinds = [KINDS[kind] for kind in events.kind.tolist()]
    assert kinds[-1] == "row" and kinds[0] == "join"
    first = [kinds.index("row", place) for place, kind in enumerate(kinds) if kind == "join"]
    assert all(
        place - start <= 2
        for start, place in zip(
            [place for place, kind in enumerate(kinds) if kind == "join"], first, strict=True
        )
    )
    microseconds = interactions([("ann", "a", 3), ("ann", "b", 1_500_000)])
    assert [event.at for event in Events.of_rows(microseconds)][-1] == 1_500_000


def test_windows_hold_all_events_in_order() -> None:
    events = Events.of_rows(random_data())
    number = int((events.kind == KINDS.index("row")).sum())
    for windows in (events.windows(7), events.windows(1, seconds=True)):
        assert windows.ptr[0] == 0 and windows.ptr[-1] == len(events)
        assert np.all(np.diff(windows.ptr) > 0)
    of_seven = [
        int((events.kind[start:stop] == KINDS.index("row")).sum())
        for start, stop in zip(events.windows(7).ptr[:-1], events.windows(7).ptr[1:], strict=True)
    ]
    assert of_seven[:-1] == [7] * (number // 7)
    seconds = Events.of([event._replace(at=event.at * SECOND) for event in LIFE])
    assert len(seconds.windows(1, seconds=True).ptr) - 1 == len({event.at for event in LIFE})


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Event(4, "row", "ann", "a"), "time goes back"),
        (Event(20, "join", "ann"), "user 'ann' has joined already"),
        (Event(20, "item", "", "a"), "item 'a' has appeared already"),
        (Event(20, "row", "eve", "a"), "user 'eve' is not a member"),
        (Event(20, "row", "ann", "z"), "item 'z' has not appeared"),
        (Event(20, "row", "ann", "b"), "item 'b' is retired"),
        (Event(20, "retire", "", "b"), "item 'b' is retired"),
        (Event(20, "retire", "", "z"), "item 'z' has not appeared"),
        (Event(20, "forget", "ann", "z"), "user 'ann' has no row of item 'z'"),
        (Event(20, "row", "ann", "a", float("nan")), "value is nan"),
        (Event(20, "row", "ann", "a", 1e39), "value is 1e"),
        (Event(1 << 60, "row", "ann", "a"), "time is 11529"),
        (Event(20, "row", "ann"), "a row without its item"),
        (Event(20, "join"), "a join without its user"),
        (Event(20, "join", "eve", "a"), "a join has no item"),
        (Event(20, "item", "ann", "c"), "a item has no user"),
        (Event(20, "rwo", "ann", "a"), "unknown event 'rwo'"),
        (Event(20, "join", "x" * 1001), "user has more than 1000 characters"),
    ],
)
def test_an_event_that_cannot_be_is_refused(bad: Event, said: str) -> None:
    with pytest.raises(InputError) as refused:
        Events.of([*LIFE, bad])
    line = str(refused.value)
    assert line.startswith(f"events: event {len(LIFE) + 1}: ") and said in line
    assert "\n" not in line


HEADER = "time,event,user,item,value\n"
BAD_CSV = [
    ("", "the file is empty"),
    ("event,user\n0,1\n", "its columns are 'event,user'; expected a table with the columns time"),
    (HEADER.replace("user", "time") + "0,join,ann,,\n", "column name 'time' occurs twice"),
    (HEADER, "there are no rows"),
    (HEADER + "0,join,ann\n", ":2: 3 columns; expected a table with the columns time, event"),
    (HEADER + "x,join,ann,,\n", "time is 'x'"),
    (HEADER + "nan,join,ann,,\n", "time is 'nan'"),
    (HEADER + "1e300,join,ann,,\n", "time is '1e300'"),
    (HEADER + "0,join,ann,,much\n", "value is 'much'"),
    (HEADER + "0,join,ann,,inf\n", "value is 'inf'"),
    (HEADER + '0,join,"ann,,\n', ":2: a quoted field does not end in its line"),
    (HEADER + "5,join,ann,,\n4,join,bob,,\n", ":3: time goes back"),
    (f"{HEADER[:-1]},title\n0,join,ann,,,Fargo\n", "title is said here"),
]


@pytest.mark.parametrize(("text", "said"), BAD_CSV)
def test_a_bad_line_of_csv_is_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        Events.read(path)
    assert str(refused.value).startswith(str(path)) and said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_fractions_of_a_second_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text(HEADER + "1.25,join,7,,\n2,item,,9,\n2,row,7,9,\n")
    assert [event.at for event in Events.read(path)] == [1.25 * SECOND, 2 * SECOND, 2 * SECOND]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bytes.csv"
    path.write_bytes(b"\xff\xfe\x00time")
    for name in (path, tmp_path / "absent.csv", tmp_path):
        with pytest.raises(InputError, match=rf"^{name}.*; expected a table with the columns"):
            Events.read(name)


def test_rows_without_times_make_no_events() -> None:
    with pytest.raises(InputError, match="the data has no times"):
        Events.of_rows(interactions([("ann", "a")], times=False))
    assert entrenous.Events is Events
