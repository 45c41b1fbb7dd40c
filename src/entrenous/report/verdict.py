"""The findings in words, at the top of a report: what was reached, and which differences could be
chance.
"""

from __future__ import annotations

from . import numbers
from .markup import Child, Html, join, tag
from .runs import FIRST, Group, ShownRun, is_error, main_of
from .users import TestedPair, bounds, higher, tested

HIT = "hr@10"


def verdict(found: list[Group]) -> Html:
    """A list with a few sentences for each group of runs."""
    several = len(found) > 1
    said = [
        (group, line)
        for group in found
        for line in (_compared(group) if len(group.runs) > 1 else _alone(group.runs[0]))
    ]
    return tag(
        "ul",
        [tag("li", f"{group.title}: " if several else None, line) for group, line in said],
        class_="verdict",
    )


def _alone(shown: ShownRun) -> list[Child]:
    metrics = shown.manifest["metrics"]
    if HIT in metrics and not any(is_error(name) for name in metrics):
        against = "its own candidates" if shown.sampled else "every item that could be recommended"
        hits = (
            f"{100 * metrics[HIT]:.0f} % of the users find a held-out item among the ten best of"
            f" {against}"
        )
        return [join(shown.named(), f": {hits}."), _sent(shown)]
    names = [name for name in FIRST if name in metrics][:2]
    listed = [
        join(" and " if n else None, tag("code", name), " ", numbers.metric(metrics[name]))
        for n, name in enumerate(names)
    ]
    return [join(shown.named(), ": ", listed, "."), _sent(shown)]


def _compared(group: Group) -> list[Child]:
    """The run with the best mean, and how sure it is to be ahead of each of the others."""
    name = main_of(group)
    scored = [shown for shown in group.runs if name in shown.manifest["metrics"]]
    if len(scored) < 2:
        return []
    best = (min if is_error(name) else max)(
        scored, key=lambda shown: shown.manifest["metrics"][name]
    )
    ranking = "" if is_error(name) else f" in the {group.ranking}"
    first = join(
        best.named(),
        " has the lowest " if is_error(name) else " has the highest ",
        tag("code", name),
        f"{ranking}, ",
        numbers.metric(best.manifest["metrics"][name]),
        ".",
    )
    against = [
        _against(best, one) for one in tested(group, name) if best in (one.pair.a, one.pair.b)
    ]
    return [first, *against, *(_sent(shown) for shown in group.runs)]


def _against(best: ShownRun, one: TestedPair) -> Html:
    """How far the best run is ahead of another, with the interval of the difference over users."""
    sign = 1 if one.pair.a is best else -1
    other = one.pair.b if one.pair.a is best else one.pair.a
    low, high = sorted(sign * end for end in bounds(one.pair))
    size = (
        numbers.signed(sign * one.t.difference),
        " (95 % interval over users ",
        numbers.signed(low),
        " to ",
        numbers.signed(high),
    )
    sure = (
        "; both corrected tests find this more than chance)."
        if higher(one) is not None
        else "): this could be chance."
    )
    return join("Against ", other.named(), ": ", *size, sure)


def _sent(shown: ShownRun) -> Html:
    """What the devices gave away, in one sentence."""
    if not shown.device_rounds:
        return join(shown.named(), ": trained in one place, which sees every history.")
    users, ledger = shown.manifest["catalogue"]["users"], shown.manifest["ledger"]
    unit = "node" if shown.gossips else "device"
    size = numbers.size(ledger["bytes_up"] / users)
    where = "What that can reveal is said under “What left the devices”."
    return join(shown.named(), f": each {unit} sent ", size, f" in the whole training. {where}")
