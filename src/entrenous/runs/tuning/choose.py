"""A choice of settings by one of the two ways: a grid, or a search."""

from __future__ import annotations

from ...core.errors import InputError
from .grid import TuneRequest, TuningFound, try_grid
from .search import try_space

OF_SEARCH = ("trials", "search_seed", "out", "resume")  # options that a grid does not have


def chosen(asked: TuneRequest) -> TuningFound:
    """The result of the grid or of the search that is asked for. Raises InputError for both, for
    neither, and for a grid with options of a search.
    """
    if bool(asked.grid) == bool(asked.space):
        both = "--grid and --search are two ways to choose"
        raise InputError(
            "entrenous tune",
            both if asked.grid else "there is nothing to choose from",
            expected="one of --grid name=value,value,... and --search name=a..b",
        )
    if asked.space:
        return try_space(asked)
    refuse_of_search(asked)
    return try_grid(asked)


def refuse_of_search(asked: TuneRequest) -> None:
    """Refuses options of a search together with a grid."""
    for name in OF_SEARCH:
        if getattr(asked, name) not in (None, False):
            raise InputError(
                f"--{name.replace('_', '-')}",
                "a grid has none",
                expected="--search name=a..b in place of --grid",
                fix="or leave it out",
            )
