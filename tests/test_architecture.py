"""docs/architecture.md and CONTRIBUTING.md against the tree: the same rooms, and the same arrows."""

from __future__ import annotations

import re
from pathlib import Path

from paths import NETWORK, ROOT, SOURCE

from tests.test_layers import graph

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def rooms_of(folder: Path) -> set[str]:
    """The packages directly in a folder."""
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def arrows_between_rooms() -> dict[str, set[str]]:
    """{room: the rooms that its files import from}."""
    arrows: dict[str, set[str]] = {room: set() for room in rooms_of(SOURCE)}
    for file, targets in graph().items():
        room = file.split("/")[0]
        others = {target.split("/")[0] for target in targets if "/" in target}
        if "/" in file:
            arrows[room] |= others - {room}
    return arrows


def needed(arrows: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The arrows that no longer way replaces (the transitive reduction of a graph without circles)."""
    return {
        (room, target)
        for room, targets in arrows.items()
        for target in targets
        if not any(target in below(arrows, other) for other in targets - {target})
    }


def below(arrows: dict[str, set[str]], room: str) -> set[str]:
    """All rooms that a room reaches."""
    reached: set[str] = set()
    waiting = set(arrows[room])
    while waiting:
        other = waiting.pop()
        reached.add(other)
        waiting |= arrows[other] - reached
    return reached


def test_an_arrow_that_another_way_replaces_is_not_needed() -> None:
    arrows = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert needed(arrows) == {("a", "b"), ("b", "c")}


def test_the_picture_is_true() -> None:
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", PAGE, re.MULTILINE))
    assert drawn == needed(arrows_between_rooms())


def test_every_room_is_in_the_table_from_the_ground_up() -> None:
    told = ROW.findall(PAGE)
    assert set(told) == rooms_of(SOURCE) | rooms_of(NETWORK)
    arrows = arrows_between_rooms()
    houses = [room for room in told if room in arrows]
    for place, room in enumerate(houses):
        assert arrows[room] <= set(houses[:place]), room


def test_contributing_has_the_same_map() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(ROW.findall(text)) == rooms_of(SOURCE)


def test_the_files_to_begin_with_are_there() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE))
    assert len(named) > 20
    roots = (SOURCE, NETWORK.parent)
    assert [name for name in named if not any((root / name).is_file() for root in roots)] == []
