"""The users who take part in the rounds of an audited training, and whose messages are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from entrenous.core.contract.declared import Contract
from entrenous.core.errors import InputError, did_you_mean
from entrenous.core.keys import key
from entrenous.core.keywords import at_least
from entrenous.core.types import Int64Array
from entrenous.data.interactions import Interactions
from entrenous.kernels.sampling import cohort as drawn
from entrenous.privacy.protection import Protection

from .plan import AuditPlan, View

VIEWS: tuple[View, ...] = get_args(View)
KEPT_BYTES = 1 << 29  # of what is sent in all rounds, unless the plan says whom to watch
LEAST = {"rounds": 0, "seed": 0, "cohort": 0, "people": 1, "watched": 0}

Parties = Callable[[int, Int64Array], Int64Array]
"""From the number of a round and the users whom the algorithm selects to the users who take part.
"""


def check_scene(plan: AuditPlan) -> None:
    """Refuses numbers that make no sense, and a view that does not exist."""
    view = plan.view or "individual"
    if view not in VIEWS:
        raise InputError(
            "--view",
            f"unknown view '{view}'",
            expected=" or ".join(VIEWS),
            fix=did_you_mean(view, VIEWS),
        )
    # 0 stands for all, or for the usual number; nothing below it means anything.
    for name, least in LEAST.items():
        at_least(f"--{name}", getattr(plan, name), least)
    if not 0 <= plan.knows < 1:
        raise InputError(
            "--knows",
            f"got {plan.knows:g}",
            expected="a share of every history, 0 to below 1",
            fix="--knows 0.1 = a tenth",
        )
    if view == "list" and plan.knows:
        raise InputError("--knows", "a list is all that is known here", expected="without --knows")
    if plan.new_row and (view != "difference" or plan.people > 1):
        raise InputError(
            "--new-row", "there is no pair of sums", expected="--view difference without --people"
        )
    if view == "planted" and plan.people > 1:
        raise InputError("--view", "'planted' has lots", expected="without --people")


def check_parties(plan: AuditPlan, data: Interactions) -> None:
    """Refuses more parties than there are users for."""
    users = len(data.users)
    if plan.cohort * plan.people > users:
        # The message names the numbers as they were typed.
        problem = f"got {plan.cohort}"
        if plan.people > 1:
            problem = f"{plan.cohort} parties of {plan.people}"
        raise InputError(
            "--cohort", problem, expected=f"at most {users} users, those of {data.name}"
        )


def selects_cohort(algorithm: Any) -> bool:
    """Checks whether the algorithm draws the users of a round itself, as many as its setting
    `cohort`.
    """
    return "cohort" in type(algorithm).model_fields


def with_cohort(algorithm: Any, users: int) -> Any:
    """Returns the algorithm with `users` users in a round, if it draws them itself."""
    if selects_cohort(algorithm):
        return algorithm.model_copy(update={"cohort": users})
    return algorithm


def as_it_is(plan: AuditPlan) -> bool:
    """Checks whether the algorithm trains with its own number of users, as for the final model
    alone.
    """
    return plan.view == "model" and not plan.cohort


def parties_of(
    algorithm: Any, data: Interactions, plan: AuditPlan, protection: Protection
) -> Parties | None:
    """The users who take part in a round, which are drawn. None = those whom the algorithm
    selects.
    """
    users = len(data.users)
    size = taking_part(plan, data)
    # Masked devices answer once, so the two sums of a pair are of two rounds with the same parties.
    pairs = plan.view == "difference" and protection.secure_sum
    if plan.people == 1 and not pairs and (selects_cohort(algorithm) or as_it_is(plan)):
        return None

    def gateways(number: int, selected: Int64Array) -> Int64Array:
        # Both rounds of a pair draw from one key, and so the same gateways.
        draw = key(plan.seed, "audit", "gateways", number // 2 if pairs else number)
        # A gateway answers for neighbouring numbers: its first user names it.
        first = drawn(draw, size // plan.people, users // plan.people) * plan.people
        return (first[:, None] + np.arange(plan.people)).ravel()

    return gateways


def taking_part(plan: AuditPlan, data: Interactions) -> int:
    """The number of users who take part in a round."""
    users = len(data.users)
    return min(plan.in_a_round or users, users)


def but_one(parties: Parties | None, people: int) -> Parties:
    """Returns the same parties less one, another one each time."""

    def rest(number: int, selected: Int64Array) -> Int64Array:
        users = selected if parties is None else parties(number, selected)
        # One party after another, so that each is left out in its turn.
        left_out = number % max(1, len(users) // people) * people
        return np.delete(users, slice(left_out, left_out + people))

    return rest


def fresh_row(data: Interactions, users: Int64Array, number: int) -> int:
    """The place of the row that one of `users` is without in the second sum of pair `number`:
    another user each time, and a row of theirs that is drawn.
    """
    # Only who has a row can be without one.
    able = users[data.counts[users] > 0]
    user = able[number % len(able)]
    draw = drawn(key(0, "audit", "new row", number), 1, int(data.counts[user]))
    return int(data.ptr[user] + draw[0])


def without(data: Interactions, rows: Sequence[int]) -> Interactions:
    """Returns the data without some rows, by their places."""
    keep = np.ones(len(data), np.bool_)
    keep[rows] = False
    return data.select(keep)


def watched_of(
    contract: Contract, data: Interactions, plan: AuditPlan, rounds: int
) -> Int64Array | None:
    """Users whose messages are kept in the view `individual`. None = everybody's."""
    if plan.view != "individual":
        return None
    users = len(data.users)
    size = taking_part(plan, data)
    # Bytes that one user sends in all rounds, on average.
    sent = contract.block_bytes * rounds * size / users
    # As many as memory holds, if the plan does not say how many.
    most = plan.watched or int(KEPT_BYTES / max(1.0, sent))
    if most >= users:
        return None
    return drawn(key(plan.seed, "audit", "watched"), max(1, most), users)
