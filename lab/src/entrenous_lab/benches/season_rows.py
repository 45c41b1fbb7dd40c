"""The rows of a season in its windows: who does what, and how well a model ranks what they do
next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from entrenous.core.types import BoolArray, Float32Array, Int64Array
from entrenous.data.interactions import Interactions, Vocabulary
from entrenous.data.load import load
from entrenous.federation.shard import Ledger
from entrenous.privacy.protection import Protection

if TYPE_CHECKING:
    from entrenous_network.agreement.catalogue import Items
    from entrenous_network.agreement.terms import FederationTerms
    from entrenous_network.operate.device import OwnRow
    from entrenous_network.operate.plans import FoundingPlan

    from entrenous_lab.trials.again import QuietRounds

LISTED = 10
BLOCK = 2048  # rows that are ranked at once


class Season(NamedTuple):
    """What happens to a federation."""

    data: str = "ml-1m"
    people: int = 6040
    founders: float = 0.4
    """The share of the rows by which those who found the federation have joined."""
    windows: int = 12
    rounds: int = 4
    """Of a window, as the bench `season-rates` has chosen; lost ones are made up for."""
    awake: float = 0.1
    vanish: float = 0.3
    """The share of those who are awake that vanishes in a round, at some stage of its sum, and is
    back for the next round."""
    floor: int = 100
    """People of a sum, at least."""
    groups: int = 2
    noise: float = 3.0
    deadline: float = 60.0
    """Seconds that a stage waits for those who have vanished."""
    processes: int = 4
    """Of devices."""
    server_kills: int = 20
    device_kills: int = 2
    """Processes of devices that are killed."""
    seed: int = 0


class Rows(NamedTuple):
    """The rows of a data set that have a time, in its order. People and items are numbered by their
    first row."""

    user: Int64Array
    item: Int64Array
    value: Float32Array
    time: Int64Array
    """Microseconds since 1970."""
    ids: list[str]
    """Of the items."""
    left_out: int
    """Rows without a time, and of people who come later than the last one of the bench."""


def rows_of(name: str, people: int) -> Rows:
    """Reads the rows of a data set, of the first `people` people."""
    data = load(name)
    assert data.time is not None
    known = data.time >= 0
    order = np.argsort(data.time[known], kind="stable")
    user, _ = _by_first(data.user[known][order].astype(np.int64))
    of_these = user < people
    user = user[of_these]
    item, numbers = _by_first(data.item[known][order][of_these].astype(np.int64))
    ids = [str(data.items.ids[number]) for number in numbers]
    value = data.value[known][order][of_these]
    moment = data.time[known][order][of_these]
    return Rows(user, item, value, moment, ids, len(data) - len(user))


def _by_first(numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Returns numbers that count up in the order of their first use, and what each stands for."""
    distinct, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[place], distinct[order]


@final
class SeasonRows:
    """The rows of a season, in windows of as many rows each after those of the founders."""

    def __init__(self, plan: Season) -> None:
        self.plan = plan
        rows = rows_of(plan.data, plan.people)
        self.rows = rows
        by_user = np.argsort(rows.user, kind="stable")
        starts = np.searchsorted(rows.user[by_user], np.arange(1, 1 + int(rows.user.max())))
        # By person, the places of the rows, ascending.
        self._of_user = np.split(by_user, starts)
        count = len(rows.user)
        first = round(count * plan.founders)
        self.cuts = np.linspace(first, count, plan.windows + 1).astype(int)
        """The places at which windows begin, and the end of the last one."""

    @property
    def people(self) -> int:
        """The people who ever come."""
        return 1 + int(self.rows.user.max())

    def joined(self, window: int) -> int:
        """Returns the people who have come by the end of a window; -1: by the founding."""
        return 1 + int(self.rows.user[: self.cuts[window + 1]].max())

    def listed(self, window: int) -> int:
        """Returns the items that have appeared by then."""
        return 1 + int(self.rows.item[: self.cuts[window + 1]].max())

    def items(self, start: int, stop: int) -> Items:
        """Returns some items as a list of a federation."""
        from entrenous_network.agreement.catalogue import Items

        return Items(self.rows.ids[start:stop], [""] * (stop - start), None)

    def own(self, user: int, item: int, value: float) -> OwnRow:
        """Returns a row as a device keeps it."""
        ident = self.rows.ids[item]
        return {"user": str(user), "item": ident, "title": "", "value": value, "time": None}

    def everybody(self, window: int) -> QuietRounds:
        """Returns the same window with everybody present and all rows there."""
        from entrenous_lab.trials.again import QuietRounds

        rows = self.rows
        high = self.cuts[window + 1]
        has: dict[int, list[OwnRow]] = {}
        for place in range(high):
            user = int(rows.user[place])
            own = self.own(user, int(rows.item[place]), float(rows.value[place]))
            has.setdefault(user, []).append(own)
        everybody = frozenset(has)
        sums: list[frozenset[int] | None] = [everybody] * self.plan.rounds
        return QuietRounds(self.items(0, self.listed(window)), has, everybody, frozenset(), sums)

    def ranked(self, window: int, rounds: Any, training: Any) -> BoolArray:
        """Returns for each row of the next window whether a list of ten of the model would have had
        it. As on a device, whatever its user had done until then counts, the rows of the same
        window too.
        """
        from entrenous.runs.recommenders import FederatedRecommender

        if window + 1 == self.plan.windows:
            return np.empty(0, np.bool_)
        low, high = self.cuts[window + 1 : window + 3]
        download = rounds.algorithm.download(training.server)
        found = []
        for start in range(low, high, BLOCK):
            tested = np.arange(start, min(start + BLOCK, high))
            so_far = self._histories(tested, rounds.data.items)
            users = self.rows.user[tested]
            own = type(training.devices)(*(array[users] for array in training.devices))
            recommender = FederatedRecommender(rounds.algorithm, download, own, so_far, rounds.seed)
            scores = recommender.scores(np.arange(len(tested)))
            found.append(self._listed_by(scores, tested, so_far))
        return np.concatenate(found)

    def _histories(self, tested: Int64Array, items: Vocabulary) -> Interactions:
        """Returns what the user of each of some rows had done before that row, each as a user of
        its own. Rows of items that the model does not know are left out.
        """
        rows = self.rows
        ptr = [0]
        parts = []
        for place in tested.tolist():
            mine = self._of_user[int(rows.user[place])]
            before = mine[: np.searchsorted(mine, place)]
            known = before[rows.item[before] < len(items)]
            parts.append(known[np.argsort(rows.item[known])])
            ptr.append(ptr[-1] + len(known))
        places = np.concatenate(parts)
        return Interactions(
            ptr=np.array(ptr),
            item=rows.item[places].astype(np.int32),
            value=rows.value[places],
            time=rows.time[places],
            row=np.arange(len(places)),
            users=Vocabulary(size=len(tested), kind="user"),
            items=items,
        )

    def _listed_by(
        self, scores: Float32Array, tested: Int64Array, so_far: Interactions
    ) -> BoolArray:
        """Tells for each tested row whether ten items that its user had not would have had it."""
        found = np.zeros(len(tested), np.bool_)
        for number, item in enumerate(self.rows.item[tested].tolist()):
            own = scores[number]
            # Nothing is known of the user, or of the item.
            if item >= len(own) or not own.any():
                continue
            wanted = own[item]
            had = so_far.item[so_far.ptr[number] : so_far.ptr[number + 1]]
            better = np.count_nonzero(own >= wanted) - np.count_nonzero(own[had] >= wanted)
            found[number] = better <= LISTED
        return found

    def popular(self) -> Iterator[BoolArray]:
        """Yields the same for popularity so far."""
        for window in range(1, self.plan.windows):
            low, high = self.cuts[window : window + 2]
            items = Vocabulary(self.rows.ids[: 1 + int(self.rows.item[:low].max())], kind="item")
            counts = np.bincount(self.rows.item[:low], minlength=len(items)).astype(np.float32)
            found = []
            for start in range(low, high, BLOCK):
                tested = np.arange(start, min(start + BLOCK, high))
                scores = np.broadcast_to(counts, (len(tested), len(items)))
                found.append(self._listed_by(scores, tested, self._histories(tested, items)))
            yield np.concatenate(found)


def mean_of(hits: Sequence[BoolArray]) -> float:
    """Returns the share of rows that lists had."""
    return round(float(np.concatenate(hits).mean()), 4)


def by_half(hits: Sequence[BoolArray]) -> tuple[float, float]:
    """Returns the hit rates of the first windows that are tested, and of the others."""
    tested = [window for window in hits if len(window)]
    half = len(tested) // 2
    return mean_of(tested[:half]), mean_of(tested[half:])


def founding_plan(rows: SeasonRows, settings: Mapping[str, Any] | None = None) -> FoundingPlan:
    """Returns the plan of a season's federation. settings: those of FCF that differ."""
    from entrenous_network.agreement.terms import most_by_lot
    from entrenous_network.operate.plans import FoundingPlan

    plan = rows.plan
    return FoundingPlan(
        algorithm="fcf",
        settings={"cohort": most_by_lot(rows.people, plan.groups), **(settings or {})},
        users=rows.people,
        interactions=len(rows.rows.user),
        endless=True,
        seed=plan.seed,
        draws="public",
        protect={
            "sampling": "poisson",
            "answers": 1000,
            "people": plan.floor,
            "groups": plan.groups,
            "noise": plan.noise,
        },
        deadline=plan.deadline,
    )


def hits_without_noise(
    rows: SeasonRows, terms: FederationTerms, stages: Sequence[QuietRounds]
) -> tuple[list[BoolArray], Ledger]:
    """Returns the hits of each window of a training without any protection, and its bytes."""
    from entrenous_lab.trials.again import each_again

    hits = []
    ledger = Ledger()
    for window, stage in enumerate(each_again(terms, stages, Protection())):
        hits.append(rows.ranked(window, stage.rounds, stage.training))
        ledger = stage.training.ledger
    return hits, ledger
