"""Docstrings as Markdown: paragraphs stay, examples of doctest and indented figures become fenced
blocks.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any


def markdown(thing: Any) -> str:
    """Returns the docstring of a function, class or module as Markdown, its first line included."""
    text = inspect.getdoc(thing) or ""
    return "\n\n".join(_block(part) for part in _parts(text))


def cell(text: str) -> str:
    """Returns text for a cell of a table, on one line."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _parts(text: str) -> Iterator[str]:
    """Yields the paragraphs of a docstring; an indented figure with empty lines stays together."""
    kept: list[str] = []
    for part in text.split("\n\n"):
        if part.startswith("    ") and kept and kept[-1].startswith("    "):
            kept[-1] += "\n\n" + part
        else:
            kept.append(part)
    yield from kept


def _block(part: str) -> str:
    if part.lstrip().startswith(">>>"):
        return f"```python\n{inspect.cleandoc(part)}\n```"
    if part.startswith("    "):
        return f"```text\n{inspect.cleandoc(part)}\n```"
    return part
