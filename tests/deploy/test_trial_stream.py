"""`entrenous federation try --stream`: everything happens while a federation runs, over real sockets
and under masks.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command

from entrenous import Device, InputError
from entrenous.data.events import Event, Events
from entrenous.deploy.node.node_store import PAUSED
from entrenous.deploy.operate.plans import TrialPlan
from entrenous.deploy.operate.trial_stream import Lived, carry_out, events_of
from entrenous.deploy.server.accuracy import noted_tests

PEOPLE = 16
ITEMS = 18


def events() -> list[Event]:
    """Ten of 16 people join at once, and twelve of 18 items are there. Later a person leaves and comes
    again, one is away, one forgets a row, and an item is retired.
    """
    draws = np.random.default_rng(5)
    found: list[Event] = []
    users = [f"u{number}" for number in range(PEOPLE)]
    items = [f"i{number}" for number in range(ITEMS)]
    had: dict[str, set[str]] = {user: set() for user in users}

    def row(at: int, user: str, among: list[str]) -> None:
        free = [item for item in among if item not in had[user]]
        if free:
            item = free[int(draws.integers(len(free)))]
            had[user].add(item)
            found.append(Event(at, "row", user, item))

    found += [Event(0, "item", item=item) for item in items[:12]]
    found += [Event(0, "join", user) for user in users[:10]]
    for user in users[:10]:
        for _ in range(5):
            row(0, user, items[:12])
    found += [Event(1, "item", item=item) for item in items[12:]]
    found += [Event(1, "join", user) for user in users[10:]]
    for at in range(1, 6):
        for user in users:
            if user not in ("u0", "u1"):
                row(at, user, items[1:])
    forgotten = next(event for event in found if event.kind == "row" and event.user == "u2")
    last = [
        Event(9, "leave", "u0"),
        Event(9, "away", "u1"),
        Event(9, "forget", "u2", forgotten.item),
        Event(9, "retire", item="i0"),
    ]
    found += last
    for user in users[2:]:
        row(9, user, items[1:])
    # One forgets everything, and goes on with a row.
    found.append(Event(10, "forget", "u4"))
    had["u4"] = set()
    row(10, "u4", items[1:])
    # Who left comes again, with other rows; and so does another one.
    found.append(Event(10, "leave", "u3"))
    for user in ("u0", "u3"):
        found.append(Event(10, "join", user))
        row(10, user, items[1:])
    return found


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lived, list[str]]:
    """A federation to which all of it has happened."""
    folder = tmp_path_factory.mktemp("stream")
    path = Events.of(events(), clock="round").write(folder / "events.csv")
    lines: list[str] = []
    plan = TrialPlan(stream=str(path), rounds=3, settings={"factors": 4}, nodes=PEOPLE)
    ended = carry_out(folder / "f", plan, lines.append)
    return folder / "f", ended, lines


def device(lived: Any, user: str) -> Device:
    """The newest device of a user, opened."""
    for folder in sorted((lived[0] / "nodes").iterdir(), reverse=True):
        with Device(folder) as one:
            if one.users == [user]:
                return Device(folder)
    raise AssertionError(f"{user} has no device")


def test_people_and_items_come_and_rounds_go_on(lived: Any) -> None:
    _, ended, lines = lived
    windows = ended.windows
    last = windows[-1]
    assert [window.people for window in windows] == [16, 16, 16]
    assert last.present == 15 and last.items == ITEMS - 1
    rounds = [window.rounds for window in windows]
    assert rounds == sorted(rounds) and rounds[0] >= 1
    assert windows[0].megabytes < last.megabytes
    joined = "10 of 18 people have joined, 4 of them as customers of 4 shops; 12 of 18 items are"
    assert joined in lines[1]


def test_the_same_rounds_in_one_process_end_with_the_same_bytes(lived: Any) -> None:
    ended = lived[1]
    assert ended.sha256 == ended.again.sha256
    assert ended.lost == 0
    # Nobody is asked by name: the lots of those who are there say who answers.
    assert 0 <= ended.again.late < ended.again.drawn


def listed(lived: Any, user: str) -> set[str]:
    """The items that a device recommends; none before its first model."""
    with device(lived, user) as one, suppress(InputError):
        return {best["item"] for best in one.recommend(ITEMS).items}
    return set()


def test_who_came_late_recommends_and_nobody_lists_a_retired_item(lived: Any) -> None:
    """A device has a model once its own lot has drawn it, which in a few rounds is most of them."""
    late = [listed(lived, f"u{number}") for number in range(10, PEOPLE)]
    first = [listed(lived, f"u{number}") for number in range(4, 10)]
    assert any(late) and any(first)
    assert not any("i0" in items for items in (*late, *first))


def test_each_device_has_the_rows_that_its_user_has(lived: Any) -> None:
    expected: dict[str, set[str]] = {f"u{number}": set() for number in range(PEOPLE)}
    for event in events():
        if event.kind == "row":
            expected[event.user].add(event.item)
        elif event.kind == "forget" and event.item:
            expected[event.user].remove(event.item)
        elif event.kind in ("forget", "leave"):
            expected[event.user] = set()
    for user, items in expected.items():
        with device(lived, user) as one:
            assert {row["item"] for row in one.export()} == items, user
    with device(lived, "u1") as away:
        assert away._node.store.fact(PAUSED)


def test_new_rows_are_tested(lived: Any) -> None:
    folder = lived[0] / "server"
    sums = noted_tests(folder)
    # 14 people have a new row in each of six times; those who take part say so.
    assert sum(one.people for one in sums) > 5


def test_the_command_draws_what_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Devices of FPL keep vectors, which are the beginning's after everything was forgotten."""
    path = Events.of(events(), clock="round").write(tmp_path / "events.csv")
    command = Command(capsys)
    asked = ("--stream", path, "--rounds", 3, "--algorithm", "fpl", "--set", "factors=4", "--json")
    printed = command("federation", "try", tmp_path / "f", *asked)
    assert printed.code == 0
    assert printed.json["same"] and printed.json["network"] == printed.json["simulation"]
    window = printed.json["windows"][-1]
    assert window["people"] == 16 and set(window) >= {"hit_rate", "low", "high", "megabytes"}
    page = (tmp_path / "f" / "stream.html").read_text()
    assert page.count("<svg") == 4 and "HR@10" in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"peers": True}, "--peers: a stream runs with a server and under masks"),
        ({"profile": "paper"}, "--profile: a stream runs with a server and under masks"),
        (
            {"protocol": "loo-99"},
            "--protocol: a stream runs with a server and under masks, and holds",
        ),
        ({"load": {"item": "x"}}, "--load: a file of events is read in one way"),
        ({"rounds": 0}, "--rounds: got 0; expected a whole number from 1"),
        ({"nodes": 1}, "1 people have joined by a quarter of the rows; expected at least 2"),
        ({"stream": "no-such-data"}, "no-such-data"),
    ],
)
def test_what_makes_no_federation_gets_one_line(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = Events.of(events(), clock="round").write(tmp_path / "events.csv")
    plan = TrialPlan(**{"stream": str(path), "rounds": 2, **changes})
    with pytest.raises(InputError) as refused:
        carry_out(tmp_path / "f", plan, lambda line: None)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "f").exists()


def test_only_the_first_people_and_their_items_are_in_it(tmp_path: Path) -> None:
    path = Events.of(events(), clock="round").write(tmp_path / "events.csv")
    told: list[str] = []
    some = events_of(str(path), 3, {}, told.append)
    assert told == ["the first 3 of 16 people who join, and the items they have"]
    assert list(some.users.ids) == ["u0", "u1", "u2"]
    theirs = {event.item for event in some if event.kind == "row"}
    assert set(some.items.ids) == theirs | {"i0"} - ({"i0"} - theirs)


def test_some_people_of_a_data_set_leave_after_their_last_row(tmp_path: Path) -> None:
    """A data set does not say who leaves."""
    rows = ["user\titem\tvalue\ttime"]
    for user in range(20):
        rows += [
            f"u{user:02d}\ti{item}\t1\t{100 * user + item}" for item in range(4) if item != user % 4
        ]
    path = tmp_path / "rows.tsv"
    path.write_text("\n".join([*rows, ""]))
    told: list[str] = []
    some = list(events_of(str(path), 20, {}, told.append))
    left = {event.user: place for place, event in enumerate(some) if event.kind == "leave"}
    assert sorted(left) == ["u09", "u19"]
    for user, place in left.items():
        assert all(event.user != user for event in some[place + 1 :])
    between = [event for event in some[: left["u09"]] if event.user > "u09"]
    assert between and told[-1].startswith("one person in 10 leaves")
