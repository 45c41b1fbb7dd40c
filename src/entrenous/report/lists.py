"""The content of the lists: bias by category, and the list of one user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import figures, numbers
from .markup import Child, Html, folded, join, table, tag
from .runs import Group, ShownRun, in_order, is_main, kind
from .theme import figure

# Categories that are drawn; the tables have all of them.
MOST = 20
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
    measured = []
    for shown in group.runs:
        for name, values in shown.manifest["by_category"].items():
            # A metric without a category has nothing to draw.
            if values:
                measured.append(name)
    names = in_order(measured)
    if not names:
        return None
    # A figure for every metric would fill pages; the tables have all of them.
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
    """The bars of a metric by category."""
    values = _values(group, name)
    categories = _categories(values)

    def distance(category: str) -> float:
        """The distance from 0 of the run that is furthest from it."""
        return max(abs(of_run.get(category, 0.0)) for of_run in values.values())

    # Too many bars cannot be read; those nearest to 0 say least.
    # By the run that differs most: a category counts if it matters to one of them.
    furthest = sorted(categories, key=distance, reverse=True)[:MOST]
    drawn = [category for category in categories if category in furthest]
    bars = {}
    for shown, of_run in values.items():
        # NaN leaves a gap where a run has no value, instead of a bar of 0.
        bars[shown.label] = [of_run.get(category, float("nan")) for category in drawn]
    metric = kind(name)
    look = figures.FigureFormat(
        title=f"{metric.replace('_', ' ').capitalize()} by category",
        x_label=name,
        y_label="category",
        name=f"{group.slug}-{metric}",
    )
    words = f": {MEANING.get(metric, 'by category')}."
    if len(categories) > MOST:
        words += f" The {MOST} of {len(categories)} categories furthest from 0."
    svg = figures.bars(drawn, bars, look, order=group.order)
    return join(tag("p", tag("code", name), words), figure(svg))


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
    """A table of the best items for one user.

    recommended: best first, [{"item", "title"}]. Data without titles has no such column. Scores are
    left out: whoever is sent the page would learn more of a history.
    """
    # Most data sets have no titles.
    titled = any(item["title"] for item in recommended)
    head = ["place", "item"]
    if titled:
        head.insert(1, "title")
    rows: list[list[Child]] = []
    for place, item in enumerate(recommended, start=1):
        row: list[Child] = [str(place), tag("code", item["item"])]
        if titled:
            row.insert(1, item["title"] or "untitled")
        rows.append(row)
    whom = "one user" if user is None else f"user {user}"
    name = f"Top {len(recommended)} for {whom}"
    caption = join(
        tag("b", name), " by ", shown.named(), "; items of the training rows are left out"
    )
    return table(caption, head, rows, text=range(1, len(head)), label=name)
