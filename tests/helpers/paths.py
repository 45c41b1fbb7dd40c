"""Where the repository's folders are, and the shared data that not every machine has."""

from __future__ import annotations

import os
from pathlib import Path

HELPERS = Path(__file__).resolve().parent
ROOT = HELPERS.parents[1]
PYTHONPATH = os.pathsep.join(
    [str(ROOT / "src"), str(ROOT), str(HELPERS)]
)  # of processes that import helpers, or tests by their place
SOURCE = ROOT / "src" / "entrenous"
SHARED = Path(
    os.environ.get("ENTRENOUS_SHARED") or "no ENTRENOUS_SHARED"
)  # the one name of the real data sets; `make test` sets it
