"""What stands in the lists: bias by category, and the list of one user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import figures, numbers
from .markup import Child, Html, folded, join, table, tag
from .runs import Group, ShownRun, in_order, is_main, kind
from .theme import figure, side_by_side

MOST = 20  # categories that are drawn; the tables have all of them
COLUMN = 8  # more categories than this are drawn as two figures beside each other
MEANING = {
    "bias_disparity": (
        "0 keeps the preference of the training rows, above 0 recommends the category more, −1 is"
        " never"
    )
}


def by_category(group: Group) -> Html | None:
    """Each metric by category: bars of the main ones, tables of all. None if the data has no
    categories.
    """
    names = in_order(
        [name for shown in group.runs for name, of in shown.manifest["by_category"].items() if of]
    )
    if not names:
        return None
    main = [name for name in names if is_main(name)] or names
    return join(
        [_bars(group, name) for name in main],
        folded("By category in numbers", [_table(group, name) for name in names]),
    )


def _values(group: Group, name: str) -> dict[ShownRun, dict[str, float]]:
    return {shown: of for shown in group.runs if (of := shown.manifest["by_category"].get(name))}


def _categories(values: Mapping[ShownRun, dict[str, float]]) -> list[str]:
    return sorted({category for of in values.values() for category in of})


def _bars(group: Group, name: str) -> Html:
    values = _values(group, name)
    every = _categories(values)
    far = sorted(
        every, key=lambda category: -max(abs(of.get(category, 0.0)) for of in values.values())
    )
    drawn = [category for category in every if category in set(far[:MOST])]
    half = (len(drawn) + 1) // 2 if len(drawn) > COLUMN else len(drawn)
    some = f" The {MOST} of {len(every)} categories furthest from 0." if len(every) > MOST else ""
    said = tag("p", tag("code", name), f": {MEANING.get(kind(name), 'by category')}.{some}")
    return join(
        said,
        side_by_side(
            *(_column(group, name, values, part) for part in (drawn[:half], drawn[half:]) if part)
        ),
    )


def _column(
    group: Group, name: str, values: Mapping[ShownRun, dict[str, float]], categories: Sequence[str]
) -> Html | None:
    every = [value for of in values.values() for value in of.values()]
    room = 0.04 * (max(every) - min(every)) or 0.1
    span = (
        f"{categories[0]} to {categories[-1]}"
        if len(categories) < len(_categories(values))
        else "by category"
    )
    svg = figures.bars(
        categories,
        {
            shown.label: [of.get(category, float("nan")) for category in categories]
            for shown, of in values.items()
        },
        x_label=name,
        y_label="category",
        title=f"{kind(name).replace('_', ' ').capitalize()}, {span}",
        ends=(min(0.0, min(every)) - room, max(0.0, max(every)) + room),
        order=group.order,
        name=f"{group.slug}-{kind(name)}-{_categories(values).index(categories[0])}",
    )
    return figure(svg)


def _table(group: Group, name: str) -> Html:
    values = _values(group, name)
    rows: list[list[Child]] = [
        [
            category,
            *(numbers.signed(of[category]) if category in of else "none" for of in values.values()),
        ]
        for category in _categories(values)
    ]
    return table(
        tag("code", name),
        ["category", *(shown.named() for shown in values)],
        rows,
        label=f"{name} by category",
    )


def top(shown: ShownRun, recommended: Sequence[Mapping[str, Any]], user: str | None) -> Html:
    """The best items for one user, best first: [{"item", "title", "score"}]."""
    titled = any(one["title"] for one in recommended)
    head = ["place", *(["title"] if titled else []), "item", "score"]
    rows: list[list[Child]] = [
        [
            str(place),
            *([one["title"] or "untitled"] if titled else []),
            tag("code", one["item"]),
            numbers.exact(one["score"], f"{one['score']:.3f}"),
        ]
        for place, one in enumerate(recommended, start=1)
    ]
    whom = f"user {user}" if user is not None else "one user"
    said = join(
        tag("b", f"Top {len(recommended)} for {whom}"),
        " by ",
        shown.named(),
        "; items of the training rows are left out",
    )
    return table(
        said,
        head,
        rows,
        text=(1, 2) if titled else (1,),
        label=f"Top {len(recommended)} for {whom}",
    )
