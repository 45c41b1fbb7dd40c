"""How long somebody who joins a running federation waits for the first recommendation."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic

from .living import HOUR, at_work, connected, fcf_by_lot, founded, pauses, until

if TYPE_CHECKING:
    from entrenous_network.operate.plans import FoundingPlan

PEOPLE = 40  # before anybody joins
JOINERS = 5
AIM = 10.0  # seconds
ITEMS = 250


def joining(threads: int, progress: Progress) -> dict[str, Any]:
    """Under masks, by lot, over TLS, on one machine, while the server waits for a round that is an
    hour away: from the command that makes a key to the first list. The operator's answer comes at
    once. Two exchanges of files: the request, and the invitation; all else is the node's own
    connection.
    """
    from entrenous_network.operate.enrolment import identity, join
    from entrenous_network.operate.membership import invite
    from entrenous_network.operate.plans import JoinPlan

    users = PEOPLE + JOINERS
    data = synthetic(users=users, items=ITEMS, interactions=20 * users, seed=0)
    owner = JoinPlan(people=5)
    waited = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = founded(folder, data, PEOPLE, _plan(users), owner)
        with at_work(made.server), connected(made.devices):
            until(lambda: pauses(made.server), "the end of the first round")
            for number in range(JOINERS):
                progress(number, JOINERS, "joins")
                began = time.monotonic()
                device = folder / f"late-{number}"
                request = identity(device, device.name)
                (invitation,) = invite(folder / "f", [(request, 1)])
                join(device, invitation, data.of_users(np.array([PEOPLE + number])), owner)
                with connected([device]):
                    _first_list(device)
                    waited.append(time.monotonic() - began)
    progress(JOINERS, JOINERS, "measured")
    return {
        "seconds": round(statistics.median(waited), 2),
        "each": [round(one, 2) for one in waited],
        "exchanges": 2,
        "people": PEOPLE,
        "pace_seconds": HOUR,
        "ratio": max(waited) / AIM,
        "against": f"the limit of {AIM:g} s for the one who waits longest (below 1 is better)",
    }


def _plan(users: int) -> FoundingPlan:
    return fcf_by_lot(users, drawn=12, factors=8, people=7, deadline=1.0)


def _first_list(folder: Path) -> None:
    """Waits until a device recommends."""
    from entrenous_network.operate.device import Device

    with closing(Device(folder)) as device:

        def recommends() -> bool:
            with suppress(InputError):
                return bool(device.recommend().items)
            return False

        until(recommends, "the first list")


BENCHES = {"joining": joining}
