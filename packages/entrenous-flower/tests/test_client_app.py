"""The ClientApp: one node for all messages, whose process ends with its SuperNode; what goes wrong
stays on the node's machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from federation_links import federation, until

pytest.importorskip("flwr")

from entrenous_flower import client_app, resident
from entrenous_flower.apps import folder_of
from entrenous_flower.greeter import Greeter
from entrenous_flower.records import frame_in, record_of
from entrenous_flower.versions import check_flower, is_supported
from entrenous_network.frames.frames import opened
from flwr.app import Context, Message, RecordDict
from grid_in_memory import as_task

from entrenous.core.errors import EntrenousError, InputError
from entrenous.core.lock import holding, is_held


def asked(content: RecordDict, folder: Path | str) -> Message:
    """The reply of a SuperNode whose configuration names a folder."""
    as_task()
    context = Context(
        run_id=1, node_id=7, node_config={"folder": str(folder)}, state=RecordDict(), run_config={}
    )
    return client_app(Message(content, 7, "query"), context)


@pytest.fixture
def ended() -> Iterator[Callable[[Path], None]]:
    """Ends the process that keeps a node open, by its id; also at the end of a test, for every node
    that it was called for.
    """
    folders: list[Path] = []

    def end(folder: Path) -> None:
        folders.append(folder)
        if is_held(folder / "lock"):
            with suppress(ProcessLookupError):
                os.kill(int((folder / "lock").read_text()), signal.SIGKILL)
            until(lambda: not is_held(folder / "lock"))

    yield end
    for folder in list(folders):
        end(folder)


def test_one_process_answers_all_messages_and_another_takes_its_place(
    tmp_path: Path, ended: Callable[[Path], None]
) -> None:
    made = federation(tmp_path / "f", 2, 1)
    (name, folder), greeter = sorted(made.nodes.items())[0], Greeter.of(made.server)
    ended(folder)  # none yet: from now on the fixture looks after it
    processes = []
    for kill in (False, True, False):
        frame, nonce = greeter.hello()
        answer = frame_in(asked(record_of(frame), folder))
        assert answer is not None and greeter.name(answer, nonce) == name
        processes.append((folder / "lock").read_text())
        if kill:
            ended(folder)
    assert processes[0] == processes[1] != processes[2]
    assert (folder / resident.SOCKET).stat().st_mode & 0o777 == 0o700


def test_a_node_that_is_stopped_meanwhile_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks while the process ends finds no socket, or loses the connection: it starts
    another one.
    """
    served: list[bytes] = []

    def start(folder: Path) -> subprocess.Popen[bytes]:
        threading.Thread(
            target=resident.stay,
            args=(folder, os.getpid(), lambda frame: served.append(frame) or frame[::-1]),
        ).start()
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(resident, "IDLE", 1.5)
    monkeypatch.setattr(resident, "_start", start)
    assert resident.ask(tmp_path, b"abc") == b"cba" and served == [b"abc"]
    until(lambda: not (tmp_path / resident.SOCKET).exists())  # nothing came for a while
    assert resident.ask(tmp_path, b"abcd") == b"dcba"
    until(lambda: not (tmp_path / resident.SOCKET).exists())


def test_it_ends_with_the_process_that_it_belongs_to(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(60)
    resident.stay(tmp_path, gone.pid, lambda frame: frame)
    assert list(tmp_path.iterdir()) == []


def test_why_a_node_does_not_open_is_told_on_its_machine_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        EntrenousError, match=r"^this node cannot answer \(EntrenousError\); .* says why$"
    ) as raised:
        asked(record_of(b"a frame"), tmp_path)  # no node's folder
    assert str(tmp_path) not in str(raised.value)
    assert f"the node does not open: {tmp_path}/node.json: no such file" in capfd.readouterr().err
    made = federation(tmp_path / "f", 2, 1)
    folder = next(iter(made.nodes.values()))
    # A process starts for several seconds on a busy machine.
    monkeypatch.setattr(resident, "PATIENCE", 15.0)
    with holding(folder / "lock"), pytest.raises(EntrenousError):
        asked(record_of(b"a frame"), folder)
    assert f"process {os.getpid()} is at work on it" in capfd.readouterr().err


@pytest.mark.parametrize("content", [RecordDict(), record_of(b"")], ids=["nothing", "no-folder"])
def test_a_message_of_another_app_and_a_supernode_without_a_folder(
    content: RecordDict, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EntrenousError):
        asked(content, "")
    told = capfd.readouterr().err
    assert ("another app's" in told) != ("flower-supernode --node-config" in told)


def test_a_folder_is_an_absolute_path_to_one() -> None:
    with pytest.raises(InputError, match="expected an absolute path; --x 'folder=\"/PATH\"'"):
        folder_of({"folder": "server"}, "--x")
    with pytest.raises(InputError, match="/no/such is no folder on this machine"):
        folder_of({"folder": "/no/such"}, "--x")


def test_other_versions_of_flower_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_supported("1.41.0") and not is_supported("1.40.9") and not is_supported("2.0.0")
    monkeypatch.setattr("entrenous_flower.versions.version", lambda name: "1.18.0")
    with pytest.raises(
        InputError,
        match=(
            r"^flwr: version 1.18.0; expected 1.41 or later, below 2; pip install"
            r" entrenous-flower$"
        ),
    ):
        check_flower()


def test_an_answer_is_the_nodes_own_frame(tmp_path: Path, ended: Callable[[Path], None]) -> None:
    """What no server of the federation has signed is refused by the node itself, and the answer
    says so.
    """
    made, other = federation(tmp_path / "f", 2, 1), federation(tmp_path / "g", 2, 1)
    folder = next(iter(made.nodes.values()))
    ended(folder)
    answer = frame_in(asked(record_of(Greeter.of(other.server).hello()[0]), folder))
    assert answer is not None and opened(answer).head.kind == "refused"
