"""Many calls, such as the trials of a search, over the workers of a crew: each goes to the first
free worker.
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
    """Calls `method` of the workers with each of `arguments`, and yields (place in `arguments`,
    result) as calls end.

    first: a method and its argument, which every worker was given before. A worker that replaces a
    dead one is given it too, and the call is repeated. Raises EntrenousError when four workers have
    died at one call, and the errors of the method.
    """
    waiting = list(range(len(arguments)))[::-1]
    # {reference of a started call: (number of its worker, place in `arguments`)}
    busy: dict[Any, tuple[int, int]] = {}
    deaths = Counter[int]()
    while waiting or busy:
        working = {number for number, _ in busy.values()}
        # Each worker has one call at a time: the next goes to whoever is free.
        free = [number for number in range(crew.many) if number not in working]
        for number in free[: len(waiting)]:
            place = waiting.pop()
            busy[crew.begin(number, method, *arguments[place])] = number, place
        ref = crew.ended([*busy])
        number, place = busy.pop(ref)
        try:
            result = crew.result(number, ref)
        except WorkerDied as died:
            # Counted by the work: work that kills its worker would kill them all, one by one.
            deaths[place] += 1
            if deaths[place] == TRIES:
                raise EntrenousError(
                    f"{died}, {TRIES} times at the same work; out of memory?"
                ) from None
            warnings.warn(f"{died}; another begins its work again", EntrenousWarning, stacklevel=2)
            crew.renew([number])
            # Calls of one worker keep their order, so there is no need to wait for this one.
            crew.begin(number, *first)
            waiting.append(place)
            continue
        yield place, result


def prepare(crew: Crew, first: tuple[str, Any]) -> tuple[str, Any]:
    """Calls a method of every worker before all other calls. Returns `first` for `spread`, with its
    argument stored once on each machine.
    """
    method, argument = first
    stored = crew.put(argument)
    list(crew.call(method, dict.fromkeys(range(crew.many), (stored,))))
    return method, stored
