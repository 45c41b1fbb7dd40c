"""`Dataset`: one named data set as a declaration. Each file in `data/sets/` offers one or more in
its DATASETS.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, final

from ..core.errors import InputError
from ..core.printed import plain
from ..core.registry.discover import offers, pick, with_plugins
from .divided import Divided
from .fetch import FileSource, fetch
from .home import VARIABLE, data_home, find
from .interactions import Interactions
from .published import Published


@final
@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A named data set as a declaration."""

    name: str
    summary: str
    """Size and kind, one line."""
    terms: str
    """The permitted use."""
    citation: str
    """The work to cite."""
    origin: str
    """The place to get it from."""
    read: Callable[[Path], Interactions]
    """From the folder to `Interactions`."""
    folder: str | None = None
    """The folder below the data folder; None for data that is made rather than read."""
    files: tuple[str, ...] = ()
    """Any one of them shows that the data set is there. A name without a dot may end in .parquet,
    .csv or .tsv.
    """
    sources: tuple[FileSource, ...] = ()
    """The sources of `fetch` in order of preference; empty if it cannot be fetched."""
    published: Mapping[str, Callable[[Path], Published]] = field(default_factory=dict)
    """{whose: from the folder to the rows they held out}, for published test rows ("ncf")."""
    divided: Mapping[str, Callable[[Path], Divided]] = field(default_factory=dict)
    """{whose: from the folder to all parts they published}, training rows too ("pepper")."""

    @property
    def path(self) -> Path:
        """The folder of the data set's files, whether they are there or not."""
        return data_home() / (self.folder or "")

    @property
    def synthetic(self) -> bool:
        """True for data that is made rather than read."""
        return self.folder is None

    def present(self) -> bool:
        """True if the data set can be loaded without a network."""
        return self.synthetic or find(self.path, *self.files) is not None

    def fetch(self, say: Callable[[str], None] | None = None) -> FileSource | None:
        """Downloads the data set unless it is there, and returns the source used. say: gets
        progress messages (standard error by default).

        Raises InputError, with the data set's origin and terms, if it cannot be downloaded.
        """
        if self.present():
            return None
        if not self.sources:
            self._refuse_missing()
        return fetch(self.name, self.sources, self.path, say or _say, terms=self.terms)

    def load(self, *, fetch: bool = True) -> Interactions:
        """Reads the data set, after downloading it if it is missing and `fetch` is true. Raises
        InputError if it is missing.
        """
        if not self.present():
            if not fetch:
                self._refuse_missing()
            self.fetch()
        return replace(self.read(self.path), name=self.name)

    def _refuse_missing(self) -> None:
        names = [file if "." in file else f"{file}.parquet (.csv, .tsv)" for file in self.files]
        how = f"get it from {self.origin}"
        if self.sources:
            how = f"run: entrenous data fetch {self.name}"
        raise InputError(
            self.name,
            f"the data set is not in {self.path}",
            expected=f"{' or '.join(names)} ({VARIABLE} sets the data folder)",
            fix=f"{how}; terms: {self.terms}",
        )


def _say(text: str) -> None:
    print(plain(text), file=sys.stderr)


def datasets() -> dict[str, Dataset]:
    """Every named data set, by name, discovered in data/sets and in installed packages
    (`entrenous.datasets`).
    """
    return dict(sorted(with_plugins("datasets", offers("entrenous.data.sets", "DATASETS")).items()))


def dataset(name: str) -> Dataset:
    """The named data set. Raises InputError that suggests the nearest name."""
    return pick("data set", name, datasets())


def published(whose: str, name: str) -> Published:
    """Loads the rows that `whose` ("ncf") held out of the data set `name`. Raises InputError if
    there are none for this data, or their files are missing.
    """
    having = _having("published", whose, name)
    return having.published[whose](having.path)


def divided(whose: str, name: str) -> Divided:
    """The parts that `whose` published of the data set `name`. Raises InputError as `published`
    does.
    """
    having = _having("divided", whose, name)
    return having.divided[whose](having.path)


def _having(what: Literal["published", "divided"], whose: str, name: str) -> Dataset:
    """The data set `name`, of which `whose` published something."""
    known = {data.name: data for data in datasets().values() if whose in getattr(data, what)}
    if name not in known:
        raise InputError(
            name,
            f"no rows that {whose} held out are known of this data",
            expected=f"one of {', '.join(known)}",
            fix="use loo-99 or another protocol",
        )
    return known[name]
