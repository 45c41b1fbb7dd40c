"""The files of a split that was made elsewhere: train, test and perhaps validation, found in a
folder or by the name of one of them.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...core.errors import InputError
from ..files import OPENERS

# The words for a part, in order of preference; `base` is MovieLens-100K's.
WORDS = {
    "train": ("train", "base"),
    "validation": ("validation", "valid", "val"),
    "test": ("test",),
}
FORMATS = ("parquet", "csv", "tsv", "inter", "dat", "txt", "rating", "jsonl", "json", "ndjson")
ENDINGS = (*FORMATS, *(name + packed for name in FORMATS[1:] for packed in (*OPENERS, ".zip")))
# `ml.train.inter`, `u1.base`, `clicks_train.csv`: the name of the split, then the part.
NAMED = re.compile(r"(.+)[._-](train|base|validation|valid|val|test)(\.[\w.]+)?")


def part_files(place: Path) -> dict[str, Path]:
    """Returns the file of each part.

    place: a folder with `train.*` and `test.*`, with RecBole's `NAME.train.inter` and its kin, or
    with MovieLens-100K's `u1.base` and `u1.test`; or one of these files, or its name without the
    part (`ml-100k/u1`). Raises InputError if a part is missing, or if a folder has several splits.
    """
    if place.is_dir():
        return _in_folder(place)
    match = NAMED.fullmatch(place.name)
    files = _of_split(place.parent, place.name if match is None else match[1])
    if not files and not place.exists():
        raise InputError(
            str(place), "no such folder", expected="a folder with train and test files"
        )
    _check(files, place)
    return files


def _in_folder(folder: Path) -> dict[str, Path]:
    files = _of_split(folder, "")
    if files:
        _check(files, folder)
        return files
    matches = [NAMED.fullmatch(path.name) for path in sorted(folder.iterdir())]
    names = dict.fromkeys(match[1] for match in matches if match is not None)
    splits = {name: _of_split(folder, name) for name in names}
    whole = [name for name, parts in splits.items() if {"train", "test"} <= parts.keys()]
    if len(whole) > 1:
        raise InputError(
            str(folder),
            f"it holds {len(whole)} splits: {', '.join(whole)[:200]}",
            expected="one split",
            fix=f"name the one you mean, such as {folder / whole[0]}",
        )
    if whole:
        return splits[whole[0]]
    _check({}, folder)
    return {}


def _of_split(folder: Path, name: str) -> dict[str, Path]:
    """Returns the files of the parts of a split that are there. name: "" for `train.csv`."""
    files = {}
    for part, words in WORDS.items():
        path = _first(folder, name, words)
        if path is not None:
            files[part] = path
    return files


def _first(folder: Path, name: str, words: tuple[str, ...]) -> Path | None:
    """Returns the first file with the name of the split and one of some words for a part."""
    starts = [f"{name}{mark}" for mark in "._-"] if name else [""]
    for word in words:
        for start in starts:
            # `u1.base` has no ending.
            bare = []
            if name:
                bare = [folder / f"{start}{word}"]
            known = [folder / f"{start}{word}.{ending}" for ending in ENDINGS]
            for path in (*known, *bare):
                if path.is_file():
                    return path
    return None


def _check(files: dict[str, Path], place: Path) -> None:
    """Raises InputError if the training or the test part is missing."""
    for part in ("train", "test"):
        if part not in files:
            raise InputError(
                str(place),
                f"no {part} file",
                expected=f"{part}.csv, NAME.{part}.inter or another of {', '.join(FORMATS)}",
                fix="name the folder of the parts, or one of them",
            )
