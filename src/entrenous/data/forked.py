"""Reading in a process that was forked from one that had read before, as the workers of a pool are.

A fork copies no threads, so that polars would wait for its own for ever (`table` tells of such a
process). A fresh interpreter reads for the process instead.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from ..core.errors import EntrenousError, InputError
from .interactions import Interactions
from .kept import rows_from_arrays
from .options import LoadOptions
from .table import refuse_without_threads

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
