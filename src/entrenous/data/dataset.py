"""`Dataset`: a named data set as a declaration. Each file in `data/sets/` offers one or more in its
DATASETS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from ..core.errors import InputError
from ..core.registry.discover import pick, with_plugins
from .fetch import FileSource, fetch
from .home import VARIABLE, data_home, find
from .interactions import Interactions
from .table import BadRows

LOG = logging.getLogger(__name__)


@final
@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A named data set as a declaration."""

    name: str
    """The name by which it is loaded."""
    summary: str
    """Size and kind, one line."""
    terms: str
    """The permitted use."""
    citation: str
    """The work to cite."""
    origin: str
    """The place to get it from."""
    read: Callable[[Path], Interactions]
    """Reads the `Interactions` in the folder."""
    folder: str | None = None
    """The folder below the data folder; None for data that is made rather than read."""
    files: tuple[str, ...] = ()
    """The names of files, any of which shows that the data set is there. A name without a dot may
    end in .parquet, .csv or .tsv, also with .gz behind.
    """
    sources: tuple[FileSource, ...] = ()
    """The sources of `fetch` in order of preference; empty if it cannot be fetched."""
    published: Mapping[str, Callable[[Path], Any]] = field(default_factory=dict)
    """Functions that read what somebody published in the folder, by whose it is: `Published` test
    rows ("ncf"), or all parts as `Divided` ("pepper").
    """

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
        progress messages (by default the log of this module).

        Raises InputError, with the data set's origin and terms, if it cannot be downloaded.
        """
        # What is there is never overwritten: it may be the user's own copy.
        if self.present():
            return None
        if not self.sources:
            self._refuse_missing()
        return fetch(self.name, self.sources, self.path, say or LOG.info, terms=self.terms)

    def load(self, *, fetch: bool = True) -> Interactions:
        """Reads the data set, after downloading it if it is missing and `fetch` is true. Raises
        InputError if it is missing and not downloaded.
        """
        if not self.present():
            if not fetch:
                self._refuse_missing()
            self.fetch()
        try:
            data = self.read(self.path)
        except BadRows as refusal:
            # A named data set takes no options, so that leaving rows out is no remedy.
            raise refusal.error from None
        # A declaration guesses nothing.
        reading = data.reading._replace(guesses=())
        # The name of the declaration, which protocols and notes refer to.
        return replace(data, reading=reading, name=self.name)

    def _refuse_missing(self) -> None:
        # What to put where is said in full, since some data cannot be fetched.
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


def datasets() -> dict[str, Dataset]:
    """Returns every named data set by name, in the order of names: those of data/sets and those of
    installed packages (`entrenous.datasets`).
    """
    known = with_plugins("datasets", "DATASETS", "entrenous.data.sets")
    return dict(sorted(known.items()))


def dataset(name: str) -> Dataset:
    """Returns the named data set. Raises InputError that suggests the nearest name."""
    return pick("data set", name, datasets())


def published(whose: str, name: str) -> Any:
    """Returns what `whose` ("ncf") published of the data set `name`. Raises InputError if nothing
    is known of this data, or the files are missing.
    """
    having = {data.name: data for data in datasets().values() if whose in data.published}
    if name not in having:
        raise InputError(
            name,
            f"no rows that {whose} held out are known of this data",
            expected=f"one of {', '.join(having)}",
            fix="use loo-99 or another protocol",
        )
    data = having[name]
    return data.published[whose](data.path)


def in_any_folder(name: str) -> str:
    """Returns a path as it can be found from another folder; the name of a data set as it is."""
    if name in datasets() or not Path(name).exists():
        return name
    return str(Path(name).resolve())
