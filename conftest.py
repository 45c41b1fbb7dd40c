"""What holds for every test."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from entrenous.data.interactions import Interactions

if "hypothesis" in sys.modules:
    # as a rule it is, as a plugin of pytest; it takes a second to import, so it is not where nobody
    # needs it
    import properties  # noqa: F401

# The order of the tests, by folder; a folder that is not named comes at FREE. Of two workers one
# begins at the start, with the algorithms, and compiles every kernel; the other one begins in the
# middle, with tests that need hardly any. So few kernels are compiled twice.
COMPILING = ("tests/algorithms", "packages/entrenous-field", "tests/kernels")
COMPILED = (
    "packages/entrenous-ray",
    "packages/entrenous-audit",
    "packages/entrenous-network/tests",
)
FREE = len(COMPILING + COMPILED)
LATER = ("tests/core", "tests/cli", "tests/golden", "tests/api", "tests/runs", "tests/federation")

# What a clone installs beside the library, for tests with the mark `beside`.
BESIDE = tuple(f"entrenous_{name}" for name in ("audit", "field", "network", "ray", "lab"))

MEMORY = Path("/dev/shm")
ROOM = 8 << 30  # bytes that must be free in memory for the files of all tests; they take about 1 GB
ROOT = "PYTEST_DEBUG_TEMPROOT"  # the variable by which pytest knows where the files of tests go

MANY = 200  # open files, after which those of nodes that no test holds any more are closed
IN_MEMORY = pytest.StashKey[bool]()
SPINNING = 0.3  # of a module's time, which a thread of an earlier module may use of a core


def pytest_configure(config: pytest.Config) -> None:
    """Puts the files of tests into memory where it has room: servers and nodes wait for the disk
    tens of thousands of times, and a kill leaves a process's files as they are on either.

    `--basetemp` or PYTEST_DEBUG_TEMPROOT names another place. After a run in which a test failed,
    the files stay.
    """
    is_worker = hasattr(config, "workerinput")
    if is_worker or config.option.basetemp or ROOT in os.environ or not _has_room(MEMORY):
        return
    # Not in a folder of its own: paths of sockets may have 107 characters.
    os.environ[ROOT] = str(MEMORY)
    config.stash[IN_MEMORY] = True


@pytest.hookimpl(trylast=True)  # after the workers have ended
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Gives the memory back."""
    if session.config.stash.get(IN_MEMORY, False) and exitstatus == pytest.ExitCode.OK:
        folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        # Listeners that a test left open remove their sockets first, at priority 0.
        Finalize(None, shutil.rmtree, (folder, True), exitpriority=-1)


def _has_room(folder: Path) -> bool:
    """Tells whether a folder takes the files of all tests, and programs among them run there."""
    if not folder.is_dir() or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free > ROOM and os.access(folder, os.W_OK)


LABORATORY = re.compile(r"entrenous_lab|(?:peers_in_memory|dying_processes) import")


def pytest_report_header() -> str | None:
    """Says what is left out where a distribution is installed without the laboratory."""
    if find_spec("entrenous_lab") is None:
        return "entrenous-lab is not installed: files of tests that use it are left out"
    return None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out the files of a distribution that use the laboratory, where it is absent."""
    is_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    if not is_file or "packages" not in collection_path.parts or find_spec("entrenous_lab"):
        return None
    return bool(LABORATORY.search(collection_path.read_text(encoding="utf-8"))) or None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves out a test of the whole clone where the library is installed alone."""
    if item.get_closest_marker("beside") is not None:
        absent = [name for name in BESIDE if find_spec(name) is None]
        if absent:
            pytest.skip(f"needs {', '.join(absent)}, which a clone installs beside the library")


def pytest_collection_finish() -> None:
    """Lets the garbage collector run seldom, and never through what collection has made: it took a
    seventh of the time of tests that make no garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests in the order that shares their work best between two workers."""
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    """The place of a test's folder in the order; sorting leaves the order within a folder."""
    folders = (*COMPILING, *COMPILED, "", *LATER)
    places = [place for place, folder in enumerate(folders) if nodeid.startswith(f"{folder}/")]
    return min(places, default=FREE)


@pytest.fixture(autouse=True, scope="module")
def _files_of_former_tests_are_closed() -> Iterator[None]:
    """Nodes that a test leaves behind refer to themselves, so their stores stay open until Python
    collects cycles. It does that seldom where much else is in memory, and `select` takes no
    descriptor above 1,024."""
    yield
    if len(os.listdir("/proc/self/fd")) > MANY:
        gc.collect()


@pytest.fixture(autouse=True, scope="module")
def _threads_of_former_tests_are_idle() -> Iterator[None]:
    """A thread that a test left behind may wait, but not work. One that read a closed connection
    without end once took half of the time of all tests after it.
    """
    before = {thread: _used(thread) for thread in _others()}
    begun = time.monotonic()
    yield
    seconds = time.monotonic() - begun
    for thread in before.keys() & _others() if seconds > 2.0 else ():
        busy = _used(thread) - before[thread]
        assert busy < SPINNING * seconds, (
            f"thread {thread.name}, left behind by an earlier test, used {busy:.1f} s of CPU in"
            f" {seconds:.1f} s: {sys._current_frames().get(thread.ident or 0)}"
        )


def _others() -> set[threading.Thread]:
    """The threads of this process that run, but for the one that runs tests."""
    return {thread for thread in threading.enumerate() if thread is not threading.main_thread()}


def _used(thread: threading.Thread) -> float:
    """The seconds of CPU that a thread has used; none if it has just ended."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # after the name in brackets: user time is the twelfth field, system time the thirteenth
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of this test are forked instead of started: see tests/helpers/forked.py."""
    from forked import Forked

    monkeypatch.setattr(subprocess, "Popen", Forked)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Interactions:
    """The rows of a shop, for a module that makes none of its own."""
    from command_line import shop

    return shop(tmp_path_factory.mktemp("shop"))
