"""How a metric spreads over users: its tails, its distribution, and whether a difference between
runs could be chance.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..core.types import Float64Array
from ..evaluate.significance import Comparison, holm, paired_t, wilcoxon
from ..evaluate.summary import PERCENTILES, interval, summarise
from . import figures, numbers
from .markup import Child, Html, folded, join, table, tag
from .results import per_user
from .runs import FIRST, Group, ShownRun, in_order, is_error, is_main, kind, main_of
from .theme import figure, side_by_side

LEVEL = 0.05
POINTS = 200  # of a distribution that is drawn; more could not be seen


# ---- spread --------------------------------------------------------------------------------------


def spread(group: Group) -> Html:
    """The distribution of the main metric over users, and a table of tails for each metric."""
    names = [
        name
        for name in in_order([name for shown in group.runs for name in shown.run.users])
        if name != "user"
    ]
    chosen, first = [name for name in names if is_main(name)] or names, main_of(group)
    if not chosen:
        return tag("p", "No per-user values are stored.", class_="small")
    others = [_tails(group, name) for name in chosen if name != first]
    more = folded(f"User by user: {len(others)} more metrics", others) if others else None
    drawn = side_by_side(
        *(_cdf(group, name) for name in dict.fromkeys((first, "auc")) if name in chosen)
    )
    return join(_whose(group), drawn, _tails(group, first), more)


def _whose(group: Group) -> Html:
    better = "higher" if is_error(main_of(group)) else "lower"
    said = (
        f"Values of single users{'' if is_error(main_of(group)) else f' in the {group.ranking}'}. "
    )
    if figures.can_draw():
        said += (
            f"In the figures a {better} curve of {main_of(group)} is better, and a steep part is"
            " where many users are."
        )
    folds = max(len(shown.manifest.get("folds", ())) for shown in group.runs)
    if folds:
        said += (
            f" They are those of the first of {folds} folds, so their mean differs from the mean"
            " over folds above."
        )
    return tag("p", said)


def _tails(group: Group, name: str) -> Html:
    head = ["run", "mean", "95 % interval", "std", *(f"{p} %" for p in PERCENTILES), "users"]
    rows = [
        _tail(shown, values)
        for shown in group.runs
        if (values := per_user(shown, name)) is not None
    ]
    said = join(
        tag("code", name),
        " per user: mean, standard deviation over users (divided by their number; lower is fairer),"
        " percentiles",
    )
    return table(said, head, rows, label=f"{name} per user")


def _tail(shown: ShownRun, values: Float64Array) -> list[Child]:
    found = summarise(values, seed=shown.manifest["seed"])
    bounds = join(numbers.metric(found.low), " to ", numbers.metric(found.high))
    tails = [numbers.metric(found.percentiles[p]) for p in PERCENTILES]
    return [
        shown.named(),
        numbers.metric(found.mean),
        bounds,
        numbers.metric(found.std),
        *tails,
        numbers.count(found.users),
    ]


def _cdf(group: Group, name: str) -> Html | None:
    values = {shown.label: per_user(shown, name) for shown in group.runs}
    series = {label: distribution(found) for label, found in values.items() if found is not None}
    svg = figures.lines(
        series,
        x_label=f"{name} of a user" if is_error(name) else f"{name} of a user, {group.ranking}",
        y_label="share of users with at most this",
        title=f"{name} over users",
        marks=False,
        order=group.order,
        name=f"{group.slug}-cdf-{kind(name)}",
    )
    return figure(svg)


def distribution(values: Float64Array) -> tuple[Float64Array, Float64Array]:
    """The cumulative distribution as the corners of its steps: (value, share of users with at most
    that value), both from 0.

    >>> x, y = distribution(np.array([0.5, 0.0, 0.5, 1.0]))
    >>> x.tolist(), y.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0, 1.0], [0.0, 0.25, 0.25, 0.75, 0.75, 1.0])
    """
    ordered = np.sort(values)
    at = np.unique(ordered)
    if len(at) > POINTS:
        at = np.unique(np.quantile(ordered, np.linspace(0, 1, POINTS), method="higher"))
    share = np.searchsorted(ordered, at, side="right") / len(ordered)
    return np.repeat(at, 2), np.concatenate([[0.0], np.repeat(share, 2)[:-1]])


# ---- significance --------------------------------------------------------------------------------


class RunPair(NamedTuple):
    """Two runs and the values of the users that both evaluated."""

    a: ShownRun
    b: ShownRun
    left: Float64Array
    right: Float64Array


def significance(group: Group) -> Html | None:
    """Paired tests of every two runs on the same users; what cannot be paired is said. None for a
    single run.
    """
    if len(group.runs) < 2:
        return None
    first = main_of(group)
    names = [name for name in (first, *FIRST) if name in group.runs[0].run.users]
    tables = [html for name in dict.fromkeys(names) if (html := _tests(group, name))]
    more = folded(f"Tests of {len(tables) - 1} more metrics", tables[1:]) if tables[1:] else None
    words = (
        "Users are paired: both runs ranked the same held-out rows of the same user. Differences"
        " are first minus second. Holm's correction covers the comparisons of one table; a run is"
        f" called higher if both corrected p are at most {LEVEL}. The tests speak about these users"
        " under this split and seed, not about other data, splits or seeds."
    )
    return join([tag("p", words), tables[0], more] if tables else None, _unpaired(group))


def pairs(group: Group, name: str) -> list[RunPair]:
    """Every two runs whose users can be paired on a metric."""
    found = []
    for a, b in combinations(group.runs, 2):
        left, right = per_user(a, name), per_user(b, name)
        if a.manifest["seed"] != b.manifest["seed"] or left is None or right is None:
            continue
        _, of_a, of_b = np.intersect1d(
            a.run.users["user"], b.run.users["user"], assume_unique=True, return_indices=True
        )
        if len(of_a) > 1:
            found.append(RunPair(a, b, left[of_a], right[of_b]))
    return found


class TestedPair(NamedTuple):
    """A pair of runs with its two tests, and the p of each after Holm's correction over all pairs
    of the group.
    """

    pair: RunPair
    t: Comparison
    w: Comparison
    t_holm: float
    w_holm: float


def tested(group: Group, name: str) -> list[TestedPair]:
    """Every two runs whose users can be paired on a metric, tested."""
    found = pairs(group, name)
    t = [paired_t(pair.left, pair.right) for pair in found]
    w = [wilcoxon(pair.left, pair.right) for pair in found]
    corrected = holm([one.p for one in t]).tolist(), holm([one.p for one in w]).tolist()
    return [TestedPair(*one) for one in zip(found, t, w, *corrected, strict=True)]


def _tests(group: Group, name: str) -> Html | None:
    found = tested(group, name)
    if not found:
        return None
    head = [
        "first and second",
        "verdict",
        "users",
        "difference",
        "t",
        "p",
        "Holm",
        "Wilcoxon p",
        "Holm",
    ]
    rows: list[list[Child]] = []
    for one in found:
        names = tag("span", one.pair.a.named(), tag("br"), one.pair.b.named())
        statistic = numbers.exact(one.t.statistic, f"{one.t.statistic:.2f}".replace("-", "−"))
        p = [numbers.p_value(value) for value in (one.t.p, one.t_holm, one.w.p, one.w_holm)]
        difference = _difference(one.pair, one.t.difference)
        rows.append([names, _verdict(one), numbers.count(one.t.pairs), difference, statistic, *p])
    ranking = "" if is_error(name) else f", {group.ranking}"
    tests = (
        "paired t-test and Wilcoxon's signed-rank test, two-sided; below a difference its 95 %"
        " interval"
    )
    said = join(tag("code", name), f"{ranking}: {tests}")
    return table(said, head, rows, text=(1,), label=f"Tests of {name}")


def bounds(pair: RunPair) -> tuple[float, float]:
    """The 95 % bootstrap interval, over users, of the first run minus the second."""
    return interval(pair.left - pair.right, seed=pair.a.manifest["seed"])


def _difference(pair: RunPair, mean: float) -> Html:
    low, high = bounds(pair)
    return join(
        numbers.signed(mean), tag("small", numbers.signed(low), " to ", numbers.signed(high))
    )


def higher(one: TestedPair) -> ShownRun | None:
    """The run that both corrected tests find higher; None if they do not."""
    if max(one.t_holm, one.w_holm) > LEVEL:
        return None
    return one.pair.a if one.t.difference > 0 else one.pair.b


def _verdict(one: TestedPair) -> Html:
    found = higher(one)
    if found is not None:
        return tag("span", found.named(), " is higher", class_="run")
    return tag(
        "span",
        "the tests disagree" if min(one.t_holm, one.w_holm) <= LEVEL else "could be chance",
        class_="run",
    )


def _unpaired(group: Group) -> Html | None:
    """Which runs are not tested against each other, and why. (Those of other groups have sections
    of their own.)
    """
    seeds: dict[int, list[ShownRun]] = {}
    for shown in group.runs:
        seeds.setdefault(shown.manifest["seed"], []).append(shown)
    if len(seeds) < 2:
        return None
    said = (
        "Runs of different seeds are not tested against each other: other candidates, random splits"
        " and order of equal scores."
    )
    sets = [
        tag(
            "li",
            f"seed {seed}: ",
            [join(", " if n else None, shown.named()) for n, shown in enumerate(same)],
        )
        for seed, same in seeds.items()
    ]
    return join(tag("p", said, class_="small"), tag("ul", sets, class_="small"))
