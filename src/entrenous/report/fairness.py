"""Fairness between users: the spread of NDCG@10 compared with chance, the worst tenth, and tests of
the spread.
"""

from __future__ import annotations

from ..evaluation.significance import holm, paired_spread
from . import numbers
from .markup import Child, Html, join, table, tag
from .runs import MAIN, Group, ShownRun
from .users import LEVEL, pairs

_WORDS = (
    "The standard deviation over users is Cali3F's fairness: less is fairer. It follows the hit"
    " rate, so it is compared with the standard deviation by chance: that at the same hr@10 if no"
    " user were favoured and a hit stood anywhere in the ten places. With one held-out item per"
    " user a single user is hit or not, so no difference here tells who is served badly, and the"
    " worst tenth has a hit rate of 0 unless more than nine in ten are hit; their AUC is"
    " continuous."
)


def between_users(group: Group) -> Html | None:
    """The fairness of each run under each ranking, and tests of every two runs. None if no run
    recorded it.
    """
    tables = [
        _measured(group, "fairness", group.ranking),
        _measured(group, "fairness_full_ranking", "full ranking"),
    ]
    if not any(tables):
        return None
    notes = []
    for shown in group.runs:
        if "fairness" not in shown.manifest:
            words = "Not recorded when it was made: "
            notes.append(tag("p", words, shown.named(), class_="small"))
    return join(tag("p", _WORDS), tables, notes, _tests(group))


def _measured(group: Group, key: str, ranking: str) -> Html | None:
    """The table of the fairness of each run under one ranking. key: its entry in the manifest."""
    runs = [shown for shown in group.runs if shown.manifest.get(key)]
    if not runs:
        return None
    names = list(runs[0].manifest[key])
    head: list[Child] = ["run", *(tag("code", name) for name in names)]
    rows: list[list[Child]] = []
    for shown in runs:
        values = shown.manifest[key]
        rows.append([shown.named(), *(numbers.metric(values[name]) for name in names)])
    folds = ", mean over folds" if any("folds" in shown.manifest for shown in runs) else ""
    caption = join(
        tag("b", "Fairness"),
        f": {ranking}{folds}; worst decile: the mean over the worst tenth of users by that metric",
    )
    return table(caption, head, rows, label=f"Fairness, {ranking}")


def _tests(group: Group) -> Html | None:
    """Tests of the standard deviations of every two runs on the same users."""
    # The test needs three users.
    paired = [pair for pair in pairs(group, MAIN) if len(pair.left) > 2]
    if not paired:
        return None
    tests = [paired_spread(pair.left, pair.right) for pair in paired]
    corrected = holm([test.p for test in tests]).tolist()
    rows: list[list[Child]] = []
    for pair, test, p in zip(paired, tests, corrected, strict=True):
        rows.append(
            [
                tag("span", pair.a.named(), tag("br"), pair.b.named()),
                _verdict(pair.a, pair.b, test.difference, p),
                numbers.count(test.pairs),
                numbers.metric(float(pair.left.std())),
                numbers.metric(float(pair.right.std())),
                numbers.signed(test.difference),
                numbers.p_value(test.p),
                numbers.p_value(p),
            ]
        )
    head: list[Child] = [
        "first and second",
        "verdict",
        "users",
        "std",
        "std",
        "difference",
        "p",
        "Holm",
    ]
    caption = join(
        "Standard deviation of ",
        tag("code", MAIN),
        " over users: paired t-test of squared deviations, two-sided",
    )
    return table(caption, head, rows, text=(1,), label=f"Tests of the spread of {MAIN}")


def _verdict(a: ShownRun, b: ShownRun, difference: float, p: float) -> Child:
    if p > LEVEL:
        return "could be chance"
    # The difference is that of a minus b.
    wider = a if difference > 0 else b
    return tag("span", wider.named(), " spreads more", class_="run")
