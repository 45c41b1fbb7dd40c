"""The metrics of all runs side by side. The sampled and the full ranking each have a table of their
own and are never mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.types import Float64Array
from ..evaluate.summary import interval
from . import figures, numbers
from .markup import Child, Html, facts, folded, join, table, tag
from .runs import MAIN, Group, ShownRun, in_order, is_error, is_main, leading, of_lists
from .theme import figure, side_by_side

Values = Callable[
    [ShownRun], dict[str, float]
]  # the metrics of a run under one ranking; empty if it was not ranked so

_SAME = 1e-9


def results(group: Group) -> Html:
    """The main metrics as bars, then the tables of the sampled ranking, the full ranking and the
    lists.
    """
    tables = [
        _errors(group),
        _ranked(
            group,
            "Sampled ranking",
            _sampled_words(group),
            lambda shown: shown.manifest["metrics"] if shown.sampled else {},
        ),
        _ranked(
            group, "Full ranking", "every item competes that could be recommended", full_ranking
        ),
        _lists(group),
    ]
    drawn = side_by_side(_bars(group), _trade(group)) if len(group.runs) > 1 else _tiles(group)
    return join(drawn, tables, tag("p", _reading(group), class_="small"))


def _errors(group: Group) -> Html | None:
    """The errors of predicted ratings; None where no run predicts any."""
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
    said = [
        text
        for shown in group.runs
        for text in shown.manifest["protocol_text"]
        if text.startswith("sampled ranking: ")
    ]
    return (
        said[0].removeprefix("sampled ranking: ")
        if said
        else "each held-out item against its own candidates"
    )


def _ranked(group: Group, title: str, words: str, values: Values) -> Html | None:
    return _side_by_side(
        group, join(tag("b", title), f": {words}"), title, values, of_ranking, best=True
    )


def of_ranking(name: str) -> bool:
    """Whether a metric is of the order of items, one value a user."""
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
    names = in_order([name for shown in group.runs for name in values(shown) if wanted(name)])
    if not names:
        return None
    main = [name for name in names if is_main(name)] or names
    others = [name for name in names if name not in main]
    head = ["metric", *(shown.named() for shown in group.runs if values(shown))]
    first = table(
        caption, head, [_metric_row(group, name, values, best) for name in main], label=label
    )
    if not others:
        return first
    rest = table(
        f"{label}, other lengths", head, [_metric_row(group, name, values, best) for name in others]
    )
    return join(first, folded(f"{label}: {len(others)} more values at other list lengths", rest))


def _metric_row(group: Group, name: str, values: Values, best: bool) -> list[Child]:
    found = [(shown, values(shown)) for shown in group.runs if values(shown)]
    best_of = min if is_error(name) else max
    best_value = best_of((of[name] for _, of in found if name in of), default=None)
    row: list[Child] = [tag("code", name)]
    for shown, of in found:
        cell = numbers.metric(of[name]) if name in of else "none"
        strong = best and len(found) > 1 and of.get(name) == best_value
        row.append(join(tag("b", cell) if strong else cell, _bounds(shown, name, of)))
    return row


def _bounds(shown: ShownRun, name: str, of: dict[str, float]) -> Html | None:
    """The interval of the mean, where the stored per-user values are those that the number is the
    mean of: those of `metrics`, unless they are means over folds."""
    values = per_user(shown, name)
    if (
        values is None
        or not is_main(name)
        or of is not shown.manifest["metrics"]
        or abs(float(values.mean()) - of[name]) > _SAME
    ):
        return None
    low, high = interval(values, seed=shown.manifest["seed"])
    return tag("small", numbers.metric(low), " to ", numbers.metric(high))


def per_user(shown: ShownRun, name: str) -> Float64Array | None:
    """A metric of every evaluated user; None if it was not stored."""
    return shown.run.users.get(name) if name != "user" else None


def _reading(group: Group) -> str:
    said = []
    if len(group.runs) > 1:
        said.append("Bold: the best of its row.")
    if any(
        _bounds(shown, name, shown.manifest["metrics"]) is not None
        for shown in group.runs
        for name in leading(group)[:1]
    ):
        said.append("Below a value: its 95 % bootstrap interval over users.")
    if any(shown.sampled for shown in group.runs):
        said.append(
            "Values of the sampled ranking are higher than those of the full ranking and may order"
            " systems differently."
        )
    if any("folds" in shown.manifest for shown in group.runs):
        said.append("Every value is the mean over folds.")
    return " ".join(said)


def _bars(group: Group) -> Html | None:
    """The two leading metrics with their intervals, under the ranking that the protocol names."""
    names = leading(group)
    if not names:
        return None
    of = "held-out ratings; lower is better" if is_error(names[0]) else f"users, {group.ranking}"
    values = {
        shown.label: [shown.manifest["metrics"][name] for name in names] for shown in group.runs
    }
    svg = figures.bars(
        names,
        values,
        x_label=f"mean over {of}",
        y_label="metric",
        title="Errors of predicted ratings" if is_error(names[0]) else f"Accuracy, {group.ranking}",
        intervals=_intervals(group, names),
        order=group.order,
        name=f"{group.slug}-accuracy",
    )
    return figure(
        svg,
        "Lines at the ends of bars: 95 % bootstrap intervals over users, where per-user values are"
        " stored.",
    )


def _trade(group: Group) -> Html | None:
    """Accuracy against coverage, both of the full ranking (FPL, figure 3)."""
    across, up = "item_coverage@10", MAIN
    found = {shown.label: full_ranking(shown) for shown in group.runs}
    series = {
        label: ([of[across]], [of[up]]) for label, of in found.items() if across in of and up in of
    }
    if len(series) < 2:
        return None
    svg = figures.scatter(
        series,
        x_label=across,
        y_label=up,
        title="Accuracy and coverage, full ranking",
        order=group.order,
        name=f"{group.slug}-trade",
    )
    return figure(
        svg,
        "Further up: better lists. Further right: more of the catalogue is recommended to"
        " somebody.",
    )


def _tiles(group: Group) -> Html:
    """The numbers of a single run that a reader looks for first."""
    shown = group.runs[0]
    of, ledger = shown.manifest["metrics"], shown.manifest["ledger"]
    pairs: list[tuple[Child, Child]] = [
        (
            join(tag("code", name), "" if is_error(name) else f", {shown.ranking}"),
            join(numbers.metric(of[name]), _bounds(shown, name, of)),
        )
        for name in leading(group)
    ]
    if shown.device_rounds:
        for way, name in (("sent", "bytes_up"), ("received", "bytes_down")):
            a_round = numbers.size(ledger[name] / shown.device_rounds)
            pairs.append(
                (
                    way,
                    join(
                        a_round,
                        tag("small", "a node, a push" if shown.gossips else "a device, a round"),
                    ),
                )
            )
    return facts(pairs, class_="tiles")


def _intervals(group: Group, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    found = {}
    for shown in group.runs:
        values, means = (
            [per_user(shown, name) for name in names],
            [shown.manifest["metrics"][name] for name in names],
        )
        if all(
            v is not None and abs(float(v.mean()) - mean) <= _SAME
            for v, mean in zip(values, means, strict=True)
        ):
            found[shown.label] = [
                interval(v, seed=shown.manifest["seed"]) for v in values if v is not None
            ]
    return found
