"""What devices receive, over the wire: read back to the bit for every algorithm with a server, and
refused where a well-formed message holds a value that the declaration excludes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_network.frames.request import download_schema, read_download, write_download
from entrenous_network.wire import tensors
from entrenous_network.wire.tensors import Malformed, TensorField
from small_federations import shop

from entrenous.core.contract.declared import ContractError, bound, is_federated
from entrenous.core.contract.protocols import arrays_of
from entrenous.core.keys import key
from entrenous.systems.named import algorithms

DATA = shop()
RATED = DATA.catalogue._replace(scale=(1.0, 5.0))
NAMES = [name for name, make in sorted(algorithms().items()) if is_federated(make())]


def delivered(name: str, users: list[int]) -> tuple[Any, Any]:
    """The contract, and the first download for some users."""
    algorithm = algorithms()[name]().configured(RATED)
    contract = bound(algorithm, RATED)
    return contract, contract.delivered(
        algorithm.download(algorithm.init_server(RATED, key(1, "server"))), np.array(users)
    )


def written(download: Any, **more: Any) -> bytes:
    return b"".join(write_download(download, more))


@pytest.mark.parametrize("name", NAMES)
def test_a_download_comes_back_to_the_bit(name: str) -> None:
    contract, download = delivered(name, [1, 4, 5])
    users = np.array([1, 4, 5])
    body = written(download, users=users)
    found, more = read_download(body, contract, 3, {"users": TensorField("i8", (3,))})
    assert type(found) is type(download) and more["users"].tolist() == [1, 4, 5]
    for array, expected in arrays_of(download).items():
        got = arrays_of(found)[array]
        assert (got.dtype, got.shape, got.tobytes()) == (
            expected.dtype,
            expected.shape,
            expected.tobytes(),
        )
        assert not got.flags.writeable


@pytest.mark.parametrize("name", NAMES)
def test_one_value_that_is_excluded_is_refused_and_named(name: str) -> None:
    """A NaN in every float array, a number beyond its range in every integer array that has one:
    valid bytes, valid shapes, lies.
    """
    contract, download = delivered(name, [1, 4, 5])
    tried = 0
    for field in contract.receives:
        array = arrays_of(download)[field.name].copy()
        if (
            not array.size
            or (array.dtype.kind == "i" and field.axes.below is None and field.axes.least is None)
            or array.dtype.kind == "b"
        ):
            continue
        lies = {
            "f": [np.nan, np.inf, -np.inf],
            "i": [np.iinfo(array.dtype).max if field.axes.below else -1, -2],
            "u": [],
        }
        for lie in lies[array.dtype.kind]:
            array.reshape(-1)[-1] = lie
            with pytest.raises(ContractError, match=f"download '{field.name}': ") as refused:
                read_download(written(download._replace(**{field.name: array})), contract, 3, {})
            assert "\n" not in str(refused.value)
            tried += 1
    assert tried >= 3


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_those_of_the_declaration_and_of_so_many_devices(name: str) -> None:
    contract, download = delivered(name, [1, 4, 5])
    schema = download_schema(contract, 3)
    for field, array in arrays_of(download).items():
        if array.ndim == 0 or not array.size or isinstance(schema[field].shape[0], tuple):
            continue
        longer = np.concatenate([array, array[:1]])
        with pytest.raises(Malformed) as refused:
            read_download(written(download._replace(**{field: longer})), contract, 3, {})
        assert refused.value.code in ("shape", "bounds")
    arrays = arrays_of(download)
    first = next(iter(arrays))
    with pytest.raises(Malformed, match="names"):
        whole = {name: array for name, array in arrays.items() if name != first}
        tensors.read(
            tensors.write(
                {k: v.view(np.uint8) if v.dtype == bool else v for k, v in whole.items()}
            ),
            schema,
        )


def test_an_index_one_too_large_is_refused_before_any_kernel_runs() -> None:
    contract, download = delivered("cali3f-neumf", [1, 4, 5])
    among = len(download.local)
    for name, lie in (("at", among), ("cluster", contract.sizes["clusters"])):
        array = arrays_of(download)[name].copy()
        array[1] = lie
        with pytest.raises(
            ContractError, match=f"download '{name}': the number {lie}; expected below"
        ):
            read_download(written(download._replace(**{name: array})), contract, 3, {})
