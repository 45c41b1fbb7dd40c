"""`Report`, the results of comparisons, audits and their like as tables for people, programs and
papers; and `Figure`, a drawing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, TypeVar, cast, final

from ..core.cells import harmless
from ..core.errors import InputError, did_you_mean
from ..core.files import write_all
from ..data.interactions import POLARS
from ..report.figures import DrawnFigure
from ..report.latex import booktabs, escaped
from ..report.markup import Html, tag
from .arguments import FrameT, columns_of, frame_of_records

# The dictionary of a report.
FoundT = TypeVar("FoundT", bound=Mapping[str, object])


@final
@dataclass(frozen=True, eq=False, repr=False)
class Figure:
    """A drawing, which a notebook shows."""

    svg: str
    """The drawing as text, which any page or browser takes."""

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the drawing to a file that ends in .svg, .pdf or .png, and return its path. Raises
        InputError for another ending, and for .pdf and .png without the extra `plots`.
        """
        path = Path(path)
        figure = DrawnFigure(self.svg)
        forms = {".svg": figure.encode, ".pdf": figure.pdf, ".png": figure.png}
        if path.suffix not in forms:
            expected = "a file that ends in .svg, .pdf or .png"
            raise InputError("path", f"got {path}", expected=expected)
        return _written(path, forms[path.suffix]())


class Table(NamedTuple):
    """A table as people read it."""

    caption: str
    headers: Sequence[str]
    body: Sequence[Sequence[str]]
    """A text for each cell, row by row."""

    def plain(self) -> str:
        """The table as lines of text."""
        lines = [self.headers, *self.body]
        # Columns are as wide as their widest text.
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [self.caption]
        for line in lines:
            padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            text.append("  ".join(padded).rstrip())
        return "\n".join(text)

    def html(self) -> Html:
        """The table as HTML."""
        head = tag("tr", [tag("th", header) for header in self.headers])
        rows = [tag("tr", [tag("td", cell) for cell in line]) for line in self.body]
        return tag("table", tag("caption", self.caption), head, rows)


@dataclass(frozen=True, eq=False, repr=False)
class Report(Generic[FoundT, FrameT]):
    """The result of a comparison, an audit or their like."""

    found: FoundT
    """The whole report, as the command prints it with --json."""
    frames: str = POLARS
    """The library whose frames the tables are."""
    of_rows: ClassVar[str] = "rows"
    """The name of the table's rows in the whole report."""

    def table(self) -> FrameT:
        """The rows as a frame, numbers in full."""
        return self._frame(self._records())

    def csv(self) -> str:
        """The rows as CSV text, numbers in full."""
        return csv_text(self._records())

    def latex(self) -> str:
        """A LaTeX table (booktabs) with the conditions of its figures as caption."""
        caption, headers, body = self._shown()
        lines = [[escaped(cell) for cell in line] for line in body]
        return booktabs([escaped(header) for header in headers], lines, escaped(caption)) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the table to a file that ends in .csv, .tex or .html, and return its path."""
        path = Path(path)
        forms = {".csv": self.csv, ".tex": self.latex, ".html": self._repr_html_}
        if path.suffix not in forms:
            expected = "a file that ends in .csv, .tex or .html"
            raise InputError("path", f"got {path}", expected=expected)
        return _written(path, forms[path.suffix]().encode())

    def __repr__(self) -> str:
        return self._shown().plain()

    def _repr_html_(self) -> str:
        return str(self._shown().html())

    def _frame(self, records: Sequence[Mapping[str, object]]) -> FrameT:
        frame: FrameT = frame_of_records(records, self.frames)
        return frame

    def _caption(self) -> str:
        """The conditions of the figures, for the table."""
        raise NotImplementedError

    def _records(self) -> Sequence[Mapping[str, object]]:
        """A record for each row of the table."""
        return cast("Sequence[Mapping[str, object]]", self.found[self.of_rows])

    def _shown(self) -> Table:
        """The table as people read it."""
        records = self._records()
        names = columns_of(records)
        body = [[_cell(record.get(name)) for name in names] for record in records]
        return Table(self._caption(), names, body)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def csv_text(records: Sequence[Mapping[str, object]]) -> str:
    """Records as CSV, numbers in full."""
    text = io.StringIO()
    names = columns_of(records)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for record in records:
        cells = [record.get(name) for name in names]
        # A label could be a formula, which a spreadsheet would run.
        writer.writerow([harmless(cell) if isinstance(cell, str) else cell for cell in cells])
    return text.getvalue()


def refuse_unknown(what: str, name: str, known: Sequence[str]) -> None:
    """Raises InputError for a name that is none of those known."""
    if name not in known:
        raise InputError(what, f"no '{name}'", fix=did_you_mean(name, known))


def _written(path: Path, content: bytes) -> Path:
    """Writes a file whole or not at all. Raises InputError for a place that cannot be written
    to.
    """
    try:
        write_all(path.parent, {path.name: content})
    except OSError as wrong:
        raise InputError(
            str(path), f"cannot be written ({wrong.strerror})", expected="a file you may write"
        ) from None
    return path
