"""The devices of a shop's customers, served to the shop's apps by one port: each request names its
customer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import final

from entrenous.core.errors import InputError, NotYet

from ..node.common import Common
from ..node.node_store import STORE, NodeStore, StoreStanding
from .device import Device
from .shop import device_of, devices_of

OPEN = 16  # devices at once: a shop may have more customers than a process may have files


@final
class ShopDevices:
    """The devices of a shop, as one port serves them; see `OneDevice`. `close` it.

    folder: the shop's. common: what its devices share.
    """

    def __init__(self, folder: Path, common: Common) -> None:
        self._folder = folder
        self._common = common
        self._open: OrderedDict[Path, Device] = OrderedDict()
        # Nobody closes a device that another request uses.
        self._turn = Lock()

    @contextmanager
    def of(self, user: str | None) -> Iterator[Device]:
        # The first of many people is nobody in particular, and `forget` cannot be undone.
        if user is None:
            raise InputError("user", "is missing", expected="the id of a customer")
        folder = device_of(self._folder, user)
        with self._turn:
            device = self._open.pop(folder, None)
            if device is None:
                device = Device(folder, common=self._common)
            self._open[folder] = device
            if len(self._open) > OPEN:
                _, oldest = self._open.popitem(last=False)
                oldest.close()
            yield device

    def check(self) -> None:
        self._standings()

    def check_ready(self) -> None:
        standings = self._standings()
        waiting = sum(standing.model is None for standing in standings)
        if waiting:
            problem = f"no model has come yet to {waiting} of {len(standings)} customers"
            raise NotYet(str(self._folder), problem, fix="wait until a round is over")

    def _standings(self) -> list[StoreStanding]:
        """Returns the progress of all devices. Raises EntrenousError for a store that cannot be
        read.
        """
        standings = []
        for device in devices_of(self._folder):
            with closing(NodeStore(device / STORE)) as store:
                standings.append(store.standing())
        return standings

    def close(self) -> None:
        """Closes the devices that are open."""
        with self._turn:
            for device in self._open.values():
                device.close()
            self._open.clear()
