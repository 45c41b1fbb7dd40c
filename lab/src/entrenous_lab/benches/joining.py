"""How long somebody who joins a running federation waits for the first recommendation, and what
that costs its server.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic

from .footprint import Counted
from .living import at_work, connected, fcf_by_lot, founded, pauses, until
from .timing import cost

if TYPE_CHECKING:
    from entrenous_network.operate.plans import FoundingPlan

PEOPLE = 40  # before anybody joins
JOINERS = 5
AIM = 10.0  # seconds
ITEMS = 250
MEMBERS = 1_000_000  # before the first of JOINERS, where the server's cost is measured
MOST = 5.0, 20.0  # processor milliseconds and kB of a join
# Joins by a link, as often as it is told.
JOINS = """
import sys
from pathlib import Path
from entrenous_network.operate.joining import join_by_link
from entrenous_network.operate.plans import JoinPlan
for number in range(int(sys.argv[3])):
    join_by_link(Path(sys.argv[2]) / str(number), sys.argv[1], None, JoinPlan(people=20))
"""


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
        "people": PEOPLE,
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


def cost_of_a_join(threads: int, progress: Progress, devices: int = MEMBERS) -> dict[str, Any]:
    """What a join by a link costs a server of so many members, of whom none is there: processor
    milliseconds, and bytes both ways, of three questions over TLS, each on a connection of its own.
    The list of 250 items is among the bytes.
    """
    from entrenous_network.agreement.members import MEMBERS as LOG
    from entrenous_network.agreement.members import Member, Members
    from entrenous_network.operate.newcomers import make_link
    from entrenous_network.operate.plans import JoinPlan

    data = synthetic(users=JOINERS, items=ITEMS, interactions=20 * JOINERS, seed=0)
    plan = fcf_by_lot(devices + JOINERS, drawn=99, factors=8, people=20, deadline=1.0)
    with tempfile.TemporaryDirectory() as place:
        progress(0, 1, "members, then joins")
        server = founded(Path(place), data, 0, plan, JoinPlan()).server
        others = (Member(f"device-{n}", f"{n:064x}", n, n) for n in range(devices))
        Members(1).write(server / LOG, others)
        link = make_link(server.parent, uses=JOINERS, days=1, an_hour=JOINERS)
        with at_work(server), closing(Counted(link.server)) as line:
            until(lambda: pauses(server), "the end of the first round")
            near = str(link._replace(server=line.address))
            command = [sys.executable, "-c", JOINS, near, place, str(JOINERS)]
            used = cost(lambda: subprocess.run(command, check=True)).cpu
            kilobytes = line.bytes / JOINERS / 1000
    milliseconds = 1000 * used / JOINERS
    return {
        "members": devices,
        "server_cpu_ms": round(milliseconds, 1),
        "kilobytes": round(kilobytes, 1),
        "ratio": max(milliseconds / MOST[0], kilobytes / MOST[1]),
        "against": f"limits of {MOST[0]:g} ms and {MOST[1]:g} kB a join (below 1 is better)",
    }


BENCHES = {"joining": joining, "joining-cost": cost_of_a_join}
