"""The files that an Update passes through from a device to the model, over HTTPS, in order: python tests/update_to_model.py

Not counted: core/ (the language it is written in), the reading and writing of arrays (wire/), and where a copy is kept (the node's store,
the server's journal and folder).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src" / "entrenous"
MOST = 12
WAY = (
    ("deploy/node.py", "_work"),  # trains the asked devices
    ("deploy/contribution.py", "of_update"),  # arrays to bytes; back again, with all checks: read_update
    ("deploy/responder.py", "seal_for"),  # for which round, from whom
    ("deploy/frames.py", "seal"),  # signed
    ("deploy/links/polling.py", "_connected"),  # sent
    ("deploy/links/application.py", "answer"),  # received, measured
    ("deploy/links/traffic.py", "arrived"),  # waits for the server's thread
    ("deploy/links/https.py", "receive"),  # the link's port
    ("deploy/exchange.py", "gather"),  # answers that came together
    ("deploy/collector.py", "take"),  # of this round
    ("deploy/intake.py", "receive_all"),  # checked, journalled, added up
    ("deploy/server.py", "_commit"),  # the next model
)


def called(act: Callable[[], Any]) -> set[tuple[str, str]]:
    """(file, function) of all that is called in the package while `act` runs, in this thread and in those it starts."""
    seen: set[tuple[str, str]] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)):
            seen.add((Path(path).relative_to(SOURCE).as_posix(), frame.f_code.co_name))

    sys.setprofile(look)
    threading.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def main() -> None:
    """Prints a line for each file of the way."""
    for number, (file, function) in enumerate(WAY, 1):
        print(f"{number:2} {file:28} {function:12} {len((SOURCE / file).read_text(encoding='utf-8').splitlines()):4} lines")


if __name__ == "__main__":
    main()
