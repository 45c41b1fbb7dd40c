"""Many calls, such as the trials of a search, over the workers of a crew: each is made where and
when a worker is free.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.errors import EntrenousError, EntrenousWarning
from .crew import TRIES, Crew, WorkerDied


def spread(
    crew: Crew, first: tuple[str, Any], method: str, arguments: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    """Call `method` of the workers with each of `arguments`, and yield (place in `arguments`,
    result) as calls end. first: a method and its argument, called once on every worker before, and
    on each that replaces a dead one, whose call is then repeated.

    Raises EntrenousError when four workers have died at one call, and what the method raises.
    """
    waiting, busy, deaths = (
        list(range(len(arguments)))[::-1],
        dict[Any, tuple[int, int]](),
        Counter[int](),
    )
    while waiting or busy:
        for number in sorted({*range(crew.many)} - {number for number, _ in busy.values()})[
            : len(waiting)
        ]:
            place = waiting.pop()
            busy[crew.begin(number, method, *arguments[place])] = number, place
        ref = crew.ended([*busy])
        number, place = busy.pop(ref)
        try:
            result = crew.result(number, ref)
        except WorkerDied as died:
            deaths[place] += 1
            if deaths[place] == TRIES:
                raise EntrenousError(
                    f"{died}, {TRIES} times at the same work; out of memory?"
                ) from None
            warnings.warn(f"{died}; another begins its work again", EntrenousWarning, stacklevel=2)
            crew.renew([number])
            crew.begin(number, *first)
            waiting.append(place)
            continue
        yield place, result


def prepare(crew: Crew, first: tuple[str, Any]) -> tuple[str, Any]:
    """Give every worker what it needs for all calls. Returns `first` for `spread`, with its
    argument stored once on each machine."""
    kept = first[0], crew.put(first[1])
    list(crew.call(kept[0], {number: kept[1:] for number in range(crew.many)}))
    return kept
