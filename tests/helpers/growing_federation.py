"""A federation under masks that people join while it runs, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from entrenous_network.agreement.catalogue import Items
from entrenous_network.agreement.members import MEMBER, OwnEntry
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.enrolment import identity, join
from entrenous_network.operate.founding import FoundedFederation, found_federation
from entrenous_network.operate.membership import invite
from entrenous_network.operate.plans import FoundingPlan, JoinPlan
from entrenous_network.server.server import serve
from federation_links import linked, ratings, server_sha256

from entrenous.federation.rounds import Rounds

USERS = 40


FIRST = 30


DATA = ratings(USERS)


OWNER = JoinPlan(people=5, occupancy=0.0, public_draws=True)
PLAN = FoundingPlan(
    algorithm="fcf",
    rounds=6,
    settings={"factors": 4, "cohort": 12},
    profile="paper",
    protect={
        **{"sampling": "poisson", "answers": 9, "noise": 0.2, "rows": "all"},
        **{"secure_sum": True, "people": 6, "step": 0.06},
    },
    draws="public",
    deadline=5.0,
    seed=1,
).with_catalogue(DATA.catalogue)


class Growing:
    """A federation with room for 40 people, of whom 30 are there from the beginning."""

    def __init__(
        self,
        folder: Path,
        rounds: int = 6,
        first: int = FIRST,
        people: int = 6,
    ) -> None:
        self.folder = folder
        plan = replace(PLAN, rounds=rounds, protect={**PLAN.protect, "people": people})
        requests = [self._request(user) for user in range(first)]
        self.made: FoundedFederation = found_federation(
            folder / "f", Items.of(DATA), requests, plan
        )
        self.nodes: dict[str, FederatedNode] = {}
        for user in range(first):
            self._join(user, self.made.nodes[_name(user)])

    def _request(self, user: int) -> tuple[Any, int]:
        return identity(self.folder / _name(user), _name(user)), 1

    def _join(self, user: int, invitation: Path) -> None:
        folder = self.folder / _name(user)
        join(folder, invitation, DATA.of_users([user]), OWNER)
        self.nodes[_name(user)] = FederatedNode(folder)

    def come(self, users: range) -> None:
        """Some more people join."""
        requests = [self._request(user) for user in users]
        for user, invitation in zip(users, invite(self.folder / "f", requests), strict=True):
            self._join(user, invitation)

    def served(self, stop_at: int | None = None, absent: set[str] | None = None) -> str | None:
        """Runs the server to its end, or until it has counted so many rounds."""
        link = linked(self.nodes)
        link.absent = absent or set()
        stop = Event()

        def progress(done: int, total: int, what: str) -> None:
            if done == stop_at:
                stop.set()

        return serve(link, self.made.server, stop, progress)

    def simulated(self, members: Callable[[int], int]) -> str:
        """The hash of the simulation in which so many people are there in each round."""
        terms = self.made.terms

        def there(number: int, users: np.ndarray) -> np.ndarray:
            return users[users < members(number)]

        rounds = Rounds(
            terms.make(), DATA, seed=terms.seed, protection=terms.protection, cohorts=there
        )
        return server_sha256(rounds.advance(rounds.start(), terms.rounds))

    def knows(self, name: str) -> int:
        """The number of members that a node has on its disk."""
        return OwnEntry.read(self.nodes[name].folder / MEMBER).size


def _name(user: int) -> str:
    return f"device-{user:02d}"
