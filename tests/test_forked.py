"""A forked child behaves as one of a new interpreter does, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from network_namespace import OWN, quiet

pytestmark = pytest.mark.usefixtures("forked_children")
SAYS = """
import os, sys
print(sys.argv, os.getcwd(), os.environ["A"], sys.stdin.read())
print("wrong", file=sys.stderr)
sys.exit(3)
"""


def test_arguments_streams_environment_folder_and_exit_code(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SAYS, "x"]
    ended = subprocess.run(
        command, input="in", capture_output=True, text=True, cwd=tmp_path, env={"A": "b"}
    )
    assert (ended.returncode, ended.stderr) == (3, "wrong\n")
    assert ended.stdout == f"['-c', 'x'] {tmp_path} b in\n"


def test_a_module_and_an_error() -> None:
    command = [sys.executable, "-m", "entrenous"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert version.returncode == 0 and version.stdout.count("\n") == 1
    wrong = subprocess.run([*command, "no-such"], capture_output=True, text=True)
    assert wrong.returncode == 2 and wrong.stderr.startswith("error: ")
    assert wrong.stderr.count("\n") == 1 and wrong.stdout == ""


def test_it_is_waited_for_and_killed() -> None:
    code = "import time; print(1, flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"1\n"
    assert child.poll() is None and os.getpgid(child.pid)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    child.kill()
    assert child.wait() == child.poll() == -9


def test_file_descriptors_keep_their_numbers() -> None:
    reading, writing = os.pipe()
    code = f"import os; os.write({writing}, b'here')"
    subprocess.run([sys.executable, "-c", code], pass_fds=[writing], check=True)
    os.close(writing)
    assert os.read(reading, 9) == b"here"
    os.close(reading)


def test_it_is_in_the_network_of_its_parent() -> None:
    code = f"import os; print(os.stat({OWN!r}).st_ino)"
    command = [sys.executable, "-c", code]
    outside = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert outside == f"{os.stat(OWN).st_ino}\n"
    with quiet() as has_own:
        inside = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert inside == f"{os.stat(OWN).st_ino}\n"
    assert (inside != outside) is has_own
