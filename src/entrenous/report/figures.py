"""Figures as SVG text: `lines`, `bars`, `scatter`. The same data give the same bytes.

Drawn by Matplotlib's Figure, never by pyplot: no window, no list of open figures. Names are shown
as they are written; nothing in them is read as mathematics or markup. A paper's values can stand
beside ours: as hollow marks in the colour of the series that bears the same name. `order` (all
names of several figures) gives a name the same colour and mark in each of them, whichever are
drawn. The text stays text, and the colours are the constants below, so that a page can put its own
in their place.

Matplotlib is the extra `plots`. Without it a figure is a small SVG that says so, and a report
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

Series: TypeAlias = Mapping[str, tuple[ArrayLike, ArrayLike]]  # {name: (x, y)}

# each at least 4.5 : 1 against white; marks and dashes tell series apart without colour, and repeat
# at another place than colours
COLOURS = ("#1d5fd1", "#c2410c", "#0b7a53", "#9d1fae", "#8a6100", "#0a6c86", "#be1860", "#4b5563")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
INK, MUTED, GRID, PAPER = "#1b1f26", "#59616e", "#dde1e7", "#ffffff"
PAPERS = " (paper)"  # what marks a reference in the legend
LONGEST = 40  # characters of a name; the rest is cut
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
_DRAWING = (
    Lock()
)  # Matplotlib's settings belong to the process, and it is not safe to draw on two threads


class FigureFormat(NamedTuple):
    """The size and names of a figure. width, height: inches, without the legend. name: begins the
    ids, unique on a page.
    """

    title: str
    x_label: str
    y_label: str
    width: float = 4.1
    height: float = 2.6
    name: str = ""


def lines(
    series: Series,
    *,
    x_label: str,
    y_label: str,
    title: str,
    reference: Series | None = None,
    log_x: bool = False,
    marks: bool = True,
    order: Sequence[str] = (),
    name: str = "",
) -> str:
    """A line for each series, through its points in the given order; NaN leaves a gap.

    reference: a paper's points, hollow and dotted. marks: a mark at each point (else dashes tell
    the lines apart). log_x: a logarithmic horizontal axis.

    >>> svg = lines({"pFPL+": ([0, 0.5, 1], [0.1, 0.3, 0.2])}, x_label="pi", y_label="F1@10",
    ...     title="Figure 2")
    >>> svg.startswith("<svg "), "pFPL+" in svg, "F1@10" in svg
    (True, True, True)
    """

    numbers = _numbers(order, series, reference)

    def draw(axes: Any) -> None:
        for label, (x, y) in series.items():
            number = numbers[label]
            style = (
                {"marker": MARKS[number % len(MARKS)]}
                if marks
                else {"linestyle": DASHES[number % len(DASHES)]}
            )
            axes.plot(
                np.asarray(x), np.asarray(y), color=colour(number), label=_said(label), **style
            )
        _reference(axes, numbers, reference, ":")
        if log_x:
            axes.set_xscale("log")

    return _svg(FigureFormat(title, x_label, y_label, name=name), draw)


def scatter(
    series: Series,
    *,
    x_label: str,
    y_label: str,
    title: str,
    reference: Series | None = None,
    joined: bool = False,
    order: Sequence[str] = (),
    name: str = "",
) -> str:
    """Points of each series. reference: a paper's points, hollow.

    joined: the points of a series form a path in the given order, and a white point ends it (FPL,
    figure 3: pi up to 1)."""

    numbers = _numbers(order, series, reference)

    def draw(axes: Any) -> None:
        for label, (x, y) in series.items():
            across, up, number = np.atleast_1d(x), np.atleast_1d(y), numbers[label]
            style = {
                "color": colour(number),
                "marker": MARKS[number % len(MARKS)],
                "markersize": 5.5,
            }
            axes.plot(
                across,
                up,
                label=_said(label),
                linestyle="-" if joined else "",
                linewidth=1,
                **style,
            )
            if joined:
                axes.plot(
                    across[-1:], up[-1:], markerfacecolor=PAPER, linestyle="", zorder=3, **style
                )
        _reference(axes, numbers, reference, "")
        axes.margins(0.1)

    return _svg(FigureFormat(title, x_label, y_label, name=name), draw)


def bars(
    groups: Sequence[str],
    series: Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str,
    title: str,
    intervals: Mapping[str, ArrayLike] | None = None,
    reference: Mapping[str, ArrayLike] | None = None,
    ends: tuple[float, float] | None = None,
    order: Sequence[str] = (),
    name: str = "",
) -> str:
    """Horizontal bars: a block for each group, from the top, and in it a bar for each series:
    {name: [len(groups)]}, NaN = none.

    x_label names the values, y_label the groups. intervals: {name: [len(groups), 2]}, low and high
    ends. reference: a paper's values. ends: of the axis of values, so that two figures can share
    it.
    """
    thick, numbers = 0.8 / max(1, len(series)), _numbers(order, series, reference)
    place = {
        label: np.arange(len(groups)) + (number + 0.5) * thick - 0.4
        for number, label in enumerate(series)
    }

    def draw(axes: Any) -> None:
        for label, values in series.items():
            width = np.asarray(values, np.float64)
            axes.barh(
                place[label], width, thick * 0.86, color=colour(numbers[label]), label=_said(label)
            )
            if intervals is not None and label in intervals:
                low, high = np.asarray(intervals[label], np.float64).T
                away = np.stack([width - low, high - width])
                axes.errorbar(
                    width, place[label], xerr=away, fmt="none", ecolor=INK, elinewidth=1, capsize=2
                )
        marked = {
            label: (values, place[label])
            for label, values in (reference or {}).items()
            if label in place
        }
        _reference(axes, numbers, marked, "", edge=INK)
        axes.set_yticks(np.arange(len(groups)), [_said(group) for group in groups])
        axes.set_xlim(ends)
        axes.set_ylim(len(groups) - 0.45, -0.55)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        axes.grid(visible=False, axis="y")

    block = max(0.22, 0.06 + (0.13 if len(groups) < 6 else 0.09) * len(series))
    height = 1.0 + len(groups) * block
    return _svg(FigureFormat(title, x_label, y_label, height=height, name=name), draw)


def can_draw() -> bool:
    """Whether Matplotlib is installed, without importing it."""
    return importlib.util.find_spec("matplotlib") is not None


def colour(number: int) -> str:
    """The colour of a series by its place; they repeat after eight."""
    return COLOURS[number % len(COLOURS)]


def _numbers(*names: Iterable[str] | None) -> dict[str, int]:
    """{name: place of its first appearance}."""
    every = dict.fromkeys(label for some in names for label in some or ())
    return {label: number for number, label in enumerate(every)}


def _reference(
    axes: Any, numbers: Mapping[str, int], reference: Series | None, line: str, edge: str = ""
) -> None:
    for label, (x, y) in (reference or {}).items():
        at = numbers[label]
        style = {
            "markerfacecolor": PAPER,
            "markersize": 6,
            "zorder": 4,
            "linestyle": line,
            "linewidth": 1,
        }
        axes.plot(
            np.atleast_1d(x),
            np.atleast_1d(y),
            color=edge or colour(at),
            marker=MARKS[at % len(MARKS)],
            label=_said(label) + PAPERS,
            **style,
        )


def _said(name: str) -> str:
    """A name that XML can hold, cut at LONGEST characters. Matplotlib leaves names that begin with
    `_` out of the legend.
    """
    clean = "".join(ch if ch.isprintable() else " " for ch in str(name)).strip() or "unnamed"
    clean = f" {clean}" if clean.startswith("_") else clean
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 1] + "…"


# ---- from axes to text ---------------------------------------------------------------------------


class DrawnFigure(str):
    """A figure as SVG text, which `pdf` draws again for print. A plain text of the same characters
    is the same figure without that.
    """

    look: FigureFormat
    draw: Callable[[Any], None]

    def pdf(self) -> bytes:
        """The figure as a PDF file. The same data give the same bytes."""
        return _saved(
            self.look,
            self.draw,
            "pdf",
            metadata={"CreationDate": None, "Creator": None, "Producer": None},
        )


def _svg(look: FigureFormat, draw: Callable[[Any], None]) -> str:
    if not can_draw():
        return _absent(look)
    text = _saved(
        look, draw, "svg", transparent=True, metadata={"Date": None, "Creator": None}
    ).decode()
    figure = DrawnFigure(_tidied(text, look))
    figure.look, figure.draw = look, draw
    return figure


def _saved(look: FigureFormat, draw: Callable[[Any], None], form: str, **options: Any) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with _DRAWING, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing"
        )  # the viewer has other fonts than we have
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
    """What stands for a figure that cannot be drawn here."""
    title, said = escape(look.title), escape(MISSING)
    words = f'<text x="8" y="22">{title}</text><text x="8" y="44">{said}</text>'
    return (
        f'<svg role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg" width="520"'
        f' height="60"><title>{title}</title>{words}</svg>'
    )


def _legend(figure: Any, axes: Any) -> None:
    """Below the axes, ours before the paper's, in as many columns as the names leave room for."""
    handles, names = axes.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda n: names[n].endswith(PAPERS))
    handles, names = [handles[n] for n in order], [names[n] for n in order]
    columns = max(1, min(len(names), 52 // (max(map(len, names)) + 7)))
    figure.set_figheight(figure.get_figheight() + 0.17 * -(-len(names) // columns))
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=columns,
        handlelength=1.8,
        columnspacing=1.4,
    )


def _tidied(text: str, look: FigureFormat) -> str:
    """The <svg> element alone, with a title for those who cannot see it and with ids that no other
    figure has.
    """
    text = text[text.index("<svg") :]
    text = re.sub(
        r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL
    )
    used = re.compile(r"""((?:href="|url\()#)([\w.-]+)""")
    prefix = look.name or "f" + hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    own = {
        old: f"{prefix}-{number}"
        for number, old in enumerate(sorted({found[2] for found in used.finditer(text)}))
    }
    text = re.sub(
        r' id="([^"]*)"', lambda found: f' id="{own[found[1]]}"' if found[1] in own else "", text
    )
    text = used.sub(lambda found: found[1] + own[found[2]], text)
    title = escape(look.title)
    tag, rest = text.split(">", 1)
    named = (
        f'<svg role="img" aria-label="{title}" stroke-linejoin="round"'
        f" {tag.removeprefix('<svg ')}><title>{title}</title>"
    )
    return re.sub(r"\s*\n\s*", "\n", named + rest)
