"""The commands that the laboratory brings to `entrenous`, as a user types them."""

from __future__ import annotations

import re

import pytest
from command_line import Command
from entrenous_lab.papers.runner import experiments

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
