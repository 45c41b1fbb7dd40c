"""The commands that the laboratory brings to `entrenous`, as a user types them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from command_line import Command
from entrenous_lab.papers.runner import experiments

from entrenous.cli import LABORATORY
from entrenous.core.registry.discover import offers

COMMANDS = ("bench", "experiment", "papers")
LISTED = {
    "bench": offers("entrenous_lab.benches", "BENCHES"),
    "experiment": experiments(),
}


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command line in this process."""
    return Command(capsys)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_the_lab_is_listed(name: str, command: Command) -> None:
    assert re.search(rf"^│ {name}  +[A-Z]", command().out, re.MULTILINE)


@pytest.mark.parametrize("name", LISTED)
def test_what_there_is_is_listed_as_it_is_found(name: str, command: Command) -> None:
    said = " ".join(command(name, "--help").out.split())
    assert [one for one in LISTED[name] if one not in said] == []
    assert "{" not in said


def test_the_laboratory_is_known_by_its_commands() -> None:
    assert set(COMMANDS) == set(LABORATORY)


def test_a_bench_of_the_network_needs_its_extra_and_the_list_does_not() -> None:
    """On a core install `entrenous bench` and its help ended as a bug, for want of msgspec."""
    lacking = """
import sys
for library in ("msgspec", "httpx", "uvicorn", "starlette", "cryptography", "iroh"):
    sys.modules[library] = None
from entrenous.cli import main
main(["bench", "intake"])
"""
    refused = subprocess.run([sys.executable, "-c", lacking], capture_output=True, text=True)
    assert refused.returncode == 2
    assert re.fullmatch(
        r"error: bench intake: it needs \w+, which is not installed; pip install"
        r" 'entrenous\[network\]'",
        refused.stderr.splitlines()[-1],
    )
    helped = lacking.replace("intake", "--help")
    shown = subprocess.run([sys.executable, "-c", helped], capture_output=True, text=True)
    assert shown.returncode == 0 and "fcf-round" in shown.stdout, shown.stderr


def test_an_experiment_that_is_interrupted_says_that_what_it_has_trained_is_remembered(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("entrenous_lab.papers.runner.run_experiment", stop)
    said = command("experiment", "fpl-fig2").err
    assert "start it again: what it has trained is remembered" in said
