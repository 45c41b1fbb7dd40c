"""The pages as the site's builder takes them: docs/ copied, with links that lead out of it made
into copies (pictures) or into addresses of the repository (everything else).

In the repository such links stay relative, so that they work in a clone and on a forge.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from .layers import drawn

LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
DIAGRAM = re.compile(r"```mermaid\n(.*?)```", re.S)
FENCE = re.compile(r"^\s*```")
PICTURES = (".svg", ".png")
OUTSIDE = "outside"  # the folder of the pictures that lie elsewhere in the repository


def staged(root: Path, place: Path) -> None:
    """Writes docs/ of the checkout `root` to the new folder `place`."""
    shutil.rmtree(place, ignore_errors=True)
    docs = root / "docs"
    shutil.copytree(docs, place, ignore=shutil.ignore_patterns("examples"))
    address = repository(root)
    for page in sorted(place.rglob("*.md")):
        source = docs / page.relative_to(place)
        text = page.read_text(encoding="utf-8")
        diagram = DIAGRAM.search(text)
        if diagram:
            page.with_suffix(".svg").write_text(drawn(diagram[1]), encoding="utf-8")
            text = text.replace(diagram[0], f"![The arrows between the rooms]({page.stem}.svg)")
        page.write_text(_relinked(text, source, root, place, address), encoding="utf-8")


def repository(root: Path) -> str:
    """Returns the address of the repository, which mkdocs.yml names."""
    found = re.search(r"^  repository: (\S+)", (root / "mkdocs.yml").read_text(), re.M)
    assert found, "mkdocs.yml names no repository"
    return found[1]


def _relinked(text: str, source: Path, root: Path, place: Path, address: str) -> str:
    """Returns the text of a page, `source` in the repository, with the links of the site."""
    docs = root / "docs"

    def relinked(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        there = (source.parent / target).resolve()
        if there.is_relative_to(docs / "examples") or not there.is_relative_to(docs):
            inside = there.relative_to(root).as_posix()
            if there.suffix not in PICTURES:
                kind = "tree" if there.is_dir() else "blob"
                return f"{link['before']}{address}/{kind}/main/{inside}{link['anchor'] or ''}"
            copy = place / OUTSIDE / inside
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(there, copy)
            up = "../" * len(source.relative_to(docs).parent.parts)
            return f"{link['before']}{up}{OUTSIDE}/{inside}"
        return link[0]

    lines = []
    is_code = False
    for line in text.splitlines(keepends=True):
        is_code = is_code != bool(FENCE.match(line))
        lines.append(line if is_code else LINK.sub(relinked, line))
    return "".join(lines)
