"""The model that a federation begins with, if it was trained elsewhere: in a simulation, on public
data, or in another federation. Items are matched by their ids; items that the model does not have
begin as they would without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from entrenous.core.contract.protocols import FederatedAlgorithm, State, arrays_of
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.core.registry.discover import short
from entrenous.core.types import Array
from entrenous.runs import store
from entrenous.runs.recommenders import without_prefix

from ..agreement.catalogue import Items
from ..agreement.files import OLD_FORMATS
from ..agreement.growth import current_items
from ..agreement.terms import TERMS, FederationTerms
from ..server.server_folder import MODEL, PHASE
from ..wire.completed import completed

OPTION = "--from-model"
RUNS = Path("runs")
OLD_LISTS = ("longer-items.json", "items.json")  # of OLD_FORMATS, the newer one first


class TrainedModel(NamedTuple):
    """A server's arrays, and the items that they are about."""

    algorithm: str
    arrays: Mapping[str, Array]
    """By the names that the algorithm gives them."""
    items: Sequence[str]
    """External ids, in the order of the rows."""


class FirstModel(NamedTuple):
    """The arrays of a server before its first round."""

    arrays: dict[str, Array]
    known: int
    """The number of items that the trained model has."""


@completed
class OldTerms(msgspec.Struct, frozen=True):
    """The terms of a federation of an old format, as far as its model needs them."""

    format: int
    algorithm: str


@completed
class OldItems(msgspec.Struct, frozen=True):
    """The list of items of a federation of an old format."""

    ids: list[str]


def trained_model(source: Path) -> TrainedModel:
    """Reads the newest model of a federation's server, by its folder, or the model of a stored run.
    Raises InputError for anything else.
    """
    for folder in (source, source / "server"):
        if (folder / TERMS).exists():
            return _of_server(folder)
    # Here, since every server and node loads this file, and hardly any founding opens a run.
    from entrenous.runs.reopen import reopen

    run = store.read(str(source), RUNS)
    opened = reopen(run, candidates=False)
    items = [str(item) for item in opened.train.items.ids]
    return TrainedModel(
        str(run.manifest["algorithm"]), without_prefix("server", opened.arrays), items
    )


def _of_server(folder: Path) -> TrainedModel:
    """Returns the newest model in a server's folder."""
    algorithm, items = _old(folder) or _current(folder)
    if (folder / MODEL).exists():
        arrays, _ = store.read_arrays(folder / MODEL)
    else:
        newest = store.newest_checkpoint(folder, PHASE)
        if newest is None:
            problem = "no round of this federation is over"
            raise InputError(OPTION, problem, expected="a model that was trained")
        arrays = newest.arrays
    return TrainedModel(algorithm, without_prefix("server", arrays), items)


def _current(folder: Path) -> tuple[str, list[str]]:
    """Returns the algorithm and the items of a federation."""
    terms = FederationTerms.read(folder / TERMS)
    return terms.algorithm, current_items(folder, terms).items.ids


def _old(folder: Path) -> tuple[str, list[str]] | None:
    """Returns the algorithm and the items of a federation of an old format; None for another
    format. Raises InputError for a list that cannot be read.
    """
    try:
        terms = msgspec.json.decode((folder / TERMS).read_bytes(), type=OldTerms)
    except (OSError, ValueError, RecursionError):
        return None
    if terms.format not in OLD_FORMATS:
        return None
    # Its nodes and its log are not read: only what the model is about has kept its meaning.
    path = next((folder / name for name in OLD_LISTS if (folder / name).exists()), folder)
    try:
        return terms.algorithm, msgspec.json.decode(path.read_bytes(), type=OldItems).ids
    except (OSError, ValueError, RecursionError) as bad:
        problem = f"no list of items of format {terms.format} ({type(bad).__name__})"
        raise InputError(str(path), problem, expected='{"ids": [...]}') from None


def first_model(
    source: Path, algorithm: FederatedAlgorithm, terms: FederationTerms, items: Items
) -> FirstModel:
    """Returns the arrays with which a federation begins from a trained model.

    Raises InputError for a model of another algorithm, of other sizes, or of none of the items.
    """
    trained = trained_model(source)
    if short(trained.algorithm) != short(terms.algorithm):
        problem = f"{source} is a model of {short(trained.algorithm)}"
        raise InputError(OPTION, problem, expected=f"one of {short(terms.algorithm)}")
    place_of = {item: place for place, item in enumerate(trained.items)}
    pairs = [(here, place_of[item]) for here, item in enumerate(items.ids) if item in place_of]
    if not pairs:
        problem = f"none of the {len(items.ids)} items is one of {source}"
        raise InputError(OPTION, problem, expected="a model of some of them")
    here, there = np.array(pairs).T
    first = _first(algorithm, terms, terms.items)
    longer = arrays_of(_first(algorithm, terms, terms.items + 1))
    out = {}
    for name, array in arrays_of(first).items():
        before = trained.arrays.get(name)
        axis = _axis_of_items(array, longer[name])
        out[name] = array.copy()
        # All but the axis of items must be alike.
        expected = list(array.shape)
        if axis is not None:
            expected[axis] = len(trained.items)
        if before is None or list(before.shape) != expected or before.dtype != array.dtype:
            sizes = "none" if before is None else f"sizes {before.shape}"
            raise InputError(
                OPTION,
                f"its '{name}' has {sizes}",
                expected=f"{tuple(expected)}, as the settings here say",
                fix="found it with the settings of that model",
            )
        if axis is None:
            out[name] = before
        else:
            rows = np.moveaxis(out[name], axis, 0)
            rows[here] = np.moveaxis(before, axis, 0)[there]
    return FirstModel(out, len(pairs))


def _first(algorithm: FederatedAlgorithm, terms: FederationTerms, items: int) -> State:
    """Returns the first state of a server with so many items."""
    catalogue = terms.catalogue._replace(items=items)
    return algorithm.init_server(catalogue, key(terms.seed, "server"))


def _axis_of_items(array: Array, longer: Array) -> int | None:
    """Returns the axis that counts items: the one along which the same array of one item more is
    longer; None where there is none.
    """
    for axis, (length, more) in enumerate(zip(array.shape, longer.shape, strict=True)):
        if length != more:
            return axis
    return None
