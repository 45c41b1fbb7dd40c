"""Calls of device functions that are the same everywhere: their arguments cannot be written to, and
an error is one line.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..errors import EntrenousWarning
from ..types import Int64Array
from .declarations import Size, UpTo
from .declared import Contract, ContractError, read_only
from .enforce import check_same, check_update, vanishing
from .protocols import FederatedAlgorithm, Histories, State, arrays_of
from .update import Update

# Words of NumPy and numba for an array that cannot be written to.
SEALED = ("read-only", "readonly", "read only")


def local(
    contract: Contract,
    algorithm: FederatedAlgorithm,
    received: State,
    own: State,
    histories: Histories,
    users: Int64Array,
    key: np.uint64,
) -> tuple[State, Update]:
    """Calls `algorithm.local` with a download that is read-only. Raises ContractError, with the
    name of the array, where it writes to it."""
    try:
        return algorithm.local(received, own, histories, users, key)
    except Exception as error:
        if not any(word in str(error) for word in SEALED):
            raise
        name = _written(algorithm, received, own, histories, users, key)
        where = f"{contract.name}: download '{name}'" if name else f"{contract.name}: download"
        raise ContractError(
            where,
            "`local` writes to it",
            expected="what a device receives stays as it is; copy first",
        ) from None


def _written(
    algorithm: FederatedAlgorithm,
    received: State,
    own: State,
    histories: Histories,
    users: Int64Array,
    key: np.uint64,
) -> str:
    """Returns the first array of a download that `local` changes if it may; "" if there is none."""
    copy = type(received)(*(array.copy() for array in received))
    algorithm.local(copy, own, histories, users, key)
    before, after = arrays_of(received), arrays_of(copy)
    return next((name for name in before if before[name].tobytes() != after[name].tobytes()), "")


def try_local(
    contract: Contract,
    algorithm: FederatedAlgorithm,
    received: State,
    own: State,
    histories: Histories,
    users: Int64Array,
    key: np.uint64,
) -> None:
    """Trains some devices twice and keeps nothing: checks what they send against the declaration,
    and the second time against the first.

    Warns (EntrenousWarning) where all that a device sends would become 0 in fixed point. Raises
    ContractError.
    """
    mine = type(own)(*(array.copy() for array in own))
    private, update = local(contract, algorithm, received, mine, histories, users, key)
    for name, array in arrays_of(own).items():
        if array.tobytes() != arrays_of(mine)[name].tobytes():
            raise ContractError(
                f"{contract.name}: private state '{name}'",
                "`local` writes to it",
                expected="a new array returned",
            )
    check_update(contract, update, users, private, own)
    check_same(
        contract, update, local(contract, algorithm, received, mine, histories, users, key)[1]
    )
    if lost := vanishing(update):
        said = (
            f"all that {lost} of the {len(users)} devices tried out send becomes 0 in fixed point,"
            " whose step is 2^-16"
        )
        warnings.warn(
            f"{contract.name}: {said}; nothing is learnt from it: try a larger learning rate",
            EntrenousWarning,
            stacklevel=2,
        )


def of_devices(contract: Contract, delivered: State, rows: Int64Array) -> State:
    """The part of a delivered download that some of its devices receive, read-only. rows: int64,
    their places among the devices that it was delivered for."""
    own = {field.name for field in contract.receives if field.axes.sizes[:1] == ("devices",)}
    arrays = arrays_of(delivered)
    return read_only(
        type(delivered)(
            **{name: array[rows] if name in own else array for name, array in arrays.items()}
        )
    )


def delivered_to(contract: Contract, delivered: State, rows: Int64Array) -> State:
    """`of_devices` as it would have been delivered to these devices alone: without the tables that
    only others point to.
    """
    found = of_devices(contract, delivered, rows)
    arrays = dict(arrays_of(found))
    for index in contract.receives:
        tables = [
            field.name
            for field in contract.receives
            if _decided_by(field.axes.sizes[0], index.axes.below)
        ]
        if tables:
            used = np.unique(arrays[index.name][arrays[index.name] >= 0])
            places = np.searchsorted(used, arrays[index.name]).astype(arrays[index.name].dtype)
            arrays[index.name] = np.where(arrays[index.name] >= 0, places, arrays[index.name])
            arrays |= {name: arrays[name][used] for name in tables}
    return read_only(type(found)(**arrays))


def _decided_by(size: Size, below: str | int | None) -> bool:
    """Tells whether the devices of a delivery decide an array's first size, into which the numbers
    of another array point.
    """
    return isinstance(size, UpTo) and size.most == "devices" and size.name == below
