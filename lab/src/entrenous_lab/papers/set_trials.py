"""Candidates for settings, each with its accuracy on validation rows and with what its final model
tells of people because they took part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from entrenous.report.figures import FigureFormat, scatter
from entrenous.runs.plan import in_words

from .result import Row
from .set_runner import KNOWN, VALIDATION, SetRunner, Settings
from .table import seed_row

TELLS = {share: f"tells by participation, {words}" for words, share in KNOWN.items()}


def candidates(grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Returns every combination of the values of a grid.

    >>> candidates({"a": (1, 2), "b": (3,)})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


class Tried(NamedTuple):
    """A candidate on one data set, a figure for each seed of the choice."""

    settings: Settings
    validation: Sequence[float]
    tells: Mapping[float, Sequence[float]]
    """R-precision by participation, for each share that the attacker knows beforehand."""

    @property
    def accuracy(self) -> float:
        """The mean accuracy on validation rows."""
        return float(np.mean(self.validation))

    @property
    def most(self) -> float:
        """What the model tells by participation, on average, to the attacker who finds most, with
        the standard error of that: of several candidates at the bound the one that seems to tell
        least was lucky.
        """
        return max(_with_its_error(told) for told in self.tells.values())


def _with_its_error(values: Sequence[float]) -> float:
    """The mean of some values plus its standard error; of a single value the value.

    >>> round(_with_its_error([0.01, 0.03]), 4), _with_its_error([0.01])
    (0.03, 0.01)
    """
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values) + error)


def tried_by(
    runner: SetRunner,
    algorithm: str,
    settings: Settings,
    seeds: Sequence[int],
    tell: Callable[[str], None],
) -> Tried:
    """Trains and attacks a candidate with the seeds of the choice."""
    tell(f"{runner.data.name}: {algorithm} {dict(settings)}")
    tells = told_by(runner, algorithm, settings, seeds)
    validation = [runner.validation(algorithm, settings, seed) for seed in seeds]
    return Tried(settings, validation, tells)


def told_by(
    runner: SetRunner, algorithm: str, settings: Settings, seeds: Sequence[int]
) -> dict[float, list[float]]:
    """What models tell by participation, by the known share, for each seed."""
    of_seeds = [runner.tells(algorithm, settings, seed) for seed in seeds]
    return {share: [told[share] for told in of_seeds] for share in KNOWN.values()}


def tried_rows(
    algorithm: str, runner: SetRunner, tried: Sequence[Tried], why: str, seeds: Sequence[int]
) -> Iterator[Row]:
    """Yields a row for each figure of each candidate. why: they were tried, in words."""
    for one in tried:
        said = in_words(one.settings)
        numbers = ", ".join(map(str, seeds))
        protocol = (
            f"{runner.protocol}; profile {runner.profile}; {said}; seeds {numbers}, trained on"
            f" training rows; one of those tried {why}"
        )
        figures = {VALIDATION: one.validation} | {
            TELLS[share]: told for share, told in one.tells.items()
        }
        for metric, values in figures.items():
            yield seed_row(
                runner.data.name,
                f"{algorithm}, {said}",
                metric,
                list(values),
                None,
                protocol,
                seeds=list(seeds),
            )


def fronts(algorithm: str, tried: Mapping[str, Sequence[Tried]]) -> Iterator[tuple[str, str]]:
    """Yields a figure for each data set: accuracy over what is told by participation, a colour for
    each value of the first setting that varies.
    """
    for name, mine in tried.items():
        setting = _first_that_varies([one.settings for one in mine])
        series: dict[str, tuple[list[float], list[float]]] = {}
        for one in mine:
            label = f"{setting} {one.settings[setting]:g}"
            told, accuracy = series.setdefault(label, ([], []))
            told.append(float(np.mean(one.tells[0.5])))
            accuracy.append(one.accuracy)
        look = FigureFormat(
            title=f"{algorithm}, {name}",
            x_label="told by participation, half of each history known",
            y_label="HR@10 on validation rows",
        )
        yield f"{algorithm.replace('+', '-plus')}-{name}", scatter(series, look)


def _first_that_varies(several: Sequence[Settings]) -> str:
    """The name of the first setting that has more than one value.

    >>> _first_that_varies([{"alpha": 3, "factors": 8}, {"alpha": 3, "factors": 16}])
    'factors'
    """
    names = list(several[0])
    varied = (name for name in names if len({one[name] for one in several}) > 1)
    return next(varied, names[0])
