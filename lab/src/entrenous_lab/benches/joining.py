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

from .living import at_work, connected, fcf_by_lot, founded, pauses, until
from .timing import cost

if TYPE_CHECKING:
    from entrenous_network.operate.plans import FoundingPlan

PEOPLE = 40  # before anybody joins
JOINERS = 5
AIM = 10.0  # seconds
ITEMS = 250
MEMBERS = 1_000_000  # before the first of CROWD, where the server's cost is measured
CROWD = 12  # three questions each: a server answers 40 of one address at once
MOST = 5.0, 20.0  # processor milliseconds and kB of a join
# Joins by a link, as often as it is told, and writes the bytes of it. All of this is in a process
# of its own, so that the server is alone in its own.
JOINS = """
import sys
from contextlib import closing
from pathlib import Path
from entrenous_lab.benches.footprint import Counted
from entrenous_network.agreement.join_link import JoinLink
from entrenous_network.operate.joining import join_by_link
from entrenous_network.operate.plans import JoinPlan
link = JoinLink.parse(sys.argv[1])
with closing(Counted(link.server)) as line:
    near = str(link._replace(server=line.address))
    for number in range(int(sys.argv[3])):
        join_by_link(Path(sys.argv[2]) / str(number), near, None, JoinPlan(people=20))
    (Path(sys.argv[2]) / "bytes").write_text(str(line.bytes))
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
    """What a join by a link costs a server of so many members, of whom none is there: the processor
    milliseconds of the server's process while CROWD devices join, the first since its start among
    them, one after the other, with what it does in pauses between them; and bytes both ways, of
    three questions over TLS, the list of 250 items among them.
    """
    from entrenous_network.agreement.members import MEMBERS as LOG
    from entrenous_network.agreement.members import Member, Members
    from entrenous_network.operate.newcomers import make_link
    from entrenous_network.operate.plans import JoinPlan

    data = synthetic(users=CROWD, items=ITEMS, interactions=999, seed=0)
    plan = fcf_by_lot(devices + 99, drawn=99, factors=8, people=20, deadline=1.0)
    with tempfile.TemporaryDirectory() as place:
        progress(0, 1, "members, then joins")
        server = founded(Path(place), data, 0, plan, JoinPlan()).server
        Members(1).write(
            server / LOG, (Member(f"device-{n}", f"{n:064x}", n, n) for n in range(devices))
        )
        link = make_link(server.parent, uses=99, days=1, an_hour=99)
        with at_work(server):
            until(lambda: pauses(server), "the end of the first round")
            command = [sys.executable, "-c", JOINS, str(link), place, str(CROWD)]
            used = cost(lambda: subprocess.run(command, check=True)).cpu
            kilobytes = int(Path(place, "bytes").read_text()) / CROWD / 1000
    milliseconds = 1000 * used / CROWD
    return {
        "members": devices,
        "server_cpu_ms": round(milliseconds, 1),
        "kilobytes": round(kilobytes, 1),
        "ratio": max(milliseconds / MOST[0], kilobytes / MOST[1]),
        "against": f"limits of {MOST[0]:g} ms and {MOST[1]:g} kB a join (below 1 is better)",
    }


BENCHES = {"joining": joining, "joining-cost": cost_of_a_join}
