"""What devices receive, as bytes: read strictly against the algorithm's declaration, ranges and
finite numbers included.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...core.contract.declarations import Size, UpTo, upper_bound
from ...core.contract.declared import Contract, read_only
from ...core.contract.enforce import check_arrays
from ...core.contract.protocols import State, arrays_of
from ...core.types import Array
from .tensors import Buffer, Extent, TensorField, parts, read

BOOLEAN = TensorField("u1", ())  # booleans do not travel: bytes of 0 and 1 do


def write_download(download: State, more: Mapping[str, Array]) -> list[Buffer]:
    """A download, and further arrays, as the bytes that `read_download` reads, in parts: views of
    the arrays where these lie.
    """
    arrays = arrays_of(download)
    return parts(
        {
            **{
                name: array.view(np.uint8) if array.dtype == np.bool_ else array
                for name, array in arrays.items()
            },
            **more,
        }
    )


def read_download(
    body: Buffer, contract: Contract, devices: int, more: Mapping[str, TensorField]
) -> tuple[State, dict[str, Array]]:
    """A download for as many devices, read-only, and the further arrays that were agreed on.

    Raises wire.tensors.Malformed for other names, types, shapes or layouts, and ContractError for a
    value that the declaration excludes."""
    arrays = read(body, {**download_schema(contract, devices), **more})
    own = {field.name: _as_declared(arrays[field.name], field.dtype) for field in contract.receives}
    check_arrays(contract, "download", contract.receives, own, {"devices": devices})
    kind = contract.declaration.receives
    assert kind is not None  # of an algorithm whose devices receive something
    return read_only(kind(**own)), {name: arrays[name] for name in more}


def download_schema(contract: Contract, devices: int) -> dict[str, TensorField]:
    """The names, types and shapes of a download for as many devices."""
    return {
        field.name: TensorField(
            _kind(field.dtype), tuple(_extent(contract, size, devices) for size in field.axes.sizes)
        )
        for field in contract.receives
    }


def _kind(dtype: str) -> str:
    return BOOLEAN.dtype if dtype == "bool" else dtype


def _extent(contract: Contract, size: Size, devices: int) -> Extent:
    """A number; for a size that the arrays decide, from 0 to the most it may be."""
    number = devices if upper_bound(size) == "devices" else contract.size(size)
    return (0, number) if isinstance(size, UpTo) else number


def _as_declared(array: Array, dtype: str) -> Array:
    return array != 0 if dtype == "bool" else array
