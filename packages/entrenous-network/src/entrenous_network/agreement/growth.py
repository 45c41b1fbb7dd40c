"""A list of items that grows while a federation runs: items are added at its end, or retired.

The terms name the list of the founding. A longer one is `longer-items.json` next to it, at the
server and at each node that has taken it; the terms that a program reads by `current_terms` are
those of the longer list, with the identity of the founding. Numbers of items never change, so that
an old row means the same item for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from entrenous.core.contract.declared import Contract, DeclaredArray, declared
from entrenous.core.contract.protocols import FederatedAlgorithm, State
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.core.types import Array

from .catalogue import ITEMS, Items
from .terms import TERMS, FederationTerms

LONGER = "longer-items.json"
# The operator's newest list, which the server makes its own between two rounds: answers to one
# round are all about one list, also after a server was killed in the midst of it.
NEXT = "next-items.json"


def current_terms(folder: Path) -> FederationTerms:
    """Returns the terms of the federation in a folder, with the list of items of now. Raises
    InputError for terms that are none.
    """
    terms = FederationTerms.read(folder / TERMS)
    if not (folder / LONGER).exists():
        return terms
    return terms.with_items(current_items(folder, terms))


def current_items(folder: Path, founding: FederationTerms) -> Items:
    """Returns the list of items of now. founding: the terms as they were signed. Raises InputError
    for a list that is none.
    """
    longer = folder / LONGER
    if longer.exists():
        return read_items(longer)
    return Items.read(folder / ITEMS, founding.items_sha256)


def read_items(file: Path) -> Items:
    """Returns the items of a longer list. Raises InputError for a file that has none."""
    return Items.parse(file.read_text(encoding="utf-8"), str(file))


def first_state(folder: Path, terms: FederationTerms, algorithm: FederatedAlgorithm) -> State:
    """Returns the state of a server before its first round, which follows from the terms. folder:
    of the federation or of a node, with the items.
    """
    catalogue = terms.catalogue
    # The only place where a server needs what is known of the items: its state has it from then on.
    if declared(algorithm).traits.learns_features:
        catalogue = catalogue._replace(features=current_items(folder, terms).known)
    return algorithm.init_server(catalogue, key(terms.seed, "server"))


def in_corner(before: Array, longer: Array) -> Array:
    """Returns an array of the shape of `longer` that begins with `before` along each axis; what is
    beyond it is of `longer`.

    >>> in_corner(np.array([[1, 2]]), np.zeros((2, 3), int)).tolist()
    [[1, 2, 0], [0, 0, 0]]
    """
    out = longer.copy()
    out[tuple(slice(length) for length in before.shape)] = before
    return out


def grown(before: State, longer: State) -> State:
    """Returns a server's state in which each array begins as that of `before`; what is beyond it is
    of `longer`, the state of more items.
    """
    arrays = [in_corner(*both) for both in zip(before, longer, strict=True)]
    return type(longer)(*arrays)


def check_growing(contract: Contract) -> None:
    """Raises InputError for an algorithm whose devices keep numbers for each item, which would have
    to grow on every device."""
    for field in contract.keeps:
        if "items" in field.axes.sizes and not field.own_rows:
            raise InputError(
                "--algorithm",
                f"devices of {contract.name} keep '{field.name}' of every item",
                expected="one whose devices keep nothing of items, such as fcf or fpl",
                fix="found the federation anew with all items",
            )


def items_in(arrays: Mapping[str, Array], fields: tuple[DeclaredArray, ...], most: int) -> int:
    """Returns the number of items of which all arrays have numbers, at most `most`. fields: as in
    `with_more_items`.
    """
    counts = [
        arrays[field.name].shape[field.axes.sizes.index("items")]
        for field in fields
        if "items" in field.axes.sizes
    ]
    return min(counts, default=most)


def with_more_items(
    arrays: Mapping[str, Array], fields: tuple[DeclaredArray, ...], items: int
) -> dict[str, Array]:
    """Returns arrays in which each axis of items is `items` long, with zeros at its end. fields:
    what devices receive, as an algorithm declares it.
    """
    longer = {}
    for field in fields:
        before = arrays[field.name]
        sizes = zip(field.axes.sizes, before.shape, strict=True)
        shape = [items if size == "items" else length for size, length in sizes]
        longer[field.name] = in_corner(before, np.zeros(shape, before.dtype))
    return longer
