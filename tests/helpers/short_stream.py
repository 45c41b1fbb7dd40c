"""A short stream of events that happen to a federation, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from entrenous_network.operate.plans import TrialPlan

from entrenous.data.events import Event

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


def plan(path: Path, **changes: Any) -> TrialPlan:
    """A short trial of the events of a file."""
    usual = {"stream": str(path), "rounds": 3, "settings": {"factors": 4}, "nodes": PEOPLE}
    return TrialPlan(**{**usual, **changes}).complete()
