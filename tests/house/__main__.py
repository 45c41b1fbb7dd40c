"""Prints what the code of the package is like: `python -m tests.house`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))


def main() -> None:
    """Prints a table: each figure, and the bound that `tests/house/test_house.py` holds it to."""
    from tests.house.figures import figures

    with tempfile.TemporaryDirectory() as folder:
        rows = figures(Path(folder))
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:{width}}  {row.value:>10}  {row.bound}")


if __name__ == "__main__":
    main()
