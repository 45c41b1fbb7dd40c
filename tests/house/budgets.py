"""Budgets of the house, which are set outside this repository: `size.json`, beside the data sets.

Syntax nodes are the statements and expressions of `ast.walk`, for each distribution, each room of
the library, and all tests together. Words are those of `wc -w`. Nobody moves a budget here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .source import PACKAGE, ROOT, python_files, source_of

DOCS = ROOT / "docs"
# Pages that are looked up, or written by a program from stored results.
NOT_READ_THROUGH = ("reference", "results", "claims.md", "results.md", "protocol.md")


class Budget(NamedTuple):
    """A budget, and what there is today."""

    name: str
    value: int
    most: int

    @property
    def met(self) -> bool:
        """True where something is there, and no more than the budget allows."""
        return 0 < self.value <= self.most


def size_file() -> Path:
    """The file of budgets; it exists where the data sets of the project's machines do."""
    data = Path(os.environ.get("ENTRENOUS_SHARED") or ROOT.parent / "shared" / "data")
    return data.parent / "size.json"


def budgets() -> list[Budget]:
    """Measures everything that has a budget; empty where there is no file of budgets."""
    if not size_file().is_file():
        return []
    sizes = json.loads(size_file().read_text(encoding="utf-8"))
    return [*_nodes(sizes), *_words(sizes["words"])]


def _nodes(sizes: dict[str, Any]) -> Iterable[Budget]:
    for name, most in sizes["nodes"].items():
        yield Budget(f"nodes of {name}", _nodes_below(_source_of(name)), most)
    for room, most in sizes["rooms"].items():
        yield Budget(f"nodes of {room}", _nodes_below(PACKAGE / room), most)
    tests = (ROOT / "tests", ROOT / "lab" / "tests", *ROOT.glob("packages/*/tests"))
    yield Budget("nodes of tests", sum(map(_nodes_below, tests)), sizes["tests"])


def _source_of(distribution: str) -> Path:
    """The folder with the source of a distribution."""
    if distribution == "entrenous":
        return PACKAGE
    if distribution == "lab":
        return ROOT / "lab" / "src"
    return ROOT / "packages" / distribution / "src"


def _nodes_below(folder: Path) -> int:
    """The nodes of a folder; 0 where there is none."""
    return sum(source_of((file,)).nodes for file in python_files(folder))


def _words(most: dict[str, int]) -> Iterable[Budget]:
    pages = DOCS.rglob("*.md")
    read = [page for page in pages if page.relative_to(DOCS).parts[0] not in NOT_READ_THROUGH]
    yield Budget("words that are read", _count_words(read), most["read"])
    yield Budget("words of protocol.md", _count_words([DOCS / "protocol.md"]), most["protocol"])
    yield Budget("words of README.md", _count_words([ROOT / "README.md"]), most["readme"])


def _count_words(pages: Iterable[Path]) -> int:
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
