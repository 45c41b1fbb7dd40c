"""The ledger of sent bytes. They are counted from the updates themselves, never estimated."""

from __future__ import annotations

from typing import NamedTuple

from ..core.contract.protocols import State, arrays_of
from ..core.contract.update import Update


class Ledger(NamedTuple):
    """The traffic of a training since round 0."""

    bytes_up: int = 0
    """Bytes of arrays (framing excluded) that devices sent."""
    bytes_down: int = 0
    """Bytes of arrays that reached devices."""
    rows_up: int = 0
    """Item rows sent."""
    vectors: int = 0
    """Exchanged vectors as FPL section 6.3 counts them: items down and rows up."""
    device_rounds: int = 0
    """The sum over rounds of the devices that took part."""
    messages: int = 0
    """Messages sent between peers."""
    lost: int = 0
    """Messages that did not arrive."""
    refused: int = 0
    """Models that their receiver did not take."""

    def down(self, received: State, devices: int, items: int) -> Ledger:
        """The ledger after `devices` devices each received the arrays `received`."""
        size = sum(array.nbytes for array in arrays_of(received).values())
        return self._replace(
            bytes_down=self.bytes_down + size * devices,
            vectors=self.vectors + items * devices,
            device_rounds=self.device_rounds + devices,
        )

    def up(self, update: Update) -> Ledger:
        """The ledger after the server received `update`."""
        return self.up_counts(len(update.item), update.nbytes)

    def up_counts(self, rows: int, nbytes: int) -> Ledger:
        """The ledger after the server received `rows` item rows in `nbytes` bytes."""
        return self._replace(
            bytes_up=self.bytes_up + nbytes,
            rows_up=self.rows_up + rows,
            vectors=self.vectors + rows,
        )

    def plus(self, other: Ledger) -> Ledger:
        """The sum of two ledgers, count by count."""
        return Ledger(*(a + b for a, b in zip(self, other, strict=True)))
