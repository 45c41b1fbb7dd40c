"""`tune`: settings of an algorithm chosen on validation rows, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from ..core.contract.protocols import Progress
from ..core.errors import InputError
from ..runs.tuning.grid import tune as try_all
from ..runs.tuning.search import search as try_some
from .asked import algorithm_asked, data_asked
from .progress import asked_progress
from .words import in_python


@final
@dataclass(frozen=True, eq=False, repr=False)
class TunedSettings:
    """What a choice of settings found. found: all of it, as `entrenous tune --json` prints it."""

    found: dict[str, Any]

    @property
    def best(self) -> dict[str, Any]:
        """The settings that did best on validation, for `entrenous.run(..., settings=...)`."""
        chosen: dict[str, Any] = self.found["rows"][0]["settings"]
        return chosen

    def __repr__(self) -> str:
        first = self.found["rows"][0]
        shown = ", ".join(
            f"{name} {value:.4f}" for name, value in list(first["validation"].items())[:2]
        )
        said = ", ".join(f"{name}={value}" for name, value in first["settings"].items())
        return (
            f"TunedSettings({said}; {first['rounds']} rounds: {shown} on validation;"
            f" {len(self.found['rows'])} tried)"
        )

    def rows(self) -> Any:
        """A frame with a row for each choice of settings, the best first: settings, `rounds`, and
        each metric on validation.
        """
        import polars as pl

        rows = [
            {**row["settings"], "rounds": row["rounds"], **row["validation"]}
            for row in self.found["rows"]
        ]
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def tune(
    algorithm: Any,
    data: Any = "ml-100k",
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    space: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool | Progress | None = None,
    **further: Any,
) -> TunedSettings:
    """Train with several choices of settings and compare them on validation rows; the test rows
    stay closed.

    Args: algorithm: a name, a place, a class or an instance, as of `entrenous.run`; an instance's
        settings are the same for all. data: as of `entrenous.run`. grid: {setting: values}, every
        combination of which is tried. space: {setting: "a..b", "a..b:log" or "value,value,..."} for
        a search (the extra `tune`), in place of a grid. settings: what is the same for all, on top
        of an instance's. further: protocol, seeds, rounds, every, load, threads, workers, ray; of a
        search also trials, seed, out, resume.

    Raises: InputError: for neither a grid nor a space, or both, and for settings that the algorithm
        does not have.
    """
    with in_python(), asked_progress(progress) as shown:
        if bool(grid) == bool(space):
            raise InputError(
                "tune",
                "both a grid and a space" if grid else "nothing to choose from",
                expected="grid=... or space=...",
            )
        name, own = algorithm_asked(algorithm)
        rows, fixed = data_asked(data), {**own, **(settings or {})}
        if space:
            return TunedSettings(
                try_some(name, rows, space=space, settings=fixed, progress=shown, **further)
            )
        choices = {one: [str(value) for value in values] for one, values in (grid or {}).items()}
        return TunedSettings(
            try_all(name, rows, grid=choices, settings=fixed, progress=shown, **further)
        )
