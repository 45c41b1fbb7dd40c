"""The spread of a metric over users: its tails, its distribution, and tests of the differences
between runs.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..core.types import Float64Array
from ..evaluation import tail
from ..evaluation.chance import Difference, difference
from ..evaluation.significance import holm
from ..evaluation.summary import PERCENTILES, summarise
from . import figures, numbers
from .markup import Child, Html, folded, join, table, tag
from .results import once_per_user, per_user
from .runs import FIRST, Group, ShownRun, in_order, is_error, is_main, kind, listed, main_of
from .theme import figure, side_by_side

# The level of significance.
LEVEL = 0.05
# Points of a drawn distribution; more could not be seen.
POINTS = 200


# ---- spread --------------------------------------------------------------------------------------


def spread(group: Group) -> Html:
    """The distribution of the main metric over users, and a table of tails for each metric."""
    stored = in_order([name for shown in group.runs for name in shown.run.users])
    names = [name for name in stored if name != "user"]
    chosen = once_per_user(group, [name for name in names if is_main(name)] or names)
    if not chosen:
        return tag("p", "No per-user values are stored.", class_="small")
    first = main_of(group)
    others = [_tails(group, name) for name in chosen if name != first]
    more = None
    if others:
        more = folded(f"User by user: {len(others)} more metrics", others)
    # AUC is continuous and shows differences that hits and misses hide.
    drawn = [_cdf(group, name) for name in dict.fromkeys((first, "auc")) if name in chosen]
    return join(_whose(group), side_by_side(*drawn), _tails(group, first), more)


def _whose(group: Group) -> Html:
    """Sentences that help to read the values of single users."""
    first = main_of(group)
    better = "lower"
    ranking = f" in the {group.ranking}"
    if is_error(first):
        better = "higher"
        ranking = ""
    text = (
        f"Values of single users{ranking}. In the figures a {better} curve of {first} is better,"
        " and a steep part is where many users are."
    )
    folds = max(len(shown.manifest.get("folds", ())) for shown in group.runs)
    if folds:
        text += (
            f" They are those of the first of {folds} folds, so their mean differs from the mean"
            " over folds above."
        )
    return tag("p", text)


def _tails(group: Group, name: str) -> Html:
    """The table of a metric over users, with a row for each run that stored its values."""
    head = ["run", "mean", "95 % interval", "std", *(f"{p} %" for p in PERCENTILES), "users"]
    rows = []
    for shown in group.runs:
        values = per_user(shown, name)
        if values is not None:
            rows.append(_tail(shown, values))
    caption = join(
        tag("code", name),
        " per user: mean, standard deviation over users (divided by their number; lower is fairer),"
        " percentiles",
    )
    return table(caption, head, rows, label=f"{name} per user")


def _tail(shown: ShownRun, values: Float64Array) -> list[Child]:
    summary = summarise(values, seed=shown.manifest["seed"])
    return [
        shown.named(),
        numbers.metric(summary.mean),
        join(numbers.metric(summary.low), " to ", numbers.metric(summary.high)),
        numbers.metric(summary.std),
        *(numbers.metric(summary.percentiles[p]) for p in PERCENTILES),
        numbers.count(summary.users),
    ]


def _cdf(group: Group, name: str) -> Html | None:
    series = {}
    for shown in group.runs:
        values = per_user(shown, name)
        if values is not None:
            series[shown.label] = distribution(values)
    svg = figures.lines(
        series,
        figures.FigureFormat(
            title=f"{name} over users",
            x_label=f"{name} of a user" if is_error(name) else f"{name} of a user, {group.ranking}",
            y_label="share of users with at most this",
            name=f"{group.slug}-cdf-{kind(name)}",
        ),
        marks=False,
        order=group.order,
    )
    return figure(svg)


def distribution(values: Float64Array) -> tuple[Float64Array, Float64Array]:
    """The cumulative distribution as the corners of its steps: (value, share of users with at most
    that value), both from 0.

    >>> x, y = distribution(np.array([0.5, 0.0, 0.5, 1.0]))
    >>> x.tolist(), y.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0, 1.0], [0.0, 0.25, 0.25, 0.75, 0.75, 1.0])
    """
    every = tail.distribution(values)
    # Of very many steps, some evenly spaced ones.
    kept = np.unique(np.linspace(0, len(every.value) - 1, POINTS).astype(np.int64))
    # A step goes up at each value, from the share before it.
    x = np.repeat(every.value[kept], 2)
    y = np.concatenate([[0.0], np.repeat(every.share[kept], 2)[:-1]])
    return x, y


# ---- significance --------------------------------------------------------------------------------


class RunPair(NamedTuple):
    """Two runs and the values of the users that both evaluated."""

    a: ShownRun
    b: ShownRun
    left: Float64Array
    """float64 [users]: the values of run a."""
    right: Float64Array
    """float64 [users]: the values of run b."""


def significance(group: Group) -> Html | None:
    """Paired tests of every two runs on the same users, and a note on runs that cannot be paired.
    None for a single run.
    """
    if len(group.runs) < 2:
        return None
    first = main_of(group)
    stored = group.runs[0].run.users
    names = once_per_user(group, dict.fromkeys(n for n in (first, *FIRST) if n in stored))
    tables = []
    for name in names:
        tests = _tests(group, name)
        if tests:
            tables.append(tests)
    if not tables:
        return join(_unpaired(group))
    words = (
        "Users are paired: both runs ranked the same held-out rows of the same user. Differences"
        " are first minus second. Holm's correction covers the comparisons of one table; a run is"
        f" called higher if the corrected p is at most {LEVEL}. An interval holds users alone, one"
        " seed: the tests do not speak about other data, splits or seeds (`entrenous compare` takes"
        " several seeds)."
    )
    main, *others = tables
    more = None
    if others:
        more = folded(f"Tests of {len(others)} more metrics", others)
    return join(tag("p", words), main, more, _unpaired(group))


def pairs(group: Group, name: str) -> list[RunPair]:
    """Every two runs whose users can be paired on a metric."""
    paired = []
    for a, b in combinations(group.runs, 2):
        left = per_user(a, name)
        right = per_user(b, name)
        if left is None or right is None:
            continue
        # Another seed has held out other rows of the same users.
        if a.manifest["seed"] != b.manifest["seed"]:
            continue
        # Only users of both runs are paired.
        _, of_a, of_b = np.intersect1d(
            a.run.users["user"], b.run.users["user"], assume_unique=True, return_indices=True
        )
        if len(of_a) > 1:
            paired.append(RunPair(a, b, left[of_a], right[of_b]))
    return paired


class TestedPair(NamedTuple):
    """A pair of runs with its test."""

    pair: RunPair
    found: Difference
    """The first run minus the second."""
    holm: float
    """The p-value after Holm's correction over all pairs of the group."""


def tested(group: Group, name: str) -> list[TestedPair]:
    """Every two runs whose users can be paired on a metric, tested over users."""
    paired = pairs(group, name)
    found = [difference(pair.left, pair.right) for pair in paired]
    corrected = holm([each.p() for each in found]).tolist()
    return list(map(TestedPair, paired, found, corrected))


def _tests(group: Group, name: str) -> Html | None:
    rows = [_test_row(test) for test in tested(group, name)]
    if not rows:
        return None
    head = ["first and second", "verdict", "users", "difference", "t", "p", "Holm"]
    ranking = "" if is_error(name) else f", {group.ranking}"
    tests = "paired t-test, two-sided; below a difference its 95 % interval: users alone, one seed"
    caption = join(tag("code", name), f"{ranking}: {tests}")
    return table(caption, head, rows, text=(1,), label=f"Tests of {name}")


def _test_row(test: TestedPair) -> list[Child]:
    statistic = test.found.t()
    low, high = test.found.ends
    ends = tag("small", numbers.signed(low), " to ", numbers.signed(high))
    return [
        tag("span", test.pair.a.named(), tag("br"), test.pair.b.named()),
        _verdict(test),
        numbers.count(test.found.users),
        join(numbers.signed(test.found.mean), ends),
        numbers.exact(statistic, f"{statistic:.2f}".replace("-", "−")),
        numbers.p_value(test.found.p()),
        numbers.p_value(test.holm),
    ]


def _verdict(test: TestedPair) -> Html:
    """The cell that says which run is higher, if any."""
    words: Child = "could be chance"
    if test.holm <= LEVEL:
        winner = test.pair.a if test.found.mean > 0 else test.pair.b
        words = join(winner.named(), " is higher")
    return tag("span", words, class_="run")


def _unpaired(group: Group) -> Html | None:
    """The runs that are not tested against each other because of their seeds; None if there are
    none.
    """
    seeds: dict[int, list[ShownRun]] = {}
    for shown in group.runs:
        seeds.setdefault(shown.manifest["seed"], []).append(shown)
    # Runs of one seed are all tested.
    if len(seeds) < 2:
        return None
    words = (
        "Runs of different seeds are not tested against each other: other candidates, random splits"
        " and order of equal scores."
    )
    items = [tag("li", f"seed {seed}: ", listed(alike)) for seed, alike in seeds.items()]
    return join(tag("p", words, class_="small"), tag("ul", items, class_="small"))
