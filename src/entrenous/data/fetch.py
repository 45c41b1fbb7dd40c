"""Where a data set can be fetched from: a wheel on the package index, or an archive on its maker's
site.

What comes is checked by SHA-256 and cached whole.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final

from ..core.errors import InputError, one_line
from .home import write_atomic

LARGEST = 64 << 20  # bytes of an archive
WAIT = 120  # seconds for pip, and for each read from a site

Say = Callable[[str], None]


class Unavailable(Exception):
    """A source could not be used; the next one is tried."""


class FileSource(Protocol):
    """Something that yields the files of a data set. members: {file name in the cache: where it is
    in the source}.
    """

    @property
    def members(self) -> Mapping[str, str]: ...
    def read(self) -> dict[str, bytes]: ...
    def __str__(self) -> str: ...


@final
@dataclass(frozen=True)
class Wheel:
    """Files inside a wheel. pip itself downloads it, so that the user's index settings and proxies
    hold; nothing of it is installed or imported.

    requirement: such as `recbole==1.2.1`. sha256: of the wheel. members: {file name in the cache:
    path in the wheel}."""

    requirement: str
    sha256: str
    members: Mapping[str, str]

    def __str__(self) -> str:
        return f"the wheel {self.requirement} (with pip)"

    def read(self) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory(prefix="entrenous-") as folder:
            options = [
                "--quiet",
                "--no-input",
                "--disable-pip-version-check",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--dest",
                folder,
            ]
            command = [sys.executable, "-m", "pip", "download", *options, self.requirement]
            try:  # in an empty folder, because `-m` imports from the working folder first
                done = subprocess.run(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=WAIT,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as wrong:
                raise Unavailable(str(wrong)) from None
            wheels = list(Path(folder).glob("*.whl"))
            if done.returncode or not wheels:
                raise Unavailable(
                    _reason(done.stderr) or f"pip download ended with {done.returncode}"
                )
            return _members(wheels[0].read_bytes(), self.sha256, self.members)


@final
@dataclass(frozen=True)
class Archive:
    """Files inside a zip archive at a URL, read with the user's proxies. sha256: of the archive.
    members: as in `Wheel`.
    """

    url: str
    sha256: str
    members: Mapping[str, str]

    def __str__(self) -> str:
        return self.url

    def read(self) -> dict[str, bytes]:
        import urllib.request
        from http.client import HTTPException

        try:
            with urllib.request.urlopen(self.url, timeout=WAIT) as answer:
                raw = answer.read(LARGEST + 1)
        except (OSError, HTTPException, ValueError) as wrong:
            raise Unavailable(str(wrong)) from None
        if len(raw) > LARGEST:
            raise Unavailable(f"more than {LARGEST:,} bytes")
        return _members(raw, self.sha256, self.members)


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return one_line((errors or lines or [""])[-1].removeprefix("ERROR: "), 160)


def _members(raw: bytes, sha256: str, members: Mapping[str, str]) -> dict[str, bytes]:
    """The wanted files of a zip archive whose hash is right."""
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise Unavailable(
            f"its sha256 is {found[:12]}..., not {sha256[:12]}...: it was changed on the way or at"
            " the source"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return {name: archive.read(member) for name, member in members.items()}
    except (KeyError, zipfile.BadZipFile) as wrong:
        raise Unavailable(str(wrong)) from None


def fetch(
    name: str, sources: Sequence[FileSource], folder: Path, say: Say, *, terms: str = ""
) -> FileSource:
    """Caches the files of the first source that works in `folder`, each written whole; returns that
    source.

    Raises InputError with every source's reason if none works, and if the folder cannot be written
    to.
    """
    reasons = []
    for source in sources:
        say(f"fetching {name} from {source}")
        try:
            files = source.read()
        except Unavailable as why:
            reasons.append(f"{source}: {one_line(str(why), 160)}")
            continue
        for file, raw in files.items():
            write_atomic(folder / file, raw)
        return source
    fix = (
        f"check the network, or put {' and '.join(sources[-1].members)} into {folder} yourself"
        + (f"; terms: {terms}" if terms else "")
    )
    raise InputError(name, "could not be fetched from " + ", nor from ".join(reasons), fix=fix)
