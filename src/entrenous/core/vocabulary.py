"""A two-way map between the external ids of a data set and dense indices 0..n-1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np

from .errors import InputError, did_you_mean
from .types import Array, Int32Array


@final
class Vocabulary:
    """A two-way map between n external ids, as text, and the numbers 0..n - 1. Without explicit ids
    (synthetic data) the id of number 7 is "7" and costs no memory.
    """

    def __init__(
        self, ids: Array | Sequence[str] | None = None, *, size: int | None = None, kind: str = "id"
    ) -> None:
        self._ids = None if ids is None else np.asarray(ids, dtype=np.str_)
        self.size = int(size) if self._ids is None and size is not None else len(self.ids)
        self.kind = kind

    @property
    def is_range(self) -> bool:
        """Tells whether the ids are just the numbers 0..n - 1 as text."""
        return self._ids is None

    def __len__(self) -> int:
        return self.size

    @cached_property
    def ids(self) -> Array:
        """All external ids in index order, text [n]."""
        if self._ids is None:
            return np.arange(self.size).astype(np.str_)
        return self._ids

    @cached_property
    def _index(self) -> dict[str, int]:
        return {str(name): number for number, name in enumerate(self.ids)}

    def __getitem__(self, index: int) -> str:
        if self._ids is None:
            return str(index)
        return str(self._ids[index])

    def __contains__(self, name: object) -> bool:
        return str(name) in self._index

    def index(self, name: object) -> int:
        """Returns the index of an external id. Raises InputError that names the nearest one."""
        number = self._index.get(str(name))
        if number is None:
            # To compare with every id of a large vocabulary would take seconds.
            compared = self._index if len(self) <= 100_000 else list(self._index)[:1000]
            # Of a short text, nearly any id is near.
            if len(str(name)) > 2 or not self.size:
                hint = did_you_mean(str(name), compared)
            else:
                hint = f"for example '{self[0]}'"
            raise InputError(
                self.kind,
                f"unknown {self.kind} '{name}'",
                expected=f"one of {len(self)} ids",
                fix=hint[:200],
            )
        return number

    def indices(self, names: Sequence[object]) -> Int32Array:
        """Returns the indices of many external ids; an unknown one is -1."""
        return np.array([self._index.get(str(name), -1) for name in names], np.int32)
