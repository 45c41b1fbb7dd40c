"""Programs of the authors of systems that papers compare: one file for each, with the commit that
was read, and file and lines for what is said of it.

A program is accused of the leak if its training negatives avoid a user's held-out items, and may
be any other candidate. Somebody else's copy of a program is not read.

>>> [each.label for each in programs() if each.accused]
['FedCA', 'FedEM', 'FedRAP', 'GPFedRec', 'PFedRec']
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Self, final, get_args

from pydantic import Field, PositiveInt, model_validator

from entrenous.core.contract.settings import Settings
from entrenous.core.errors import InputError

from .._tables import read_declared

Said = Annotated[str, Field(min_length=1)]
Step = Literal["negatives", "loss", "aggregation", "round", "candidates"]


class _Lines(Settings):
    """Lines of a program."""

    # The path in the repository.
    file: Said
    first: PositiveInt  # line
    last: PositiveInt  # line


@final
class Passage(_Lines):
    """The lines of a program that do one thing."""

    # What they do, in our words.
    says: Said


@final
class Change(_Lines):
    """Lines of a program that give way to one of ours."""

    # The statement in their place, without its indentation.
    put: Said


@final
class Bridge(Settings):
    """A program's own training on rows of ours: the names that it has for what is handed over."""

    # The label of the program that is taken, where the system's own authors published none; or "".
    taken: str
    # Our algorithm that repeats the program, and settings name=value beside its usual ones.
    ours: Said
    # The arguments of its script, as in a shell; {rounds} and {seed} are filled in.
    arguments: Said
    # The file of rows that it reads, from its own folder; or one beside its files.
    rows: Said
    # Its script, and the modules and classes that `driver.py` of the laboratory changes.
    names: dict[str, Said]
    # What else is changed in the copy, so that it runs today, and in minutes.
    changes: tuple[Change, ...]
    # The change by which devices learn from nobody; none if the program has no such way.
    alone: tuple[Change, ...]


@final
class Program(Settings):
    """The program of a system as it was read, and what is missing."""

    # The name of the system, and its paper.
    label: Said
    paper: Said
    # The address of the authors' own repository, and the commit read; "" if none was found.
    repository: str
    commit: str = Field(pattern="^([0-9a-f]{40})?$")
    # The day of reading, or of looking for a repository.
    read: date
    # The rule for training negatives, beside that they avoid the items of training rows.
    rule: Literal["avoids held-out items", "avoids all candidates", "draws none", "not read"]
    # The rows by which the program chooses the round that it reports.
    chosen_by: Literal["test", "validation", "nothing", "not read"]
    # The lines of every step; none without a repository.
    places: dict[Step, Passage]
    # The figures that we read in a text of the authors, and where; or that we could confirm none.
    figures: Said
    # What is missing, and what would confirm it.
    missing: tuple[Said, ...]
    # A link to where users reported the leak, or that we know of none.
    issue: Said
    # The authors' answer, or the day until which we know of none.
    answer: Said
    # What else a reader has to know.
    note: Said
    # The way to train the program itself on rows of ours; None if nobody has built it.
    bridge: Bridge | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        steps = get_args(Step) if self.commit else ()
        if self.places.keys() != {*steps} or (self.rule == "not read") == bool(steps):
            raise InputError("places", "a commit goes with a rule and a place of every step")
        return self

    @property
    def accused(self) -> bool:
        """True if its training negatives avoid the held-out items alone."""
        return self.rule == "avoids held-out items"


def read_program(path: Path) -> Program:
    """Returns the program of a file. Raises InputError with the key that is unknown, missing or
    wrong.

    >>> from tempfile import TemporaryDirectory
    >>> def refusal(right: str, wrong: str) -> None:
    ...     text = Path(__file__).with_name("colr.toml").read_text()
    ...     with TemporaryDirectory() as folder:
    ...         path = Path(folder) / "colr.toml"
    ...         path.write_text(text.replace(right, wrong, 1))
    ...         try:
    ...             read_program(path)
    ...         except InputError as refused:
    ...             print(refused.where.removeprefix(folder), refused.problem)
    >>> refusal("note =", "nota =")
    /colr.toml [] 'nota' is wrong: Extra inputs are not permitted
    >>> refusal("says =", "#")
    /colr.toml [places.negatives] 'says' is wrong: Field required
    >>> refusal("first = 81", "first = -1")
    /colr.toml [places.negatives] 'first' is wrong: Input should be greater than 0
    >>> refusal("d5ec0766f", "main")
    /colr.toml [] 'commit' is wrong: String should match pattern '^([0-9a-f]{40})?$'
    >>> refusal("d5ec0766f383ebfbe264712f0d9656ac555689f5", "")
    /colr.toml places a commit goes with a rule and a place of every step
    """
    return read_declared(path, Program, Program.model_fields)


def programs() -> Iterator[Program]:
    """Yields every program, by the name of its file."""
    yield from map(read_program, sorted(Path(__file__).parent.glob("*.toml")))
