"""Every command in the documentation is one that a reader can type: each fenced block has a language
("text" marks output), and each command in a block of the shell is tried by the real command line, on a
small data set in the place of MovieLens, until it would train. What is quick runs to its end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from command_line import Command
from cyclopts import CycloptsError
from entrenous_lab.papers.runner import experiments
from fenced import PAGES, Block, blocks, commands
from paths import ROOT

import entrenous
from entrenous.cli import _app
from entrenous.data import load as loading

LANGUAGES = {"bash", "python", "toml", "mermaid", "text"}
# Programs of others in the blocks of the shell.
OTHERS = (
    *("chown", "cp", "curl", "export", "flower-superlink", "flower-supernode", "flwr", "install"),
    *("openssl", "pip", "/opt/entrenous/bin/pip", "podman", "python3", "ray", "rm", "systemctl"),
    *("umask", "useradd"),
)
# Commands that need a federation, hours, or Ray: their words are read, and no more is done.
READ_ONLY = (
    "bridge",
    "federation",
    "server",
    "node",
    "experiment",
    "papers",
    "bench",
    "--install-completion",
)
# Names that stand for the reader's own, and what is put there.
STAND_FOR = {"RUN": "latest", "NAME": "pepper-gmf", "K": "5", "ID": "196", "NODE": "latest"}
SHELL = [block for page in PAGES for block in blocks(page) if block.language == "bash"]


class Loaded(BaseException):
    """Ends a command where it begins to load data: everything that is checked before has passed."""


def stop(*_: object, **__: object) -> NoReturn:
    """Stands in the place of what loads data."""
    raise Loaded


@pytest.fixture(scope="module")
def small_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages name: a data set in the place of ml-100k, files, and two runs."""
    place = tmp_path_factory.mktemp("docs")
    (place / "docs").symlink_to(ROOT / "docs")
    (place / "my_algo.py").symlink_to(ROOT / "docs" / "examples" / "my_algo.py")
    folder = place / "data" / "ml-100k"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    lines = []
    for user in range(180, 220):
        for time, item in enumerate(rng.choice(np.arange(200, 340), 12, replace=False).tolist()):
            lines.append(f"{user}\t{item}\t{rng.integers(1, 6)}\t{880_000_000 + time}")
    (folder / "u.data").write_text("\n".join([*lines, "180\t242\t3\t880000100"]) + "\n")
    (place / "mine.csv").write_text("user_id,item_id\n1,10\n1,11\n2,10\n2,12\n")
    (place / "events.csv").write_text(
        "time,event,user,item,value\n0,join,ann,,\n0,join,bob,,\n0,item,,fargo,\n"
        "5,row,ann,fargo,4\n7,row,bob,fargo,5\n"
    )
    (place / "choices.csv").write_text("user,pi\n196,0.5\n")
    (place / "stock.txt").write_text("242\n302\n286\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENTRENOUS_DATA", str(place / "data"))
        patch.chdir(place)
        for name in ("fbalf", "popular", "fcf"):
            entrenous.run(name, "ml-100k", rounds=1, out="runs", progress=False)
        own = entrenous.run("./my_algo.py", "ml-100k", rounds=1, out="runs", progress=False)
        data = entrenous.load("ml-100k")
    lines = [f"{user},{item},1" for user in data.users.ids for item in data.items.ids]
    (place / "scores.csv").write_text("\n".join(["user,item,score", *lines]) + "\n")
    assert own.path is not None
    return place


@pytest.fixture
def place(small_place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(small_place)
    monkeypatch.setenv("ENTRENOUS_DATA", str(small_place / "data"))
    yield small_place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_holds(page: Path) -> None:
    unmarked = [str(block) for block in blocks(page) if block.language not in LANGUAGES]
    assert unmarked == [], "mark a block of output as text"


@pytest.mark.filterwarnings("ignore::entrenous.core.errors.EntrenousWarning")
@pytest.mark.parametrize("block", SHELL, ids=str)
def test_the_commands_of_a_block_are_ones_that_can_be_typed(
    block: Block, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Blocks begin with any run as the latest; a command that trains makes its own the latest.
    newest(place, "popular")
    for where, words in commands(block):
        program, *arguments = words
        if program == "make":
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
            assert set(arguments) <= set(targets), where
        elif program == "entrenous":
            typed(where, arguments, place, capsys, monkeypatch)
        elif program == "node":
            script, command, *_ = arguments
            # The head of a script of ours lists its commands.
            assert f"//   node {Path(script).name} {command} " in (ROOT / script).read_text(), where
        else:
            # An assignment, or a program of others.
            assert program in OTHERS or re.match(r"[A-Z_]+=", program), where


def typed(
    where: str,
    arguments: Sequence[str],
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tries a command of ours."""
    words = [STAND_FOR.get(word, word) for word in arguments]
    # What a page leaves out with "..." is for the reader to fill in: the options are there.
    if "..." in words:
        assert unknown_options(words) == [], where
        return
    if words[0] in READ_ONLY:
        assert understood(words) == "", where
        if words[0] == "experiment":
            assert words[1] in experiments(), where
        return
    if words[0] == "tune" and "--resume" in words:
        # The search that is continued has not finished a trial.
        (place / words[words.index("--out") + 1]).write_text("")
    command = Command(capsys)
    with monkeypatch.context() as patch:
        if words[0] in ("run", "compare", "tune", "attack", "audit", "leakcheck", "receipt"):
            patch.setattr(loading, "loaded", stop)
        try:
            ended = command(*words)
        except Loaded:
            pass
        else:
            assert ended.code == 0, f"{where}: {ended.err}"
    if words[0] == "run":
        newest(place, words[1])


def newest(place: Path, algorithm: str) -> None:
    """Makes a stored run of the kind of an algorithm the latest."""
    kind = {"fbalf": "fbalf", "./my_algo.py": "my_algo"}.get(algorithm, "fcf")
    for manifest in (place / "runs").glob("*/manifest.json"):
        is_newest = manifest.parent.name.startswith(kind)
        os.utime(manifest, (2e9, 2e9) if is_newest else (1e9, 1e9))


def understood(words: Sequence[str]) -> str:
    """The reason why the command line does not understand some words; "" if it does."""
    try:
        _app().parse_args(list(words), print_error=False, exit_on_error=False)
    except CycloptsError as bad:
        return str(bad)
    return ""


def unknown_options(words: Sequence[str]) -> list[str]:
    """The options among some words that their command does not have."""
    options = [word for word in words if word.startswith("--") and word != "--help"]
    if not options:
        return []
    _, path, _ = _app().parse_commands([word for word in words if word != "--help"])
    known: set[str] = set()
    for argument in path[-1].assemble_argument_collection():
        known |= set(argument.names)
    return [option for option in options if option not in known]


def inline(page: Path) -> list[str]:
    """The commands of ours in the text of a page, outside its blocks."""
    text = re.sub(r"^\s*```.*?^\s*```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.findall(r"`(entrenous [a-z][^`]*)`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_options_of_a_command_in_the_text_exist(page: Path) -> None:
    wrong = {}
    for command in inline(page):
        # A cell of a table holds a stroke behind a backslash.
        words = command.replace("\\|", "|").split()[1:]
        unknown = unknown_options(words)
        if unknown:
            wrong[command] = unknown
    assert wrong == {}
