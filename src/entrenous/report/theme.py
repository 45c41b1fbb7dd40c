"""The look of a page: its style sheet, and figures in the page's colours, so that they follow
light, dark and print.
"""

from __future__ import annotations

from importlib.resources import files

from . import figures
from .markup import Child, Html, join, tag

# The variable of the style sheet for each colour of a figure.
_VARIABLES = {
    **{hexadecimal: f"var(--s{number})" for number, hexadecimal in enumerate(figures.COLOURS)},
    figures.INK: "var(--ink)",
    figures.MUTED: "var(--muted)",
    figures.GRID: "var(--line)",
    figures.PAPER: "var(--paper)",
}


def style() -> Html:
    """The <style> element with the stylesheet of a report."""
    sheet = files(__package__).joinpath("style.css")
    return tag("style", Html(sheet.read_text(encoding="utf-8")))


def figure(svg: str, caption: Child = None) -> Html | None:
    """A figure of `entrenous.report.figures` in the page's colours, with a caption. None if figures
    cannot be drawn, which the page says once (`without_figures`).
    """
    if not figures.can_draw():
        return None
    # The figure is drawn once; the reader's browser chooses the colours.
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(f": {colour}", f": {variable}")
    return tag("figure", Html(svg), tag("figcaption", caption) if caption else None)


def side_by_side(*shown: Html | None) -> Html | None:
    """Figures side by side if the page is wide enough; None if there is none."""
    if any(shown):
        return tag("div", join(*shown), class_="figures")
    return None


def without_figures() -> Html | None:
    """The way to get figures for a page without them; None if figures can be drawn."""
    if figures.can_draw():
        return None
    words = "This page has no figures, since Matplotlib is not installed. To get them: "
    command = tag("code", "pip install 'entrenous[plots]'")
    return tag("p", words, command, ", then write it again.")
