"""Text tables (CSV, TSV, RecBole, MovieLens `::`) to a table of text columns.

Every record is one physical line, so that a defect has a line number. All bytes are checked first
(encoding, control characters, line ends, columns per line, quotes). Then polars splits them, which
cannot fail any more.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from ...core.errors import InputError
from ...core.types import Array, Int64Array
from ..columns import FEATURES, USUAL, plain
from ..encoding import plain_text, refuse_long
from ..options import LoadOptions
from ..reading import Guess
from ..table import ColumnTable
from .kind import Format, RawFile

# Bytes in one line.
LINE_LIMIT = 65_536
# Bytes checked at a time.
BLOCK = 1 << 24
# The first two never stand inside a field by chance: one in the first line decides.
DELIMITERS = ("::", "\t", ",", ";", "|", " ")
NAMES = {"\t": "a tab", " ": "a blank"}
# Stands in for `::`, which is two bytes; control characters are refused before.
UNIT = 0x1F
# Those of some endings.
BY_ENDING = {".csv": ",", ".tsv": "\t", ".inter": "\t", ".item": "\t", ".user": "\t"}
# The endings of files with a RecBole header.
TYPED = (".inter", ".item")
# The types that a RecBole header gives its columns.
RECBOLE = ("token", "token_seq", "float", "float_seq")
# The columns of a file without a header.
POSITIONS = ("user_id", "item_id", "rating", "timestamp")
# A third column of at least this much is a time (1973), not a rating.
LATE = 1e8
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_KNOWN = {plain(name) for names in (*USUAL.values(), *FEATURES.values()) for name in names}


class Layout(NamedTuple):
    """The form of the lines of a text file: their delimiter, columns and quotes."""

    delimiter: str
    """The text between two fields."""
    byte: int
    """The byte that stands for the delimiter."""
    names: list[str]
    """The names of the columns."""
    types: dict[str, str]
    """RecBole's types of the columns; empty for other files."""
    header: bool
    """True if the first line holds the names."""
    quoted: bool
    """True if fields may be in quotes."""


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns the table in a text file; its ending may tell the delimiter. See `read_text`."""
    return read_text(
        file.content,
        file.source,
        options,
        delimiter=BY_ENDING.get(file.ending),
        typed=file.ending in TYPED,
    )


def read_text(
    raw: bytes,
    source: str,
    options: LoadOptions,
    *,
    delimiter: str | None = None,
    typed: bool = False,
) -> ColumnTable:
    """Returns the table in the bytes of a text file.

    delimiter: that of the file's ending. `options.delimiter` comes first; if both are None, the
    first line decides. typed: a RecBole header (`user_id:token`) is required. Raises InputError
    with the physical line of the first defect.
    """
    notes: list[str] = []
    guesses: list[Guess] = []
    text = plain_text(raw, source, options.encoding, notes)
    if not text.strip():
        raise InputError(
            source,
            "the file holds nothing but blank lines",
            expected="a header and rows of user, item, value, time",
        )
    whole = text.endswith(b"\n")
    # The number of the first line that is not blank.
    first = 1 + len(text) - len(text.lstrip(b"\n"))
    text = text.strip(b"\n").rstrip(b" \n") + b"\n"
    layout = _layout(text, f"{source}:{first}", options, delimiter, typed, guesses)
    # Rows are counted from the line after the header.
    if layout.header:
        text = text[text.index(b"\n") + 1 :]
        first += 1
    if not text:
        raise InputError(
            f"{source}:{first - 1}",
            "there are no rows after the header",
            expected="at least one row",
        )
    if layout.delimiter == "::":
        text = text.replace(b"::", bytes([UNIT]))
    # Checked before polars reads it, which fills a short line with nulls without a word.
    blank = _check_lines(text, layout, source, first, whole)
    if blank:
        text = re.sub(rb"\n{2,}", b"\n", text).lstrip(b"\n")
        notes.append(f"blank lines skipped: {len(blank):,}")
    return ColumnTable(
        frame=_split(text, layout, source),
        source=source,
        first_line=first,
        blank=tuple(blank),
        whole=whole,
        types=layout.types,
        guesses=tuple(guesses),
        notes=tuple(notes),
    )


# ---- the first line ------------------------------------------------------------------------------


def _layout(
    text: bytes,
    where: str,
    options: LoadOptions,
    delimiter: str | None,
    typed: bool,
    guesses: list[Guess],
) -> Layout:
    """Returns the layout of the lines, as the first two of them tell. Adds to `guesses` what was
    guessed.
    """
    end = text.find(b"\n", 0, LINE_LIMIT + 1)
    if end < 0:
        refuse_long(where, text.index(b"\n"), LINE_LIMIT)
    line = text[:end].decode("utf-8")
    delimiter = options.delimiter or delimiter or _guess(line)
    # Elsewhere a quote is a character like any other.
    quoted = delimiter in (",", ";") and b'"' in text
    fields = _fields(line, delimiter, quoted, where)
    types: dict[str, str] = {}
    header = True
    if options.names is not None:
        names = _given_names(options.names, fields, where)
        header = False
    elif typed or all(re.search(r":(token|float)(_seq)?$", field) for field in fields):
        names, types = typed_names(fields, where)
        _check_distinct(names, where, len(fields))
    elif is_header(fields, options):
        names = [field or f"column {number}" for number, field in enumerate(fields, 1)]
        _check_distinct(names, where, len(fields))
    else:
        guessed = positional(fields)
        if guessed is None:
            second, _, _ = text[end + 1 : end + 1 + LINE_LIMIT].partition(b"\n")
            _refuse_names(fields, second.decode("utf-8", "replace").split(delimiter), where)
        listed = ",".join(guessed)
        guesses.append(Guess(f"no header; columns are {listed}", f"names={listed}"))
        names = list(guessed)
        header = False
    byte = UNIT if delimiter == "::" else ord(delimiter)
    return Layout(delimiter, byte, names, types, header, quoted)


def _guess(line: str) -> str:
    """Returns the delimiter that a line seems to have."""
    for delimiter in DELIMITERS[:2]:
        if delimiter in line:
            return delimiter
    # The most frequent one; the first of those that are equally frequent.
    return max(DELIMITERS[2:], key=line.count)


def _fields(line: str, delimiter: str, quoted: bool, where: str) -> list[str]:
    """Returns the fields of the first line. Raises InputError if it is not divided."""
    fields = line.split(delimiter)
    if quoted:
        fields = next(csv.reader([line], delimiter=delimiter))
    if len(fields) == 1:
        _refuse_undivided(line, delimiter, where)
    return [field.strip() for field in fields]


def _refuse_undivided(line: str, delimiter: str, where: str) -> NoReturn:
    other = next((other for other in DELIMITERS if other in line), None)
    # A delimiter that is there stands in quotes, inside the only field.
    if other is None or delimiter in line:
        raise InputError(
            where, "only one column", expected=f"at least two, separated by {_name(delimiter)}"
        )
    raise InputError(
        where,
        f"no {_name(delimiter)} in the line but {_name(other)}",
        expected=f"columns separated by {_name(delimiter)}",
        fix=f"pass delimiter={other!r} (--load delimiter={other!r})",
    )


def _name(delimiter: str) -> str:
    return NAMES.get(delimiter, f"'{delimiter}'")


def _given_names(names: tuple[str, ...], fields: list[str], where: str) -> list[str]:
    if len(names) != len(fields):
        raise InputError(
            where,
            f"{len(fields)} columns",
            expected=f"{len(names)}, as in names={','.join(names)}",
        )
    _check_distinct(names, where, len(fields))
    return list(names)


def is_header(fields: Sequence[str], options: LoadOptions) -> bool:
    """Returns True if the first line of a text file names columns: it holds a usual name, or one
    that the user gave.
    """
    wanted = {name for name in (options.user, options.item, options.value, options.time) if name}
    return any(field in wanted or plain(field) in _KNOWN for field in fields)


def positional(fields: Sequence[str]) -> tuple[str, ...] | None:
    """Returns names for a file without a header, judged by its first line: user, item, then a
    rating or a time, then a time. None if the line does not fit.

    >>> positional(["196", "242", "3", "881250949"])
    ('user_id', 'item_id', 'rating', 'timestamp')
    """
    # Without names, more columns could mean anything.
    if not 2 <= len(fields) <= 4:
        return None
    for field in fields[:2]:
        # An id has a digit. Another delimiter inside it shows that the line was divided wrongly.
        if not re.search(r"\d", field) or re.search(r"[;|\t\s]|::", field):
            return None
    if not all(_NUMBER.fullmatch(field) for field in fields[2:]):
        return None
    if len(fields) == 3 and float(fields[2]) >= LATE:
        return ("user_id", "item_id", "timestamp")
    return POSITIONS[: len(fields)]


def typed_names(fields: Sequence[str], where: str) -> tuple[list[str], dict[str, str]]:
    """Returns names and types from a RecBole header. Raises InputError for an unknown type.

    >>> typed_names(["user_id:token", "rating:float"], "x.inter:1")
    (['user_id', 'rating'], {'user_id': 'token', 'rating': 'float'})
    """
    types: dict[str, str] = {}
    for field in fields:
        name, _, kind = field.rpartition(":")
        if not name or kind not in RECBOLE:
            raise InputError(
                where,
                f"column '{field}' has no RecBole type",
                expected="name:token, name:token_seq, name:float or name:float_seq",
            )
        types[name] = kind
    return list(types), types


def _check_distinct(names: Sequence[str], where: str, columns: int) -> None:
    """Raises InputError for a name that occurs twice. columns: their number; fewer names than that
    are left of a header whose names were keys.
    """
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or len(names) != columns:
        raise InputError(
            where,
            f"column name '{twice or names[0]}' occurs twice",
            expected="different names",
            fix="rename one of them",
        )


def _refuse_names(fields: list[str], second: list[str], where: str) -> NoReturn:
    """Refuses a first line in which no column is known. It is a row if it holds a number, and a
    header if only the line below it holds one. second: the fields of that line.
    """
    user, item = fields[:2]
    name_two = (
        f"say what its columns are: user='{user}', item='{item}' (--load user={user}"
        f" --load item={item})"
    )
    name_all = (
        f"add one, or name all {len(fields)} columns: names=('user_id', 'item_id', ...) (--load"
        " names=user_id,item_id,...)"
    )
    if any(map(is_number, fields)):
        fix = name_all
    elif any(map(is_number, second)):
        fix = name_two
    else:
        fix = f"{name_two}; or, if the first line is a row, {name_all}"
    raise InputError(
        where,
        f"no usual column name among {', '.join(fields[:8])}",
        expected="a header with the names of the columns, such as user_id,item_id,rating,timestamp",
        fix=fix,
    )


def is_number(field: str) -> bool:
    """Returns True if a field of a text file is a number.

    >>> is_number("3.5"), is_number("kunde")
    (True, False)
    """
    return _NUMBER.fullmatch(field.strip()) is not None


# ---- every line ----------------------------------------------------------------------------------


class Block(NamedTuple):
    """Some whole lines of a text."""

    content: Array
    """uint8 [bytes]."""
    newline: Int64Array
    """The positions of the line ends, int64 [lines]."""
    source: str
    """The file, for errors."""
    first: int
    """The number of the first line in the file."""

    def where(self, line: int) -> str:
        """Returns `file:line` of a line of this block, counted from 0."""
        return f"{self.source}:{self.first + line}"


def _check_lines(text: bytes, layout: Layout, source: str, first: int, whole: bool) -> list[int]:
    """Checks the columns and quotes of every line, and returns the numbers of the blank lines.

    first: the number of the first line in the file. whole: False if the file may have been cut off.
    """
    blank: list[int] = []
    start = 0
    # Blocks bound the memory: the arrays of a block are many times its size.
    while start < len(text):
        end = text.rfind(b"\n", start, start + BLOCK) + 1
        if end == 0:
            refuse_long(f"{source}:{first}", text.index(b"\n", start) - start, LINE_LIMIT)
        content = np.frombuffer(text, np.uint8, end - start, start)
        newline = np.flatnonzero(content == ord("\n"))
        block = Block(content, newline, source, first)
        width = np.diff(newline, prepend=-1) - 1
        _check_block(block, width, layout, whole or end < len(text))
        blank += (first + np.flatnonzero(width == 0)).tolist()
        start = end
        first += len(newline)
    return blank


def _check_block(block: Block, width: Int64Array, layout: Layout, whole: bool) -> None:
    """Checks the lines of a block. width: bytes in each line. whole: False if its last line may
    have been cut off.
    """
    # First, so that no error below has to decode a huge line.
    long = np.flatnonzero(width > LINE_LIMIT)
    if len(long):
        refuse_long(block.where(long[0]), int(width[long[0]]), LINE_LIMIT)
    delimiter = np.flatnonzero(block.content == layout.byte)
    if layout.quoted:
        quote = np.flatnonzero(block.content == ord('"'))
        _check_quotes(block, quote, layout)
        # A delimiter after an odd number of quotes stands inside a field.
        quotes_before = np.searchsorted(quote, delimiter)
        delimiter = delimiter[quotes_before % 2 == 0]
    delimiters_before = np.searchsorted(delimiter, block.newline)
    columns = np.diff(delimiters_before, prepend=0) + 1
    wrong = np.flatnonzero((columns != len(layout.names)) & (width > 0))
    if len(wrong):
        line = int(wrong[0])
        end = block.newline[line]
        content = block.content[end - width[line] : end].tobytes().decode("utf-8")
        # Only the last line of the last block can have been cut off.
        cut_off = not whole and line == len(block.newline) - 1
        _refuse_columns(block.where(line), content, int(columns[line]), layout, cut_off)


def _check_quotes(block: Block, quote: Int64Array, layout: Layout) -> None:
    """Checks that quotes open at the start of a field and close at its end, in the same line.
    quote: the positions of all quotes.
    """
    quotes_before = np.searchsorted(quote, block.newline)
    odd = np.flatnonzero(np.diff(quotes_before, prepend=0) % 2)
    if len(odd):
        raise InputError(
            block.where(odd[0]),
            "a quoted field does not end in its line",
            expected="rows of one line",
            fix="keep each row in one line and double a quote inside a field",
        )
    # A quote is doubled inside a field, so that one may also stand next to another one.
    edges = (ord("\n"), layout.byte, ord('"'))
    opening = quote[0::2]
    closing = quote[1::2]
    # Before the first byte of a block a line ended.
    before = np.concatenate([[ord("\n")], block.content[:-1]])[opening]
    after = block.content[closing + 1]
    stray = np.flatnonzero(~(np.isin(before, edges) & np.isin(after, edges)))
    if len(stray):
        line = np.searchsorted(block.newline, opening[stray[0]])
        raise InputError(
            block.where(int(line)),
            "a quote inside a field",
            expected="quotes around the whole field, doubled inside",
            fix="quote the field",
        )


def _refuse_columns(where: str, line: str, columns: int, layout: Layout, cut_off: bool) -> NoReturn:
    wanted = len(layout.names)
    # Not `::`, which was replaced, nor a blank, which stands in many fields.
    others = [other for other in DELIMITERS[1:5] if other != layout.delimiter and other in line]
    if cut_off and columns < wanted:
        fix = "the last line has no line end: the file seems cut off; get it again"
    elif columns < wanted and others:
        fix = f"the line holds {_name(others[0])}: use one delimiter throughout"
    elif columns > wanted and layout.delimiter == ",":
        fix = "put a field that holds a comma in quotes, and write decimals with a point"
    else:
        fix = "complete the line or remove it"
    plural = "" if columns == 1 else "s"
    names = ", ".join(layout.names[:6])
    raise InputError(where, f"{columns} column{plural}", expected=f"{wanted} ({names})", fix=fix)


def _split(text: bytes, layout: Layout, source: str) -> object:
    """Returns the polars frame of the lines: all columns are text, and an empty field is ""."""
    import polars as pl

    try:
        frame = pl.read_csv(
            text,
            has_header=False,
            separator=chr(layout.byte),
            quote_char='"' if layout.quoted else None,
            infer_schema=False,
        )
    except pl.exceptions.PolarsError as wrong:
        raise InputError(
            source, f"cannot be split into columns: {wrong}", expected="a plain text table"
        ) from None
    # Every line was checked, so this compares two readers, ours and that of polars.
    if frame.shape != (text.count(b"\n"), len(layout.names)):
        raise InputError(
            source,
            "cannot be split into columns",
            expected=f"{len(layout.names)} columns in every line",
        )
    frame.columns = layout.names
    return frame.fill_null("")


FORMATS = {
    "text": Format(
        "one row in each line, with a delimiter: CSV, TSV, RecBole .inter, MovieLens ::, and kin",
        lambda head, name: True,
        read,
    )
}
