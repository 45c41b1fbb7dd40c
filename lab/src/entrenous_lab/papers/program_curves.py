"""`curves_of`: runs of PEPPER's program, each remembered in a file as soon as it is finished, so
that experiments share them and a killed one goes on.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias
from zipfile import BadZipFile

import numpy as np

from entrenous.core.registry.program import closure, program_sha256
from entrenous.runs.store import write_atomically

from .pepper_program import Gossip, ProgramCurve, ProgramRows, run_program
from .remember import Cells

MODULE = "entrenous_lab.papers.pepper_program"
Asked: TypeAlias = tuple[Gossip, int]


def curves_of(cells: Cells, rows: ProgramRows, asked: Sequence[Asked]) -> list[ProgramCurve]:
    """Returns the curve of each gossip and seed, in their order, run if it is not remembered."""
    rows_sha256 = _sha256_of(rows)
    # Named before the threads start: sources are parsed for it, and CPython 3.11 cannot parse in
    # two threads at once.
    names = {one: _name(rows_sha256, *one) for one in asked}

    def curve_of(one: Asked) -> ProgramCurve:
        gossip, seed = one
        if cells.folder is None:
            return run_program(rows, gossip, seed)
        path = cells.folder / f"program-{names[one]}.npz"
        remembered = _read(path)
        if remembered is not None:
            return remembered
        curve = run_program(rows, gossip, seed)
        write_atomically(path, _written(curve))
        return curve

    with ThreadPoolExecutor(cells.workers, thread_name_prefix="program") as pool:
        return list(pool.map(curve_of, asked))


def _name(rows_sha256: str, gossip: Gossip, seed: int) -> str:
    """Returns the identity of a run: the source of the program, its rows, settings and seed."""
    others = closure(MODULE) - {MODULE}
    program = program_sha256(MODULE, without=tuple(sorted(others)))
    told = f"{program} {rows_sha256} {gossip} {seed}"
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def _sha256_of(rows: ProgramRows) -> str:
    found = hashlib.sha256(str(rows.items).encode())
    for table in (rows.ptr, rows.item, *rows.weighting, *rows.test):
        found.update(np.ascontiguousarray(table).tobytes())
    return found.hexdigest()


def _written(curve: ProgramCurve) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **curve._asdict())
    return buffer.getvalue()


def _read(path: Path) -> ProgramCurve | None:
    """Returns the curve of a file; None if there is none or it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            return ProgramCurve(*(kept[name] for name in ProgramCurve._fields))
    except (OSError, ValueError, KeyError, BadZipFile):
        return None
