"""Attacks on a transcript, run in a separate process that is given the transcript's file and
nothing else.
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

from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.errors import EntrenousError, one_line

from .claims import Claims, read_claims
from .guard import ours
from .transcript import Transcript, write_transcript

BEGIN = (
    "import os, sys; sys.path[:0] = sys.argv[1].split(os.pathsep);"
    " from entrenous_audit.attacker import main; main(sys.argv[2:])"
)
KEPT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "LD_LIBRARY_PATH")
# Products of small matrices, for which threads would wait for each other, and add in any order.
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Attempt(NamedTuple):
    """The result of one attack."""

    name: str
    claims: Claims | None
    """The attack's claims. None if it failed."""
    failed: str
    """The reason why it failed; "" if it did not."""


def attempts(
    transcript: Transcript, names: Sequence[str] = (), *, progress: Progress = silent
) -> list[Attempt]:
    """Runs the attacks that apply to a transcript in a process that sees nothing else.

    names: of attacks; the others are left out. () = none is.

    Raises EntrenousError if that process ends before it is done.
    """
    with tempfile.TemporaryDirectory(prefix="entrenous-audit-") as kept:
        folder = Path(kept)
        file = folder / "transcript"
        out = folder / "claims"
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
    """Starts the process that runs attacks on the transcript in `file` and writes their claims to
    the folder `out`.

    errors: takes its standard error. begin: the program, for tests that run another one within the
        same walls.
    """
    # An environment of what compiled code needs, and of nothing that names the data.
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment = {**ALONE, **kept}
    # Compiled code of an installation that cannot be written goes to the folder of the claims.
    if not all(os.access(package, os.W_OK) for package in ours()):
        environment.setdefault("NUMBA_CACHE_DIR", str(out))
    paths = os.pathsep.join(str(package.parent) for package in ours())
    command = [sys.executable, "-I", "-c", begin, paths, str(file), str(out), *names]
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
    """Reads the lines of the process as they come: the names of the attacks, then one line for each
    attack that has ended.
    """
    assert process.stdout is not None
    names: list[str] = []
    done: list[Attempt] = []
    for line in process.stdout:
        news = json.loads(line)
        if "attacks" in news:
            names = news["attacks"]
        else:
            name = news["attack"]
            failed = one_line(news["failed"], 200)
            claims = None if failed else read_claims(out / name)
            done.append(Attempt(name, claims, failed))
        now = "attacks"
        if len(done) < len(names):
            now = f"attack {names[len(done)]}"
        progress(len(done), max(1, len(names)), now)
    return done
