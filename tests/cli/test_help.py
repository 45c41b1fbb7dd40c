"""`--help` of every command: it ends well, names every option and says a sentence about each."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from command_line import Command

import entrenous
from entrenous.cli import _app
from entrenous.core.discover import offers
from entrenous.papers.runner import experiments
from entrenous.split.protocol import protocols

APP = _app()
COMMANDS = sorted({name for name in APP if not name.startswith("-")})
GROUPS = [name for name in COMMANDS if APP[name].default_command is None]  # data, peer, ...: commands of their own
INSIDE = [f"{group} {name}" for group in GROUPS for name in sorted(APP[group]) if not name.startswith("-")]
OPTION = re.compile(
    r"^│ \*? *(?P<names>(?:[A-Z]+|--[a-z-]+)(?: --[a-z-]+)*)(?: [A-Z]+(?:\.\.\.)?)*  +(?P<text>\S.*?) *│$", re.MULTILINE
)
# what scripts rely on: the commands of issue 2, with their options
PROMISED = {
    "run": "data protocol rounds seed threads set out resume json",
    "compare": "data protocol seeds json",
    "recommend": "user n json",
    "explain": "",
    "algorithms": "",
    "runs": "",
    "report": "",
    "bench": "json",
    "experiment": "quick json",
    "leakcheck": "",
}


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "400")
    return Command(capsys)


def described(text: str) -> dict[str, str]:
    """{option or argument: its sentence} of a page of help."""
    return {name: found["text"] for found in OPTION.finditer(text) for name in found["names"].split()}


def parameters(function: Any) -> set[str]:
    return {name.replace("_", "-") for name in inspect.signature(function).parameters} - {"reading"}


@pytest.mark.parametrize("name", [*COMMANDS, *INSIDE])
def test_every_command_explains_itself_and_each_of_its_options(name: str, command: Command) -> None:
    said = command(*name.split(), "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: entrenous {name}")
    if name in GROUPS:
        return
    group, _, inside = name.partition(" ")
    app = APP[group][inside] if inside else APP[group]
    assert app.help.split("\n")[0].endswith((".", "?"))
    found = described(said.out)
    wanted = {{"settings": "set"}.get(one, one) for one in parameters(app.default_command)}
    assert wanted <= {one.removeprefix("--").lower() for one in found}, found
    for option, text in found.items():
        assert len(re.sub(r"\[.*?\]", "", text).strip()) >= 12, f"{name} {option}: {text!r}"
    assert not [option for option in found if option.startswith("--no-")]


@pytest.mark.parametrize("name", PROMISED)
def test_the_promised_options_are_there(name: str, command: Command) -> None:
    found = described(command(name, "--help").out)
    assert {f"--{option}" for option in PROMISED[name].split()} <= set(found)


def test_without_arguments_every_command_is_listed(command: Command) -> None:
    bare, asked = command(), command("--help")
    assert bare.code == asked.code == 0 and bare.out == asked.out
    for name in COMMANDS:
        assert re.search(rf"^│ {name}  +[A-Z].*\. *│$", bare.out, re.MULTILINE), name


def test_the_version(command: Command) -> None:
    said = command("--version")
    assert (said.code, said.out, said.err) == (0, f"{entrenous.__version__}\n", "")


def test_help_names_every_bench_experiment_and_protocol(command: Command) -> None:
    benches, papers, run = (command(name, "--help").out for name in ("bench", "experiment", "run"))
    assert all(name in benches for name in offers("benches", "BENCHES"))
    assert all(name in papers for name in experiments())
    assert [name for name in protocols() if name not in run] == []
