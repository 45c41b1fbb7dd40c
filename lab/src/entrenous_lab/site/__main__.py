"""`python -m entrenous_lab.site [NAME...]`: writes the tutorials and the generated pages anew.
`python -m entrenous_lab.site --stage FOLDER` writes what the site is built of.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .cells import executed, parsed, written
from .reference import PAGES
from .stage import staged


def main(names: Sequence[str]) -> None:
    """Writes the files below docs/ of the current folder; of some names alone, if there are any."""
    if names[:1] == ["--stage"]:
        staged(Path.cwd(), Path(names[1]).resolve())
        return
    docs = Path("docs")
    for script in sorted((docs / "tutorials").glob("*.py")):
        if names and script.stem not in names:
            continue
        cells = parsed(script.read_text(encoding="utf-8"))
        outputs = executed(cells, [script.with_name("books.csv")])
        for name, text in written(script, cells, outputs).items():
            script.with_name(name).write_text(text, encoding="utf-8")
        print(f"{script}: {len(cells)} cells")
    for name, made in PAGES.items():
        if names and name not in names:
            continue
        place = docs / "reference" / f"{name}.md"
        place.write_text(made(), encoding="utf-8")
        print(place)


if __name__ == "__main__":
    main(sys.argv[1:])
