"""Attacks on a transcript, run in a process of their own that is given its file and nothing
else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from ..core.contract.protocols import Progress, silent
from ..core.errors import EntrenousError, one_line
from .claims import Claims, read_claims
from .transcript import Transcript, write_transcript

PACKAGE = Path(__file__).resolve().parent.parent
BEGIN = (
    "import sys; sys.path.insert(0, sys.argv[1]); from entrenous.audit.attacker import main;"
    " main(sys.argv[2:])"
)
KEPT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "LD_LIBRARY_PATH")
ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}  # many small products: threads would wait for each other, and add in any order


class Attempt(NamedTuple):
    """What became of one attack. claims: None where it failed. failed: the reason, "" = it did
    not.
    """

    name: str
    claims: Claims | None
    seconds: float
    failed: str


def attempts(
    transcript: Transcript, names: Sequence[str] = (), *, progress: Progress = silent
) -> list[Attempt]:
    """Runs the attacks that apply to a transcript, or those of them that are named, in a process
    that sees it alone.

    Raises EntrenousError if that process ends before it is done.
    """
    with tempfile.TemporaryDirectory(prefix="entrenous-audit-") as kept:
        folder = Path(kept)
        file, out = folder / "transcript", folder / "claims"
        out.mkdir()
        write_transcript(file, transcript)
        with (
            open(folder / "errors", "w+", encoding="utf-8") as errors,
            begun(file, out, names, errors) as process,
        ):
            found = _followed(process, out, progress)
            if process.wait():
                errors.seek(0)
                said = one_line(errors.read().strip()[-300:])
                raise EntrenousError(
                    f"audit: the process of the attacks ended with {process.returncode}: {said}"
                )
    return found


def begun(
    file: Path, out: Path, names: Sequence[str], errors: IO[str], begin: str = BEGIN
) -> subprocess.Popen[str]:
    """The process that runs attacks on the transcript in `file` and writes their claims to the
    folder `out`.

    errors: where its standard error goes. begin: the program, for tests that run another one within
        the same walls.
    """
    environment = {**ALONE, **{name: os.environ[name] for name in KEPT if name in os.environ}}
    if not os.access(PACKAGE, os.W_OK):
        environment.setdefault("NUMBA_CACHE_DIR", str(out))
    command = [sys.executable, "-I", "-c", begin, str(PACKAGE.parent), str(file), str(out), *names]
    return subprocess.Popen(
        command,
        env=environment,
        cwd=out,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


def _followed(process: subprocess.Popen[str], out: Path, progress: Progress) -> list[Attempt]:
    """What the process says of each attack, as it comes."""
    assert process.stdout is not None
    names: list[str] = []
    found: list[Attempt] = []
    for line in process.stdout:
        said = json.loads(line)
        if "attacks" in said:
            names = said["attacks"]
        else:
            claims = None if said["failed"] else read_claims(out / said["attack"])
            found.append(
                Attempt(said["attack"], claims, said["seconds"], one_line(said["failed"], 200))
            )
        progress(
            len(found),
            max(1, len(names)),
            f"attack {names[len(found)]}" if len(found) < len(names) else "attacks",
        )
    return found
