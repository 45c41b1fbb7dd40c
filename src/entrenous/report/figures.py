"""Figures as SVG text: `lines`, `bars`, `scatter`; as PDF too, with the extra `plots`. The same
data give the same bytes.

Names are shown as they are written; nothing in them is read as markup. `reference` shows a paper's
values as hollow marks in the colour of the series of the same name. `order` (all names of several
figures) gives a name the same colour and mark in each of them. Text stays text, and the colours are
the constants below, which a page can replace by its own.
"""

from __future__ import annotations

import importlib.util
import io
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from .axes import Axis, axis_of, text_width
from .markup import Html, join, tag

# {name: (x, y)}
Series: TypeAlias = Mapping[str, tuple[ArrayLike, ArrayLike]]

# Each has a contrast of at least 4.5 : 1 to white. Marks and dashes distinguish series without
# colour, and repeat at another place than colours.
COLOURS = ("#1d5fd1", "#c2410c", "#0b7a53", "#9d1fae", "#8a6100", "#0a6c86", "#be1860", "#4b5563")
# Corners around the origin, in units of the size of a mark; () is a circle.
MARKS: tuple[tuple[tuple[float, float], ...], ...] = (
    (),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    ((0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
    ((0, -1.3), (0.5, -0.2), (1.3, 1), (0, 0.5), (-1.3, 1), (-0.5, -0.2)),
    ((-1.3, -0.5), (1.3, -0.5), (1.3, 0.5), (-1.3, 0.5)),
)
DASHES = ("", "8 2.5", "2.5 2", "9 2.5 2.5 2.5", "5 2 2 2 2 2")
INK = "#1b1f26"
MUTED = "#59616e"
GRID = "#dde1e7"
PAPER = "#ffffff"
# Marks a reference in the legend.
PAPERS = " (paper)"
# Characters of a name; the rest is cut.
LONGEST = 40

# Sizes in the units of a figure: of text, marks, a line of the legend, space around the axes.
TEXT = 12.0
SIZE = 3.8
ROW = 18.0
# The width of a letter of the title, which is larger and bold.
TITLE_LETTER = 7.8
TOP = 34.0
BOTTOM = 46.0
RIGHT = 14.0
# Pixels of a unit of a figure, of which a PDF has 4 in 3 units: 300 dots an inch for print.
PNG_SCALE = 4


class FigureFormat(NamedTuple):
    """The size and names of a figure."""

    title: str
    x_label: str
    y_label: str
    width: float = 420.0
    """Units, without the names of groups."""
    height: float = 280.0
    """Units, without the legend."""
    name: str = ""
    """The id of the figure, unique on a page; "" = none."""


class DrawnFigure(str):
    """A figure as SVG text."""

    def pdf(self) -> bytes:
        """The figure as a PDF file, for print. Raises InputError without the extra `plots`."""
        try:
            from reportlab.graphics import renderPDF
            from svglib.svglib import svg2rlg
        except ImportError:
            raise _missing("svglib") from None
        drawing = svg2rlg(io.BytesIO(self.encode()))
        # Without the time of writing, so that the same figure has the same bytes.
        content: bytes = renderPDF.drawToString(drawing, invariant=1)
        return content

    def png(self) -> bytes:
        """The figure as a PNG file, drawn as its PDF is. Raises InputError without the extra
        `plots`.
        """
        try:
            from pypdfium2 import PdfDocument
        except ImportError:
            raise _missing("pypdfium2") from None
        [page] = PdfDocument(self.pdf())
        content = io.BytesIO()
        page.render(scale=PNG_SCALE).to_pil().save(content, "PNG")
        return content.getvalue()


def _missing(library: str) -> InputError:
    """Returns the error of a library of the extra `plots` that is not there."""
    fix = "pip install 'entrenous[plots]'"
    return InputError("figure", f"{library} is not installed", fix=fix)


def can_print() -> bool:
    """True if figures can be written as PDF; imports nothing."""
    return importlib.util.find_spec("svglib") is not None


class LegendEntry(NamedTuple):
    """An entry of a legend: its name and the sample before it."""

    name: str
    sample: Html


def lines(
    series: Series,
    look: FigureFormat,
    *,
    reference: Series | None = None,
    log_x: bool = False,
    marks: bool = True,
    order: Sequence[str] = (),
) -> str:
    """A line for each series, through its points in the given order; NaN leaves a gap.

    reference: a paper's points, hollow and dotted. marks: a mark at each point (else dashes tell
    the lines apart). log_x: a logarithmic horizontal axis.

    >>> look = FigureFormat("Figure 2", x_label="pi", y_label="F1@10")
    >>> svg = lines({"pFPL+": ([0, 0.5, 1], [0.1, 0.3, 0.2])}, look)
    >>> svg.startswith("<svg "), "pFPL+" in svg, "F1@10" in svg
    (True, True, True)
    """

    def drawn(number: int, points: Sequence[Point], whole: bool) -> list[Html]:
        dash = "" if marks else DASHES[number % len(DASHES)]
        line = path(points if whole else [(0, 0), (22, 0)], colour(number), dash)
        return [line, *(mark(number, point) for point in points if marks)]

    return _plotted(series, look, reference, order, drawn, log_x=log_x, line=True)


def scatter(
    series: Series,
    look: FigureFormat,
    *,
    reference: Series | None = None,
    joined: bool = False,
) -> str:
    """Points of each series. reference: a paper's points, hollow.

    joined: the points of a series form a path in the given order, and a white point ends it (FPL,
    figure 3: pi up to 1).
    """

    def drawn(number: int, points: Sequence[Point], whole: bool) -> list[Html]:
        shapes = [mark(number, point, 1.2) for point in points]
        if joined and whole:
            shapes.insert(0, path(points, colour(number), "", width=1))
            # The white point lies above the others, or it would be hidden by the path.
            shapes += [mark(number, point, 1.2, hollow=True) for point in points[-1:]]
        return shapes

    return _plotted(series, look, reference, (), drawn)


def _plotted(
    series: Series,
    look: FigureFormat,
    reference: Series | None,
    order: Sequence[str],
    drawn: Callable[[int, Sequence[Point], bool], list[Html]],
    *,
    log_x: bool = False,
    line: bool = False,
) -> str:
    """The figure of some series. drawn: the shapes of a series by its number, through its points;
    False for the sample in the legend, which has one. line: a dotted line joins the paper's points.
    """
    numbers = _numbers(order, series, reference)
    every = [*series.values(), *(reference or {}).values()]
    across = axis_of((x for x, _ in every), logarithmic=log_x)
    frame = Canvas(look, across, axis_of(y for _, y in every))
    shapes = []
    legend = []
    for label, (x, y) in series.items():
        shapes += drawn(numbers[label], frame.places(x, y), True)
        sample = join(drawn(numbers[label], [(11, 0)], False))
        legend.append(LegendEntry(_said(label), sample))
    shapes += _reference(frame, numbers, reference, legend, line=line)
    return frame.drawn(shapes, legend)


def bars(
    groups: Sequence[str],
    series: Mapping[str, ArrayLike],
    look: FigureFormat,
    *,
    intervals: Mapping[str, ArrayLike] | None = None,
    reference: Mapping[str, ArrayLike] | None = None,
    order: Sequence[str] = (),
) -> str:
    """Horizontal bars: a block for each group, from the top, and in it a bar for each series:
    {name: [len(groups)]}, NaN = none.

    look: `x_label` names the values, `y_label` the groups; its height is not used.
    intervals: {name: [len(groups), 2]}, low and high ends. reference: a paper's values.
    """
    numbers = _numbers(order, series, reference)
    bar = 13.0 if len(groups) < 6 else 9.0
    block = max(22.0, 7 + bar * len(series))
    height = TOP + BOTTOM + block * len(groups)
    shown = [[0.0], *series.values(), *(intervals or {}).values(), *(reference or {}).values()]
    values = axis_of(shown)
    if not any(np.any(np.asarray(value) < 0) for value in shown):
        # Bars of positive values stand on the left edge.
        values = values._replace(low=0.0)
    names = [_said(group) for group in groups]
    widest = max([text_width(name, TEXT) for name in names], default=0.0)
    frame = Canvas(look._replace(height=height), values, None, left=38 + widest)
    shapes = []
    legend = []
    for place, name in enumerate(names):
        middle = TOP + (place + 0.5) * block
        shapes.append(text(name, frame.left - 8, middle + 4, anchor="end"))
    for place, (label, widths) in enumerate(series.items()):
        # The middle of this bar in the first group.
        first = TOP + block / 2 + (place + 0.5 - len(series) / 2) * bar
        middles = [first + group * block for group in range(len(groups))]
        fill = colour(numbers[label])
        legend.append(LegendEntry(_said(label), _box(0, -5, 22, 10, fill)))
        for y, value in zip(middles, np.asarray(widths, np.float64).tolist(), strict=True):
            if math.isfinite(value):
                left, right = sorted((frame.x.at(0.0), frame.x.at(value)))
                shapes.append(_box(left, y - 0.43 * bar, right - left, 0.86 * bar, fill))
        if intervals is not None and label in intervals:
            spans = np.asarray(intervals[label], np.float64).tolist()
            for y, (low, high) in zip(middles, spans, strict=True):
                shapes.append(_whisker(frame.x.at(low), frame.x.at(high), y))
        if reference is not None and label in reference:
            printed = np.asarray(reference[label], np.float64).tolist()
            for y, value in zip(middles, printed, strict=True):
                point = (frame.x.at(value), y)
                shapes.append(mark(numbers[label], point, 1.2, hollow=True, edge=INK))
            sample = mark(numbers[label], (11, 0), 1.2, hollow=True, edge=INK)
            legend.append(LegendEntry(_said(label) + PAPERS, sample))
    return frame.drawn(shapes, legend)


def colour(number: int) -> str:
    """The colour of a series by its place; colours repeat after eight."""
    return COLOURS[number % len(COLOURS)]


def _numbers(*names: Iterable[str] | None) -> dict[str, int]:
    """{name: place of its first appearance}."""
    numbers: dict[str, int] = {}
    for group in names:
        for name in group or ():
            numbers.setdefault(name, len(numbers))
    return numbers


def _said(name: str) -> str:
    """A name that XML can hold, cut at LONGEST characters."""
    printable = "".join(letter if letter.isprintable() else " " for letter in str(name))
    clean = printable.strip() or "unnamed"
    if len(clean) <= LONGEST:
        return clean
    return clean[: LONGEST - 1] + "…"


# ---- shapes --------------------------------------------------------------------------------------

# A place on paper.
Point: TypeAlias = tuple[float, float]


def text(words: str, x: float, y: float, *, anchor: str = "start", style: str = "") -> Html:
    """A line of text. anchor: the part of it that is at x: start, middle or end."""
    return tag("text", words, x=_n(x), y=_n(y), text_anchor=anchor, style=style or f"fill:{INK}")


def mark(
    number: int, point: Point, scale: float = 1.0, *, hollow: bool = False, edge: str = ""
) -> Html:
    """The mark of a series at a point. edge: the colour of a hollow one; "" = that of the series.
    Nothing for a point that has no place.
    """
    x, y = point
    if not (math.isfinite(x) and math.isfinite(y)):
        return Html()
    line = edge or colour(number)
    style = f"fill:{PAPER if hollow else line};stroke:{line}"
    corners = MARKS[number % len(MARKS)]
    size = SIZE * scale
    if not corners:
        return tag("circle", cx=_n(x), cy=_n(y), r=_n(size), style=style)
    points = " ".join(f"{_n(x + dx * size)},{_n(y + dy * size)}" for dx, dy in corners)
    return tag("polygon", points=points, style=style)


def path(points: Sequence[Point], line: str, dash: str, *, width: float = 1.8) -> Html:
    """A line through points; one that has no place leaves a gap."""
    steps = []
    pen = "M"
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            steps.append(f"{pen}{_n(x)} {_n(y)}")
            pen = "L"
        else:
            pen = "M"
    style = f"fill:none;stroke:{line};stroke-width:{width:g}"
    return tag("path", d="".join(steps), style=style, stroke_dasharray=dash or None)


def _box(x: float, y: float, width: float, height: float, fill: str) -> Html:
    place = {"x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height)}
    return tag("rect", style=f"fill:{fill}", **place)


def _whisker(low: float, high: float, y: float) -> Html:
    """A line from one end of an interval to the other, with a cap at each."""
    ends = f"M{_n(low)} {_n(y)}H{_n(high)}"
    caps = "".join(f"M{_n(x)} {_n(y - 3)}V{_n(y + 3)}" for x in (low, high))
    return tag("path", d=ends + caps, style=f"fill:none;stroke:{INK}")


def _reference(
    frame: Canvas,
    numbers: Mapping[str, int],
    reference: Series | None,
    legend: list[LegendEntry],
    *,
    line: bool,
) -> list[Html]:
    """A paper's values as hollow marks; adds their entries to the legend. line: dotted lines
    connect them.
    """
    shapes = []
    for label, (x, y) in (reference or {}).items():
        number = numbers[label]
        points = frame.places(x, y)
        if line:
            shapes.append(path(points, colour(number), "1.5 3", width=1.2))
        shapes += [mark(number, point, 1.2, hollow=True) for point in points]
        sample = mark(number, (11, 0), 1.2, hollow=True)
        legend.append(LegendEntry(_said(label) + PAPERS, sample))
    return shapes


def _n(value: float) -> str:
    """A place in a tenth of a unit.

    >>> _n(3.14), _n(2.0), _n(-0.04)
    ('3.1', '2', '0')
    """
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


# ---- the frame -----------------------------------------------------------------------------------


class Canvas:
    """The axes of a figure with their names, ticks and grid, and the figure around them."""

    def __init__(self, look: FigureFormat, x: Axis, y: Axis | None, left: float = 0.0) -> None:
        """y: None for a figure of bars, whose groups have no axis. left: the space for what stands
        left of the axes; 0 = as much as the ticks need.
        """
        ticks = [] if y is None else [y.said(tick) for tick in y.ticks()]
        self.left = left or 34 + max([text_width(tick, TEXT) for tick in ticks], default=0.0)
        self.look = look
        # Long names of groups make the figure wider, not its axes shorter.
        self.width = look.width + max(0.0, self.left - 130)
        self.floor = look.height - BOTTOM
        self.x = x._replace(start=self.left, end=self.width - RIGHT)
        self.y = None if y is None else y._replace(start=self.floor, end=TOP)

    def places(self, x: ArrayLike, y: ArrayLike) -> list[Point]:
        """The places of points on paper."""
        assert self.y is not None
        xs = np.atleast_1d(np.asarray(x, np.float64)).tolist()
        ys = np.atleast_1d(np.asarray(y, np.float64)).tolist()
        return [(self.x.at(a), self.y.at(b)) for a, b in zip(xs, ys, strict=True)]

    def drawn(self, shapes: Iterable[Html], legend: Sequence[LegendEntry]) -> str:
        """The whole figure as an <svg> element: our series before the paper's in the legend."""
        ordered = sorted(legend, key=lambda entry: entry.name.endswith(PAPERS))
        # A sample and the gap after a name take 44.
        column = 44 + max([text_width(entry.name, TEXT) for entry in ordered], default=0.0)
        columns = max(1, int((self.width - 8) // column))
        rows = -(-len(ordered) // columns)
        height = self.look.height + rows * ROW
        # A caption that needs several lines grows upwards; all else stays where it is.
        title = textwrap.wrap(self.look.title, int((self.width - 8) / TITLE_LETTER)) or [""]
        above = (len(title) - 1) * ROW
        content = join(
            tag("title", self.look.title),
            tag("g", self._grid(), stroke_width="1"),
            tag("g", shapes, stroke_linejoin="round"),
            self._title(title, above),
            self._names(),
            self._legend(ordered, columns, column),
        )
        svg = tag(
            "svg",
            content,
            role="img",
            aria_label=self.look.title,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 {_n(-above)} {_n(self.width)} {_n(height + above)}",
            width=_n(self.width),
            height=_n(height + above),
            id=self.look.name or None,
            font_family="system-ui, sans-serif",
            font_size=_n(TEXT),
        )
        return DrawnFigure(svg)

    def _grid(self) -> list[Html]:
        """The grid with its ticks, and the lines of the axes."""
        shapes = []
        muted = f"fill:{MUTED}"
        for tick in self.x.ticks():
            x = self.x.at(tick)
            line = GRID if self.y is not None or tick else MUTED
            shapes.append(_line(x, TOP, x, self.floor, line))
            shapes.append(text(self.x.said(tick), x, self.floor + 16, anchor="middle", style=muted))
        if self.y is None:
            return shapes
        for tick in self.y.ticks():
            y = self.y.at(tick)
            shapes.append(_line(self.left, y, self.x.end, y, GRID))
            shapes.append(text(self.y.said(tick), self.left - 6, y + 4, anchor="end", style=muted))
        shapes.append(_line(self.left, TOP, self.left, self.floor, MUTED))
        shapes.append(_line(self.left, self.floor, self.x.end, self.floor, MUTED))
        return shapes

    def _title(self, title: Sequence[str], above: float) -> list[Html]:
        """The lines of the title, the last one above the axes. above: the room for the others."""
        bold = f"fill:{INK};font-weight:600;font-size:13px"
        return [text(line, 4, 16 - above + ROW * n, style=bold) for n, line in enumerate(title)]

    def _names(self) -> Html:
        """The names of the axes."""
        middle = (self.left + self.x.end) / 2
        height = (TOP + self.floor) / 2
        aside = tag(
            "text",
            self.look.y_label,
            text_anchor="middle",
            transform=f"translate(14 {_n(height)}) rotate(-90)",
            style=f"fill:{INK}",
        )
        return join(
            text(self.look.x_label, middle, self.floor + 36, anchor="middle"),
            aside,
        )

    def _legend(self, legend: Sequence[LegendEntry], columns: int, wide: float) -> list[Html]:
        """The legend below the axes, in columns of the same width."""
        shapes = []
        for place, (name, sample) in enumerate(legend):
            row, column = divmod(place, columns)
            x = 8 + column * wide
            y = self.look.height + row * ROW + 6
            moved = tag("g", sample, transform=f"translate({_n(x)} {_n(y)})")
            shapes += [moved, text(name, x + 28, y + 4)]
        return shapes


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> Html:
    ends = {"x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2)}
    return tag("line", style=f"stroke:{colour}", **ends)
