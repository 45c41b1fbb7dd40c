"""HTML from Python. Text is escaped unless it is `Html`, so a title from a data set can never
become markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias


class Html(str):
    """Text that is HTML already, which is not escaped again."""

    __slots__ = ()


Child: TypeAlias = str | int | float | Iterable["Child"] | None
Attribute: TypeAlias = str | int | bool | None

# Elements that have no content and no end.
_VOID = {"meta", "link", "br"}
# Control characters, those that turn the direction of text, and halves of characters.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. `class_` becomes `class`, and `aria_label` becomes `aria-label`. True is an empty
    attribute; None and False leave the attribute out.

    >>> tag("p", "a < b ", tag("b", 1), class_="x")
    '<p class="x">a &lt; b <b>1</b></p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    opened = f"<{name}{written}>"
    if name in _VOID:
        return Html(opened)
    return Html(f"{opened}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Children one after the other, escaped unless they are `Html`."""
    return Html("".join(map(_child, children)))


def _child(child: Child) -> str:
    # None stands for nothing, so that callers need no condition.
    if child is None or isinstance(child, Html):
        return child or ""
    if isinstance(child, str | int | float):
        return escape(clean(str(child)))
    return join(*child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    # A name that Python reserves ends with an underscore, such as class_.
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escape(clean(str(value)))}"'


def clean(text: str) -> str:
    """Text without control characters, which a page cannot hold, and without characters that turn
    the direction of the text after them.
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
    """A table with headers of columns and rows, in a frame that scrolls sideways if it is wider
    than the page.

    text, prose: the columns of words, and of sentences; the first column is the header of its row.
    label: the name of the frame, which screen readers say; default: the caption, if it is plain
    text.
    """
    kinds = dict.fromkeys((0, *text), "t") | dict.fromkeys(prose, "t prose")
    heads = [
        tag("th", cell, scope="col", class_=kinds.get(column)) for column, cell in enumerate(head)
    ]
    body = []
    for first, *others in rows:
        cells = [tag("th", first, scope="row")]
        for column, cell in enumerate(others, start=1):
            cells.append(tag("td", cell, class_=kinds.get(column)))
        body.append(tag("tr", cells))
    if not label:
        plain = isinstance(caption, str) and not isinstance(caption, Html)
        label = str(caption) if plain else "table"
    content = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", heads)),
        tag("tbody", body),
    )
    return tag("div", content, class_="scroll", role="region", aria_label=label, tabindex=0)


def folded(summary: Child, *children: Child) -> Html:
    """A <details> element: a summary that opens its children; printing opens it."""
    return tag("details", tag("summary", summary), *children)


def facts(pairs: Iterable[tuple[Child, Child]], **attributes: Attribute) -> Html:
    """A <dl> element of (name, description) pairs."""
    items = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs]
    return tag("dl", items, **attributes)
