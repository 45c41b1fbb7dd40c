"""`python -m entrenous_flower.resident FOLDER PID`: keeps a node open between Flower's messages,
each of which has another process.

A node's secrets of a secure sum are in memory alone, so that a stolen disk tells nothing; a process
that ends with each message would drop out of every sum. The process is started by the first
message, listens on a socket in the node's folder that its owner alone may use, and ends with the
program that started the first message's process, or when nothing has come for a while.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Client, Connection
from pathlib import Path

from entrenous.core.errors import EntrenousError, one_line
from entrenous.core.lock import holding, is_held

SOCKET, LOG = "resident.sock", "resident.log"
PATIENCE = 120.0  # seconds for a node to open: its rows are read, and its loops compiled
IDLE = 900.0  # seconds without a message
LOOK = 1.0  # seconds between two looks whether to end
Answer = Callable[[bytes], bytes]


def ask(folder: Path, frame: bytes) -> bytes:
    """The answer of the node of a folder to a frame, from the process that keeps it open, which is
    started if there is none.

    Raises EntrenousError where that does not start.
    """
    until, started = time.monotonic() + PATIENCE, None
    while True:
        with (
            suppress(OSError, EOFError),
            _address(folder) as address,
            Client(address, "AF_UNIX") as line,
        ):
            line.send_bytes(frame)
            return line.recv_bytes()
        if started is None:
            started = _start(folder)
        elif (
            started.poll() and not is_held(folder / "lock")
        ) or time.monotonic() > until:  # held: another message's is opening
            raise EntrenousError(f"{folder}: the node does not open: {_last_line(folder / LOG)}")
        time.sleep(0.05)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """Starts the process, with a log in the folder."""
    command = [sys.executable, "-m", "entrenous_flower.resident", str(folder), str(os.getppid())]
    with open(os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def stay(folder: Path, parent: int, answer: Answer) -> None:
    """Answer what comes through the folder's socket, one after the other, until it is time to end.
    parent: the process to end with.
    """
    with _address(folder) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        (folder / SOCKET).unlink(
            missing_ok=True
        )  # of one that was killed: this process holds the folder's lock
        door.bind(address)
        door.listen(16)
        door.settimeout(LOOK)
        last = time.monotonic()
        while _is_alive(parent) and time.monotonic() - last < IDLE:
            with suppress(TimeoutError):
                _one(door, answer)
                last = time.monotonic()
        (folder / SOCKET).unlink(missing_ok=True)


def _one(door: socket.socket, answer: Answer) -> None:
    """One message and its answer. Raises TimeoutError if none comes. Who asked may be gone: it will
    ask again.
    """
    line = Connection(door.accept()[0].detach())
    with line, suppress(OSError, EOFError):
        line.send_bytes(answer(line.recv_bytes()))


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The address of the folder's socket, by a descriptor of the folder: a path of more than about
    100 bytes is none.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return lines[-1] if lines else "its process has ended"


def main(folder: Path, parent: int) -> None:
    """Open the node of a folder and keep it open."""
    from entrenous_network.node.node import FederatedNode

    os.umask(0o077)
    with holding(folder / "lock"), closing(FederatedNode(folder)) as node:
        stay(folder, parent, node.answer)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    except (EntrenousError, OSError) as why:
        sys.exit(one_line(str(why)))
