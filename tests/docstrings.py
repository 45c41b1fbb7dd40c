"""Random public docstrings of a source tree, to be read by somebody who does not know the code.

python tests/docstrings.py --seed 0 --n 30 [--tree src/entrenous]

Public is what has no leading underscore, nor lies in a class or function that has one. One seed
draws the same places of a list that is sorted by file and line, so that two states of one tree can
be compared, though not docstring by docstring."""

from __future__ import annotations

import argparse
import ast
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).resolve().parents[1] / "src" / "entrenous"
FEW = 3  # words that cannot stand alone


class Docstring(NamedTuple):
    """A docstring. module: dotted, below the tree; name: within the module, "" for the module
    itself.
    """

    module: str
    name: str
    text: str

    @property
    def words(self) -> int:
        """How many words it has."""
        return len(self.text.split())


def public(tree: Path) -> list[Docstring]:
    """All public docstrings of modules, classes, functions and methods below a folder, by file and
    line.
    """
    return [found for path in sorted(tree.rglob("*.py")) for found in _of_file(tree, path)]


def _of_file(tree: Path, path: Path) -> Iterator[Docstring]:
    module, parsed = (
        ".".join(path.relative_to(tree).with_suffix("").parts),
        ast.parse(path.read_text(encoding="utf-8")),
    )
    if text := ast.get_docstring(parsed):
        yield Docstring(module, "", text)
    for name, text in _of_body(parsed.body, ""):
        yield Docstring(module, name, text)


def _of_body(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not node.name.startswith("_"):
            if text := ast.get_docstring(node):
                yield prefix + node.name, text
            if isinstance(node, ast.ClassDef):
                yield from _of_body(node.body, f"{prefix}{node.name}.")


def main() -> None:
    """Prints the drawn docstrings, then the word counts of those and of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n", type=int, default=30)
    parser.add_argument("--tree", type=Path, default=TREE)
    asked = parser.parse_args()
    found = public(asked.tree)
    drawn = random.Random(asked.seed).sample(found, min(asked.n, len(found)))
    for number, one in enumerate(drawn, 1):
        print(
            f"{number}. {one.module} {one.name} ({one.words} words)\n    "
            + one.text.replace("\n", "\n    ")
            + "\n"
        )
    for what, some in (("drawn", drawn), ("all", found)):
        few = sum(one.words <= FEW for one in some)
        median = statistics.median(one.words for one in some)
        print(
            f"{what}: {len(some)} public docstrings, median {median:g} words, {few} of {FEW} words"
            " or fewer"
        )


if __name__ == "__main__":
    main()
