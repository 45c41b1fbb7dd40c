"""The arguments of a Python caller (classes, instances, frames, functions), in the form that a run
takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ..algorithms.named import algorithms
from ..core.contract.settings import Settings
from ..core.errors import InputError
from ..core.registry.own import place_of
from ..data.interactions import Interactions
from ..data.load import from_frame, load_arguments
from ..data.load import load as load_rows
from ..data.split.types import Split
from ..evaluate.metric_kinds import ListMetric, Metric, QueryMetric, RatingMetric

SplitAsked: TypeAlias = str | Split | Sequence[Split] | Callable[..., Any]
KINDS = (QueryMetric, ListMetric, RatingMetric)


def algorithm_asked(algorithm: Any) -> tuple[str, dict[str, Any]]:
    """The name (or place) of an algorithm and its settings, from a name, a class, or an instance,
    whose settings are those that differ from the defaults. Raises InputError for anything else."""
    if isinstance(algorithm, str):
        return algorithm, {}
    kind = algorithm if isinstance(algorithm, type) else type(algorithm)
    if not issubclass(kind, Settings):
        expected = (
            "a name of `entrenous algorithms`, or a class or an instance of entrenous.Settings"
        )
        raise InputError("algorithm", f"got {kind.__name__}", expected=expected)
    changed = {}
    if not isinstance(algorithm, type):
        values = dict(algorithm)
        for name, field in kind.model_fields.items():
            if values[name] != field.get_default(call_default_factory=True):
                changed[name] = values[name]
    return _named(kind), changed


def _named(kind: type) -> str:
    """The name under which a class is offered without presets, or its place."""
    plain = [name for name, maker in algorithms().items() if maker is kind]
    return plain[0] if plain else place_of(kind)


def data_asked(data: Any) -> str | Interactions:
    """A data set's name, a path as text, or interactions made from a frame, tuples or a sparse
    matrix (`data.frames.from_any`).
    """
    if isinstance(data, str | Path):
        return str(data)
    return data if isinstance(data, Interactions) else from_frame(data)


def named_rows(data: Any) -> tuple[str, Interactions | None]:
    """The name of the data, and the rows where they are at hand: see `data_asked`."""
    rows = data_asked(data)
    return (rows, None) if isinstance(rows, str) else (rows.name, rows)


def split_asked(
    split: SplitAsked | None, data: str | Interactions, seed: int, load: Mapping[str, Any]
) -> tuple[str | None, list[Split]]:
    """(protocol, the user's own splits): from a protocol's name, a Split, one for each fold, or a
    function (data, seed=...) that makes them.

    Raises InputError where a function returns anything else.
    """
    if split is None or isinstance(split, str):
        return split, []
    made: Any = split
    if not isinstance(split, Split) and callable(split):
        rows = load_rows(data, **load_arguments(load)) if isinstance(data, str) else data
        made = split(rows, seed=seed)
    parts = [made] if isinstance(made, Split) else list(made)
    if not parts or not all(isinstance(part, Split) for part in parts):
        raise InputError(
            "split",
            f"got {made!r:.60}",
            expected="an entrenous.Split, or a list of them, one for each fold",
        )
    return None, parts


def metrics_asked(metrics: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Metric]:
    """Metrics by name, from {name: metric} or a list of functions, whose names are theirs. A plain
    function (ranking, n) -> one value a query is a QueryMetric. Raises InputError for anything
    else.
    """
    if not isinstance(metrics, Mapping):
        metrics = {_name_of(metric): metric for metric in metrics or ()}
    named: dict[str, Metric] = {}
    for name, metric in metrics.items():
        if not callable(metric) and not isinstance(metric, KINDS):
            raise InputError(
                f"metrics {name}",
                f"got {type(metric).__name__}",
                expected="a function (ranking, n), or a QueryMetric",
            )
        named[name] = metric if isinstance(metric, KINDS) else QueryMetric(metric)
    return named


def _name_of(metric: Any) -> str:
    function = metric.value if isinstance(metric, KINDS) else metric
    function = function.func if isinstance(function, partial) else function
    return str(getattr(function, "__name__", metric))
