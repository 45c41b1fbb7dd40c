"""The distributions beside the package: what they import of it, and what is said where they are
absent.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from command_line import Command, write_shop
from paths import ROOT, SOURCE

import entrenous
from entrenous import LAZY
from entrenous.cli.brought import brought, name_of
from entrenous.cli.lists import filled
from entrenous.core.errors import InputError
from entrenous.core.registry import plugins
from entrenous.core.registry.discover import offers
from entrenous.core.registry.neighbours import NEIGHBOURS, Neighbour
from entrenous.systems.named import algorithms

FOLDERS = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
LIST = "imports.txt"
BROUGHT = [name for name, place in LAZY.items() if not place.startswith("entrenous.")]


@pytest.fixture
def nothing_beside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No package adds anything to Entrenous."""
    nothing: list[EntryPoint] = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: nothing)
    forget()
    yield
    forget()


def forget() -> None:
    """Has the entry points be read again."""
    brought.cache_clear()
    plugins.plugged.cache_clear()
    plugins.plugged_in.cache_clear()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def imported(folder: Path) -> list[str]:
    """The modules of the package, and of its other neighbours, that the source in a folder imports,
    sorted.
    """
    own = {path.name for path in folder.iterdir()}
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    found.add(module_of(f"{node.module}.{alias.name}"))
    tops = {name: name.split(".")[0] for name in found}
    return sorted(
        name for name, top in tops.items() if top.startswith("entrenous") and top not in own
    )


def module_of(name: str) -> str:
    """The module that a dotted name is or lies in."""
    for source in (SOURCE.parent, *ROOT.glob("packages/*/src")):
        path = source.joinpath(*name.split("."))
        if path.with_suffix(".py").is_file() or path.is_dir():
            return name
    return name.rpartition(".")[0]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_a_neighbour_imports_is_listed(folder: Path) -> None:
    """A change that makes this list longer should rather move the seam."""
    listed = (folder / LIST).read_text(encoding="utf-8").splitlines()
    assert imported(folder / "src") == listed


@pytest.mark.parametrize("one", NEIGHBOURS, ids=lambda one: one.extra)
@pytest.mark.beside
def test_a_neighbour_brings_what_the_table_says(one: Neighbour) -> None:
    assert (ROOT / "packages" / f"entrenous-{one.extra}").is_dir()
    for name in one.engines:
        assert plugins.plugged_in("engines", name) is not None
    own = offers(f"entrenous_{one.extra}", "ALGORITHMS")
    assert sorted(own) == list(one.algorithms)
    assert own.items() <= algorithms().items()
    there = {name_of(command) for group in brought().groups.values() for command in group}
    for names in one.commands.values():
        assert set(names) <= there


@pytest.mark.usefixtures("nothing_beside")
@pytest.mark.parametrize("words", [("--workers", "2"), ("--ray", "auto")])
def test_workers_of_a_run_that_are_not_installed_are_one_line(
    words: tuple[str, str], command: Command, tmp_path: Path
) -> None:
    shop = write_shop(tmp_path / "shop.csv")
    refused = command("run", "fcf", "--data", str(shop), "--out", str(tmp_path / "runs"), *words)
    assert (refused.code, refused.err) == (
        2,
        'error: --workers: entrenous-ray is not installed; pip install "entrenous[ray]"\n',
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("nothing_beside")
@pytest.mark.beside
def test_actors_that_are_not_installed_are_one_line(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    from entrenous_network.commands.serve import server

    said = '--ray: entrenous-ray is not installed; pip install "entrenous[ray]"'
    with pytest.raises(InputError, match=re.escape(said)):
        server(tmp_path, ray="local")
    assert not list(tmp_path.iterdir())


FIELD = 'pip install "entrenous[field]"'


@pytest.mark.usefixtures("nothing_beside")
@pytest.mark.parametrize("words", [["explain", "pfedrec"], ["run", "fedmf-printed"]])
def test_algorithms_that_are_not_installed_are_one_line(words: list[str], command: Command) -> None:
    refused = command(*words)
    said = f"{words[1]} is in entrenous-field, which is not installed; {FIELD}"
    assert (refused.code, refused.out, refused.err) == (2, "", f"error: algorithm: {said}\n")


@pytest.mark.usefixtures("nothing_beside")
def test_a_slip_of_the_keyboard_finds_them_too() -> None:
    with pytest.raises(InputError, match="fedncf is in entrenous-field"):
        entrenous.explain("fedncf")
    with pytest.raises(InputError, match="did you mean 'fedncf'"):
        entrenous.explain("Fed_NCF")


@pytest.mark.usefixtures("nothing_beside")
def test_lists_of_algorithms_name_those_that_are_not_installed(command: Command) -> None:
    # The text of a help page is filled once in a process, maybe by a test before this one.
    for said in (command("algorithms").out, filled("Names: {algorithms}.")):
        words = " ".join(said.split())
        assert "pfedrec, pfedrec-printed" in words and FIELD in words


@pytest.mark.usefixtures("nothing_beside")
@pytest.mark.parametrize("name", ["book-crossing", "item-lists"])
def test_formats_that_are_not_installed_are_one_line(
    name: str, command: Command, tmp_path: Path
) -> None:
    shop = write_shop(tmp_path / "shop.csv")
    refused = command("data", "check", str(shop), "--load", f"format={name}")
    said = f"error: format: entrenous-field is not installed; {FIELD}\n"
    assert (refused.code, refused.err) == (2, said)
    for words in ("list", "formats"):
        assert f"more published data sets: {FIELD}" in command("data", words).out


@pytest.mark.usefixtures("nothing_beside")
@pytest.mark.parametrize(
    "words", [("audit", "pfpl+", "--view", "sum"), ("attack", "--help"), ("receipt", "--user", "7")]
)
def test_a_command_that_is_not_installed_is_one_line(
    words: tuple[str, ...], command: Command
) -> None:
    refused = command(*words)
    said = f"error: entrenous {words[0]}: entrenous-audit is not installed"
    assert (refused.code, refused.err) == (2, f'{said}; pip install "entrenous[audit]"\n')


@pytest.mark.usefixtures("nothing_beside")
def test_commands_that_are_not_installed_are_in_the_help(command: Command) -> None:
    shown = command("--help").out
    for one in NEIGHBOURS:
        for name in [name for names in one.commands.values() for name in names]:
            assert re.search(rf"{name} +Not installed: {re.escape(one.line)}", shown)


def test_names_that_are_not_installed_say_so_when_they_are_used() -> None:
    program = f"""
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("entrenous_"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
import entrenous
from entrenous import *
assert "audit" in dir(entrenous) and run
for name in {BROUGHT!r}:
    try:
        getattr(entrenous, name)
    except entrenous.InputError as said:
        print(said)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = []
    for name in BROUGHT:
        extra = LAZY[name].partition(".")[0].removeprefix("entrenous_")
        said = f'entrenous-{extra} is not installed; pip install "entrenous[{extra}]"'
        lines.append(f"entrenous.{name}: {said}")
    assert done.stdout.splitlines() == lines, done.stderr


def test_the_front_door_alone_names_packages_of_neighbours() -> None:
    """Types need the places of names; everything else is found by entry points."""
    others = re.compile(r"entrenous_(audit|field|network|ray)\b")
    naming = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if others.search(path.read_text(encoding="utf-8"))
    ]
    assert naming == ["__init__.py"]


def test_every_line_that_installs_names_an_extra() -> None:
    for one in NEIGHBOURS:
        assert re.fullmatch(rf'pip install "entrenous\[{one.extra}\]"', one.line)
