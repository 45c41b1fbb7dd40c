"""A server at work, as a process over TLS: somebody joins, an item comes, another one goes, and
nothing is restarted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from entrenous_network.agreement.catalogue import Items
from entrenous_network.operate.device import Device
from entrenous_network.operate.enrolment import identity, join
from entrenous_network.operate.founding import Place, found_federation, free_ports
from entrenous_network.operate.membership import change_items, invite
from entrenous_network.operate.plans import FoundingPlan, JoinPlan
from entrenous_network.operate.running import status
from federation_links import PATIENCE, logged, ratings
from service_processes import process

from entrenous.core.errors import InputError

# More than 128, so that the graph of masks is that of those who take part.
USERS = 130
PRESENT = 7
DATA = ratings(USERS, 16)
OWNER = JoinPlan(people=3, occupancy=0.0)


def until(happens: Callable[[], bool]) -> None:
    """Waits for an event, generously."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def test_somebody_joins_and_an_item_comes_while_the_server_runs(tmp_path: Path) -> None:
    plan = FoundingPlan(
        algorithm="fcf",
        endless=True,
        settings={"factors": 4, "cohort": 50},
        protect={"sampling": "poisson", "answers": 500, "people": 3, "noise": 0.1},
        deadline=1.0,
    ).with_catalogue(DATA.catalogue)
    folders = [tmp_path / f"device-{user}" for user in range(USERS)]
    requests = [(identity(folder, folder.name), 1) for folder in folders[:-1]]
    place = Place(port=free_ports()[0])
    made = found_federation(tmp_path / "f", Items.of(DATA), requests, plan, place)
    for user, folder in enumerate(folders[:PRESENT]):
        join(folder, made.nodes[folder.name], DATA.of_users([user]), OWNER)
    with ExitStack() as running:
        server = running.enter_context(process("server", made.server, "--pace", "0.1"))
        # As few processes as show it: the others are away, which holds up nobody.
        for folder in folders[:PRESENT]:
            running.enter_context(process("node", folder))
        until(lambda: status(made.server).get("round", 0) >= 2)
        # Somebody joins: one exchange of files, and one command.
        late = folders[-1]
        request = identity(late, late.name)
        (invitation,) = invite(tmp_path / "f", [(request, 1)])
        join(late, invitation, DATA.of_users([USERS - 1]), OWNER)
        running.enter_context(process("node", late))
        until(lambda: _recommends(late))
        # An item comes, and another one goes.
        gone = DATA.items[0]
        change_items(tmp_path / "f", _one_more(), [gone])
        until(lambda: _knows(folders[0], "new"))
        with Device(folders[0]) as device:
            device.consumed("new")
        until(lambda: "new" in _listed(late))
        assert gone not in _listed(late)
        assert server.poll() is None
    assert (
        sum("members, items or addresses have changed" in line for line in logged(made.server)) == 2
    )


def _one_more() -> Items:
    """The list of one new item, with the columns of the first list."""
    first = Items.of(DATA)
    features = {name: texts[:1] for name, texts in first.features.items()}
    places = None if first.places is None else first.places[:1]
    return Items(["new"], ["New"], places, features)


def _recommends(folder: Path) -> bool:
    return bool(_listed(folder))


def _listed(folder: Path) -> list[str]:
    """The items that a device recommends; none before its first model."""
    try:
        with Device(folder) as device:
            return [one["item"] for one in device.recommend(20).items]
    except InputError:
        return []


def _knows(folder: Path, item: str) -> bool:
    """Tells whether a node has an item on its list."""
    with Device(folder) as device:
        return item in device._node.items.ids
