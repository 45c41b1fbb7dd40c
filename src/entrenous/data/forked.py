"""Reading in a process that was forked from one that had read before, as the workers of a pool are.

Polars starts threads when it is first used. A fork copies none of them, so that a read in the new
process would wait for them for ever. Such a process lets a fresh interpreter read instead.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

from ..core.errors import EntrenousError, InputError
from .interactions import Interactions
from .kept import rows_from_arrays
from .options import LoadOptions

# Standard output is kept for the answer: what a user's own data set prints goes to stderr.
PROGRAM = """
import json, os, sys
request = json.load(sys.stdin)
answer = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.path[:] = request.pop("modules")
from entrenous.data.elsewhere import answered
answer.write(answered(**request))
answer.close()
"""
# The form of an archive of arrays, which no JSON begins with.
ARCHIVE = b"PK"
REMEDY = "start the pool with multiprocessing.get_context('spawn') or 'forkserver'"


def is_without_threads() -> bool:
    """Tells whether another process has the threads that polars needs here. Called before anything
    is read.
    """
    return _owner_of_threads() != os.getpid()


def refuse_without_threads(where: str, fix: str) -> None:
    """Raises InputError in a process that has no threads of polars and cannot get any. fix: what
    the user can do instead.
    """
    if is_without_threads():
        raise InputError(
            where,
            "this process was forked from one that had read data before, and polars cannot read in"
            " it",
            fix=f"{fix}, or {REMEDY}",
        )


@cache
def _owner_of_threads() -> int:
    """Returns the process that has, or will have, the threads of polars. A fork inherits the
    answer that its parent had.
    """
    # Nobody knows whether a parent used polars itself; that costs a forked process only time.
    if "polars" in sys.modules and _is_forked_worker():
        return os.getppid()
    return os.getpid()


def _is_forked_worker() -> bool:
    """Tells whether multiprocessing made this process by a fork."""
    if "multiprocessing.process" not in sys.modules:
        return False
    from multiprocessing.process import current_process

    return type(current_process()).__name__ == "ForkProcess"


def load_elsewhere(
    source: str | Path, options: LoadOptions, *, fetch: bool, part: bool
) -> Interactions:
    """Returns the interactions that a fresh interpreter reads, by the same modules and in the same
    folder. Arguments and errors are those of `load`.
    """
    if not sys.executable:
        refuse_without_threads(str(source), "read the data before the fork")
    request = {
        "modules": sys.path,
        "source": os.fspath(source),
        "is_path": isinstance(source, Path),
        "options": options.model_dump(mode="json", exclude_unset=True),
        "fetch": fetch,
        "part": part,
    }
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )
    if ended.returncode:
        raise EntrenousError(
            f"{source}: the process that read it ended with {ended.returncode}; expected 0"
        )
    if ended.stdout.startswith(ARCHIVE):
        with np.load(io.BytesIO(ended.stdout), allow_pickle=False) as arrays:
            return rows_from_arrays(dict(arrays), str(source))
    error = json.loads(ended.stdout)
    if "where" in error:
        raise InputError(**error)
    raise EntrenousError(error["said"])
