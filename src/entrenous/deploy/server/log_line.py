"""`LogLine`: a line of a server's log that says for programs, too, what it is about."""

from __future__ import annotations

import json
import time
from typing import Literal, Self, final

from ...core.printed import plain

LogFormat = Literal["text", "json"]


@final
class LogLine(str):
    """A text for people, an event and a level; where they are known a round, a node's name and a
    code.
    """

    event: str
    level: str
    about: dict[str, object]

    def __new__(
        cls,
        text: str,
        event: str,
        *,
        level: str = "info",
        round: int | None = None,
        node: str | None = None,
        code: str | None = None,
    ) -> Self:
        own = super().__new__(cls, text)
        own.event, own.level = event, level
        own.about = {
            key: value
            for key, value in (("round", round), ("node", node), ("code", code))
            if value is not None
        }
        return own


def written(text: str, form: LogFormat) -> bytes:
    """A line as it is in the log, with the time."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if form == "text":
        return f"{when} {plain(text)}\n".encode()
    line = text if isinstance(text, LogLine) else LogLine(text, "note")
    return (
        json.dumps(
            {
                "time": when,
                "level": line.level,
                "event": line.event,
                **line.about,
                "text": str(line),
            }
        )
        + "\n"
    ).encode()
