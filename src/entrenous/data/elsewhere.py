"""The answer of a fresh interpreter to a process that cannot read (see `forked`)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import EntrenousError, InputError, one_line
from .kept import arrays_of_rows
from .load import loaded
from .options import LoadOptions


def answered(
    source: str, *, is_path: bool, options: dict[str, Any], fetch: bool, part: bool
) -> bytes:
    """Returns the interactions of a source as an archive of arrays, or its error as JSON."""
    place = Path(source) if is_path else source
    try:
        data = loaded(place, LoadOptions.parse(options, "load"), fetch=fetch, part=part)
    except InputError as bad:
        texts = {
            "where": bad.where,
            "problem": bad.problem,
            "expected": bad.expected,
            "fix": bad.fix,
        }
        return json.dumps(texts).encode()
    except EntrenousError as bad:
        return json.dumps({"said": one_line(str(bad))}).encode()
    arrays: dict[str, Any] = arrays_of_rows(data)
    archive = io.BytesIO()
    np.savez(archive, **arrays)
    return archive.getvalue()
