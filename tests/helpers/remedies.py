"""Every remedy that an error prints is followed: which places in the source print one, and a trial of
one of them.

A case is a generator. It yields an attempt that must fail, gets the error, follows its remedy, and
yields an attempt that must get further:

    def a_column_of_another_name(tmp: Path) -> Case:
        path = text(tmp / "a.csv", "kunde,item_id\\n...")
        error = yield lambda: load(path)
        yield lambda: load(path, **load_options(error))

Where the error was made is found out by `tried`; nothing is registered.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from paths import SOURCE

from entrenous.core.errors import InputError

Attempt: TypeAlias = Callable[[], Any]
Case: TypeAlias = Generator[Attempt, InputError, None]


class Site(NamedTuple):
    """A call that gives an error its remedy."""

    file: str
    """Below src/entrenous."""
    function: str
    first: int
    """Its first line."""
    last: int

    def __str__(self) -> str:
        return f"{self.file} {self.function}"


def sites(*rooms: str) -> list[Site]:
    """Every call in some rooms that names a remedy: of an error, or of a function with a parameter
    `fix` that makes one. A function that hands its own `fix` on is none.
    """
    files = sorted(path for room in rooms for path in (SOURCE / room).rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    makers = {"InputError": -1, "NotYet": -1}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in node.args.args]
                if "fix" in names + [argument.arg for argument in node.args.kwonlyargs]:
                    makers[node.name] = names.index("fix") if "fix" in names else -1
    found = []
    for path, tree in trees.items():
        file = path.relative_to(SOURCE).as_posix()
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                found += [
                    Site(file, function.name, call.lineno, call.end_lineno or call.lineno)
                    for call in _own_calls(function)
                    if _names_a_remedy(call, function, makers)
                ]
    return found


def _own_calls(function: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls in a function, without those in functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting += ast.iter_child_nodes(node)


def _names_a_remedy(call: ast.Call, function: ast.FunctionDef, makers: dict[str, int]) -> bool:
    name = getattr(call.func, "id", "")
    if name not in makers:
        return False
    values = [keyword.value for keyword in call.keywords if keyword.arg == "fix"]
    place = makers[name]
    if 0 <= place < len(call.args):
        values.append(call.args[place])
    own = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    return any(not (isinstance(value, ast.Name) and value.id in own) for value in values)


@contextmanager
def _recorded() -> Iterator[list[list[tuple[str, int]]]]:
    """For each error that is made inside `with`: the places in the source that were at work, the
    innermost first, as (file, line).
    """
    stacks: list[list[tuple[str, int]]] = []
    usual = InputError.__init__

    def noted(self: InputError, *arguments: Any, **named: Any) -> None:
        frame, stack = sys._getframe(1), []
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(SOURCE):
                stack.append((path.relative_to(SOURCE).as_posix(), frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]
        stacks.append(stack)
        usual(self, *arguments, **named)

    InputError.__init__ = noted  # type: ignore[method-assign]
    try:
        yield stacks
    finally:
        InputError.__init__ = usual  # type: ignore[method-assign]


class Trial(NamedTuple):
    """The end of a case whose remedies all led further."""

    error: InputError
    """The last error that was followed."""
    hit: set[Site]
    """The calls that made the errors that were followed."""


def tried(case: Case, known: list[Site]) -> Trial:
    """Runs a case: each attempt but the last must fail in a place of `known`, and every attempt must
    get further than the one before.
    """
    attempt = next(case)
    before: InputError | None = None
    hit: set[Site] = set()
    while True:
        with _recorded() as stacks:
            try:
                attempt()
            except InputError as error:
                now = error
            else:
                break
        # In Python an error is made once more, in the words of Python.
        again = len(stacks) > 1 and stacks[-1][0][0] == "api/arguments.py"
        stack = stacks[-2] if again else stacks[-1]
        own = {site for site in known if _at_work(site, stack)}
        same = before is not None and (now.problem, now.fix) == (before.problem, before.fix)
        assert not same, f"the remedy leads nowhere: {now}"
        assert own, f"not an error of these rooms with a remedy: {now}"
        assert now.fix, f"no remedy: {now}"
        hit |= own
        before = now
        try:
            attempt = case.send(now)
        except StopIteration:
            pytest.fail(f"the last attempt fails: {now}")
    assert before is not None, "the first attempt does not fail"
    with pytest.raises(StopIteration):
        case.send(before)
    return Trial(before, hit)


def _at_work(site: Site, stack: list[tuple[str, int]]) -> bool:
    return any(file == site.file and site.first <= line <= site.last for file, line in stack)


def load_options(error: InputError) -> dict[str, str]:
    """The options of loading that a remedy names: those of `(--load a=b --load c=d)`."""
    (inside,) = re.findall(r"\(((?:--load \S.*?)+)\)(?:$|;| or )", error.fix)[:1]
    words = shlex.split(inside)
    return dict(word.partition("=")[::2] for word in words if word != "--load")


def quoted(error: InputError, number: int = 0) -> str:
    """What stands in single quotes in a remedy."""
    return re.findall(r"'([^']*)'", error.fix)[number]


def option(error: InputError, name: str) -> str:
    """The value of an option that a remedy names, such as `--protocol=given,repeats=drop`."""
    return re.findall(rf"--{name}[= ]([^\s,]\S*?)(?=[\s;)]|,? or |, |$)", error.fix)[0]
