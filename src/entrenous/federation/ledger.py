"""The ledger: who sent how much. Counted from the updates themselves, never estimated."""

from __future__ import annotations

from typing import NamedTuple

from ..core.protocols import State, arrays_of
from ..core.update import Update


class Ledger(NamedTuple):
    """Sums since round 0. bytes up and down: array payloads (framing excluded). rows_up: item rows sent. vectors: exchanged vectors
    as FPL section 6.3 counts them (items down and rows up). device_rounds: devices x rounds taken part in. Between peers every byte that a
    node sends goes up and every byte that reaches a node comes down; messages: sent; lost: of these, those that reached nobody; refused:
    models that the receiver did not take."""

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
        """After the server received `rows` rows in `nbytes` bytes."""
        return self._replace(bytes_up=self.bytes_up + nbytes, rows_up=self.rows_up + rows, vectors=self.vectors + rows)

    def plus(self, other: Ledger) -> Ledger:
        """The sum of two ledgers, count by count."""
        return Ledger(*(a + b for a, b in zip(self, other, strict=True)))
