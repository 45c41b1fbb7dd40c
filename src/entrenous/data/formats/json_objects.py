"""JSON lines to a table of text columns.

A number keeps its spelling ("5.0", "18446744073709551615"), so that ids are what the file says.
Lines that are no JSON but Python's own spelling of a dictionary, as in the reviews of Steam, are
read too.
"""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core.errors import InputError
from ..encoding import plain_text, refuse_long
from ..files import Format, RawFile
from ..options import LoadOptions
from ..table import ColumnTable, NoRows

# Bytes in one line, and in one line of Python, whose parser takes much more memory.
LINE_LIMIT = 1 << 24
LITERAL_LIMIT = 1 << 20
# Different keys in a file.
MOST_KEYS = 2_000
# Objects that become columns at a time: as columns they need a tenth of the memory.
BATCH = 20_000
START = re.compile(rb"\s*(\[\s*)?\{\s*(u?['\"]|\}|$)|\s*\[\s*(\[|$|\])")
EXPECTED = "one object in each line"
# The beginning of a dictionary as Python spells it.
PYTHON = re.compile(r"\{\s*u?'")


class JsonRow(NamedTuple):
    """An object of the file, and the line in which it begins."""

    line: int
    """Counted from 1."""
    fields: dict[str, Any]
    """Its values by key; numbers are text."""


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns the objects of a file as rows, one column for each key; a field is null where an
    object lacks its key. Raises InputError with the line of the first defect.
    """
    notes: list[str] = []
    text = plain_text(file.content, file.source, options.encoding, notes)
    columns = JsonColumns(file.source)
    if text.lstrip().startswith(b"["):
        raise InputError(
            f"{file.source}:1",
            "the file is one list",
            expected=EXPECTED,
            fix="write one object in each line, such as with: jq -c '.[]' FILE",
        )
    roles = (options.user, options.item, options.value, options.time)
    dotted = [name for name in roles if name and "." in name]
    for row in _of_lines(text, file, notes):
        for name in dotted:
            value = _inside(row.fields, name)
            if value is not None:
                row.fields[name] = value
        columns.add(row)
    frame = columns.frame()
    # As pandas writes a table by default.
    if len(columns.lines) == 1 and columns.nested:
        raise InputError(
            file.source,
            "the file holds one object, whose fields are lists or objects",
            expected=EXPECTED,
            fix='write one object per row, such as with to_json(orient="records", lines=True)',
        )
    lines = np.array(columns.lines, np.int64)
    return ColumnTable(frame=frame, source=file.source, lines=lines, notes=tuple(notes))


def _inside(fields: Any, path: str) -> Any:
    """Returns what stands in objects inside each other, None if nothing does. path: its keys with
    dots between them.

    >>> _inside({"user": {"id": "7"}}, "user.id")
    '7'
    """
    for key in path.split("."):
        fields = fields.get(key) if isinstance(fields, dict) else None
    return fields


def _of_lines(text: bytes, file: RawFile, notes: list[str]) -> Iterator[JsonRow]:
    decoder: Callable[[str], Any] | None = None
    for number, raw in enumerate(io.BytesIO(text), start=1):
        line = raw.decode("utf-8").strip()
        if not line:
            continue
        where = f"{file.source}:{number}"
        if len(raw) > LINE_LIMIT:
            refuse_long(where, len(raw), LINE_LIMIT)
        if decoder is None:
            decoder = _decoder(line)
            if decoder is _literal:
                notes.append("the lines are no JSON but dictionaries of Python, read as such")
        yield JsonRow(number, _fields(line, decoder, where))


def _decoder(first: str) -> Callable[[str], Any]:
    """Returns the function that reads lines like the first one."""
    if PYTHON.match(first):
        return _literal
    return _DECODER.decode


def _literal(line: str) -> Any:
    """Returns the dictionary that a line of Python spells. Nothing is evaluated."""
    if len(line) > LITERAL_LIMIT:
        raise ValueError(f"it is {len(line):,} characters long")
    return ast.literal_eval(line)


def _fields(line: str, decoder: Callable[[str], Any], where: str) -> dict[str, Any]:
    try:
        fields = decoder(line)
    # Python refuses nesting beyond its stack in several ways.
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as wrong:
        _refuse_line(where, line, wrong)
    return _checked(fields, where)


def _refuse_line(where: str, line: str, wrong: Exception) -> NoReturn:
    fix = "get it again"
    if line in ("{", "["):
        fix = "write one object in each line, such as with: jq -c . FILE"
    elif PYTHON.match(line):
        fix = "write all lines as JSON, or all as dictionaries of Python as Steam's are"
    problem = str(wrong).split("\n")[0][:100] or type(wrong).__name__
    raise InputError(
        where, f"the line is no whole JSON object ({problem})", expected=EXPECTED, fix=fix
    ) from None


def _checked(fields: Any, where: str) -> dict[str, Any]:
    """Returns an object of the file. Raises InputError for anything else."""
    if not isinstance(fields, dict):
        kind = "a list" if isinstance(fields, list) else "a single value"
        raise InputError(
            where,
            f"it is {kind}, not an object",
            expected='objects such as {"user_id": "u", "item_id": "i"}',
            fix="name the fields",
        )
    if not all(isinstance(key, str) for key in fields):
        raise InputError(where, "a key is no text", expected="names as keys")
    return fields


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields


# Numbers stay as they are written: a float would round a long id.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=str, parse_float=str, parse_constant=str
)


class JsonColumns:
    """The columns of the objects so far."""

    def __init__(self, source: str) -> None:
        self.source = source
        # The line of each row, and the keys whose values are lists or objects.
        self.lines: list[int] = []
        self.nested: set[str] = set()
        self._batch: list[dict[str, Any]] = []
        # In the order in which they first appear.
        self._keys: dict[str, None] = {}
        self._frames: list[Any] = []

    def add(self, row: JsonRow) -> None:
        """Adds the row of an object. Raises InputError if there are too many different keys."""
        # Every row has its place, whatever stands between the objects.
        self.lines.append(row.line)
        self._batch.append(row.fields)
        self._keys.update(dict.fromkeys(row.fields))
        if len(self._keys) > MOST_KEYS:
            raise InputError(
                f"{self.source}:{row.line}",
                f"the objects have more than {MOST_KEYS:,} different keys",
                expected="the same few keys in each object",
                fix="write one object per interaction, with names as keys",
            )
        if len(self._batch) == BATCH:
            self._finish()

    def _finish(self) -> None:
        import polars as pl

        columns = [self._column(key) for key in self._keys]
        self._frames.append(pl.DataFrame(columns))
        self._batch = []

    def _column(self, key: str) -> Any:
        import polars as pl

        values = [row.get(key) for row in self._batch]
        nested = key in self.nested or any(isinstance(value, list | dict) for value in values)
        if not nested:
            return pl.Series(key, [_scalar(value) for value in values], pl.String)
        self.nested.add(key)
        lists = [None if value is None else list(_flat(value)) for value in values]
        return pl.Series(key, lists, pl.List(pl.String))

    def frame(self) -> Any:
        """Returns the polars frame of all rows: text, or lists of texts where a value is a list or
        an object. Raises InputError if there are none.
        """
        import polars as pl

        if self._batch:
            self._finish()
        if not self._frames or not self._keys:
            raise NoRows(
                self.source, "there are no objects with fields", expected=EXPECTED, fix="check it"
            )
        frames = [self._alike(frame) for frame in self._frames]
        return pl.concat(frames, how="diagonal")

    def _alike(self, frame: Any) -> Any:
        """Returns a frame whose nested columns are lists, as those of later ones may be."""
        import polars as pl

        plain = [
            pl.concat_list(name).alias(name)
            for name in frame.columns
            if name in self.nested and frame.schema[name] == pl.String
        ]
        return frame.with_columns(plain)


def _scalar(value: Any) -> str | None:
    """Returns a value as the text that it would be in a text file: 1 and 0 for true and false."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _flat(value: Any) -> Iterator[str]:
    """Yields the texts in a list or a list of lists; an object as JSON."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, dict):
        yield json.dumps(value, ensure_ascii=False, default=str)
    elif value is not None:
        yield str(_scalar(value))


FORMATS = {
    "json": Format(
        "JSON lines (.json, .jsonl, .ndjson); Steam's lines too",
        lambda head, name: START.match(head) is not None,
        read,
    )
}
