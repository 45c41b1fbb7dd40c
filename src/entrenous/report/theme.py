"""The look of a page: its style sheet, and figures in the page's colours, so that they follow
light, dark and print.
"""

from __future__ import annotations

import re
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
# Names in a figure cannot hold this: a quotation mark in text is escaped.
_STYLED = re.compile(r'style="[^"]*"')


def style() -> Html:
    """The <style> element with the stylesheet of a report."""
    sheet = files(__package__).joinpath("style.css")
    return tag("style", Html(sheet.read_text(encoding="utf-8")))


def figure(svg: str, caption: Child = None) -> Html:
    """A figure of `entrenous.report.figures` in the page's colours, with a caption."""
    # The figure is drawn once; the reader's browser chooses the colours.
    coloured = _STYLED.sub(_in_variables, svg)
    return tag("figure", Html(coloured), tag("figcaption", caption) if caption else None)


def _in_variables(match: re.Match[str]) -> str:
    """A style attribute with variables of the style sheet in place of colours."""
    style = match[0]
    for colour, variable in _VARIABLES.items():
        style = style.replace(colour, variable)
    return style


def side_by_side(*shown: Html | None) -> Html | None:
    """Figures side by side if the page is wide enough; None if there is none."""
    if any(shown):
        return tag("div", join(*shown), class_="figures")
    return None
