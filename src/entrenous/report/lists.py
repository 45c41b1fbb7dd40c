"""The content of the lists: bias by category, and the list of one user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import figures, numbers
from .markup import Child, Html, folded, join, table, tag
from .runs import Group, ShownRun, in_order, is_main, kind
from .theme import figure, side_by_side

# Categories that are drawn; the tables have all of them.
MOST = 20
# More categories than this are drawn as two figures side by side.
COLUMN = 8
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
    by_name = [item for shown in group.runs for item in shown.manifest["by_category"].items()]
    names = in_order([name for name, values in by_name if values])
    if not names:
        return None
    main = [name for name in names if is_main(name)] or names
    return join(
        [_bars(group, name) for name in main],
        folded("By category in numbers", [_table(group, name) for name in names]),
    )


def _values(group: Group, name: str) -> dict[ShownRun, dict[str, float]]:
    """The values by category of each run that has the metric."""
    of_runs = {shown: shown.manifest["by_category"].get(name) for shown in group.runs}
    return {shown: values for shown, values in of_runs.items() if values}


def _categories(values: Mapping[ShownRun, dict[str, float]]) -> list[str]:
    return sorted(set().union(*values.values()))


def _bars(group: Group, name: str) -> Html:
    values = _values(group, name)
    categories = _categories(values)

    def distance(category: str) -> float:
        return max(abs(of_run.get(category, 0.0)) for of_run in values.values())

    furthest = set(sorted(categories, key=lambda category: -distance(category))[:MOST])
    drawn = [category for category in categories if category in furthest]
    half = (len(drawn) + 1) // 2 if len(drawn) > COLUMN else len(drawn)
    words = f": {MEANING.get(kind(name), 'by category')}."
    if len(categories) > MOST:
        words += f" The {MOST} of {len(categories)} categories furthest from 0."
    columns = [_column(group, name, values, part) for part in (drawn[:half], drawn[half:]) if part]
    return join(tag("p", tag("code", name), words), side_by_side(*columns))


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
        figures.FigureFormat(
            title=f"{kind(name).replace('_', ' ').capitalize()}, {span}",
            x_label=name,
            y_label="category",
            name=f"{group.slug}-{kind(name)}-{_categories(values).index(categories[0])}",
        ),
        ends=(min(0.0, min(every)) - room, max(0.0, max(every)) + room),
        order=group.order,
    )
    return figure(svg)


def _table(group: Group, name: str) -> Html:
    values = _values(group, name)
    head: list[Child] = ["category", *(shown.named() for shown in values)]
    rows: list[list[Child]] = []
    for category in _categories(values):
        row: list[Child] = [category]
        for of_run in values.values():
            row.append(numbers.signed(of_run[category]) if category in of_run else "none")
        rows.append(row)
    return table(tag("code", name), head, rows, label=f"{name} by category")


def top(shown: ShownRun, recommended: Sequence[Mapping[str, Any]], user: str | None) -> Html:
    """The best items for one user, best first: [{"item", "title", "score"}]."""
    titled = any(item["title"] for item in recommended)
    head = ["place", "title", "item", "score"] if titled else ["place", "item", "score"]
    rows: list[list[Child]] = []
    for place, item in enumerate(recommended, start=1):
        score = numbers.exact(item["score"], f"{item['score']:.3f}")
        row: list[Child] = [str(place), tag("code", item["item"]), score]
        if titled:
            row.insert(1, item["title"] or "untitled")
        rows.append(row)
    name = f"Top {len(recommended)} for {'one user' if user is None else f'user {user}'}"
    caption = join(
        tag("b", name), " by ", shown.named(), "; items of the training rows are left out"
    )
    return table(caption, head, rows, text=(1, 2) if titled else (1,), label=name)
