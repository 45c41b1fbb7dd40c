"""Compares the test vectors with the sources, or writes them anew.

python -m tests.vectors            exit code 1 and a line for each file that differs
python -m tests.vectors --write    writes the files
"""

from __future__ import annotations

import sys

from tests.vectors import FOLDER, vectors


def main() -> int:
    """Compares or writes. Returns the exit code."""
    differing = 0
    for name, text in vectors().items():
        path = FOLDER / name
        stored = path.read_text(encoding="utf-8") if path.exists() else ""
        if stored == text:
            continue
        if "--write" in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
            print(f"{path}: written")
        else:
            print(f"{path}: differs; python -m tests.vectors --write")
            differing = 1
    return differing


if __name__ == "__main__":
    raise SystemExit(main())
