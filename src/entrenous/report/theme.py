"""How the page looks: its style sheet, and figures in the page's colours, so that they follow
light, dark and print.
"""

from __future__ import annotations

from importlib.resources import files

from . import figures
from .markup import Child, Html, join, tag

_VARIABLES = {
    **{hexadecimal: f"var(--s{number})" for number, hexadecimal in enumerate(figures.COLOURS)},
    figures.INK: "var(--ink)",
    figures.MUTED: "var(--muted)",
    figures.GRID: "var(--line)",
    figures.PAPER: "var(--paper)",
}


def style() -> Html:
    """The <style> element with the stylesheet of a report."""
    return tag("style", Html(files(__package__).joinpath("style.css").read_text(encoding="utf-8")))


def figure(svg: str, caption: Child = None) -> Html | None:
    """A figure of `entrenous.report.figures` in the page's colours, with what it shows in words
    unless the text around it says so. None where figures cannot be drawn: the page says so once
    (`without_figures`).
    """
    if not figures.can_draw():
        return None
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(f": {colour}", f": {variable}")
    return tag("figure", Html(svg), tag("figcaption", caption) if caption else None)


def side_by_side(*shown: Html | None) -> Html | None:
    """Figures beside each other where the page is wide enough; None if there is none."""
    return tag("div", join(*shown), class_="figures") if any(shown) else None


def without_figures() -> Html | None:
    """How to get figures, for a page that has none; None if they are there."""
    said = "This page has no figures, since Matplotlib is not installed. To get them: "
    return (
        None
        if figures.can_draw()
        else tag("p", said, tag("code", "pip install 'entrenous[plots]'"), ", then write it again.")
    )
