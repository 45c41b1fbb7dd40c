"""The ledger: who sent how much. Counted from the updates themselves, never estimated."""

from __future__ import annotations

from typing import NamedTuple

from ..core.contract.protocols import State, arrays_of
from ..core.contract.update import Update


class Ledger(NamedTuple):
    """Counts of what a training sent, since round 0.

    bytes_up, bytes_down: bytes of arrays (framing excluded). rows_up: item rows sent. vectors:
    exchanged vectors as FPL section 6.3 counts them (items down and rows up). device_rounds:
    devices x rounds taken part in. Between peers, bytes_up are those that nodes send and bytes_down
    those that reach a node; messages: sent; lost: messages that did not arrive; refused: models
    that the receiver did not take."""

    bytes_up: int = 0
    bytes_down: int = 0
    rows_up: int = 0
    vectors: int = 0
    device_rounds: int = 0
    messages: int = 0
    lost: int = 0
    refused: int = 0

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
