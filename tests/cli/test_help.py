"""`--help` of every command: it ends well, names every option and says a sentence about each."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from paths import ROOT

import entrenous
from entrenous.cli import LABORATORY, _app, about, lists
from entrenous.cli.brought import Commands
from entrenous.data.load import LoadOptions
from entrenous.data.split.protocol import protocols
from entrenous.evaluation.metric_kinds import metrics
from entrenous.federation.network import Network
from entrenous.systems.named import algorithms

APP = _app()
COMMANDS = sorted({name for name in APP if not name.startswith("-")})
GROUPS = [
    name for name in COMMANDS if APP[name].default_command is None
]  # data, federation, ...: commands of their own
INSIDE = [
    f"{group} {name}" for group in GROUPS for name in sorted(APP[group]) if not name.startswith("-")
]
OPTION = re.compile(
    r"^│ \*? *(?P<names>(?:[A-Z]+|--[a-z-]+)(?: --[a-z-]+)*)(?: [A-Z]+(?:\|[A-Z]+)?(?:\.\.\.)?)* "
    r" +(?P<text>\S.*?) *│$",
    re.MULTILINE,
)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "400")
    return Command(capsys)


def described(text: str) -> dict[str, str]:
    """{option or argument: its sentence} of a page of help."""
    return {
        name: found["text"] for found in OPTION.finditer(text) for name in found["names"].split()
    }


def parameters(function: Any) -> set[str]:
    """The names of the options and arguments that a command should show."""
    names = set()
    for name, parameter in inspect.signature(function).parameters.items():
        metadata = getattr(parameter.annotation, "__metadata__", ())
        spelled = [one.name[0] for one in metadata if one.name]
        # A parameter whose name is a keyword of Python has an underscore behind it.
        usual = name.removesuffix("_").replace("_", "-")
        names.add(spelled[0].removeprefix("--") if spelled else usual)
    return names


@pytest.mark.parametrize("name", [*COMMANDS, *INSIDE])
@pytest.mark.beside
def test_every_command_explains_itself_and_each_of_its_options(name: str, command: Command) -> None:
    said = command(*name.split(), "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: entrenous {name}")
    if name in GROUPS:
        return
    group, _, inside = name.partition(" ")
    app = APP[group][inside] if inside else APP[group]
    assert app.help.split("\n\n")[0].endswith((".", "?"))
    found = described(said.out)
    shown = {"settings": "set", "folder": "runs" if "--runs" in found else "folder"}
    wanted = {shown.get(one, one) for one in parameters(app.default_command)}
    assert wanted <= {one.removeprefix("--").lower() for one in found}, found
    for option, text in found.items():
        assert len(re.sub(r"\[.*?\]", "", text).strip()) >= 12, f"{name} {option}: {text!r}"
    assert {option for option in found if option.startswith("--no-")} <= {
        "--no-refit",
        "--no-apart",
    }


@pytest.mark.beside
def test_without_arguments_every_command_is_listed(command: Command) -> None:
    bare, asked = command(), command("--help")
    assert bare.code == asked.code == 0 and bare.out == asked.out
    for name in COMMANDS:
        assert re.search(rf"^│ {name}  +[A-Z].*\. *│$", bare.out, re.MULTILINE), name


def test_the_version(command: Command) -> None:
    said = command("--version")
    assert (said.code, said.out, said.err) == (0, f"{entrenous.__version__}\n", "")


HEAVY = ("numba", "llvmlite", "scipy", "polars", "matplotlib", "numpy")
LISTED = {
    "run": [*algorithms(), *protocols(), *lists.datasets(), *metrics(), *Network.model_fields],
    "leakcheck": protocols(),
    "split": protocols(),
    "explain": algorithms(),
    "data check": [f"{name}=" for name in LoadOptions.model_fields],
}


@pytest.mark.parametrize("name", LISTED)
def test_what_there_is_is_listed_as_it_is_found(name: str, command: Command) -> None:
    said = " ".join(command(*name.split(), "--help").out.split())
    assert [one for one in LISTED[name] if one not in said] == [] and "{" not in said


def test_an_algorithm_that_a_package_brings_is_listed(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LISTS", {**lists.LISTS, "algorithms": lambda: ["of-a-package"]})
    monkeypatch.setattr(
        about.explain,
        "__doc__",
        "Measure.\n\n    Parameters\n    ----------\n    algorithm:\n        One of {algorithms}.",
    )
    assert "One of of-a-package." in command("explain", "--help").out


def test_the_list_of_commands_loads_nothing_heavy() -> None:
    code = f"""
import sys
from entrenous.cli import main
try:
    main(["--help"])
except SystemExit:
    print([name for name in {HEAVY} if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.stdout.splitlines()[-1] == "[]", shown.stderr


def test_commands_are_in_groups(command: Command) -> None:
    said = command("--help").out
    places = [
        said.index(f"─ {title} ─")
        for title in ("Start", "Research", "Checks", "Data", "Network", "Options")
    ]
    assert places == sorted(places)
    inside = {
        "demo": 0,
        "run": 0,
        "compare": 1,
        "leakcheck": 2,
        "evaluate": 2,
        "split": 3,
        "federation": 4,
        "node": 4,
    }
    for name, number in inside.items():
        at = re.search(rf"^│ {name}  ", said, re.MULTILINE)
        assert at is not None and places[number] < at.start() < places[number + 1], name


@pytest.mark.parametrize("name", LABORATORY)
@pytest.mark.parametrize("more", [[], ["--help"], ["fcf-round", "--json"]])
def test_without_the_laboratory_its_commands_say_how_to_get_it(
    name: str, more: list[str], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entrenous.cli.brought.brought", lambda: Commands({}, {}))
    said = command(name, *more).error
    assert said.startswith(f"entrenous {name}: it comes with the laboratory")
    assert said.endswith("; pip install ./lab in a clone of Entrenous")
    assert (ROOT / "lab" / "pyproject.toml").is_file()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_the_shell(shell: str, command: Command, tmp_path: Path) -> None:
    said = command("--install-completion", "--shell", shell, "--output", tmp_path / "entrenous")
    script = (tmp_path / "entrenous").read_text()
    assert said.code == 0 and str(tmp_path / "entrenous") in said.out
    assert (
        all(word in script for word in ("leakcheck", "federation", "protocol", "resume"))
        and "{protocols}" not in script
    )


# ---- one name for one thing ----------------------------------------------------------------------


@pytest.mark.beside
def test_one_thing_has_one_name_on_all_commands(command: Command) -> None:
    """`--out` is where a command writes, `--runs` where runs are found, `--load` how a file is
    read, `--protocol`, `--negatives`.
    """
    found = {
        name: set(described(command(*name.split(), "--help").out))
        for name in [*COMMANDS, *INSIDE]
        if name not in GROUPS
    }
    of = {
        option: {name for name, options in found.items() if option in options}
        for option in sorted(set().union(*found.values()))
    }
    assert not {
        "--to",
        "--leaky-negatives",
        "--delimiter",
        "--names",
        "--duplicates",
        "--item-column",
    } & set(of)
    assert of["--runs"] == {"recommend", "predict", "runs", "report", "export", "audit", "receipt"}
    assert {"run", "report", "split", "experiment", "federation backup"} <= of["--out"] and not of[
        "--out"
    ] & of["--runs"] - {"report", "export"}
    assert {
        "run",
        "compare",
        "tune",
        "leakcheck",
        "split",
        "data check",
        "data info",
        "federation try",
        "federation join",
    } <= of["--load"]
    assert (
        of["--negatives"] == {"run", "leakcheck", "bridge"}
        and {"run", "tune", "leakcheck", "split"} <= of["--protocol"]
    )
    assert {"try", "new", "identity", "invite", "join", "recommend", "status"} <= set(
        APP["federation"]
    )
    assert "--seed" not in found["tune"]


@pytest.mark.beside
def test_the_page_on_the_command_line_names_what_there_is(command: Command) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    found = {
        name: set(described(command(*name.split(), "--help").out))
        for name in [*COMMANDS, *INSIDE]
        if name not in GROUPS
    }
    options = {"--shell", "--install-completion"}.union(*found.values(), {"--help", "--resume"})
    assert set(re.findall(r"--[a-z][a-z-]*", page)) <= options
    assert all(
        f"`{option}" in page
        for option in ("--data", "--load", "--out", "--runs", "--seed", "--negatives")
    )
    for line in re.findall(r"^entrenous (.*?)(?: {2,}#.*)?$", page, re.MULTILINE):
        name, *rest = line.split()
        name = f"{name} {rest[0]}" if name in GROUPS else name
        assert (
            name.startswith("--") or {one for one in rest if one.startswith("--")} <= found[name]
        ), line
