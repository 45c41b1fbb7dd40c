"""HTML from Python: text is escaped unless it is already Html, so a title from a data set can never
become markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias


class Html(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


Child: TypeAlias = str | int | float | Iterable["Child"] | None
Attribute: TypeAlias = str | int | bool | None

_VOID = {"meta", "link", "br"}
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. `class_` is written `class`, `aria_label` is `aria-label`; True is an empty
    attribute, None and False are none.

    >>> tag("p", "a < b ", tag("b", 1), class_="x")
    '<p class="x">a &lt; b <b>1</b></p>'
    """
    opened = f"<{name}{''.join(_attribute(*pair) for pair in attributes.items())}>"
    return Html(opened if name in _VOID else f"{opened}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Children one after the other, escaped where they are not Html."""
    return Html("".join(_child(child) for child in children))


def _child(child: Child) -> str:
    if child is None or isinstance(child, Html):
        return child or ""
    if isinstance(child, str | int | float):
        return escape(clean(str(child)))
    return join(*child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(clean(str(value)))}"'


def clean(text: str) -> str:
    """Text without the control characters that a page cannot hold, and without those that turn the
    direction of what follows.
    """
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def table(
    caption: Child,
    head: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    *,
    text: Sequence[int] = (),
    prose: Sequence[int] = (),
    label: str = "",
) -> Html:
    """A table with headers of columns and rows, in a frame that scrolls sideways when it is wider
    than the page.

    text, prose: the columns whose cells are words, or sentences; the first column is the row's
    header. label: names the frame.
    """
    kind = {**{column: "t" for column in (0, *text)}, **{column: "t prose" for column in prose}}
    top = tag(
        "tr", [tag("th", cell, scope="col", class_=kind.get(c)) for c, cell in enumerate(head)]
    )
    body = [
        tag(
            "tr",
            [
                tag("td", cell, class_=kind.get(c)) if c else tag("th", cell, scope="row")
                for c, cell in enumerate(row)
            ],
        )
        for row in rows
    ]
    name = label or (
        caption if isinstance(caption, str) and not isinstance(caption, Html) else "table"
    )
    content = tag(
        "table", tag("caption", tag("span", caption)), tag("thead", top), tag("tbody", body)
    )
    return tag("div", content, class_="scroll", role="region", aria_label=name, tabindex=0)


def folded(summary: Child, *children: Child) -> Html:
    """A <details> element: children below a summary that the reader opens; printing opens it."""
    return tag("details", tag("summary", summary), *children)


def facts(pairs: Iterable[tuple[Child, Child]], **attributes: Attribute) -> Html:
    """A <dl> element of (name, description) pairs."""
    return tag(
        "dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], **attributes
    )
