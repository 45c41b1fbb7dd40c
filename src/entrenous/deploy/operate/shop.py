"""A shop in a federation by lot: the devices of its customers on one machine, in one folder.

Where devices take part by lot, a sum names its people, and each device decides by itself. So a shop
is no node with many users: each customer has a device with a key, a lot and a budget of answers of
that customer alone, and one process runs all of them.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

from ...core.errors import InputError
from ...core.lock import holding
from ...data.interactions import Interactions
from ..agreement.files import read_json
from ..node.node import FederatedNode
from ..node.node_store import NODE
from .device import Device
from .running_node import Say, polling


def devices_of(folder: Path) -> list[Path]:
    """Returns the folders of a shop's devices, in the order of their names; [] for a folder that is
    no shop's.
    """
    if (folder / NODE).exists() or not folder.is_dir():
        return []
    return sorted(path.parent for path in folder.glob(f"*/{NODE}"))


def device_of(folder: Path, user: str | None) -> Path:
    """Returns the folder of a customer's device, or a folder that is no shop's as it is. user: the
    customer's id; None = the first. Raises InputError for somebody who is no customer.
    """
    devices = devices_of(folder)
    if not devices:
        return folder
    if user is None:
        return devices[0]
    found = folder / name_of(user)
    if found not in devices:
        problem = f"none of the {len(devices)} customers has that id"
        raise InputError("--user", problem, expected="an id of the rows that the shop joined with")
    return found


def name_of(user: str) -> str:
    """Returns the name of a customer's folder: ids may have characters that no file can have."""
    return hashlib.sha256(user.encode()).hexdigest()[:16]


def add_to_shop(folder: Path, rows: Interactions, *, ignore_unknown: bool = False) -> int:
    """Adds new rows to the devices of a shop's customers, as `Device.add`. Returns the number of
    rows added. Raises InputError, before any is added, for rows of somebody who is no customer,
    unless these are left out with `ignore_unknown`.
    """
    known = set(devices_of(folder))
    of_customers = []
    for number, user in enumerate(rows.users.ids.tolist()):
        device = folder / name_of(user)
        if device in known:
            of_customers.append((device, rows.of_users(np.array([number]))))
        elif not ignore_unknown:
            raise InputError(
                rows.name,
                f"user {user} is no customer of {folder}",
                expected="rows of its customers",
                fix="join with a link and the rows of new ones, or leave them out:"
                " --ignore-unknown",
            )
    added = 0
    for device, own in of_customers:
        with Device(device) as opened:
            added += opened.add(own, ignore_unknown=ignore_unknown)
    return added


def run_shop(folder: Path, stop: threading.Event, say: Say, *, insecure: bool = False) -> None:
    """Runs the devices of a shop until `stop` is set. Raises InputError as `run_node` does."""
    from ..links.polling import serve  # with httpx, which only a node that runs needs

    devices = devices_of(folder)
    about = read_json(devices[0] / NODE)
    with ExitStack() as stack:
        stack.enter_context(holding(folder / "lock"))
        nodes = []
        for device in devices:
            # Nobody may run one of them by itself meanwhile.
            stack.enter_context(holding(device / "lock"))
            nodes.append(stack.enter_context(closing(FederatedNode(device))))
        rows = sum(len(node.rows) for node in nodes)
        say(f"{folder}: {len(nodes)} customers, {rows} rows, server {about['server']}")
        say(nodes[0].terms.limits())
        ca = devices[0] / "ca.crt"
        serve(
            about["server"],
            ca if ca.exists() else None,
            [polling(node) for node in nodes],
            stop,
            tls=about["tls"],
            insecure=insecure,
            say=say,
        )
