"""Counts of the English in the package: how docstrings open, and words to avoid."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from .source import ROOT, every_file, tree_of

# A sentence that opens so has no subject of its own: "What of it is a plan."
OPENINGS = re.compile(r"(What|Whether|How|Who|Whom|Whose|Which|That|Where|When)\b")
# Words that an engineer reads twice, and what to write: "compared with", "the user's own".
AVOIDED = re.compile(r"\bbeside\b|\bof (?:one|its|their)(?:'s|s)? own\b", re.IGNORECASE)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring and where it is."""

    where: str
    """`file:name`."""
    text: str


def docstrings() -> list[Docstring]:
    """All docstrings of modules, classes, functions and fields."""
    found = []
    for path in every_file():
        file = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree_of(path)):
            if isinstance(node, Documented):
                text = ast.get_docstring(node)
                if text:
                    found.append(Docstring(f"{file}:{getattr(node, 'name', '')}", text))
    return found


def weak_openings() -> list[str]:
    """Docstrings that open with a relative or a question word."""
    return [one.where for one in docstrings() if OPENINGS.match(one.text)]


def avoided_words() -> list[str]:
    """`file:name word` of words that CONTRIBUTING.md asks to avoid, in docstrings."""
    return [f"{one.where} {word}" for one in docstrings() for word in AVOIDED.findall(one.text)]
