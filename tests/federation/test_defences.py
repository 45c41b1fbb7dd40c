"""Defences of a server that sees every update: what each does to an honest update, and to a
liar's.
"""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.contract.declared import bound
from entrenous.core.contract.protocols import model_sha256
from entrenous.core.contract.update import Update
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.synthetic import synthetic
from entrenous.federation.defences import DEFENCES, Known, defence, known_of
from entrenous.federation.item_rows import item_rows, of_some, replaced, tables_of
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Shard
from entrenous.federation.visible import VisibleRound, sound_devices
from entrenous.privacy.protection import Protection, protection_of
from entrenous.runs.recommenders import fitted
from entrenous.systems.fcf import FCF
from entrenous.systems.fedavg import FedAvg
from entrenous.systems.fpl import FPL, FPLServer

DATA = synthetic(users=60, items=80, interactions=900, seed=1)
ITEMS, FACTORS = 40, 3


def fpl() -> tuple[FPL, Known, FPLServer]:
    """FPL over some items, what a defence knows of it, and a model whose biases rise with the
    item's number.
    """
    catalogue = DATA.catalogue._replace(items=ITEMS)
    own = FPL(factors=FACTORS, triples=40).configured(catalogue)
    server = own.init_server(catalogue, key(0, "server"))._replace(
        b=np.linspace(-1, 1, ITEMS, dtype=np.float32)
    )
    return own, known_of(own, bound(own, catalogue), server), server


def updates(lists: list[dict[int, tuple[float, float]]]) -> Update:
    """Updates of FPL's shape: of each device {item: (number of every factor, bias)}."""
    item = [i for rows in lists for i in rows]
    q = [[dq] * FACTORS for rows in lists for dq, _ in rows.values()]
    b = [db for rows in lists for _, db in rows.values()]
    ptr = np.cumsum([0, *(len(rows) for rows in lists)]).astype(np.int64)
    rows = {"q": np.array(q, np.float32).reshape(-1, FACTORS), "b": np.array(b, np.float32)}
    return Update(ptr, np.array(item, np.int32), rows, {}, np.ones(len(lists), np.float32))


def crowd(liar: dict[int, tuple[float, float]], many: int = 1) -> Update:
    """30 honest devices, whose pushes shrink as an item's bias rises, and behind them some that
    lie.
    """
    honest = [
        {
            i: (0.1, 0.6 - 0.5 * i / ITEMS) if i % 2 else (-0.05, -0.2)
            for i in range(d % 3, ITEMS, 3)
        }
        for d in range(30)
    ]
    return updates([*honest, *[liar] * many])


def test_which_array_a_row_moves_and_which_way_is_found_by_trying() -> None:
    catalogue = DATA.catalogue
    for made, field, gain in (
        (FPL(factors=4), {"q": "q", "b": "b"}, 0.05),
        (FCF(factors=4), {"f": "y"}, 0.05 / 16),  # Adam's first step, whatever the sum
        (FedAvg(factors=4, layers=(), server_rate_item=3.0), {"item": "item"}, 3.0),
    ):
        own = made.configured(catalogue)
        tables = tables_of(own, bound(own, catalogue), own.init_server(catalogue, key(0, "server")))
        assert dict(tables.field) == field, made
        assert tables.gain[next(iter(field))] == pytest.approx(gain, rel=0.3)
    assert tables_of(*_of(FPL())).bias == "b" and tables_of(*_of(FCF())).bias == ""


def _of(made: FPL | FCF) -> tuple:
    own = made.configured(DATA.catalogue)
    return own, bound(own, DATA.catalogue), own.init_server(DATA.catalogue, key(0, "server"))


def test_rows_taken_apart_and_put_back_are_the_same() -> None:
    update = crowd({3: (9.0, 9.0)})
    (rows,) = item_rows(update, ITEMS)
    assert rows.part("b")[-1, 0] == 9 and rows.part("q").shape == (len(update.item), FACTORS)
    again = replaced(update, rows, rows.vector)
    assert all(again.rows[name].tobytes() == update.rows[name].tobytes() for name in update.rows)


@pytest.mark.parametrize(
    "name", sorted(DEFENCES.keys() - {"support", "proportion"})
)  # these bound no length
def test_no_defence_lengthens_what_a_device_sent_by_much_nor_changes_its_shape(name: str) -> None:
    _, known, server = fpl()
    update = crowd({39: (0.0, 1000.0)})
    found = defence(name, known)(update, server)
    assert (
        found.rows["q"].dtype == np.float32
        and len(found.item) == len(found.rows["b"]) == found.ptr[-1]
    )
    pushed = float(found.rows["b"][found.item == 39].sum())
    assert pushed < 5  # undefended it is more than 1000


def test_satcap_lets_an_honest_round_pass_nearly_whole_and_a_push_at_a_high_item_no_longer_than_an_honest_one() -> (
    None
):
    _, known, server = fpl()
    update = crowd({39: (0.0, 1000.0)}, many=3)
    found = defence("satcap", known)(update, server)
    honest = np.flatnonzero(update.item != 39)
    kept = np.abs(found.rows["b"][honest]).sum() / np.abs(update.rows["b"][honest]).sum()
    assert kept > 0.9
    assert (
        found.rows["b"][-1] <= 0.15 < update.rows["b"][honest].max()
    )  # an honest push at item 39 is 0.11, at item 1 0.59


def test_many_rows_of_one_device_do_not_lift_the_caps_of_the_rest() -> None:
    _, known, server = fpl()
    alone = defence("satcap", known)(crowd({39: (0.0, 1000.0)}, many=3), server)
    flood = defence("satcap", known)(
        crowd({i: (0.0, 1000.0) for i in range(ITEMS)}, many=3), server
    )
    assert flood.rows["b"][-1] <= 2 * alone.rows["b"][-1]


def test_an_item_that_few_raise_may_stand_no_better_than_those_that_many_raise() -> None:
    """20 odd items are raised by 10 devices each, even ones by three liars; a high number stands
    high.
    """
    _, known, server = fpl()
    for item, kept in ((38, False), (2, True)):
        update = crowd({item: (0.1, 0.5)}, many=3)
        found = defence("support", known)(update, server)
        lies = (update.item == item) & (update.rows["b"] > 0)
        assert (found.rows["b"][lies] > 0).all() == kept and (
            found.rows["q"][lies] > 0
        ).all() == kept
        assert found.rows["b"][~lies].tobytes() == update.rows["b"][~lies].tobytes()


def test_dense_rows_are_held_to_their_support_by_what_devices_push_for_most() -> None:
    """FCF sends a row for every item: 30 devices like half of the items, 3 liars another that
    stands high.
    """
    own = FCF(factors=2).configured(DATA.catalogue._replace(items=ITEMS))
    server = own.init_server(DATA.catalogue._replace(items=ITEMS), key(0, "server"))
    y = np.stack([np.linspace(1, 2, ITEMS), np.zeros(ITEMS)], axis=1).astype(np.float32)
    known = known_of(own, bound(own, DATA.catalogue._replace(items=ITEMS)), server)
    f = np.full((33, ITEMS, 2), (-1e-3, 0), np.float32)
    f[:30, ::2, 0], f[30:, 39, 0] = 1.0, 5.0
    update = Update(
        np.zeros(34, np.int64), np.empty(0, np.int32), {}, {"f": f}, np.ones(33, np.float32)
    )
    found = defence("support", known)(update, server._replace(y=y)).dense["f"]
    assert not found[30:, 39].any() and np.array_equal(found[:30, ::2], f[:30, ::2])


def test_a_vector_without_its_bias_is_shortened_and_those_of_others_are_not() -> None:
    _, known, server = fpl()
    update = crowd({39: (9.0, 0.001)}, many=3)
    found = defence("proportion", known)(update, server)
    assert found.rows["b"].tobytes() == update.rows["b"].tobytes()
    assert found.rows["q"][-1].max() < 0.01
    kept = np.abs(found.rows["q"][:-3]).sum() / np.abs(update.rows["q"][:-3]).sum()
    assert kept > 0.9


def test_multi_krum_drops_who_is_far_from_everybody() -> None:
    _, known, server = fpl()
    update = updates(
        [*[{1: (0.1, 0.1), 2: (0.1, -0.1)}] * 8, {1: (50.0, 50.0)}, {2: (-50.0, 50.0)}]
    )
    found = defence("krum", known)(update, server)
    assert found.devices == 8 and set(found.item.tolist()) == {1, 2}
    assert found.rows["b"][0] == pytest.approx(
        0.125
    )  # 10 / 8 of 0.1: the round weighs as much as before


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_a_device_with_one_number_that_cannot_be_added_is_dropped_alone(bad: float) -> None:
    update = updates([{1: (0.1, 0.1)}, {1: (0.1, bad), 2: (0.1, 0.1)}, {}, {2: (0.2, 0.2)}])
    sound = sound_devices(update, fpl()[1].contract, 2)
    assert sound.tolist() == [True, False, True, True]
    kept = of_some(update, np.flatnonzero(sound))
    assert kept.ptr.tolist() == [0, 1, 1, 2] and kept.item.tolist() == [1, 2]


def test_more_rows_or_weight_than_a_device_may_have_are_dropped() -> None:
    contract, update = (
        fpl()[1].contract,
        updates([{1: (0.1, 0.1)}, {1: (0.1, 0.1), 2: (0.1, 0.1)}, {3: (0.1, 0.1)}]),
    )
    heavy = update._replace(weight=np.array([1, 1, 100], np.float32))
    assert sound_devices(update, contract, 1).tolist() == [True, False, True]
    assert sound_devices(heavy, contract, 2).tolist() == [
        True,
        True,
        False,
    ]  # in FPL everybody weighs 1


def test_an_undefended_visible_round_gives_the_same_bytes_as_rounds() -> None:
    made = FPL(factors=4, cohort=20)
    plain = Rounds(made, DATA)
    own = plain.algorithm
    visible = Rounds(
        made, DATA, everybody=VisibleRound(Shard(own, DATA.catalogue, DATA, np.arange(60)))
    )
    ended = [rounds.advance(rounds.start(), 3) for rounds in (plain, visible)]
    one, other = (fitted(rounds, now) for rounds, now in zip((plain, visible), ended, strict=True))
    assert model_sha256(one.arrays) == model_sha256(other.arrays) and one.ledger == other.ledger


def test_a_run_under_robust_is_defended_and_changes_the_model() -> None:
    made = FPL(factors=4, cohort=20)
    robust = protection_of("robust", {}, FPL.traits)
    hashes = set()
    for protection in (None, robust):
        rounds = Rounds(made, DATA, protection=protection)
        assert isinstance(rounds.everybody, VisibleRound) == (protection is robust)
        hashes.add(model_sha256(fitted(rounds, rounds.advance(rounds.start(), 3)).arrays))
    assert len(hashes) == 2


def test_a_defence_beside_sums_that_hide_updates_is_refused() -> None:
    for other in ({"secure_sum": True}, {"noise": 0.1}):
        with pytest.raises(InputError, match="sums alone"):
            Protection.parse({"defence": "robust", **other}, "--protect")
