"""Figures as SVG text: `lines`, `bars`, `scatter`. The same data give the same bytes.

Matplotlib's Figure draws them, never pyplot: there is no window and no list of open figures. Names
are shown as they are written; nothing in them is read as mathematics or markup. `reference` shows a
paper's values as hollow marks in the colour of the series of the same name. `order`
(all names of several figures) gives a name the same colour and mark in each of them. Text stays
text, and the colours are the constants below, which a page can replace by its own.

Matplotlib is the extra `plots`. Without it a figure is a small SVG with a message, and a report
leaves figures out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

# {name: (x, y)}
Series: TypeAlias = Mapping[str, tuple[ArrayLike, ArrayLike]]

# Each has a contrast of at least 4.5 : 1 to white. Marks and dashes distinguish series without
# colour, and repeat at another place than colours.
COLOURS = ("#1d5fd1", "#c2410c", "#0b7a53", "#9d1fae", "#8a6100", "#0a6c86", "#be1860", "#4b5563")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
INK = "#1b1f26"
MUTED = "#59616e"
GRID = "#dde1e7"
PAPER = "#ffffff"
# Marks a reference in the legend.
PAPERS = " (paper)"
# Characters of a name; the rest is cut.
LONGEST = 40
MISSING = "no figures: Matplotlib is not installed; pip install 'entrenous[plots]'"

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "entrenous",
    "text.parse_math": False,
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.limits": (-4, 5),
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}
# Matplotlib's settings belong to the process, and drawing on two threads is not safe.
_DRAWING = Lock()


class FigureFormat(NamedTuple):
    """The size and names of a figure."""

    title: str
    x_label: str
    y_label: str
    width: float = 4.1
    """Inches."""
    height: float = 2.6
    """Inches, without the legend."""
    name: str = ""
    """The start of all ids, unique on a page."""


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
    numbers = _numbers(order, series, reference)

    def draw(axes: Any) -> None:
        for label, (x, y) in series.items():
            number = numbers[label]
            style: dict[str, Any] = {"color": colour(number), "label": _said(label)}
            if marks:
                style["marker"] = MARKS[number % len(MARKS)]
            else:
                style["linestyle"] = DASHES[number % len(DASHES)]
            axes.plot(np.asarray(x), np.asarray(y), **style)
        _reference(axes, numbers, reference, ":")
        if log_x:
            axes.set_xscale("log")

    return _svg(look, draw)


def scatter(
    series: Series,
    look: FigureFormat,
    *,
    reference: Series | None = None,
    joined: bool = False,
    order: Sequence[str] = (),
) -> str:
    """Points of each series. reference: a paper's points, hollow.

    joined: the points of a series form a path in the given order, and a white point ends it (FPL,
    figure 3: pi up to 1).
    """
    numbers = _numbers(order, series, reference)

    def draw(axes: Any) -> None:
        for label, (x, y) in series.items():
            x = np.atleast_1d(x)
            y = np.atleast_1d(y)
            number = numbers[label]
            style: dict[str, Any] = {"color": colour(number), "markersize": 5.5}
            style["marker"] = MARKS[number % len(MARKS)]
            line = "-" if joined else ""
            axes.plot(x, y, label=_said(label), linestyle=line, linewidth=1, **style)
            if joined:
                # The white point lies above the others, or it would be hidden by the path.
                axes.plot(x[-1:], y[-1:], markerfacecolor=PAPER, linestyle="", zorder=3, **style)
        _reference(axes, numbers, reference, "")
        axes.margins(0.1)

    return _svg(look, draw)


def bars(
    groups: Sequence[str],
    series: Mapping[str, ArrayLike],
    look: FigureFormat,
    *,
    intervals: Mapping[str, ArrayLike] | None = None,
    reference: Mapping[str, ArrayLike] | None = None,
    ends: tuple[float, float] | None = None,
    order: Sequence[str] = (),
) -> str:
    """Horizontal bars: a block for each group, from the top, and in it a bar for each series:
    {name: [len(groups)]}, NaN = none.

    look: `x_label` names the values, `y_label` the groups; its height is not used.
    intervals: {name: [len(groups), 2]}, low and high ends. reference: a paper's values. ends: of
    the axis of values, so that two figures can share it.
    """
    numbers = _numbers(order, series, reference)
    # A block takes 0.8 of the space between two groups.
    thick = 0.8 / max(1, len(series))
    centre = np.arange(len(groups))
    place = {}
    for number, label in enumerate(series):
        place[label] = centre + (number + 0.5) * thick - 0.4

    def draw(axes: Any) -> None:
        for label, values in series.items():
            width = np.asarray(values, np.float64)
            y = place[label]
            style = {"color": colour(numbers[label]), "label": _said(label)}
            axes.barh(y, width, thick * 0.86, **style)
            if intervals is not None and label in intervals:
                low, high = np.asarray(intervals[label], np.float64).T
                # Matplotlib asks for the distances from the value, not for the ends.
                away = np.stack([width - low, high - width])
                axes.errorbar(width, y, xerr=away, fmt="none", ecolor=INK, elinewidth=1, capsize=2)
        marked = {}
        for label, values in (reference or {}).items():
            if label in place:
                marked[label] = (values, place[label])
        _reference(axes, numbers, marked, "", edge=INK)
        axes.set_yticks(np.arange(len(groups)), [_said(group) for group in groups])
        axes.set_xlim(ends)
        # The first group is at the top.
        axes.set_ylim(len(groups) - 0.45, -0.55)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        axes.grid(visible=False, axis="y")

    # Inches of a bar, of a block with its bars, and of the figure.
    bar = 0.13 if len(groups) < 6 else 0.09
    block = max(0.22, 0.06 + bar * len(series))
    height = 1.0 + len(groups) * block
    return _svg(look._replace(height=height), draw)


def can_draw() -> bool:
    """True if Matplotlib is installed; does not import it."""
    return importlib.util.find_spec("matplotlib") is not None


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


def _reference(
    axes: Any, numbers: Mapping[str, int], reference: Series | None, line: str, edge: str = ""
) -> None:
    """Draws a paper's values as hollow marks. edge: their colour; "" = that of the series."""
    for label, (x, y) in (reference or {}).items():
        number = numbers[label]
        axes.plot(
            np.atleast_1d(x),
            np.atleast_1d(y),
            color=edge or colour(number),
            marker=MARKS[number % len(MARKS)],
            label=_said(label) + PAPERS,
            markerfacecolor=PAPER,
            markersize=6,
            zorder=4,
            linestyle=line,
            linewidth=1,
        )


def _said(name: str) -> str:
    """A name that XML can hold, cut at LONGEST characters."""
    printable = "".join(letter if letter.isprintable() else " " for letter in str(name))
    clean = printable.strip() or "unnamed"
    # Matplotlib leaves names that begin with `_` out of the legend.
    if clean.startswith("_"):
        clean = f" {clean}"
    if len(clean) <= LONGEST:
        return clean
    return clean[: LONGEST - 1] + "…"


# ---- from axes to text ---------------------------------------------------------------------------


class DrawnFigure(str):
    """A figure as SVG text, which `pdf` draws again for print."""

    look: FigureFormat
    draw: Callable[[Any], None]

    def pdf(self) -> bytes:
        """The figure as a PDF file. The same data give the same bytes."""
        metadata = {"CreationDate": None, "Creator": None, "Producer": None}
        return _saved(self.look, self.draw, "pdf", metadata=metadata)


def _svg(look: FigureFormat, draw: Callable[[Any], None]) -> str:
    if not can_draw():
        return _absent(look)
    metadata = {"Date": None, "Creator": None}
    text = _saved(look, draw, "svg", transparent=True, metadata=metadata).decode()
    figure = DrawnFigure(_tidied(text, look))
    figure.look = look
    figure.draw = draw
    return figure


def _saved(look: FigureFormat, draw: Callable[[Any], None], form: str, **options: Any) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with _DRAWING, matplotlib.rc_context(), warnings.catch_warnings():
        # The viewer has other fonts than we have.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=(look.width, look.height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if axes.get_xscale() == "linear":
            axes.locator_params(axis="x", nbins=6)
        axes.set_title(look.title)
        axes.set_xlabel(look.x_label)
        axes.set_ylabel(look.y_label)
        _legend(figure, axes)
        out = io.BytesIO()
        figure.savefig(out, format=form, **options)
    return out.getvalue()


def _absent(look: FigureFormat) -> str:
    """The replacement of a figure that cannot be drawn here."""
    title = escape(look.title)
    words = f'<text x="8" y="22">{title}</text><text x="8" y="44">{escape(MISSING)}</text>'
    return (
        f'<svg role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg" width="520"'
        f' height="60"><title>{title}</title>{words}</svg>'
    )


def _legend(figure: Any, axes: Any) -> None:
    """Draws the legend below the axes: our series before the paper's, in as many columns as fit."""
    handles, names = axes.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda number: names[number].endswith(PAPERS))
    handles = [handles[number] for number in order]
    names = [names[number] for number in order]
    # A figure is 52 letters wide; a handle and a gap take seven.
    longest = max(map(len, names))
    columns = max(1, min(len(names), 52 // (longest + 7)))
    # Rounded up; a line of the legend is 0.17 inches high.
    rows = -(-len(names) // columns)
    figure.set_figheight(figure.get_figheight() + 0.17 * rows)
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=columns,
        handlelength=1.8,
        columnspacing=1.4,
    )


def _tidied(text: str, look: FigureFormat) -> str:
    """The <svg> element alone, with a title for readers who cannot see it and with ids that no
    other figure has.
    """
    text = text[text.index("<svg") :]
    unwanted = r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>"
    text = re.sub(unwanted, "", text, flags=re.DOTALL)
    # The ids that something refers to are renamed, and the others removed.
    reference = re.compile(r"""((?:href="|url\()#)([\w.-]+)""")
    prefix = look.name or "f" + hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    used = sorted({match[2] for match in reference.finditer(text)})
    new = {old: f"{prefix}-{number}" for number, old in enumerate(used)}

    def renamed(match: re.Match[str]) -> str:
        if match[1] in new:
            return f' id="{new[match[1]]}"'
        return ""

    text = re.sub(r' id="([^"]*)"', renamed, text)
    text = reference.sub(lambda match: match[1] + new[match[2]], text)
    title = escape(look.title)
    tag, rest = text.split(">", 1)
    named = (
        f'<svg role="img" aria-label="{title}" stroke-linejoin="round"'
        f" {tag.removeprefix('<svg ')}><title>{title}</title>"
    )
    return re.sub(r"\s*\n\s*", "\n", named + rest)
