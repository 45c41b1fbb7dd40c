"""`entrenous federation try`: everything happens while a federation runs, over real sockets and under
masks; and peers of which some are killed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from entrenous_network.node.node_store import PAUSED
from entrenous_network.operate import trial, trial_peers
from entrenous_network.operate.plans import TrialPlan
from entrenous_network.operate.trial import Trial
from entrenous_network.server.accuracy import noted_tests
from events_file import write_events
from federation_links import in_one_line
from short_stream import ITEMS, PEOPLE, events, plan

from entrenous import Device, InputError

pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, list[str]]:
    """A federation to which all of it has happened, and what was said."""
    folder = tmp_path_factory.mktemp("stream")
    path = write_events(events(), folder / "events.csv")
    lines: list[str] = []
    tried = Trial(folder / "f", plan(path), lines.append)
    tried.live()
    return tried, lines


def test_people_and_items_come_and_rounds_go_on(lived: Any) -> None:
    lines = lived[1]
    assert any("10 of 16 people have joined; 12 of 18 items are there" in line for line in lines)
    windows = [line for line in lines if line.startswith("round ")]
    assert len(windows) == 3
    assert all("16 people are there" in line for line in windows)
    assert "15 of 16 people are there, 17 items" in windows[-1]


def listed(lived: Any, user: str) -> set[str]:
    """The items that a device recommends; none before its first model."""
    with Device(lived[0].of(user)) as one, suppress(InputError):
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
        with Device(lived[0].of(user)) as one:
            assert {row["item"] for row in one.export()} == items, user
    with Device(lived[0].of("u1")) as away:
        assert away._node.store.fact(PAUSED)
    # Who left and came again takes part again, on the same device.
    with Device(lived[0].of("u0")) as again:
        assert not again._node.store.fact(PAUSED)


def test_new_rows_are_tested(lived: Any) -> None:
    sums = noted_tests(lived[0].server)
    # 14 people have a new row in each of six times; those who take part say so.
    assert sum(one.people for one in sums) > 5


def test_the_command_says_where_to_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With an algorithm whose devices keep vectors."""
    path = write_events(events(), tmp_path / "events.csv")
    asked = ("--stream", path, "--rounds", 1, "--algorithm", "fpl", "--set", "factors=4", "--json")
    printed = Command(capsys)("federation", "try", tmp_path / "f", *asked)
    assert printed.code == 0 and printed.json["round"] >= 2 and not printed.json["running"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"load": {"item": "x"}}, "--load: a file of events is read in one way"),
        ({"rounds": 0}, "--rounds: got 0; expected a whole number from 1"),
        ({"nodes": 1}, "1 people have joined by a quarter of the rows; expected at least 3"),
        ({"stream": "no-such-data"}, "no-such-data"),
    ],
)
def test_what_makes_no_federation_gets_one_line(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = write_events(events(), tmp_path / "events.csv")
    with in_one_line(said):
        Trial(tmp_path / "f", plan(path, **changes), lambda line: None)
    assert not (tmp_path / "f").exists()


def test_a_full_folder_is_refused_before_any_data_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("")
    for module in (trial, trial_peers):
        monkeypatch.setattr(module, "load", lambda *_: pytest.fail("data were fetched"))
    with pytest.raises(InputError, match="is not empty"):
        Trial(tmp_path, TrialPlan().complete(), print)
    with pytest.raises(InputError, match="is not empty"):
        trial_peers.show(tmp_path, TrialPlan(peers=True).complete(), print)
