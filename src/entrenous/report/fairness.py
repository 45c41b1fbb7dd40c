"""Whether users are served alike: the spread of NDCG@10 beside what chance gives, the worst tenth,
and tests of the spread.
"""

from __future__ import annotations

from ..evaluate.significance import holm, paired_spread
from . import numbers
from .markup import Child, Html, join, table, tag
from .runs import MAIN, Group, ShownRun
from .users import LEVEL, pairs

_WORDS = (
    "The standard deviation over users is Cali3F's fairness: less is fairer. It follows the hit"
    " rate, so it stands beside the standard deviation by chance: that at the same hr@10 if no user"
    " were favoured and a hit stood anywhere in the ten places. With one held-out item per user a"
    " single user is hit or not, so no difference here tells who is served badly, and the worst"
    " tenth has a hit rate of 0 unless more than nine in ten are hit; their AUC is continuous."
)


def between_users(group: Group) -> Html | None:
    """Fairness of each run under each ranking, and tests of every two runs. None if the runs are
    older than the record of it.
    """
    tables = [
        _measured(group, "fairness", group.ranking),
        _measured(group, "fairness_full_ranking", "full ranking"),
    ]
    if not any(tables):
        return None
    old = [shown for shown in group.runs if "fairness" not in shown.manifest]
    left = [
        tag("p", "Not recorded when it was made: ", shown.named(), class_="small") for shown in old
    ]
    return join(tag("p", _WORDS), tables, left, _tests(group))


def _measured(group: Group, key: str, ranking: str) -> Html | None:
    found = {shown: of for shown in group.runs if (of := shown.manifest.get(key))}
    if not found:
        return None
    names = list(next(iter(found.values())))
    rows = [
        [shown.named(), *(numbers.metric(of[name]) for name in names)]
        for shown, of in found.items()
    ]
    folds = ", mean over folds" if any("folds" in shown.manifest for shown in found) else ""
    said = join(
        tag("b", "Fairness"),
        f": {ranking}{folds}; worst decile: the mean over the worst tenth of users by that metric",
    )
    return table(
        said, ["run", *(tag("code", name) for name in names)], rows, label=f"Fairness, {ranking}"
    )


def _tests(group: Group) -> Html | None:
    """Whether the standard deviations of every two runs on the same users differ."""
    found = [pair for pair in pairs(group, MAIN) if len(pair.left) > 2]
    if not found:
        return None
    tests = [paired_spread(pair.left, pair.right) for pair in found]
    rows: list[list[Child]] = []
    for pair, one, corrected in zip(found, tests, holm([one.p for one in tests]), strict=True):
        names = tag("span", pair.a.named(), tag("br"), pair.b.named())
        stds = [numbers.metric(float(values.std())) for values in (pair.left, pair.right)]
        p = [numbers.p_value(one.p), numbers.p_value(float(corrected))]
        verdict = _verdict(pair.a, pair.b, one.difference, float(corrected))
        rows.append(
            [names, verdict, numbers.count(one.pairs), *stds, numbers.signed(one.difference), *p]
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
    said = join(
        "Standard deviation of ",
        tag("code", MAIN),
        " over users: paired t-test of squared deviations, two-sided",
    )
    return table(said, head, rows, text=(1,), label=f"Tests of the spread of {MAIN}")


def _verdict(a: ShownRun, b: ShownRun, difference: float, p: float) -> Child:
    return (
        tag("span", (a if difference > 0 else b).named(), " spreads more", class_="run")
        if p <= LEVEL
        else "could be chance"
    )
