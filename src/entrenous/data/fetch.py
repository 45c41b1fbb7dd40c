"""The sources that a data set can be fetched from: a wheel on the package index, or an archive on
the site of its makers. Files are checked by SHA-256 and cached whole.
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
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, final

from ..core.errors import InputError, one_line
from .home import write_atomic

# Bytes of an archive.
LARGEST = 64 << 20
# Seconds for pip, and for each read from a site.
WAIT = 120

Say = Callable[[str], None]


class Unavailable(Exception):
    """Raised by a source that cannot be used; the next one is tried."""


class FileSource(Protocol):
    """A place that has the files of a data set."""

    @property
    def members(self) -> Mapping[str, str]:
        """The place of each file in the source, by its name in the cache."""

    def read(self) -> dict[str, bytes]:
        """Returns the content of each file by its name in the cache. Raises Unavailable."""

    def __str__(self) -> str:
        """Returns the name of the source, for people."""


@final
@dataclass(frozen=True)
class Wheel:
    """Files inside a wheel. pip downloads it, so that the user's index settings and proxies hold;
    nothing of it is installed or imported.
    """

    requirement: str
    """The wheel and its version, such as `recbole==1.2.1`."""
    sha256: str
    """The hash of the wheel, in hexadecimal."""
    members: Mapping[str, str]
    """The path of each file in the wheel, by its name in the cache."""

    def __str__(self) -> str:
        return f"the wheel {self.requirement} (with pip)"

    def read(self) -> dict[str, bytes]:
        # As in an environment that uv has made.
        if find_spec("pip") is None:
            raise Unavailable("pip is not installed in this environment")
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
            try:
                done = subprocess.run(
                    command,
                    # An empty folder, because `-m` imports from the working folder first.
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
                reason = _reason(done.stderr)
                raise Unavailable(reason or f"pip download ended with {done.returncode}")
            return _members(wheels[0].read_bytes(), self.sha256, self.members)


@final
@dataclass(frozen=True)
class Archive:
    """Files inside a zip archive at a URL, read with the user's proxies."""

    url: str
    """The place of the archive."""
    digest: str
    """The SHA-256 of the archive, in hexadecimal; `md5:` before its MD5 if its makers publish that
    alone.
    """
    members: Mapping[str, str]
    """The path of each file in the archive, by its name in the cache."""
    largest: int = LARGEST
    """The most bytes of the archive."""

    def __str__(self) -> str:
        return self.url

    def read(self) -> dict[str, bytes]:
        import urllib.request
        from http.client import HTTPException

        try:
            with urllib.request.urlopen(self.url, timeout=WAIT) as answer:
                # One byte more shows that the archive is too large.
                raw = answer.read(self.largest + 1)
        except (OSError, HTTPException, ValueError) as wrong:
            raise Unavailable(str(wrong)) from None
        if len(raw) > self.largest:
            raise Unavailable(f"more than {self.largest:,} bytes")
        return _members(raw, self.digest, self.members)


def _reason(stderr: str) -> str:
    """Returns the last error that pip printed, or else its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    candidates = errors or lines or [""]
    return one_line(candidates[-1].removeprefix("ERROR: "), 160)


def _members(raw: bytes, expected: str, members: Mapping[str, str]) -> dict[str, bytes]:
    """Returns the wanted files of a zip archive. Raises Unavailable for another hash."""
    # Before the archive is opened: what was changed on the way is not parsed.
    kind, _, wanted = f"sha256:{expected}".rpartition(":")
    kind = kind.rpartition(":")[2]
    digest = hashlib.new(kind, raw, usedforsecurity=False).hexdigest()
    if digest != wanted:
        raise Unavailable(
            f"its {kind} is {digest[:12]}..., not {wanted[:12]}...: it was changed on the way or at"
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
    """Writes the files of the first source that works into `folder`, each whole or not at all.
    Returns that source. say: gets progress messages.

    Raises InputError with the reason of every source if none works, and if the folder cannot be
    written to.
    """
    reasons = []
    for source in sources:
        say(f"fetching {name} from {source}")
        try:
            # Only this may fail over to the next source; a full disk may not.
            contents = source.read()
        except Unavailable as why:
            reasons.append(f"{source}: {one_line(str(why), 160)}")
            continue
        for file, raw in contents.items():
            write_atomic(folder / file, raw)
        return source
    files = " and ".join(sources[-1].members)
    fix = f"check the network, or put {files} into {folder} yourself"
    if terms:
        fix += f"; terms: {terms}"
    raise InputError(name, "could not be fetched from " + ", nor from ".join(reasons), fix=fix)
