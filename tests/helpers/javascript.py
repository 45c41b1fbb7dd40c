"""Devices in JavaScript (tests/js) for tests: their commands, and one that a test drives."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any, final

from paths import ROOT

from entrenous.data.interactions import Interactions
from entrenous.deploy.operate.enrolment import EnrolmentRequest

SCRIPTS = ROOT / "tests" / "js"
DEVICE = SCRIPTS / "device.mjs"
NODE = shutil.which("node")
PATIENCE = 120.0  # seconds for what takes five on an idle machine


def in_node(*words: object) -> list[str]:
    """The command of the device, or of another script next to it."""
    assert NODE is not None
    return [NODE, "--no-warnings", *map(str, words)]


def done(*words: object) -> subprocess.CompletedProcess[str]:
    """What a script said, at its end."""
    return subprocess.run(in_node(*words), capture_output=True, text=True, timeout=PATIENCE)


def requested(folder: Path, name: str) -> EnrolmentRequest:
    """The request of a new device."""
    ended = done(DEVICE, "identity", folder, name)
    assert ended.returncode == 0, ended.stderr
    return EnrolmentRequest.read(folder / "request.json")


def joined(
    folder: Path, invitation: Path, rows: Interactions, user: int, insisted: Collection[str]
) -> None:
    """Joins with the rows of one user. insisted: such as people=60."""
    file = folder.with_suffix(".csv")
    file.write_text(csv_of(rows, user))
    ended = done(DEVICE, "join", folder, invitation, file, *insisted)
    assert ended.returncode == 0, ended.stderr


def csv_of(rows: Interactions, user: int) -> str:
    """The rows of one user as a file."""
    numbers = rows.item[rows.user == user].tolist()
    return "\n".join(["user,item", *(f"me,{rows.items[number]}" for number in numbers)])


@final
class JavaScript:
    """A device in JavaScript that answers the frames that a test gives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            in_node(SCRIPTS / "answering.mjs", folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, what: str, text: str = "") -> Any:
        """What the device says to a line: see answering.mjs."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([what, text]) + "\n")
        process.stdin.flush()
        said = process.stdout.readline()
        assert said, f"the device has ended: {what}"
        return json.loads(said)

    def answer(self, frame: bytes) -> bytes:
        """The answer to a frame."""
        return base64.b64decode(self.tell("frame", base64.b64encode(frame).decode()))

    @property
    def state(self) -> dict[str, Any]:
        """What is in state.json."""
        state: dict[str, Any] = self.tell("state")
        return state

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(PATIENCE)
