"""The arguments of a Python caller: classes, frames and functions in the form that a run takes;
frames of the caller's kind; and errors that speak of arguments where the command line speaks of
options.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, SupportsIndex, TypeAlias

import numpy as np
from typing_extensions import TypeVar

from ..core.contract.protocols import Progress, silent
from ..core.contract.settings import Settings
from ..core.errors import InputError
from ..core.keywords import called_with, field_texts
from ..core.registry.own import place_of
from ..core.types import Array
from ..core.values import SettingValue
from ..data.frames import CallersFrame, FrameT, OtherRows, library_of
from ..data.interactions import Interactions
from ..data.load import from_frame, load_arguments
from ..data.load import load as load_rows
from ..data.split.types import Split
from ..systems.named import algorithms
from .progress import is_notebook, progress_bar

if TYPE_CHECKING:
    import polars as pl

# ---- the types of arguments ----------------------------------------------------------------------


class SplitFunction(Protocol):
    """A function that divides the rows it is given."""

    def __call__(self, data: Interactions, /, *, seed: int) -> Split | Sequence[Split]: ...


# The kind of the frame that a `Recommender` is fitted to.
FitT = TypeVar("FitT", bound=CallersFrame, default="pl.DataFrame")
DataAsked: TypeAlias = FrameT | str | Path | Interactions[FrameT] | OtherRows
AlgorithmAsked: TypeAlias = str | Settings | type[Settings]
SplitAsked: TypeAlias = str | Split[FrameT] | Sequence[Split[FrameT]] | SplitFunction
ProgressAsked: TypeAlias = bool | Progress | None
# A column of a result, of lists or arrays.
Column: TypeAlias = Sequence[object] | Array
# External ids: one of them, or several.
Ids: TypeAlias = str | SupportsIndex | Iterable[object]

# Options as an error names them: `--set pi`, `--set` alone, and any other.
NAMED_SETTING = re.compile(r"--(set|network|load|own|grid) ([a-z_]+)(?==|\b)")
SETTINGS_OPTION = re.compile(r"--(set|network|load|own|grid)\b(?!-)")
OPTION_WITH_VALUE = re.compile(r"--([a-z][a-z-]*) ([A-Z]{2,}|[0-9.]+)")
NEGATED_OPTION = re.compile(r"--no-([a-z-]+)")
OPTION = re.compile(r"--([a-z][a-z-]*)")
# Arguments with another name than the option.
ARGUMENT_NAMES = {"set": "settings"}

P = ParamSpec("P")
Asked = TypeVar("Asked")
Result = TypeVar("Result")


# ---- from what a caller gives to what a run takes ------------------------------------------------


def algorithm_asked(algorithm: AlgorithmAsked) -> tuple[str, dict[str, SettingValue]]:
    """The name or place of an algorithm, and those of its settings that differ from the defaults.

    algorithm: a name, a class, or an instance. Raises InputError for anything else.
    """
    if isinstance(algorithm, str):
        return algorithm, {}
    kind = algorithm if isinstance(algorithm, type) else type(algorithm)
    if not issubclass(kind, Settings):
        expected = (
            "a name of `entrenous algorithms`, or a class or an instance of entrenous.Settings"
        )
        raise InputError("algorithm", f"got {kind.__name__}", expected=expected)
    # Defaults stay out, so that a later default does not look like a choice.
    changed = {}
    if not isinstance(algorithm, type):
        values = dict(algorithm)
        for name, field in kind.model_fields.items():
            if values[name] != field.get_default(call_default_factory=True):
                changed[name] = values[name]
    return _name_or_place(kind), changed


def _name_or_place(kind: type) -> str:
    """The name under which a class is offered without presets, or its place."""
    # A preset is a partial, not the class, so the plain name is found.
    for name, maker in algorithms().items():
        if maker is kind:
            return name
    return place_of(kind)


def data_asked(data: DataAsked[Any]) -> str | Interactions:
    """A data set's name, a path as text, or interactions made from a frame, tuples or a sparse
    matrix (`data.frames.from_any`).
    """
    if isinstance(data, str | Path):
        return str(data)
    return data if isinstance(data, Interactions) else from_frame(data)


def ids_asked(what: str, ids: Ids) -> list[str]:
    """External ids as texts: a text or a whole number is one id, anything else is a collection.

    what: the argument, for errors. A set is sorted, since it has no order. Raises InputError for
    what holds no ids.

    >>> ids_asked("users", 3), ids_asked("users", "abc"), ids_asked("users", [3, "abc"])
    (['3'], ['abc'], ['3', 'abc'])
    """
    if isinstance(ids, str | int | np.integer):
        return [str(ids)]
    # Iterated, a text of bytes would give numbers, and a table the names of its columns.
    is_other = isinstance(ids, bytes | Mapping) or hasattr(ids, "columns")
    if is_other or not isinstance(ids, Iterable) or getattr(ids, "ndim", 1) != 1:
        raise InputError(
            what,
            f"got {type(ids).__name__}",
            expected="an id (a text or a whole number), or a list of ids",
        )
    names = [str(name) for name in ids]
    return sorted(names) if isinstance(ids, set | frozenset) else names


def id_asked(what: str, ids: Ids) -> str:
    """The one external id of an argument, as text. Raises InputError for none and for several."""
    names = ids_asked(what, ids)
    if len(names) != 1:
        raise InputError(what, f"got {len(names)} {what}s", expected="one")
    return names[0]


def named_rows(data: DataAsked[Any]) -> tuple[str, Interactions | None]:
    """The name of the data, and the rows where they are at hand: see `data_asked`."""
    rows = data_asked(data)
    return (rows, None) if isinstance(rows, str) else (rows.name, rows)


class SplitRows(NamedTuple):
    """The rows of a run, and the rule by which some of them are held out."""

    data: str | Interactions
    """The name of the data, or rows in memory; those of the splits, where the user brings them."""
    protocol: str | None
    """A protocol by name; None = the usual one, or the user's own splits."""
    parts: list[Split]
    """The user's own splits."""


def data_beside(
    data: DataAsked[Any] | None, split: SplitAsked[Any] | None, load: Mapping[str, SettingValue]
) -> str | Interactions:
    """The data of a run: its own splits bring their rows; without any, None = ml-100k. Raises
    InputError for a split of other rows than `data`.
    """
    folds = _folds(split) if isinstance(split, Sequence) and not isinstance(split, str) else []
    if not folds:
        return data_asked("ml-100k" if data is None else data)
    rows = folds[0].train
    if data is not None:
        given = _read(data_asked(data), load)
        if not (given.users.same(rows.users) and given.items.same(rows.items)):
            raise InputError(
                "data",
                f"{given!r} are other rows than those of the split, {rows!r}",
                expected="the users and items of the split",
                fix="leave data out: a split brings its rows",
            )
    return rows


def split_asked(
    split: SplitAsked[Any] | None,
    data: str | Interactions,
    seed: int,
    load: Mapping[str, SettingValue],
) -> SplitRows:
    """The rows, and the protocol by name or the user's own splits.

    split: a protocol's name, a Split, one for each fold, or a function (data, seed=...) that
    returns these. data: see `data_beside`. Raises InputError where a function returns anything
    else.
    """
    if split is None or isinstance(split, str):
        return SplitRows(data, split, [])
    if callable(split):
        split = split(_read(data, load), seed=seed)
    folds = _folds(split)
    # The label of a run says which rows it was trained on.
    return SplitRows(folds[0].train, None, folds)


def _read(data: str | Interactions, load: Mapping[str, SettingValue]) -> Interactions:
    """The rows that a name stands for; rows are what they are."""
    return load_rows(data, **load_arguments(load)) if isinstance(data, str) else data


def _folds(split: Any) -> list[Split]:
    """A split, or one for each fold, as a list. Raises InputError for anything else."""
    folds = [split] if isinstance(split, Split) or not isinstance(split, Iterable) else list(split)
    if not folds or not all(isinstance(fold, Split) for fold in folds):
        raise InputError(
            "split",
            f"got {split!r:.60}",
            expected="an entrenous.Split, or a list of them, one for each fold",
        )
    return folds


@contextmanager
def asked_progress(progress: ProgressAsked) -> Iterator[Progress]:
    """The Progress that a caller asks for: True, False, the caller's own function, or None = on a
    terminal and in a notebook, where a person is likely to look.
    """
    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = sys.stderr.isatty() or ("ipykernel" in sys.modules and is_notebook())
    if not progress:
        yield silent
        return
    with progress_bar() as shown:
        yield shown


# ---- results as frames of the caller's kind, by narwhals -----------------------------------------


def kind_of(data: DataAsked[Any]) -> str:
    """The library of whose kind the frames of results are: see `Interactions.frames`."""
    return data.frames if isinstance(data, Interactions) else library_of(data)


def frame_of(columns: Mapping[str, Column], kind: str) -> Any:
    """A frame of a library. columns: lists or arrays by name; NaN in an array is a missing
    value.
    """
    import narwhals.stable.v2 as nw

    # `kind` is narwhals' own name.
    backend: Any = kind
    return nw.from_dict(
        {name: _with_gaps(columns[name]) for name in columns}, backend=backend
    ).to_native()


def _with_gaps(values: Column) -> Column:
    """The values of a column, with None in place of NaN."""
    # Before there is a frame: an expression of polars needs threads, which a forked process lacks.
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if any(isinstance(value, float) and value != value for value in listed):
        return [None if value != value else value for value in listed]
    return values


def columns_of(records: Iterable[Mapping[str, object]]) -> list[str]:
    """The names of the columns of records, in the order in which they first occur."""
    return list(dict.fromkeys(name for record in records for name in record))


def frame_of_records(
    records: Iterable[Mapping[str, object]], kind: str, names: Sequence[str] = ()
) -> Any:
    """A frame with a row for each record. names: the first columns, which an empty frame has too.
    A column with both texts and numbers is text.
    """
    rows = list(records)
    columns = dict.fromkeys([*names, *columns_of(rows)])
    listed = {name: [row.get(name) for row in rows] for name in columns}
    for name, values in listed.items():
        kinds = {type(value) for value in values if value is not None}
        if str in kinds and len(kinds) > 1:
            listed[name] = [None if value is None else str(value) for value in values]
    return frame_of(listed, kind)


# ---- public functions, whose errors speak of arguments -------------------------------------------


def public(
    kind: Callable[P, Asked],
) -> Callable[[Callable[[Asked], Result]], Callable[P, Result]]:
    """Gives a function of one dataclass the signature and the documentation of that dataclass (see
    `core.keywords.called_with`), with errors that speak of arguments.
    """

    def decorate(function: Callable[[Asked], Result]) -> Callable[P, Result]:
        with_keywords = called_with(kind)(function)

        @wraps(with_keywords)
        def called(*arguments: P.args, **keywords: P.kwargs) -> Result:
            # Rows may be many, and are read as they are.
            for name in keywords.keys() - {"data"}:
                keywords[name] = pure(keywords[name])
            with in_python():
                return with_keywords(*arguments, **keywords)

        called.__doc__ = f"{function.__doc__}\n    Args:\n{_arguments(kind, function.__name__)}"
        return called

    return decorate


def pure(value: Any) -> Any:
    """The argument with Python's numbers in place of NumPy's, in mappings and lists too."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {name: pure(of_name) for name, of_name in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(pure, value))
    return value


def _arguments(kind: Callable[..., object], function: str) -> str:
    """The fields of a dataclass with their texts, as the docstring of `function` lists them."""
    assert isinstance(kind, type)
    lines = []
    for name, text in field_texts(kind).items():
        # Lists of names, such as {protocols}, are filled in by the help of the command alone.
        text = re.sub(r"\{[a-z]+\}", f"see `entrenous {function} --help`", text)
        entry = f"{name}: {as_argument(text)}"
        lines += textwrap.wrap(entry, 92, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return "\n".join(lines)


@contextmanager
def in_python() -> Iterator[None]:
    """A context in which an InputError speaks of arguments."""
    try:
        yield
    except InputError as bad:
        # An error without options keeps its traceback.
        if OPTION.search(str(bad)) is None:
            raise
        # `from None`: the same error in other words is no news.
        raise bad.reworded(as_argument) from None


def as_argument(text: str) -> str:
    """A text in which options are arguments.

    >>> as_argument("--set pi: got 2"), as_argument(
    ...     "say how often to look with --every ROUNDS"), as_argument("--checkpoint-every: got -1")
    ("settings['pi']: got 2", 'say how often to look with every=ROUNDS', 'checkpoint_every: got -1')
    """
    # A command between backticks is typed as it stands.
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _without_options(part) for part in parts)


def _without_options(text: str) -> str:
    # The order matters: the last expression also matches what the others replace.
    text = NAMED_SETTING.sub(lambda match: f"{_argument_of(match[1])}['{match[2]}']", text)
    text = SETTINGS_OPTION.sub(lambda match: _argument_of(match[1]), text)
    text = OPTION_WITH_VALUE.sub(lambda match: f"{_argument_of(match[1])}={match[2]}", text)
    text = NEGATED_OPTION.sub(lambda match: f"{_argument_of(match[1])}=False", text)
    return OPTION.sub(lambda match: _argument_of(match[1]), text)


def _argument_of(option: str) -> str:
    """The argument that an option of the command line is, such as checkpoint_every."""
    return ARGUMENT_NAMES.get(option, option.replace("-", "_"))
