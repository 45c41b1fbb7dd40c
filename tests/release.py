"""Checks the files of a release in a folder, as `make dist` does.

    python tests/release.py dist                  as built here
    python tests/release.py dist --version 0.2.0  for an index: this version, and no placeholder

Prints what is wrong, a line each; exit code 1 if anything is.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).resolve().parents[1]
# A domain that belongs to nobody (RFC 2606).
PLACEHOLDER = "example.org"
# What the README says until there is a release.
UNRELEASED = "no release is on a package index yet"
COMPILED = (".nbi", ".nbc", ".pyc")


def problems(folder: Path, version: str = "") -> Iterator[str]:
    """What is wrong with the wheels and the source distributions in a folder. version: that of the
    release; "" if they are not for an index.
    """
    wheels = sorted(folder.glob("*.whl"))
    sources = sorted(folder.glob("*.tar.gz"))
    if not wheels or len(wheels) != len(sources):
        yield f"{folder}: expected a wheel and a source distribution of each package"
        return
    for wheel, source in zip(wheels, sources, strict=True):
        yield from _problems_of_one(wheel, source, version)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if version and (
        f"## {version} (not yet released)" in changes or f"## {version}" not in changes
    ):
        yield f"CHANGELOG.md: expected a section of {version} with its date"


def _problems_of_one(wheel: Path, source: Path, version: str) -> Iterator[str]:
    """What is wrong with the files of one package."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata_name,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata_name)
    with tarfile.open(source) as archive:
        names += archive.getnames()
    # What an index refuses is refused here.
    metadata = Metadata.from_email(text, validate=True)
    yield from (f"{name}: is compiled here" for name in names if name.endswith(COMPILED))
    if not version:
        return
    if str(metadata.version) != version:
        yield f"{metadata.name} {metadata.version}: expected {version}"
    if PLACEHOLDER in text.decode():
        yield f"{PLACEHOLDER}: the address or e-mail in pyproject.toml is still the placeholder"
    if UNRELEASED in text.decode():
        yield f"README.md: says '{UNRELEASED}'"


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--version", default="")
    given = asked.parse_args()
    wrong = list(problems(given.folder, given.version))
    print("\n".join(wrong) or f"{given.folder}: nothing wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
