"""`entrenous split`: a split as files."""

from __future__ import annotations

from pathlib import Path

from ..core.cells import CHANGED, is_formula
from .console import say, tell
from .options import Load, assignments


def split(
    data: str,
    /,
    *,
    protocol: str = "loo-99",
    out: Path,
    seed: int = 0,
    load: Load = None,
    parquet: bool = False,
) -> None:
    """Write a split, with its frozen candidates, as files that `--protocol given` (or any other
    program) reads.

    Example: entrenous split ml-100k --protocol temporal-80-20 --out mysplit

    Parameters
    ----------
    data:
        A data set, file or folder.
    protocol:
        How rows are held out: {protocols}.
    out:
        A new folder; one folder a fold under it for kfold.
    seed:
        Names the split and its candidates.
    parquet:
        Parquet instead of CSV.
    """
    from ..data.split.export import write
    from ..runs.options import RunPlan
    from ..runs.pipeline import material

    plan = RunPlan(
        algorithm="popular",
        data=data,
        protocol=protocol,
        seed=seed,
        load=assignments(load, "--load"),
    )
    parts = material(plan).parts
    ids = (*parts[0].train.users.ids, *parts[0].train.items.ids)
    changed = 0 if parquet else sum(is_formula(one) for one in ids)
    if changed:
        say(f"{changed} ids {CHANGED}, as this program does when it reads the split")
    for number, part in enumerate(parts, 1):
        tell(
            write(
                part,
                out if len(parts) == 1 else out / str(number),
                format="parquet" if parquet else "csv",
            )
        )
