"""`Scene`: what is observed of a federation, and who takes part in its rounds then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.contract.declared import Contract
from ..core.errors import InputError, at_least, did_you_mean
from ..core.keys import key
from ..core.types import Int64Array
from ..data.interactions import Interactions
from ..kernels.sampling import cohort as drawn
from ..privacy.protection import PAPER, Protection
from .transcript import View

VIEWS: tuple[View, ...] = ("individual", "sum", "difference", "neighbour", "model")
PARTIES = 100  # in a sum, unless said otherwise: as many as the profile `private` asks for
KEPT_BYTES = 1 << 29  # of what is sent in all rounds, unless it is said whom to watch


class Scene(NamedTuple):
    """What is observed, and how.

    rounds: how many; of gossip, units of time. cohort: parties in a round, 0 = everybody (in sums
    100; for the final model, the algorithm's own number). fixed: the same parties in every round,
    instead of the algorithm's selection. people: users of each party, whom a gateway answers for;
    they take part together. watched: of how many users each message is kept (in the view
    `neighbour`: how many peers keep what reaches them), 0 = of as many as 512 MB hold. profile,
    protection: what limits the data that leaves devices. public_draws: what devices draw can be
    repeated by everybody, so that the onlooker has the seed; else it never does. replayed, chosen:
    of an active server, which shows devices the same model in every round, and which asks changing
    cohorts of so many users alone (0 = of all).
    """

    view: View = "individual"
    rounds: int = 1
    seed: int = 0
    cohort: int = 0
    fixed: bool = False
    people: int = 1
    watched: int = 0
    profile: str = PAPER
    protection: Protection = Protection()
    public_draws: bool = False
    replayed: bool = False
    chosen: int = 0

    @property
    def parties(self) -> int:
        """Parties in a round, 0 = everybody. Of two sums the smaller one has as many as the profile
        `private` asks for.
        """
        usual = {"sum": PARTIES, "difference": PARTIES + 1}.get(self.view, 0)
        return self.cohort or usual

    @property
    def in_a_round(self) -> int:
        """Users in a round, 0 = everybody: those of all its parties."""
        return self.parties * self.people


def check_scene(scene: Scene) -> None:
    """Refuses numbers that make no sense, and a view that there is not."""
    if scene.view not in VIEWS:
        raise InputError(
            "--view",
            f"unknown view '{scene.view}'",
            expected=" or ".join(VIEWS),
            fix=did_you_mean(scene.view, VIEWS),
        )
    for name, least in (
        ("rounds", 0),
        ("seed", 0),
        ("cohort", 0),
        ("people", 1),
        ("watched", 0),
        ("chosen", 0),
    ):
        at_least(f"--{name}", getattr(scene, name), least)
    active = "--replayed" if scene.replayed else "--chosen" if scene.chosen else ""
    if active and scene.view not in ("individual", "sum"):
        raise InputError(
            active,
            f"the view is '{scene.view}'",
            expected="--view individual or sum: what an active server sees",
        )
    if scene.chosen and (scene.fixed or scene.people > 1):
        raise InputError(
            "--chosen", "parties are fixed, or gateways", expected="without --fixed and --people"
        )


def check_parties(scene: Scene, data: Interactions) -> None:
    """Refuses more parties than there are users for."""
    if scene.cohort * scene.people > len(data.users):
        problem = (
            f"{scene.cohort} parties of {scene.people}"
            if scene.people > 1
            else f"got {scene.cohort}"
        )
        raise InputError(
            "--cohort", problem, expected=f"at most {len(data.users)} users, those of {data.name}"
        )
    if scene.chosen and not taking_part(scene, data) <= scene.chosen <= len(data.users):
        least = taking_part(scene, data)
        raise InputError(
            "--chosen",
            f"got {scene.chosen}",
            expected=f"{least}, the users of a cohort, to {len(data.users)}, all",
        )


def parties_of(
    made: Any, data: Interactions, scene: Scene
) -> Callable[[int, Int64Array], Int64Array] | None:
    """Who takes part in a round: parties that are always the same, or those that are drawn; None =
    whom the algorithm selects.
    """
    users, people, size = len(data.users), scene.people, taking_part(scene, data)
    twice = (
        scene.view == "difference" and scene.protection.secure_sum
    )  # the same parties in both rounds of a pair
    if scene.fixed:
        same = _same(scene, size, users)
        return lambda number, own: same
    if scene.chosen:
        among = drawn(key(scene.seed, "audit", "chosen"), scene.chosen, users)
        return lambda number, own: among[
            drawn(key(scene.seed, "audit", "cohort", number), size, len(among))
        ]
    if (
        people == 1
        and not twice
        and ("cohort" in dict(made) or (scene.view == "model" and not scene.cohort))
    ):
        return None

    def gateways(number: int, own: Int64Array) -> Int64Array:
        chosen = drawn(
            key(scene.seed, "audit", "gateways", number // 2 if twice else number),
            size // people,
            users // people,
        )
        return (chosen[:, None] * people + np.arange(people)).ravel()

    return gateways


def taking_part(scene: Scene, data: Interactions) -> int:
    """How many users take part in a round."""
    return min(scene.in_a_round or len(data.users), len(data.users))


def _same(scene: Scene, size: int, users: int) -> Int64Array:
    return drawn(key(scene.seed, "audit", "parties"), size, users)


def but_one(
    parties: Callable[[int, Int64Array], Int64Array] | None, people: int
) -> Callable[[int, Int64Array], Int64Array]:
    """The same, less one party: the next one each time."""

    def rest(number: int, own: Int64Array) -> Int64Array:
        users = own if parties is None else parties(number, own)
        place = number % max(1, len(users) // people) * people
        return np.delete(users, slice(place, place + people))

    return rest


def watched_of(
    contract: Contract, data: Interactions, scene: Scene, rounds: int
) -> Int64Array | None:
    """Whose messages are kept in the view `individual`: None = everybody's."""
    if scene.view != "individual":
        return None
    users, size = len(data.users), taking_part(scene, data)
    most = scene.watched or int(KEPT_BYTES / max(1.0, contract.block_bytes * rounds * size / users))
    if most >= users:
        return None
    among = _same(scene, size, users) if scene.fixed else np.arange(users)
    return among[drawn(key(scene.seed, "audit", "watched"), max(1, most), len(among))]
