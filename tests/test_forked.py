"""A forked child behaves as one of a new interpreter does, seen from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
