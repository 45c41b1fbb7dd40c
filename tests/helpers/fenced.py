"""The fenced blocks of the documentation, and the commands in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from paths import ROOT

# Tutorials and the page of every command are executed as they stand (lab/tests/test_docs_site.py).
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "results").glob("*.md")),
]
# What joins commands in one line; each part is a command.
JOINTS = re.compile(r"\s*(?:&&|;)\s*")


class Block(NamedTuple):
    """A fenced block."""

    page: Path
    line: int
    """The number of its first line, that of the fence."""
    language: str
    """The word behind the fence; "text" marks output."""
    lines: list[str]

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


class Command(NamedTuple):
    """A command as a reader copies it."""

    where: str
    words: list[str]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    is_open = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"\s*```(\S*)", line)
        if fence and not is_open:
            found.append(Block(page, number, fence[1], []))
        elif not fence and is_open:
            found[-1].lines.append(line)
        is_open = is_open != bool(fence)
    assert not is_open, f"{page}: a block is not closed"
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a block in the shell's language, without comments."""
    found = []
    joined = ""
    first = 0
    for number, line in enumerate(block.lines, block.line + 1):
        first = first if joined else number
        if line.endswith("\\"):
            joined += line.removesuffix("\\")
            continue
        where = f"{block.page.name}:{first}"
        for part in _parts(joined + line):
            found.append(Command(where, part))
        joined = ""
    return found


def _parts(line: str) -> list[list[str]]:
    """The words of each command in a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&;")
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&;"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]
