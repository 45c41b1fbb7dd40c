"""The public surface: the same names for the interpreter, for type checkers and in docs/python.md; a
user's script under mypy and pyright; completion in an editor.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT, SOURCE

import entrenous

PAGE = ROOT / "docs" / "python.md"
# A script as users write them; each comment is the type of the line's expression.
SCRIPT = """
from typing import assert_type

import polars as pl

import entrenous

frame = pl.DataFrame({"user": [1, 1, 2, 2], "item": [3, 4, 3, 5]})
run = entrenous.run("fcf", frame, split="loo-10", rounds=3, seed=1, settings={"factors": 4})
assert_type(run, entrenous.Run[pl.DataFrame])
assert_type(run.recommend([1, 2], n=3), pl.DataFrame)
assert_type(run.scores(1, items=[3]), pl.DataFrame)
assert_type(run.metrics, dict[str, float])
assert_type(run.plot(), entrenous.Figure)
assert_type(entrenous.open("latest").curve(), pl.DataFrame)
assert_type(entrenous.run("fcf", "ml-100k").per_user(), pl.DataFrame)
assert_type(entrenous.compare(["fcf", run], frame), entrenous.Comparison[pl.DataFrame])
assert_type(entrenous.compare([run, "fcf"]).table(), pl.DataFrame)
assert_type(entrenous.audit("fcf", frame, view="sum").notes, list[str])
assert_type(entrenous.attack("fcf", frame).table(), pl.DataFrame)
assert_type(entrenous.tune("fcf", frame, grid={"factors": [4, 8]}).csv(), str)
assert_type(entrenous.leakcheck("fcf", frame).passed, bool)
assert_type(entrenous.load("ml-100k", min_rows=5), entrenous.Interactions[pl.DataFrame])
rows = entrenous.from_frame(frame, name="shop")
assert_type(rows.select(rows.value > 0), entrenous.Interactions[pl.DataFrame])
assert_type(entrenous.run("fcf", rows), entrenous.Run[pl.DataFrame])
split = entrenous.split(train=frame, test=frame)
assert_type(split, entrenous.Split[pl.DataFrame])
assert_type(entrenous.run("fcf", split=split), entrenous.Run[pl.DataFrame])
fitted = entrenous.Recommender("fcf", rounds=3).fit(frame, user="user")
assert_type(fitted.recommend(1), pl.DataFrame)
assert_type(entrenous.algorithms()[0].name, str)
try:
    entrenous.run("nosuch")
except entrenous.InputError as error:
    assert_type(error.fix, str)
"""
# Lines that both type checkers must refuse.
WRONG = """
import entrenous

entrenous.run("fcf", roundz=3)
entrenous.nosuch
entrenous.run(3)
entrenous.run("fcf", 3)
entrenous.run("fcf").recomend(3)
entrenous.load("ml-100k", min_row=5)
entrenous.compare("fcf", seeds="two")
entrenous.Recommender("fcf", round=3)
"""


def wrong_lines(output: str) -> set[int]:
    return {int(line) for line in re.findall(r"\.py:(\d+):(?:\d+)?.*error", output)}


def expected_lines() -> set[int]:
    lines = enumerate(WRONG.splitlines(), start=1)
    return {number for number, line in lines if line.startswith("entrenous.")}


def test_the_page_lists_every_public_name_and_no_other() -> None:
    listed = re.findall(r"^\| `(\w+)` \| \S.*\|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(listed) == len(set(listed))
    assert {*listed, "__version__"} == set(dir(entrenous))


def test_type_checkers_and_the_interpreter_find_the_same() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (for_types, *_) = [node for node in tree.body if isinstance(node, ast.If)]
    told = {}
    for node in for_types.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # Only a name that is renamed to itself is public to a type checker.
                assert alias.asname == alias.name
                package = "entrenous." if node.level else ""
                told[alias.name] = f"{package}{node.module}"
    assert told == entrenous.LAZY


@pytest.mark.beside
def test_every_public_function_is_typed() -> None:
    for name in dir(entrenous):
        thing = getattr(entrenous, name)
        if inspect.isfunction(thing):
            signature = inspect.signature(thing)
            assert signature.return_annotation is not inspect.Signature.empty, name
            for parameter in signature.parameters.values():
                assert parameter.annotation not in (inspect.Parameter.empty, "Any", Any), (
                    name,
                    parameter,
                )
            assert signature.return_annotation not in ("Any", Any), name
            assert (thing.__doc__ or "").strip(), name


def checked(folder: Path, script: str, *command: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    environment: Mapping[str, str] = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "MYPYPATH": str(SOURCE.parent),
        "PYTHONPATH": str(SOURCE.parent),
    }
    return subprocess.run(
        [*command, str(path)], capture_output=True, text=True, env=environment, cwd=folder
    )


@pytest.mark.beside
def test_mypy_knows_what_a_user_calls_and_gets(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    # Errors inside the package are the business of `make lint`.
    strict = (
        *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"),
        *("--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache" / "users")),
    )
    right = checked(tmp_path, SCRIPT, *strict)
    assert right.returncode == 0, right.stdout + right.stderr
    wrong = checked(tmp_path, WRONG, *strict)
    assert wrong_lines(wrong.stdout) == expected_lines(), wrong.stdout


def test_an_editor_completes_after_a_run(tmp_path: Path) -> None:
    jedi = pytest.importorskip("jedi")
    code = 'import entrenous\nentrenous.run("fcf", "ml-100k").reco'
    project = jedi.Project(str(tmp_path), added_sys_path=[str(SOURCE.parent)])
    names = {found.name for found in jedi.Script(code, project=project).complete()}
    assert {"recommend", "recommend_for"} <= names


def test_functions_and_packages_share_no_name() -> None:
    # A folder without source holds the caches of a package that had its name before.
    there = [path for path in SOURCE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))]
    packages = {path.name.removesuffix(".py") for path in there}
    assert packages >= {"api", "data", "runs"} and not packages & set(dir(entrenous))
