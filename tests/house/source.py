"""What the source of the package is like: syntax nodes, code lines, comments, parameters."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "entrenous"
NETWORK = ROOT / "packages" / "entrenous-network" / "src" / "entrenous_network"
LAYOUT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)
# Words of a comment that speak to a tool and explain nothing.
FOR_TOOLS = ("noqa", "type:", "fmt:", "pragma")


class Source(NamedTuple):
    """The counts of some files."""

    files: int
    nodes: int
    """Statements and expressions of the syntax tree, docstrings included."""
    code: int
    """Lines that hold code: neither blank, nor a comment, nor a docstring."""
    lines: int
    """All lines."""
    commented: int
    """Lines with a comment for people, alone or after code."""

    @property
    def nodes_a_line(self) -> float:
        """Syntax nodes per code line."""
        return self.nodes / self.code

    @property
    def comment_share(self) -> float:
        """The share of all lines that have a comment."""
        return self.commented / self.lines


@cache
def python_files(folder: Path = PACKAGE) -> tuple[Path, ...]:
    """All Python files of a folder, sorted."""
    return tuple(sorted(folder.rglob("*.py")))


@cache
def packages() -> dict[str, tuple[Path, ...]]:
    """The Python files of the library and of each distribution in packages/, by its name."""
    folders = sorted(ROOT.glob("packages/*/src"))
    others = {folder.parent.name: python_files(folder) for folder in folders}
    return {"entrenous": python_files(), **others}


def every_file() -> tuple[Path, ...]:
    """The Python files of `packages`."""
    return tuple(path for files in packages().values() for path in files)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def source_of(files: tuple[Path, ...]) -> Source:
    """Counts some files together."""
    counts = [_counted(path) for path in files]
    return Source(*(sum(column) for column in zip(*counts, strict=True)))


@cache
def _counted(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    nodes = sum(isinstance(node, ast.stmt | ast.expr) for node in ast.walk(tree_of(path)))
    code: set[int] = set()
    commented: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if not token.string.lstrip("# ").startswith(FOR_TOOLS):
                commented.add(token.start[0])
        elif token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= _docstring_lines(path)
    return Source(1, nodes, len(code), len(text.splitlines()), len(commented))


def _docstring_lines(path: Path) -> set[int]:
    """The lines of strings that are statements: docstrings of modules, functions and fields."""
    lines: set[int] = set()
    for node in ast.walk(tree_of(path)):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


class Signature(NamedTuple):
    """A function and how many parameters it has."""

    parameters: int
    name: str
    """`file:line name`."""


def signatures(files: tuple[Path, ...] = ()) -> list[Signature]:
    """All functions, the longest lists of parameters first; `self` and `cls` count."""
    found = [one for path in files or every_file() for one in _signatures(path)]
    return sorted(found, reverse=True)


def _signatures(path: Path) -> Iterator[Signature]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            told = node.args
            named = [*told.posonlyargs, *told.args, *told.kwonlyargs]
            rest = [one for one in (told.vararg, told.kwarg) if one is not None]
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            yield Signature(len(named) + len(rest), f"{where} {node.name}")
