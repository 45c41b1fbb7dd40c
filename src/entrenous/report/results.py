"""The metrics of all runs side by side. The sampled and the full ranking have separate tables and
are never mixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence

from ..core.types import Float64Array
from ..evaluation.summary import interval
from . import figures, numbers
from .markup import Child, Html, folded, join, table, tag
from .runs import Group, ShownRun, in_order, is_error, is_main, leading, of_lists
from .theme import figure

# The metrics of a run under one ranking; empty if it was not ranked so.
Values = Callable[[ShownRun], dict[str, float]]
# Means that differ by less are the same.
_SAME = 1e-9


def results(group: Group) -> Html:
    """The main metrics as bars, then the tables of the sampled ranking, the full ranking and the
    lists.
    """
    competing = "every item competes that could be recommended"
    tables = [
        _errors(group),
        _ranked(group, "Sampled ranking", _sampled_words(group), _sampled_ranking),
        _ranked(group, "Full ranking", competing, full_ranking),
        _lists(group),
    ]
    # A single run has nothing to be compared with.
    drawn = _bars(group) if len(group.runs) > 1 else None
    return join(drawn, tables, tag("p", _reading(group), class_="small"))


def _sampled_ranking(shown: ShownRun) -> dict[str, float]:
    return shown.manifest["metrics"] if shown.sampled else {}


def _errors(group: Group) -> Html | None:
    """The table of errors of predicted ratings; None if no run predicts any."""
    words = join(tag("b", "Predicted ratings"), ": over all held-out ratings, lower is better")
    return _side_by_side(
        group,
        words,
        "Predicted ratings",
        lambda shown: shown.manifest["metrics"],
        is_error,
        best=True,
    )


def full_ranking(shown: ShownRun) -> dict[str, float]:
    """The metrics of the full ranking, which is the only one unless the protocol samples
    candidates.
    """
    return shown.manifest["full_ranking" if shown.sampled else "metrics"]


def _sampled_words(group: Group) -> str:
    start = "sampled ranking: "
    for shown in group.runs:
        for sentence in shown.manifest["protocol_text"]:
            if sentence.startswith(start):
                return str(sentence).removeprefix(start)
    return "each held-out item against its own candidates"


def _ranked(group: Group, title: str, words: str, values: Values) -> Html | None:
    return _side_by_side(
        group, join(tag("b", title), f": {words}"), title, values, of_ranking, best=True
    )


def of_ranking(name: str) -> bool:
    """True for a metric of the order of items, with one value for each user."""
    return not of_lists(name) and not is_error(name)


def _lists(group: Group) -> Html | None:
    words = join(
        tag("b", "Lists"),
        ": what is recommended to all users together, always from the full ranking",
    )
    return _side_by_side(group, words, "Lists", full_ranking, of_lists, best=False)


def _side_by_side(
    group: Group,
    caption: Html,
    label: str,
    values: Values,
    wanted: Callable[[str], bool],
    *,
    best: bool,
) -> Html | None:
    """A table with a column for each run that has any of the `wanted` metrics, and below it a
    folded one of the other list lengths; None if no run has any.

    best: the best value of a row is bold.
    """
    measured: list[str] = []
    for shown in group.runs:
        measured += [name for name in values(shown) if wanted(name)]
    names = in_order(measured)
    if not names:
        return None
    main = [name for name in names if is_main(name)] or names
    others = [name for name in names if name not in main]
    head = ["metric", *(shown.named() for shown in group.runs if values(shown))]

    def value_of(name: str) -> Hashable:
        columns = [values(shown).get(name, math.nan) for shown in group.runs if values(shown)]
        return tuple(f"{value:.12g}" for value in columns)

    rows = [_metric_row(group, same, values, best) for same in once(main, value_of)]
    first = table(caption, head, rows, label=label)
    if not others:
        return first
    more_rows = [_metric_row(group, same, values, best) for same in once(others, value_of)]
    rest = table(f"{label}, other lengths", head, more_rows)
    return join(first, folded(f"{label}: {len(others)} more values at other list lengths", rest))


def once(names: Iterable[str], value_of: Callable[[str], Hashable]) -> list[list[str]]:
    """The names of metrics, those with the same values together: with one held-out item for each
    user, hr and recall are one metric under two names.

    >>> once(["hr", "mrr", "recall"], {"hr": 0.6, "recall": 0.6, "mrr": 0.3}.get)
    [['hr', 'recall'], ['mrr']]
    """
    alike: dict[Hashable, list[str]] = {}
    for name in names:
        alike.setdefault(value_of(name), []).append(name)
    return list(alike.values())


def once_per_user(group: Group, names: Iterable[str]) -> list[str]:
    """The names of per-user metrics, of those with the same values of all users only the first."""

    def value_of(name: str) -> Hashable:
        columns = [per_user(shown, name) for shown in group.runs]
        return tuple(None if column is None else column.tobytes() for column in columns)

    return [same[0] for same in once(names, value_of)]


def _metric_row(group: Group, names: list[str], values: Values, best: bool) -> list[Child]:
    """The row of a metric. names: its name, then others of metrics with the same values."""
    name, *others = names
    metrics_of = {shown: values(shown) for shown in group.runs if values(shown)}
    all_values = [metrics[name] for metrics in metrics_of.values() if name in metrics]
    best_of = min if is_error(name) else max
    best_value = best_of(all_values, default=None)
    same = tag("small", f"also {', '.join(others)}") if others else None
    row: list[Child] = [join(tag("code", name), same)]
    for shown, metrics in metrics_of.items():
        cell: Child = numbers.metric(metrics[name]) if name in metrics else "none"
        # Of a single run every value would be the best.
        if best and len(metrics_of) > 1 and metrics.get(name) == best_value:
            cell = tag("b", cell)
        row.append(join(cell, _bounds(shown, name, metrics)))
    return row


def _bounds(shown: ShownRun, name: str, metrics: dict[str, float]) -> Html | None:
    """The bootstrap interval of a mean; None unless the stored per-user values have that mean: they
    are of `metrics`, and not of means over folds.
    """
    # Intervals of all lengths would fill the page.
    if not is_main(name) or metrics is not shown.manifest["metrics"]:
        return None
    span = interval_of(shown, name)
    if span is None:
        return None
    low, high = span
    return tag("small", numbers.metric(low), " to ", numbers.metric(high))


def interval_of(shown: ShownRun, name: str) -> tuple[float, float] | None:
    """The bootstrap interval of a metric over users; None if its values are not stored."""
    values = _values_of_mean(shown, name)
    if values is None:
        return None
    return interval(values, seed=shown.manifest["seed"])


def _values_of_mean(shown: ShownRun, name: str) -> Float64Array | None:
    """The stored values of single users if a metric is their mean; otherwise None."""
    values = per_user(shown, name)
    if values is None:
        return None
    # With several folds the stored values are those of the first, and their mean is another.
    difference = float(values.mean()) - shown.manifest["metrics"][name]
    return values if abs(difference) <= _SAME else None


def per_user(shown: ShownRun, name: str) -> Float64Array | None:
    """A metric of every evaluated user; None if it was not stored."""
    if name != "user":
        return shown.run.users.get(name)
    return None


def _reading(group: Group) -> str:
    """Sentences that help to read the tables."""
    sentences = []
    if len(group.runs) > 1:
        sentences.append("Bold: the best of its row.")
    for name in leading(group)[:1]:
        has_interval = [_values_of_mean(shown, name) is not None for shown in group.runs]
        if any(has_interval) and is_main(name):
            sentences.append("Below a value: its 95 % bootstrap interval, users alone, one seed.")
    if any(shown.sampled for shown in group.runs):
        sentences.append(
            "Values of the sampled ranking are higher than those of the full ranking and may order"
            " systems differently."
        )
    if any("folds" in shown.manifest for shown in group.runs):
        sentences.append("Every value is the mean over folds.")
    return " ".join(sentences)


def _bars(group: Group) -> Html | None:
    """The two leading metrics with their intervals, under the ranking that the protocol names."""
    names = leading(group)
    if not names:
        return None
    title = f"Accuracy, {group.ranking}"
    averaged = f"users, {group.ranking}"
    if is_error(names[0]):
        title = "Errors of predicted ratings"
        averaged = "held-out ratings; lower is better"
    values = {}
    for shown in group.runs:
        values[shown.label] = [shown.manifest["metrics"][name] for name in names]
    svg = figures.bars(
        names,
        values,
        figures.FigureFormat(
            title=title,
            x_label=f"mean over {averaged}",
            y_label="metric",
            name=f"{group.slug}-accuracy",
        ),
        intervals=_intervals(group, names),
        order=group.order,
    )
    return figure(
        svg,
        "Lines at the ends of bars: 95 % bootstrap intervals (users alone, one seed), where the"
        " values of users are stored.",
    )


def _intervals(group: Group, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """The intervals of some metrics for each run that has them all."""
    intervals = {}
    for shown in group.runs:
        spans = [interval_of(shown, name) for name in names]
        stored = [span for span in spans if span is not None]
        # A bar without an interval would look more certain than the others.
        if len(stored) == len(names):
            intervals[shown.label] = stored
    return intervals
