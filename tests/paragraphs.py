"""How much there is to read, and whether it can be read once.

python tests/paragraphs.py              words of each section of the site, comments left out
python tests/paragraphs.py --seed 40    twenty paragraphs drawn from the pages outside the reference
"""

from __future__ import annotations

import argparse
import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Looked up and not read: sections of the site's navigation that have no bound of words.
LOOKED_UP = ("Reference", "Results")
FENCED = re.compile(r"```.*?```", re.S)
UNSEEN = re.compile(r"<!--.*?-->", re.S)
DRAWN = 20


def sections(root: Path = ROOT) -> dict[str, list[Path]]:
    """The pages of each section, as the navigation of mkdocs.yml names them."""
    found: dict[str, list[Path]] = {"": []}
    section = ""
    navigation = (root / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    for line in navigation.splitlines():
        page = re.fullmatch(r" +- (?:.*: )?([\w./-]+\.md)", line)
        head = re.fullmatch(r"  - (.+):", line)
        if page:
            found[section].append(root / "docs" / page[1])
        elif head:
            section = head[1]
            found[section] = []
    return found


def words(pages: list[Path]) -> int:
    """The words of some pages, code and tables among them, as a reader sees them."""
    return sum(len(_seen(page).split()) for page in pages)


def _seen(page: Path) -> str:
    return UNSEEN.sub("", page.read_text(encoding="utf-8"))


def read_through(root: Path = ROOT) -> list[Path]:
    """The pages that are read and not looked up."""
    kept = []
    for name, pages in sections(root).items():
        if name not in LOOKED_UP:
            kept += pages
    return kept


def paragraphs(page: Path) -> list[str]:
    """The paragraphs and entries of lists of a page, without code, tables and headings."""
    text = FENCED.sub("", _seen(page))
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", text)
    said = [" ".join(part.split()) for part in parts]
    return [part for part in said if len(part.split()) > 15 and not re.match(r"[|#<!]", part)]


def main() -> None:
    """Prints the words by section, or drawn paragraphs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="draw paragraphs by this seed")
    asked = parser.parse_args()
    if asked.seed is None:
        for name, pages in sections().items():
            print(f"{words(pages):7,} {name or 'Entry'}: {len(pages)} pages")
        print(f"{words(read_through()):7,} outside {' and '.join(LOOKED_UP)}")
        return
    every = [(page, part) for page in read_through() for part in paragraphs(page)]
    for page, part in random.Random(asked.seed).sample(every, DRAWN):
        print(f"{page.relative_to(ROOT)}\n  {part}\n")


if __name__ == "__main__":
    main()
