"""A two-way map between the external ids of a data set and dense indices 0..n-1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import final

import numpy as np

from .errors import InputError, did_you_mean
from .types import Array, Int32Array


def text_array(texts: Iterable[object]) -> Array:
    """Returns texts as strings of Python, object [n]. In an array of NumPy's own text type, one
    text of 250 characters makes each of the others as wide.
    """
    listed = [str(text) for text in texts]
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


@final
class Vocabulary:
    """A two-way map between n external ids, as text, and the numbers 0..n - 1. Without explicit ids
    (synthetic data) the id of number 7 is "7" and costs no memory.
    """

    def __init__(
        self,
        ids: Array | Sequence[object] | None = None,
        *,
        size: int | None = None,
        kind: str = "id",
        whole: str = "",
    ) -> None:
        self._ids = None if ids is None else text_array(ids)
        self.size = int(size) if self._ids is None and size is not None else len(self.ids)
        self.kind = kind
        self.whole = whole
        """The NumPy type, such as int32, of ids that were whole numbers; "" = they were text."""

    @property
    def is_range(self) -> bool:
        """Tells whether the ids are just the numbers 0..n - 1 as text."""
        return self._ids is None

    def __len__(self) -> int:
        return self.size

    @cached_property
    def ids(self) -> Array:
        """All external ids in index order, text [n] (see `text_array`)."""
        if self._ids is None:
            return text_array(np.arange(self.size))
        return self._ids

    @cached_property
    def given(self) -> Array:
        """All ids in index order in the type in which they came: int [n] or text [n]."""
        return self.ids.astype(self.whole) if self.whole else self.ids

    def some(self, chosen: Array) -> Vocabulary:
        """Returns the vocabulary of some ids, by their numbers or by a mask, in that order."""
        return Vocabulary(self.ids[chosen], kind=self.kind, whole=self.whole)

    def same(self, other: Vocabulary) -> bool:
        """Tells whether both give the same ids the same numbers."""
        if self is other:
            return True
        if self.is_range and other.is_range:
            return len(self) == len(other)
        return np.array_equal(self.ids, other.ids)

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
            raise InputError(
                self.kind,
                f"unknown {self.kind} '{name}'",
                expected=f"one of {len(self)} ids",
                fix=self.hint(name),
            )
        return number

    def hint(self, name: object) -> str:
        """Returns what may have been meant by an unknown id: the nearest one, or an example."""
        # Of a short text, nearly any id is near.
        if len(str(name)) <= 2 and self.size:
            return f"for example '{self[0]}'"[:200]
        # To compare with every id of a large vocabulary would take seconds.
        compared = self._index if len(self) <= 100_000 else list(self._index)[:1000]
        return did_you_mean(str(name), compared)[:200]

    def indices(self, names: Sequence[object]) -> Int32Array:
        """Returns the indices of many external ids; an unknown one is -1."""
        return np.array([self._index.get(str(name), -1) for name in names], np.int32)
