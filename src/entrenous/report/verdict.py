"""The findings in words at the top of a report: the metrics, and the differences that could be
chance.
"""

from __future__ import annotations

from . import numbers
from .markup import Child, Html, join, tag
from .runs import FIRST, Group, ShownRun, is_error, main_of
from .users import LEVEL, TestedPair, tested

HIT = "hr@10"


def verdict(groups: list[Group]) -> Html:
    """A list with a few sentences for each group of runs."""
    items = []
    for group in groups:
        # The only group needs no name.
        title = f"{group.title}: " if len(groups) > 1 else None
        lines = _compared(group) if len(group.runs) > 1 else _alone(group.runs[0])
        items += [tag("li", title, line) for line in lines]
    return tag("ul", items, class_="verdict")


def _alone(shown: ShownRun) -> list[Child]:
    """The sentences about a run that is compared with no other."""
    metrics = shown.manifest["metrics"]
    predicts_ratings = any(is_error(name) for name in metrics)
    if HIT in metrics and not predicts_ratings:
        items = "its own candidates" if shown.sampled else "every item that could be recommended"
        percent = 100 * metrics[HIT]
        hits = f": {percent:.0f} % of the users find a held-out item among the ten best of {items}."
        return [join(shown.named(), hits), _sent(shown)]
    listed: list[Child] = []
    for name in [name for name in FIRST if name in metrics][:2]:
        if listed:
            listed.append(" and ")
        listed += [tag("code", name), " ", numbers.metric(metrics[name])]
    return [join(shown.named(), ": ", listed, "."), _sent(shown)]


def _compared(group: Group) -> list[Child]:
    """The run with the best mean, and the tests of its lead over each of the others."""
    name = main_of(group)
    scored = [shown for shown in group.runs if name in shown.manifest["metrics"]]
    # A best of one is no finding.
    if len(scored) < 2:
        return []

    def mean_of(shown: ShownRun) -> float:
        mean: float = shown.manifest["metrics"][name]
        return mean

    if is_error(name):
        best = min(scored, key=mean_of)
        superlative = "lowest"
        ranking = ""
    else:
        best = max(scored, key=mean_of)
        superlative = "highest"
        ranking = f" in the {group.ranking}"
    first = join(
        best.named(),
        f" has the {superlative} ",
        tag("code", name),
        f"{ranking}, ",
        numbers.metric(mean_of(best)),
        ".",
    )
    tests = [test for test in tested(group, name) if best in (test.pair.a, test.pair.b)]
    leads = [_lead(best, test) for test in tests]
    return [first, *leads, *(_sent(shown) for shown in group.runs)]


def _lead(best: ShownRun, test: TestedPair) -> Html:
    """The lead of the best run over another one, with its interval over users."""
    pair = test.pair
    # A test is of a - b; the lead is of the best over the other.
    sign, other = (1, pair.b) if pair.a is best else (-1, pair.a)
    low, high = sorted(sign * end for end in test.found.ends)
    sure = "): this could be chance."
    if test.holm <= LEVEL:
        sure = "; the corrected test finds this more than chance)."
    return join(
        "Against ",
        other.named(),
        ": ",
        numbers.signed(sign * test.found.mean),
        " (95 % interval, users alone, one seed: ",
        numbers.signed(low),
        " to ",
        numbers.signed(high),
        sure,
    )


def _sent(shown: ShownRun) -> Html:
    """The bytes that devices sent, in one sentence."""
    # A centralised run has no devices that send.
    if not shown.device_rounds:
        return join(shown.named(), ": trained in one place, which sees every history.")
    users = shown.manifest["catalogue"]["users"]
    unit = "node" if shown.gossips else "device"
    size = numbers.size(shown.manifest["ledger"]["bytes_up"] / users)
    where = "What that can reveal is said under “What left the devices”."
    return join(shown.named(), f": each {unit} sent ", size, f" in the whole training. {where}")
