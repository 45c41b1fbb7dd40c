"""Own rows of devices: picked, replaced, stored and sent to workers as arrays are, held to their
declaration, and an algorithm that keeps them through simulation, store and node.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest
from mean_embedding import MeanEmbedding, Server
from small_federations import same

from entrenous.core.contract.declarations import axes
from entrenous.core.contract.declared import ContractError, NotFiniteError, bound, declared
from entrenous.core.contract.enforce import check_kept
from entrenous.core.contract.own_rows import OwnRows
from entrenous.core.contract.protocols import (
    Catalogue,
    arrays_of,
    joined_states,
    state_of,
)
from entrenous.core.contract.update import Update
from entrenous.core.types import Float32Array
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds, Training
from entrenous.runs.conformance import conform
from entrenous.runs.recommenders import checkpoint_arrays, restore_training
from entrenous.runs.store import read_arrays, write_arrays

CATALOGUE = Catalogue(users=3, items=5, interactions=7)


class Own(NamedTuple):
    p: Annotated[Float32Array, axes("factors")]
    mine: Annotated[OwnRows, axes("items", "factors")]


class KeepsRows(MeanEmbedding):
    """MeanEmbedding whose devices keep the items that they moved, and score with these."""

    keeps: ClassVar[type] = Own

    def init_devices(self, users: Any, catalogue: Any, key: Any) -> Any:
        p = super().init_devices(users, catalogue, key).p
        return Own(p, OwnRows.none(len(users), self.factors))

    def local(
        self, download: Server, devices: Any, histories: Any, users: Any, key: Any
    ) -> tuple[Any, Update]:
        after, update = super().local(download, devices, histories, users, key)
        moved = download.q[update.item] + update.rows["q"]
        return Own(after.p, OwnRows(update.ptr, update.item, moved)), update

    def score(self, download: Server, devices: Any, histories: Any) -> Float32Array:
        tables = [devices.mine.over(download.q, d) for d in range(len(devices.p))]
        scores = [table @ p for table, p in zip(tables, devices.p, strict=True)]
        return np.array(scores, np.float32).reshape(len(devices.p), -1)


class LeaksRows(KeepsRows):
    """KeepsRows that sends the rows that it keeps."""

    def local(self, *args: Any) -> tuple[Any, Update]:
        after, update = super().local(*args)
        return after, update._replace(rows={"q": after.mine.flat()[2]})


def some() -> OwnRows:
    row = np.arange(10, dtype=np.float32).reshape(5, 2)
    return OwnRows(np.array([0, 2, 2, 5]), np.array([1, 3, 0, 2, 4], np.int32), row)


def test_devices_are_picked_and_replaced_as_in_an_array() -> None:
    own = some()
    assert [len(own.of(d)[0]) for d in range(3)] == [2, 0, 3]
    assert same(own[1:].flat(), own[np.array([1, 2])].flat())
    assert same(own[np.array([True, False, True])].flat(), own[np.array([0, 2])].flat())
    before = own.copy()
    own[np.array([0, 1])] = some()[np.array([2, 0])]
    assert own.of(0)[0].tolist() == [0, 2, 4] and own.of(1)[0].tolist() == [1, 3]
    assert same(before, some())
    with pytest.raises(ValueError, match="shorter"):
        own[:2] = some()[:1]
    with pytest.raises(ValueError, match="read-only"):
        own.of(0)[1][0] = 7


def test_rows_stand_over_a_table_in_their_places() -> None:
    table = np.zeros((5, 2), np.float32)
    assert some().over(table, 0)[:, 0].tolist() == [0, 0, 0, 2, 0]
    assert not table.any()


def test_they_come_back_from_arrays_and_from_a_worker() -> None:
    state = Own(np.ones((3, 2), np.float32), some())
    arrays = arrays_of(state)
    assert list(arrays) == ["p", "mine.ptr", "mine.item", "mine.row"]
    assert same(state_of(Own, arrays), state)
    assert same(pickle.loads(pickle.dumps(some()[1:])), some()[1:])
    parts = [Own(state.p[d : d + 1], state.mine[d : d + 1]) for d in range(3)]
    assert same(joined_states(parts), state)
    assert same(OwnRows.none(0, 2)[:], OwnRows.none(0, 2))
    with pytest.raises(KeyError):
        state_of(Own, {"p": state.p, "mine.ptr": arrays["mine.ptr"]})


@pytest.mark.parametrize("ptr", [[0, 2, 4], [1, 5], [0, 3, 2, 5], []])
def test_what_does_not_divide_the_rows_is_refused(ptr: list[int]) -> None:
    _, item, row = some().flat()
    with pytest.raises(ValueError, match="does not divide"):
        OwnRows(np.array(ptr, np.int64), item, row)


@pytest.mark.parametrize(
    ("item", "row", "said"),
    [
        ([1, 3, 0, 2, 5], None, "a row of no item from 0 to 4"),
        ([-1, 3, 0, 2, 4], None, "a row of no item from 0 to 4"),
        ([1, 3, 0, 4, 2], None, "not ascending"),
        ([1, 3, 0, 0, 4], None, "not ascending"),
        (None, np.zeros((5, 3), np.float32), r"rows of float32 \(3,\)"),
        (None, np.zeros((5, 2)), "rows of float64"),
        (None, np.full((5, 2), np.nan, np.float32), "NaN or infinite"),
    ],
)
def test_rows_are_held_to_their_declaration(item: Any, row: Any, said: str) -> None:
    ptr, usual_item, usual_row = some().flat()
    items = usual_item if item is None else np.array(item, np.int32)
    own = OwnRows(ptr, items, usual_row if row is None else row)
    contract = bound(KeepsRows(factors=2), CATALOGUE)
    p = np.zeros((3, 2), np.float32)
    check_kept(contract, Own(p, some()), 3)
    with pytest.raises((ContractError, NotFiniteError), match=said):
        check_kept(contract, Own(p, own), 3)


def test_devices_of_another_number_and_other_things_are_refused() -> None:
    contract = bound(KeepsRows(factors=2), CATALOGUE)
    p = np.zeros((3, 2), np.float32)
    with pytest.raises(ContractError, match="rows of 2 devices, not of 3"):
        check_kept(contract, Own(p, some()[1:]), 3)
    with pytest.raises(ContractError, match="a ndarray; expected an OwnRows"):
        check_kept(contract, Own(p, p), 3)  # type: ignore[arg-type]


def test_only_devices_around_a_server_keep_them() -> None:
    class Received(NamedTuple):
        q: Annotated[OwnRows, axes("items", "factors")]

    class Wide(NamedTuple):
        mine: Annotated[OwnRows, axes("factors")]

    for part, state in (("receives", Received), ("keeps", Wide)):
        kind = type("Other", (KeepsRows,), {"__module__": __name__, part: state})
        with pytest.raises(ContractError, match=rf"Other.{part} '\w+': is an OwnRows"):
            declared(kind())


def test_an_algorithm_that_keeps_them_conforms_and_one_that_sends_them_does_not() -> None:
    data = synthetic(users=30, items=40, interactions=300, seed=0)
    conform(KeepsRows(), data)
    with pytest.raises(ContractError, match="rows 'q': is the private 'mine'"):
        conform(LeaksRows(), data)


def test_a_run_goes_on_from_what_was_stored(tmp_path: Path) -> None:
    data = synthetic(users=30, items=40, interactions=300, seed=0)
    rounds = Rounds(KeepsRows(), data)
    whole = rounds.advance(rounds.start(), 4)
    half = rounds.advance(rounds.start(), 2)
    write_arrays(tmp_path / "half.safetensors", checkpoint_arrays(half))
    arrays, _ = read_arrays(tmp_path / "half.safetensors")
    restored = restore_training(rounds, 2, arrays)
    assert isinstance(restored, Training)
    rest = rounds.advance(restored, 4)
    assert same(rest.devices, whole.devices) and same(rest.server, whole.server)
