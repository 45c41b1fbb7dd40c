"""A list of items that grows while a federation runs: items are added at its end, or retired.

The terms name the list of the founding, by its size and root. The terms that a program reads by
`current_terms` are those of the list of now, with the identity of the founding.
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

from .catalogue import ITEMS, ItemLog
from .terms import TERMS, FederationTerms

# In a server's folder: the bytes of the list with which it works. The operator may have appended
# more, which it makes its own between two rounds: answers to one round are all about one list, also
# after a server was killed in the midst of it.
LISTED = "listed"


def listed(folder: Path) -> int | None:
    """Returns the bytes of the list that count in a folder; None = all of them. Raises InputError
    for a file that says none.
    """
    path = folder / LISTED
    if not path.exists():
        return None
    try:
        return int(path.read_text())
    except ValueError:
        fix = f"remove it; all of {ITEMS} counts then"
        raise InputError(str(path), "no number of bytes", expected="one", fix=fix) from None


def current_terms(folder: Path) -> FederationTerms:
    """Returns the terms of the federation in a folder, with the list of items of now. Raises
    InputError for terms that are none.
    """
    terms = FederationTerms.read(folder / TERMS)
    return terms.with_items(current_items(folder, terms))


def current_items(folder: Path, terms: FederationTerms) -> ItemLog:
    """Returns the list of items of now. Raises InputError for a list that does not begin as that of
    the terms.
    """
    items = ItemLog()
    path = folder / ITEMS
    items.follow(path, listed(folder))
    # Nodes that number items otherwise would train on each other's rows of other items.
    tree = items.tree
    if len(tree) < terms.listed or tree.root(terms.listed).hex() != terms.items_root:
        fix = f"get the {ITEMS} that belongs to {TERMS}"
        raise InputError(str(path), "not the list of items of the terms", fix=fix)
    return items


def first_state(items: ItemLog, terms: FederationTerms, algorithm: FederatedAlgorithm) -> State:
    """Returns the state of a server before its first round, which follows from the terms and the
    items.
    """
    catalogue = terms.catalogue
    # The only place where a server needs what is known of the items: its state has it from then on.
    if declared(algorithm).traits.learns_features:
        catalogue = catalogue._replace(features=items.items.known)
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
