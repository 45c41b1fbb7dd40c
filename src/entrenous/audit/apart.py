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
# Many small products: threads would wait for each other, and add in any order.
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Attempt(NamedTuple):
    """The result of one attack."""

    name: str
    claims: Claims | None
    """None where it failed."""
    seconds: float
    failed: str
    """The reason; "" = it did not fail."""


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
            done = _followed(process, out, progress)
            if process.wait():
                errors.seek(0)
                reason = one_line(errors.read().strip()[-300:])
                raise EntrenousError(
                    f"audit: the process of the attacks ended with {process.returncode}: {reason}"
                )
    return done


def begun(
    file: Path, out: Path, names: Sequence[str], errors: IO[str], begin: str = BEGIN
) -> subprocess.Popen[str]:
    """The process that runs attacks on the transcript in `file` and writes their claims to the
    folder `out`.

    errors: where its standard error goes. begin: the program, for tests that run another one within
        the same walls.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment = {**ALONE, **kept}
    # Compiled code of an installation that cannot be written goes to the folder of the claims.
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
    """Reads the lines of the process, one for each attack, as they come."""
    assert process.stdout is not None
    names: list[str] = []
    done: list[Attempt] = []
    for line in process.stdout:
        told = json.loads(line)
        if "attacks" in told:
            names = told["attacks"]
        else:
            name, failed = told["attack"], one_line(told["failed"], 200)
            claims = None if failed else read_claims(out / name)
            done.append(Attempt(name, claims, told["seconds"], failed))
        now = f"attack {names[len(done)]}" if len(done) < len(names) else "attacks"
        progress(len(done), max(1, len(names)), now)
    return done
