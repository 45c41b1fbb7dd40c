"""Files of events."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from entrenous.data.events import COLUMNS, Event
from entrenous.data.interactions import SECOND


def write_events(events: Iterable[Event], path: Path) -> Path:
    """A file of events."""
    listed = list(events)
    features = list(dict.fromkeys(name for event in listed for name in event.features))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, *features])
        for at, kind, user, item, value, about in listed:
            said = value if kind == "row" else ""
            texts = [about.get(name, "") for name in features]
            writer.writerow([at / SECOND, kind, user, item, said, *texts])
    return path
