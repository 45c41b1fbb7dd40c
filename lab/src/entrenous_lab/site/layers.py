"""A diagram of arrows as SVG: the site shows it in the place of Mermaid, whose program a page would
fetch from elsewhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

ARROW = re.compile(r"^\s*(\w+) --> (\w+)$", re.M)
WIDE, HIGH, GAP, DROP = 96, 30, 34, 44  # pixels of a box, and between boxes


def drawn(source: str) -> str:
    """Returns a diagram of Mermaid (`a --> b`, one arrow a line) as SVG, arrows pointing down."""
    arrows = ARROW.findall(source)
    rows = _rows(arrows)
    width = max(len(row) for row in rows) * (WIDE + GAP) + GAP
    height = len(rows) * (HIGH + DROP)
    middle = {}
    for depth, row in enumerate(rows):
        left = (width - len(row) * (WIDE + GAP) + GAP) / 2
        for place, name in enumerate(row):
            middle[name] = (left + place * (WIDE + GAP) + WIDE / 2, depth * (HIGH + DROP) + 16)
    parts = [_arrow(middle, start, end) for start, end in arrows]
    parts += [_box(name, *at) for name, at in middle.items()]
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" font-family="sans-serif" font-size="13">{head}{"".join(parts)}</svg>\n'
    )


def _rows(arrows: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Returns the boxes from top to bottom: each below all that point to it."""
    depth: dict[str, int] = defaultdict(int)
    for start, _ in arrows:
        depth[start] = 0
    # As many sweeps as there are boxes settle every box of a graph without circles.
    for _ in range(len(arrows)):
        for start, end in arrows:
            depth[end] = max(depth[end], depth[start] + 1)
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name, row in depth.items():
        rows[row].append(name)
    return rows


def _arrow(middle: Mapping[str, tuple[float, float]], start: str, end: str) -> str:
    (x1, y1), (x2, y2) = middle[start], middle[end]
    return (
        f'<path d="M{x1:g} {y1 + HIGH / 2:g}L{x2:g} {y2 - HIGH / 2:g}" stroke="#667" fill="none"'
        ' marker-end="url(#head)"/>'
    )


def _box(name: str, x: float, y: float) -> str:
    return (
        f'<rect x="{x - WIDE / 2:g}" y="{y - HIGH / 2:g}" width="{WIDE}" height="{HIGH}" rx="5"'
        f' fill="#eef3f3" stroke="#667"/><text x="{x:g}" y="{y + 5:g}" text-anchor="middle"'
        f' fill="#123">{name}</text>'
    )
