"""`RowSource`: which rows an experiment is about, and how some of them are held out."""

from __future__ import annotations

from typing import NamedTuple

from ..data.interactions import Interactions
from ..data.load import load


class RowSource(NamedTuple):
    """Where rows come from. least: rows that a user and an item must have. label: what tables call it, "" = data and protocol."""

    data: str
    protocol: str = "pepper-given"
    least: int = 1
    label: str = ""

    def __str__(self) -> str:
        return self.label or f"{self.data}, {self.protocol}" + (f", {self.least} or more rows" if self.least > 1 else "")

    @property
    def slug(self) -> str:
        """The same for the name of a file."""
        return str(self).replace(", ", "-").replace(" ", "-")

    def read(self) -> Interactions:
        """The rows. Raises InputError if the data set is absent."""
        return load(self.data, min_rows=self.least)


def ratings(data: str, least: int = 1) -> RowSource:
    """Ratings under five-fold cross-validation, without users and items that have fewer than `least`.

    >>> str(ratings("ml-1m", 10))
    'ml-1m, 10 or more ratings'
    """
    return RowSource(data, "kfold-5", least, f"{data}, {least} or more ratings" if least > 1 else data)
