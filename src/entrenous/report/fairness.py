"""Fairness between users: the spread of NDCG@10 compared with chance, and the worst tenth."""

from __future__ import annotations

from . import numbers
from .markup import Child, Html, join, table, tag
from .runs import Group

_WORDS = (
    "The standard deviation over users is Cali3F's fairness: less is fairer. It follows the hit"
    " rate, so it is compared with the standard deviation by chance: that at the same hr@10 if no"
    " user were favoured and a hit stood anywhere in the ten places. With one held-out item per"
    " user a single user is hit or not, so no difference here tells who is served badly, and the"
    " worst tenth has a hit rate of 0 unless more than nine in ten are hit; their AUC is"
    " continuous."
)


def between_users(group: Group) -> Html | None:
    """The fairness of each run under each ranking; None if no run recorded it. `entrenous compare`
    tests the differences.
    """
    tables = [
        _measured(group, "fairness", group.ranking),
        _measured(group, "fairness_full_ranking", "full ranking"),
    ]
    if not any(tables):
        return None
    return join(tag("p", _WORDS), tables)


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
