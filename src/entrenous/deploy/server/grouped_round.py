"""A round in groups under masks: a sum for each, and a mean across them that one lying group cannot
drag.

A masked sum hides who lies in it, so one false vector moves the sum of everybody as far as it
likes. With sums of several groups the server sees which sum is far longer than the others', and
shortens it to the median length before it adds them: the clipped mean of Sun et al. 2019
(arXiv:1911.07963), over groups instead of users. A liar still chooses the direction in which its
whole group pushes, by as much as an honest group; liars in most groups are not bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...core.contract.update import Total
from ...core.types import Int64Array
from ..agreement.groups import dealt
from ..frames.contribution import add
from ..frames.request import RoundWork
from .collector import Collector
from .log_line import LogLine
from .secure_server import AskingServer, SecureRound
from .watch import length

LONG = 3.0  # times the median length, from which on a group's sum is logged


class GroupedSum(NamedTuple):
    """What a round in groups came to. total: without devices where too few groups gave a sum;
    begun: whether any group was asked at all."""

    total: Total
    begun: bool


def grouped_sum(server: AskingServer, collector: Collector, work: RoundWork) -> GroupedSum:
    """The sums of all groups, one after the other, shortened and added up.

    A group that gives no sum is left out. With half of the groups or fewer there is none: liars in
    one group could be in most of those that are left.
    """
    groups = dealt(server.members, server.terms.run, server.terms.protection.groups)
    sums: dict[int, Total] = {}
    nodes: dict[int, int] = {}
    begun = False
    for number, group in enumerate(groups):
        if 2 * (len(sums) + len(groups) - number) <= len(groups):
            break  # whatever the others send, it would not count
        asked = {name: users for name, users in work.asked.items() if name in group}
        if not asked:
            continue
        asking = SecureRound(
            server, collector, work._replace(asked=asked), group=number, of_group=group
        )
        total = asking.run()
        begun = begun or asking.begun
        if total.devices:
            sums[number] = total
            nodes[number] = len(asked)
    _tell_missing(server, work, sums, len(groups))
    if 2 * len(sums) <= len(groups):
        return GroupedSum(server.contract.empty_total(), begun)
    longer = times_the_median(list(sums.values()))
    for number, times in zip(sums, longer, strict=True):
        _tell_long(server, work, number, nodes[number], times)
    whole = server.contract.empty_total()
    for total, times in zip(sums.values(), longer, strict=True):
        whole = add(whole, shortened(total, times))
    return GroupedSum(whole, begun)


def times_the_median(sums: Sequence[Total]) -> list[float]:
    """How many times as long each sum is as the median one, a device; the lower one of two in the
    middle, of which the other may be a liar's."""
    lengths = [length(total) for total in sums]
    median = sorted(lengths)[(len(lengths) - 1) // 2]
    if not median:
        return [1.0 if not found else float(np.inf) for found in lengths]
    return [found / median for found in lengths]


def shortened(total: Total, times: float) -> Total:
    """A sum that is `times` as long as it may be, shortened to that, in steps of the fixed point;
    as it is where it is no longer. Its devices, senders and weight stay."""
    if times <= 1:
        return total
    rows = {name: _divided(array, times) for name, array in total.rows.items()}
    dense = {name: _divided(array, times) for name, array in total.dense.items()}
    return total._replace(rows=rows, dense=dense)


def _divided(array: Int64Array, times: float) -> Int64Array:
    return np.rint(array.astype(np.float64) / times).astype(np.int64)


def _tell_missing(
    server: AskingServer, work: RoundWork, sums: dict[int, Total], groups: int
) -> None:
    """Logs which groups gave no sum."""
    missing = [str(number + 1) for number in range(groups) if number not in sums]
    if missing:
        line = (
            f"round {work.round}: {len(sums)} of {groups} groups; without group"
            f" {', '.join(missing)}"
        )
        server.folder.log(LogLine(line, "groups", level="warning", round=work.round))


def _tell_long(
    server: AskingServer, work: RoundWork, number: int, nodes: int, times: float
) -> None:
    """Logs a sum that was much longer than the median one. It does not say which node lies."""
    if times > LONG:
        line = (
            f"round {work.round}: the sum of group {number + 1} is {times:.3g} times as long as the"
            f" median group's, and is shortened to it; one of its {nodes} nodes may lie"
        )
        server.folder.log(LogLine(line, "long", level="warning", round=work.round))
