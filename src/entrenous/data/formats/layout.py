"""The first lines of a text file: what stands before the table, the delimiter, and the names of the
columns, which the rows tell if there is no header.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from ...core.errors import InputError
from ..columns import FEATURES, KIN, USUAL, plain
from ..encoding import refuse_long
from ..options import LoadOptions
from ..reading import Guess
from ..table import NoRows
from ..times import MOST, is_date, is_number, may_be_times, most

# Bytes in one line.
LINE_LIMIT = 65_536
# The first two never stand inside a field by chance: one in the first line decides.
DELIMITERS = ("::", "\t", ",", ";", "|", " ")
NAMES = {"\t": "a tab", " ": "a blank"}
# Those that a shell does not pass easily.
SPELLED = {"\t": "tab", " ": "blank"}
# Stands in for `::`, which is two bytes; a file that holds it is refused before.
UNIT = 0x1F
# A name in a header of RecBole, with the type of its column.
_TYPED = re.compile(r".+:(token|float)(_seq)?")
# A line that begins with one of these, before the table, is a comment: KONECT has %, SNAP has #.
COMMENT = (b"#", b"%")
# Lines in which a header is looked for that other lines precede.
BEFORE = 20
# No rating scale goes beyond this; a larger number may be an item.
HIGHEST_RATING = 10
# Rows by which columns are judged.
SAMPLE = 200
USER = "user_id"
ITEM = "item_id"
RATING = "rating"
TIME = "timestamp"
# The orders of the columns by their number. The first ones are usual and are read as they stand.
ORDERS = {
    2: ((USER, ITEM),),
    3: ((USER, ITEM, RATING), (USER, ITEM, TIME), (USER, TIME, ITEM), (TIME, USER, ITEM)),
    4: (
        (USER, ITEM, RATING, TIME),
        (USER, TIME, ITEM, RATING),
        (TIME, USER, ITEM, RATING),
        (USER, ITEM, TIME, RATING),
    ),
}
# Not those of books, which are numbers as a user may be.
_PRODUCT = re.compile(r"B0[0-9A-Z]{8}")
_DIVIDED = re.compile(r"[;|\t\s]|::")
_USUAL = (*USUAL.values(), *KIN.values(), *FEATURES.values())
_KNOWN = {plain(name) for names in _USUAL for name in names}


class Layout(NamedTuple):
    """The form of the lines of a text file: their delimiter, columns and quotes."""

    delimiter: str
    """The text between two fields."""
    names: list[str]
    """The names of the columns."""
    types: dict[str, str]
    """RecBole's types of the columns; empty for other files."""
    header: bool
    """True if the first line holds the names."""
    quoted: bool
    """True if fields may be in quotes."""
    guessed: bool = False
    """True if the columns of a file without a header were judged by its rows."""
    spare: bool = False
    """True if each row ends with a delimiter behind which a column without a name is empty."""

    row_names: bool = False
    """True if nearly each row has a field more than the header, as files of R have."""

    @property
    def may_be_lists(self) -> bool:
        """True if each line may be a user and a list of items, which takes a closer look."""
        return self.guessed and self.delimiter in (" ", "\t") and "timestamp" not in self.names

    @property
    def byte(self) -> int:
        """The byte that stands for the delimiter."""
        if self.delimiter == "::":
            return UNIT
        return ord(self.delimiter)

    @property
    def width(self) -> int:
        """The number of fields of a row."""
        return len(self.names) + self.spare


class Start(NamedTuple):
    """The place in a text file where its table begins."""

    text: bytes
    """The text from there on, without blank lines before it."""
    line: int
    """The number of its first line in the file, from 1."""
    delimiter: str | None = None
    """The delimiter that a line before the table declares."""
    names: list[str] | None = None
    """The columns that a comment before the table names."""


def start_of(text: bytes, options: LoadOptions, source: str, notes: list[str]) -> Start:
    """Returns where the table begins: behind the lines that the user wants skipped, Excel's `sep=;`
    and comments. Adds to `notes` what was skipped. Raises InputError if nothing is left.
    """
    place = 0
    for _ in range(options.skip_lines):
        place = _next(text, place)
    if options.skip_lines:
        notes.append(f"lines before the table that were skipped, as declared: {options.skip_lines}")
    place = _past_blanks(text, place)
    delimiter = None
    separator = re.match(rb"(?i)\"?sep=(.)\"?\n", text[place : place + 9])
    if separator is not None:
        delimiter = separator[1].decode("latin-1")
        notes.append(f"a line declares the delimiter {name_of(delimiter)}, as Excel writes it")
        place = _past_blanks(text, _next(text, place))
    comments = []
    while text.startswith(COMMENT, place):
        comments.append(place)
        place = _past_blanks(text, _next(text, place))
    if place >= len(text):
        raise NoRows(
            source,
            "the file holds nothing but blank lines or comments",
            expected="a header and rows of user, item, value, time",
        )
    start = Start(text[place:], 1 + text.count(b"\n", 0, place), delimiter)
    if not comments:
        return start
    return _commented(text, comments, start, options, source, notes)


def _next(text: bytes, place: int) -> int:
    """Returns the start of the next line."""
    end = text.find(b"\n", place)
    if end < 0:
        return len(text)
    return end + 1


def _past_blanks(text: bytes, place: int) -> int:
    """Returns the start of the first line from `place` on that is not blank."""
    blanks = re.compile(rb"(?:[ ]*\n)*").match(text, place)
    assert blanks is not None
    place = blanks.end()
    # The last line may lack its end.
    only_blanks = text.startswith(b" ", place) and not text[place:].strip(b" ")
    return len(text) if only_blanks else place


def _commented(
    text: bytes,
    comments: list[int],
    start: Start,
    options: LoadOptions,
    source: str,
    notes: list[str],
) -> Start:
    """Returns the start of a table below comments, of which the last one may be a header or a
    row.
    """
    place = comments[-1]
    line = _decoded(text[place : place + LINE_LIMIT].partition(b"\n")[0])
    below = _decoded(start.text[:LINE_LIMIT].partition(b"\n")[0])
    delimiter = delimiter_of(start, options, None)
    fields = [field.strip() for field in line.lstrip("#% ").split(delimiter)]
    others = below.split(delimiter)
    alike = len(fields) == len(others) > 1
    if alike and all(re.search(r"\d", field) for field in line.split(delimiter)):
        number = 1 + text.count(b"\n", 0, place)
        raise InputError(
            f"{source}:{number}",
            f"the line begins with '{line[0]}' and may be a comment or a row",
            expected="comments that have other columns than rows",
            fix=f"skip it: skip_lines={number} (--load skip_lines={number}); or remove the"
            f" '{line[0]}' if it is a row",
        )
    notes.append(f"comment lines before the table, skipped: {len(comments)}")
    names_them = alike and is_header(fields, options) and not is_header(others, options)
    if names_them and options.names is None:
        notes.append(f"columns named by a comment: {', '.join(fields)}")
        return start._replace(names=_filled(fields))
    return start


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def layout_of(
    start: Start,
    where: str,
    options: LoadOptions,
    delimiter: str | None,
    notes: list[str],
    guesses: list[Guess],
) -> Layout:
    """Returns the layout of the lines, as the first of them tell. Adds to `notes` and `guesses`
    what was skipped and assumed.

    delimiter: that of the file's ending.
    """
    text = start.text
    end = text.find(b"\n", 0, LINE_LIMIT + 1)
    if end < 0:
        refuse_long(where, text.index(b"\n"), LINE_LIMIT)
    line = text[:end].decode("utf-8")
    declared = options.delimiter or start.delimiter
    sure = DELIMITERS[:2] if delimiter is None else (delimiter,)
    delimiter = delimiter_of(start, options, delimiter)
    if declared is None and delimiter not in sure:
        said = f"the delimiter is {name_of(delimiter)}, as the first line has it"
        guesses.append(Guess(said, option_of(delimiter)))
    # Elsewhere a quote is a character like any other, unless all quotes enclose fields.
    quoted = delimiter in (",", ";") and b'"' in text
    fields = split_line(line, delimiter, quoted or line.startswith('"'))
    if len(fields) == 1:
        _refuse_undivided(line, delimiter, where, _header_below(text, options))
    rows = _rows(text, delimiter, quoted)
    types: dict[str, str] = {}
    header = True
    guessed = False
    if options.names is not None:
        names = _given_names(options.names, fields, where)
        header = False
    elif start.names is not None and len(start.names) == len(fields):
        names = start.names
        header = False
    elif all(map(_TYPED.fullmatch, fields)):
        pairs = [field.rpartition(":") for field in fields]
        types = {name: kind for name, _, kind in pairs}
        names = [name for name, _, _ in pairs]
        _check_distinct(names, where)
    elif is_header(fields, options):
        _check_header(rows, options, where)
        names = _filled(fields)
        _check_distinct(names, where)
    else:
        names = _positional(rows, where, _header_below(text, options))
        listed = ",".join(names)
        guesses.append(Guess(f"no header; columns are {listed}", f"names={listed}"))
        header = False
        guessed = True
    # Of a single row it is the row that is wrong.
    below = rows[1:] if header else []
    wider = [row for row in below if len(row) == len(fields) + 1]
    row_names = len(wider) > MOST * max(1, len(below))
    spare = row_names and not any(row[-1] for row in wider)
    if spare:
        notes.append(
            f"rows end with {name_of(delimiter)} that the header lacks: the empty column behind it"
            " is not read"
        )
    # A delimiter at the end of each line ends an empty column, which has no name of its own.
    if len(names) == len(fields) - 1:
        names = [*names, f"column {len(fields)}"]
    return Layout(delimiter, names, types, header, quoted, guessed, spare, row_names)


def _filled(fields: Sequence[str]) -> list[str]:
    """Returns the fields of a header with a name for each empty one."""
    return [field or f"column {number}" for number, field in enumerate(fields, 1)]


def delimiter_of(start: Start, options: LoadOptions, by_ending: str | None) -> str:
    """Returns the delimiter that the user or the file declares, that of the file's ending, or the
    one that the first lines seem to have.
    """
    first, _, rest = _decoded(start.text[:LINE_LIMIT]).partition("\n")
    declared = options.delimiter or start.delimiter
    if declared or by_ending is None:
        return declared or _guess(first)
    second = rest.partition("\n")[0]
    # Another one divides two lines alike, of which a row may end with it; a comma may be a point.
    for other in DELIMITERS:
        width, below = (len(split_line(line, other, quoted=True)) for line in (first, second))
        alike = not second or width <= below <= width + 1
        if other in first.partition(by_ending)[0] and width > 1 and alike:
            return other
    return by_ending


def _guess(line: str) -> str:
    """Returns the delimiter that a line seems to have."""
    for delimiter in DELIMITERS[:2]:
        if delimiter in line:
            return delimiter
    # The most frequent one; the first of those that are equally frequent.
    return max(DELIMITERS[2:], key=line.count)


def split_line(line: str, delimiter: str, quoted: bool) -> list[str]:
    """Returns the fields of a line."""
    fields = line.split(delimiter)
    if quoted and len(delimiter) == 1:
        fields = next(csv.reader([line], delimiter=delimiter), fields)
    return [field.strip() for field in fields]


def _rows(text: bytes, delimiter: str, quoted: bool) -> list[list[str]]:
    """Returns the fields of the first lines that are not blank."""
    lines = _decoded(text[:LINE_LIMIT]).split("\n")[:-1]
    return [split_line(line, delimiter, quoted) for line in lines if line][:SAMPLE]


def names_columns(line: str, options: LoadOptions) -> bool:
    """Returns True if a line, divided as it seems to be, has a usual name of a column, or one that
    the user gave.
    """
    fields = split_line(line.rstrip("\r"), _guess(line), quoted=True)
    return len(fields) > 1 and is_header(fields, options)


def _header_below(text: bytes, options: LoadOptions) -> int:
    """Returns the number of lines above a line that looks like a header; 0 if none does."""
    lines = _decoded(text[:LINE_LIMIT]).split("\n")[:BEFORE]
    named = (number for number, line in enumerate(lines) if names_columns(line, options))
    return next(named, 0)


def _refuse_undivided(line: str, delimiter: str, where: str, above: int) -> NoReturn:
    if above:
        _refuse_title(line, where, above)
    raise InputError(
        where,
        "only one column",
        expected=f"at least two, separated by {name_of(delimiter)}",
        fix="check the delimiter",
    )


def _refuse_title(line: str, where: str, above: int) -> NoReturn:
    """Refuses a line above the header. above: the number of such lines."""
    first = where.rpartition(":")[2]
    skipped = int(first) - 1 + above
    raise InputError(
        where,
        f"'{line[:40]}' stands before the header, which is line {skipped + 1}",
        expected="a header in the first line",
        fix=f"skip what precedes it: skip_lines={skipped} (--load skip_lines={skipped})",
    )


def option_of(delimiter: str) -> str:
    """Returns the option that says a delimiter, as a shell takes it."""
    return f"delimiter={SPELLED.get(delimiter, repr(delimiter))}"


def name_of(delimiter: str) -> str:
    return NAMES.get(delimiter, f"'{delimiter}'")


def _given_names(names: tuple[str, ...], fields: list[str], where: str) -> list[str]:
    # Each line of some files ends with a delimiter, and the empty column behind it has no name.
    bare = len(fields) == len(names) + 1 and fields[-1] == ""
    if len(names) != len(fields) and not bare:
        raise InputError(
            where,
            f"{len(fields)} columns",
            expected=f"{len(names)}, as in names={','.join(names)}",
        )
    _check_distinct(names, where)
    return list(names)


def is_header(fields: Sequence[str], options: LoadOptions) -> bool:
    """Returns True if the first line of a text file names columns: it holds a usual name, or one
    that the user gave.
    """
    wanted = {name for name in (options.user, options.item, options.value, options.time) if name}
    return any(field in wanted or plain(field) in _KNOWN for field in fields)


def _check_distinct(names: Sequence[str], where: str) -> None:
    """Raises InputError for a name that occurs twice."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            where,
            f"column name '{twice}' occurs twice",
            expected="different names",
            fix="rename one of them",
        )


def _check_header(rows: Sequence[Sequence[str]], options: LoadOptions, where: str) -> None:
    """Raises InputError for a first line that has a usual name and a number, which may be a header
    or a row, unless the user named its columns.
    """
    fields = rows[0]
    named = options.user is not None and options.item is not None
    if named or not any(map(is_number, fields)):
        return
    raise InputError(
        where,
        f"the line may be a header or a row: {', '.join(fields[:8])}",
        expected="names alone, or no name of a column",
        fix=f"say which: {_two(rows)} if it is a header, --load names={','.join(_example(rows))} if"
        " it is a row",
    )


def _example(rows: Sequence[Sequence[str]], header: bool = False) -> list[str]:
    """Returns names that would do for the columns of some rows: the first ids, which are neither
    times nor fractions, are user and item. header: True if the first row is one.
    """
    left = [USER, ITEM]
    names = []
    # A row with fewer fields says nothing of the others.
    whole = [row for row in rows[header:] if len(row) == len(rows[0])]
    for number, column in enumerate(zip(*(whole or rows[:1]), strict=True), 1):
        is_time = may_be_times(column)
        if is_time and TIME not in names:
            names.append(TIME)
        elif left and not is_time and not most(_is_fraction, column):
            names.append(left.pop(0))
        else:
            names.append(f"column{number}")
    # What may be no id is better than none.
    return [*names[: len(names) - len(left)], *left]


def _is_fraction(field: str) -> bool:
    return is_number(field) and not float(field).is_integer()


def _two(rows: Sequence[Sequence[str]]) -> str:
    """Returns the options that name the columns of user and item below a header, the first row."""
    names = dict(zip(_example(rows, header=True), rows[0], strict=False))
    words = [f"user={names[USER]}", f"item={names[ITEM]}"]
    return " ".join(f"--load {shlex.quote(word)}" for word in words)


def _refuse_names(rows: Sequence[Sequence[str]], where: str) -> NoReturn:
    """Refuses a first line in which no column is known. It is a row if it holds a number, and a
    header if only the line below it holds one.
    """
    fields = rows[0]
    name_two = f"say what its columns are ({_two(rows)})"
    example = ",".join(_example(rows))
    name_all = f"add one, or name all {len(fields)} columns, for example: --load names={example}"
    fix = f"{name_two}; or, if the first line is a row, {name_all}"
    if any(map(is_number, fields)):
        fix = name_all
    raise InputError(
        where,
        f"no usual column name among {', '.join(fields[:8])}",
        expected="a header with the names of the columns, such as user_id,item_id,rating,timestamp",
        fix=fix,
    )


def _positional(rows: list[list[str]], where: str, above: int) -> list[str]:
    """Returns the names of the columns of a file without a header. Raises InputError if none or
    several orders of columns fit. above: see `_header_below`.
    """
    fields = rows[0]
    width = len(fields)
    # Each line of some files ends with a delimiter.
    named = width
    if width > 2 and fields[-1] == "":
        named = width - 1
    alike = [row[:named] for row in rows if len(row) == width]
    orders = readings(alike)
    if not orders:
        # The first row alone may tell, where a later one is damaged.
        orders = readings([fields[:named]])
    # Unusual names of columns stand above rows that fit, where a number or a time should be.
    in_words = all(fields) and not any(map(is_number, fields))
    if orders and width > 2 and in_words and not readings([fields[:named]]):
        _refuse_names(rows[:1], where)
    if len(orders) == 1 and is_usual(orders[0]):
        if _products_first(alike):
            orders.append((ITEM, USER, *orders[0][2:]))
            _refuse_readings(orders, where)
        return list(orders[0])
    if orders:
        _refuse_readings(orders, where)
    if above:
        _refuse_title(", ".join(fields), where, above)
    if width > 2 and all(field.isdigit() for field in fields):
        refuse_lists(width, where)
    _refuse_names(rows, where)


def refuse_lists(width: int, where: str) -> NoReturn:
    """Refuses numbers without a header that may be rows, or a user and a list of items."""
    more = "".join(f",column{number}" for number in range(4, width + 1))
    raise InputError(
        where,
        f"{width} numbers in each line, without a header: a row, or a user and {width - 1} items",
        expected="a header, or a format",
        fix=f"say which: --load names=user_id,item_id,rating{more} or --load format=item-lists",
    )


def _refuse_readings(orders: list[tuple[str, ...]], where: str) -> NoReturn:
    """Refuses a file without a header whose columns are not in the usual order, or could be."""
    readable = [",".join(names) for names in orders]
    # Behind the item a number may be anything, such as a category.
    if len(readable) == 1:
        readable.append(readable[0].replace("rating", "other") if "rating" in readable[0] else "")
    says = [f"names={names}" for names in readable if names]
    ways = " or ".join(f"--load {way}" for way in says)
    raise InputError(
        where,
        f"there is no header, and the columns could be {' or '.join(filter(None, readable))}",
        expected="user, item, then a rating or a time, or names",
        fix=f"say what they are: {ways}",
    )


# ---- columns without a header, judged by the first rows ------------------------------------------


def readings(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Returns the names that the columns of some rows may have, in the usual order first. None fits
    where a column is neither an id, a number nor a time, or where there are more than four.

    >>> readings([["196", "242", "3", "881250949"]])
    [('user_id', 'item_id', 'rating', 'timestamp')]
    >>> readings([["881250949", "196", "242"]])
    [('user_id', 'item_id', 'rating'), ('timestamp', 'user_id', 'item_id')]
    """
    columns = list(zip(*rows, strict=False))
    orders = ORDERS.get(len(columns), ())
    return [names for names in orders if _fits(names, columns)]


def _products_first(rows: Sequence[Sequence[str]]) -> bool:
    """Returns True if products of Amazon stand in the first column alone, as in its ratings of
    2018.
    """
    first, second = list(zip(*rows, strict=False))[:2]
    return most(_is_product, first) and not most(_is_product, second)


def _is_product(field: str) -> bool:
    return _PRODUCT.fullmatch(field) is not None


def is_usual(names: tuple[str, ...]) -> bool:
    """Returns True for an order of columns that is read without being asked for."""
    return names[:2] == (USER, ITEM) and names != ORDERS[4][3]


def _fits(names: tuple[str, ...], columns: Sequence[Sequence[str]]) -> bool:
    fitting = {USER: _may_be_ids, ITEM: _may_be_ids, RATING: _may_be_ratings, TIME: may_be_times}
    for name, column in zip(names, columns, strict=True):
        if not fitting[name](column):
            return False
    # The ratings of a file are not its items.
    return is_usual(names) or not _must_be_ratings(columns[names.index(ITEM)])


def _may_be_ids(column: Sequence[str]) -> bool:
    return most(_is_id, column)


def _is_id(field: str) -> bool:
    """An id has a digit. Another delimiter inside it shows that the line was divided wrongly."""
    plain = re.search(r"\d", field) is not None and _DIVIDED.search(field) is None
    return plain and not is_date(field)


def _may_be_ratings(column: Sequence[str]) -> bool:
    return most(is_number, column) and not may_be_times(column)


def _must_be_ratings(column: Sequence[str]) -> bool:
    """Returns True for numbers so small that hardly any catalogue has only these items."""
    return most(lambda field: is_number(field) and abs(float(field)) <= HIGHEST_RATING, column)
