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
from paths import ROOT, SOURCE

from entrenous.core.errors import InputError

Attempt: TypeAlias = Callable[[], Any]
# The library and its neighbours.
SOURCES = (SOURCE, *sorted(ROOT.glob("packages/*/src/entrenous_*")))
# The parameters by which a function is given a remedy.
REMEDIES = {"fix", "remedy"}

Case: TypeAlias = Generator[Attempt, InputError, None]


class Site(NamedTuple):
    """A call that gives an error its remedy."""

    file: str
    """Below the folder of its package."""
    function: str
    first: int
    """Its first line."""
    last: int
    names_an_option: bool
    """True if the function has an option of the command line in a text."""

    def __str__(self) -> str:
        return f"{self.file} {self.function}"


class Maker(NamedTuple):
    """A function that makes an error with the remedy that it is given."""

    place: int
    """The place of the remedy among the arguments of a call; -1 if it has to be named."""
    usual: bool
    """True if a call without a remedy gets a usual one."""


def sites(*rooms: str) -> list[Site]:
    """Every call in some rooms that names a remedy: of an error, or of a function with a parameter
    `fix` or `remedy` that makes one. A function that hands its own on is none. rooms: folders of
    the library or of a neighbour.
    """
    folders = [source / room for source in SOURCES for room in rooms]
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    makers = {name: Maker(-1, False) for name in ("InputError", "NotYet", "NoRows")}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and REMEDIES & _parameters(node).keys():
                makers[node.name] = _maker(node)
    found = []
    for path, tree in trees.items():
        file = _place(path)
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                named = "--" in ast.unparse(function)
                found += [
                    Site(file, function.name, call.lineno, call.end_lineno or call.lineno, named)
                    for call in _own_calls(function)
                    if _names_a_remedy(call, function, makers)
                ]
    return found


def _place(path: Path) -> str:
    """The place of a file below the folder of its package, "" for one of no package of ours."""
    for source in SOURCES:
        if path.is_relative_to(source):
            return path.relative_to(source).as_posix()
    return ""


def _parameters(function: ast.FunctionDef) -> dict[str, ast.expr | None]:
    """The parameters of a function with their defaults; `self` is left out."""
    listed = [argument.arg for argument in function.args.args]
    defaults: list[ast.expr | None] = [None] * (len(listed) - len(function.args.defaults))
    parameters = dict(zip(listed, [*defaults, *function.args.defaults], strict=True))
    parameters.pop("self", None)
    named = [argument.arg for argument in function.args.kwonlyargs]
    return parameters | dict(zip(named, function.args.kw_defaults, strict=True))


def _maker(function: ast.FunctionDef) -> Maker:
    parameters = _parameters(function)
    (name,) = REMEDIES & parameters.keys()
    default = parameters[name]
    in_order = [argument.arg for argument in function.args.args if argument.arg != "self"]
    place = in_order.index(name) if name in in_order else -1
    return Maker(place, isinstance(default, ast.Constant) and bool(default.value))


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


def _names_a_remedy(call: ast.Call, function: ast.FunctionDef, makers: dict[str, Maker]) -> bool:
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if name not in makers:
        return False
    maker = makers[name]
    values = [keyword.value for keyword in call.keywords if keyword.arg in REMEDIES]
    if 0 <= maker.place < len(call.args):
        values.append(call.args[maker.place])
    if not values:
        return maker.usual
    own = _parameters(function)
    return any(not (isinstance(value, ast.Name) and value.id in own) for value in values)


class Made(NamedTuple):
    """An error as it was made, whether it was raised or not."""

    error: InputError
    stack: list[tuple[str, int]]
    """The places in the source that were at work, the innermost first, as (file, line)."""


@contextmanager
def _recorded() -> Iterator[list[Made]]:
    """Every error that is made inside `with`."""
    made: list[Made] = []
    usual = InputError.__init__

    def noted(self: InputError, *arguments: Any, **named: Any) -> None:
        frame, stack = sys._getframe(1), []
        while frame is not None:
            place = _place(Path(frame.f_code.co_filename))
            if place:
                stack.append((place, frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]
        usual(self, *arguments, **named)
        made.append(Made(self, stack))

    InputError.__init__ = noted  # type: ignore[method-assign]
    try:
        yield made
    finally:
        InputError.__init__ = usual  # type: ignore[method-assign]


def _behind(raised: InputError, made: list[Made]) -> Iterator[Made]:
    """The errors that the raised one was made of: with its problem, and a part of its remedy."""
    # In Python an error is made once more, in the words of Python.
    if len(made) > 1 and made[-1].stack[0][0] == "core/errors.py":
        made = made[:-1]
        raised = made[-1].error
    for each in made:
        same = each.error.problem == raised.problem
        if same and each.error.fix and each.error.fix in raised.fix:
            yield each


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
        with _recorded() as made:
            try:
                attempt()
            except InputError as error:
                now = error
            else:
                break
        same = before is not None and (now.problem, now.fix) == (before.problem, before.fix)
        assert not same, f"the remedy leads nowhere: {now}"
        own = {site for site in known for each in _behind(now, made) if _at_work(site, each.stack)}
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


def must_lead_further(error: InputError, attempt: Attempt) -> None:
    """Follows a second remedy of an error: it may end in another error, not in the same."""
    try:
        attempt()
    except InputError as other:
        assert other.problem != error.problem, f"the remedy leads nowhere: {other}"


def load_options(error: InputError) -> dict[str, str]:
    """The options of loading that a remedy names first, as in `--load a=b --load c=d`."""
    first = re.search(r"(--load ('[^']*'|[^\s;)'])+ ?)+", error.fix)
    assert first is not None, f"it names no option: {error.fix}"
    words = shlex.split(first[0])
    return dict(word.partition("=")[::2] for word in words if word != "--load")


def quoted(error: InputError, number: int = 0) -> str:
    """What stands in single quotes in a remedy."""
    return re.findall(r"'([^']*)'", error.fix)[number]


def option(error: InputError, name: str) -> str:
    """The value of an option that a remedy names, such as `--protocol=given,repeats=drop`."""
    return re.findall(rf"--{name}[= ]([^\s,]\S*?)(?=[\s;)]|,? or |, |$)", error.fix)[0]
