"""What limits a message: lengths, grids, rows, noise; device by device, whatever the block."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_python import printed_both_ways

from entrenous.core.contract.declared import bound
from entrenous.core.contract.protocols import Catalogue
from entrenous.core.contract.update import STEP, Update, add_update, by_item, empty_total
from entrenous.core.errors import InputError
from entrenous.core.keys import folds, key
from entrenous.core.types import UInt64Array
from entrenous.privacy.clip import clip, lengths, within
from entrenous.privacy.discrete_gaussian import SEEDED, gaussian_table, integers, system_words
from entrenous.privacy.limit import Limit
from entrenous.privacy.noise import noise
from entrenous.privacy.protection import Protection, ProtectionInForce
from entrenous.privacy.rows import all_rows, padded_rows
from entrenous.systems.fpl import FPL

ITEMS = 300


def message(devices: int, seed: int = 0, rows: int = 40) -> Update:
    """Updates of some devices with rows in no order, and a dense array."""
    drawn = np.random.default_rng(seed)
    counts = drawn.integers(0, rows, devices)
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    item = np.concatenate([drawn.permutation(ITEMS)[:n] for n in counts] or [np.empty(0)]).astype(
        np.int32
    )
    arrays = {
        "q": drawn.normal(size=(len(item), 4)).astype(np.float32),
        "b": drawn.normal(size=len(item)).astype(np.float32),
    }
    dense = {"w": drawn.normal(size=(devices, 7)).astype(np.float32)}
    return Update(ptr, item, arrays, dense, np.ones(devices, np.float32))


def keys(devices: int, seed: int = 1) -> UInt64Array:
    return folds(key(seed, "devices"), np.arange(devices))


def part(update: Update, low: int, high: int) -> Update:
    """The updates of devices `low` to `high`."""
    start, stop = update.ptr[low], update.ptr[high]
    rows = {name: row[start:stop] for name, row in update.rows.items()}
    dense = {name: array[low:high] for name, array in update.dense.items()}
    return Update(
        update.ptr[low : high + 1] - start,
        update.item[start:stop],
        rows,
        dense,
        update.weight[low:high],
    )


def all_together(update: Update, keys: UInt64Array) -> Update:
    """A limit of two, one after the other, as a `Shard` applies them."""
    for limit in (clip(2.0), noise(0.5, 10, ITEMS, "seed")):
        update = limit(update, keys)
    return update


LIMITS: dict[str, Limit] = {
    "clip": clip(2.0),
    "all rows": all_rows(ITEMS),
    "padded rows": padded_rows(ITEMS, 200),
    "noise": noise(0.5, 10, ITEMS, "seed"),
    "within": within(0.75),
    "all together": all_together,
}


@pytest.mark.parametrize("name", LIMITS)
def test_what_a_limit_does_to_a_device_depends_on_that_device_alone(name: str) -> None:
    update, own, limit = by_item(message(6)), keys(6), LIMITS[name]
    whole = limit(update, own)
    for low, high in ((0, 2), (2, 3), (3, 6)):
        alone, same = limit(part(update, low, high), own[low:high]), part(whole, low, high)
        assert np.array_equal(alone.item, same.item) and np.array_equal(alone.ptr, same.ptr)
        for way in ("rows", "dense"):
            for array, values in getattr(alone, way).items():
                assert values.tobytes() == getattr(same, way)[array].tobytes()


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_leaves_what_it_was_given(name: str) -> None:
    update = by_item(message(5))
    before = [
        array.copy() for array in (update.item, *update.rows.values(), *update.dense.values())
    ]
    LIMITS[name](update, keys(5))
    after = (update.item, *update.rows.values(), *update.dense.values())
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_rows_sorted_by_item_have_the_same_sum() -> None:
    update = message(20)
    ordered = by_item(update)
    assert not np.array_equal(update.item, ordered.item)
    for d in range(20):
        assert np.all(np.diff(ordered.item[ordered.ptr[d] : ordered.ptr[d + 1]]) > 0)
    one, other = (add_update(empty_total(one, ITEMS), one) for one in (update, ordered))
    assert all(np.array_equal(one.rows[name], other.rows[name]) for name in one.rows)
    assert np.array_equal(one.senders, other.senders)


@settings(max_examples=50, deadline=None)
@given(bound=st.floats(1e-3, 100), scale=st.floats(1e-4, 1e4), seed=st.integers(0, 1000))
def test_no_message_is_longer_than_the_clip_even_as_the_integers_that_are_added(
    bound: float, scale: float, seed: int
) -> None:
    update = message(4, seed)
    update = update._replace(
        rows={name: row * np.float32(scale) for name, row in update.rows.items()}
    )
    clipped = clip(bound)(update, keys(4))
    assert lengths(clipped).max(initial=0) <= bound
    for array in (*clipped.rows.values(), *clipped.dense.values()):
        assert np.array_equal(array, np.rint(array / STEP) * STEP)


def test_no_number_is_beyond_its_bound_and_the_others_stay() -> None:
    update = message(5)
    bounded = within(0.75)(update, keys(5))
    before = {**update.rows, **update.dense}
    for name, array in {**bounded.rows, **bounded.dense}.items():
        small = np.abs(before[name]) <= 0.75
        assert 0 < small.sum() < small.size
        assert np.array_equal(array[small], before[name][small])
        assert np.array_equal(array[~small], 0.75 * np.sign(before[name][~small]))


def test_padding_leaves_the_rows_and_brings_their_number_to_a_power_of_two() -> None:
    update = by_item(message(30, rows=150))
    found = padded_rows(ITEMS, 149)(update, keys(30))
    assert set(np.diff(found.ptr)) == {64, 128, 149}
    one, other = (add_update(empty_total(one, ITEMS), one) for one in (update, found))
    assert all(np.array_equal(one.rows[name], other.rows[name]) for name in one.rows)
    for d in range(30):
        assert np.all(np.diff(found.item[found.ptr[d] : found.ptr[d + 1]]) > 0)


# ---- noise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.7, 30.0, 220.0, 250.0, 6500.0, 65536.0, 400000.0])
def test_noise_has_the_spread_that_was_asked_for_and_mean_zero(sigma: float) -> None:
    drawn = integers(gaussian_table(sigma), 200_000, key(0, "noise"), SEEDED)
    assert abs(drawn.mean()) < 5 * sigma / math.sqrt(len(drawn))
    assert abs(drawn.var() / sigma**2 - 1) < 5 * math.sqrt(2 / len(drawn))
    assert (
        abs((drawn / sigma > 2).mean() - (0.02275 if sigma > 20 else (drawn / sigma > 2).mean()))
        < 0.002
    )


@pytest.mark.parametrize("sigma", [0.3, 2.0, 150.0, 220.0])
def test_the_tables_hold_the_exact_probabilities_of_the_discrete_gaussian(sigma: float) -> None:
    packed = gaussian_table(sigma).packed[0]
    exact = [math.exp(-k * k / (2 * sigma * sigma)) for k in range(-2048, 2048)]
    whole = math.fsum(exact)
    mass = [0] * 4096
    for column, held in enumerate(packed.tolist()):
        mass[column] += held >> 12
        mass[held & 4095] += (1 << 52) - (held >> 12)
    assert sum(mass) == 1 << 64
    assert (
        math.fsum(abs(m / 2**64 - p / whole) for m, p in zip(mass, exact, strict=True)) / 2
        < 2.0**-50
    )


def test_a_wide_gaussian_put_together_from_narrow_ones_passes_a_chi_square() -> None:
    sigma = 900.0
    drawn = integers(gaussian_table(sigma), 400_000, key(3, "noise"), SEEDED)
    edges = np.linspace(-2.5, 2.5, 21) * sigma
    share = np.diff([0.5 * (1 + math.erf(edge / sigma / math.sqrt(2))) for edge in edges])
    counts = np.histogram(drawn, edges)[0]
    assert (
        (counts - share * len(drawn)) ** 2 / (share * len(drawn))
    ).sum() < 45.3  # 20 degrees of freedom, p = .001
    assert np.bincount(drawn % 7, minlength=7).std() < 5 * math.sqrt(len(drawn) / 7), (
        "no residue is favoured"
    )


def test_noise_from_the_seed_is_the_same_again_and_noise_of_the_system_is_not() -> None:
    update, own = message(3), keys(3)
    seed: list[Any] = [noise(1.0, 3, ITEMS, "seed")(update, own).rows["q"] for _ in range(2)]
    system: list[Any] = [noise(1.0, 3, ITEMS, "system")(update, own).rows["q"] for _ in range(2)]
    assert np.array_equal(*seed) and not np.array_equal(*system)
    assert (system[0] == system[1]).mean() < 0.001
    words = system_words(2)
    assert np.array_equal(
        integers(gaussian_table(5.0), 2, np.uint64(0), words),
        integers(gaussian_table(5.0), 2, np.uint64(9), words),
    )


@pytest.mark.parametrize("lost", [0.0, 0.01, 0.1, 0.25, 0.3, 0.5, 0.9])
def test_the_smallest_sum_that_may_come_out_has_all_the_noise_that_was_promised(
    lost: float,
) -> None:
    """M6: for every cohort and every number of devices that are missing from the sum."""
    sigma = 0.3
    for cohort in (1, 2, 3, 10, 99, 100, 121, 300, 943, 6040):
        catalogue = Catalogue(7000, 50, 1000, (1.0, 1.0))
        contract = bound(FPL(factors=4, cohort=cohort).configured(catalogue), catalogue)
        protection = Protection(noise=sigma, lost=lost, people=1)
        inside = ProtectionInForce(protection, contract)
        for devices in range(inside.fewest, cohort + 1):
            assert devices * inside.share**2 >= sigma**2 * (1 - 1e-9)
        assert (inside.fewest - 1) * inside.share**2 < sigma**2
    assert ProtectionInForce(Protection(lost=lost), contract).fewest == 1


def test_devices_that_do_not_arrive_leave_as_much_noise_as_was_promised() -> None:
    """M6: shares are for those who arrive, measured in what they send."""
    sent = noise(2.0, 40, ITEMS, "seed", lost=0.5)(message(20), keys(20))
    plain = all_rows(ITEMS)(message(20), keys(20))
    drawn = (sent.rows["q"] - plain.rows["q"]).reshape(20, -1)
    assert abs(drawn.sum(0).var() / 2.0**2 - 1) < 0.3


# ---- words of 32 bits ----------------------------------------------------------------------------


def narrow(people: int, noise: float = 0.0, **more: Any) -> ProtectionInForce:
    """A protection of FPL whose sums of so many people have words of 32 bits."""
    catalogue = Catalogue(20_000, 50, 1000, (1.0, 1.0))
    contract = bound(FPL(factors=4, cohort=people).configured(catalogue), catalogue)
    protection = Protection(bits=32, secure_sum=True, people=3, parties=3, noise=noise, **more)
    return ProtectionInForce(protection, contract)


@pytest.mark.parametrize(
    ("people", "largest"),
    [(5, 32), (1023, 32), (1024, 16), (2047, 16), (2048, 8), (4095, 8), (4096, 4), (8191, 4)],
)
def test_sums_of_more_people_have_smaller_numbers_so_that_32_bits_hold_them(
    people: int, largest: float
) -> None:
    sent = message(6)
    far = sent._replace(rows={"q": sent.rows["q"] * 100}, dense={"w": sent.dense["w"] * 0.5})
    for limit in narrow(people).limits():
        far = limit(far, keys(6))
    assert far.rows["q"].max() == largest and far.rows["q"].min() == -largest
    assert np.array_equal(far.dense["w"], sent.dense["w"] * np.float32(0.5))
    # The largest number of so many people, in steps, is below half of the words; of twice as large
    # ones it would not be, so no bound is smaller than it must be.
    assert people * largest / STEP < 2**31
    assert largest == 32 or people * 2 * largest / STEP >= 2**31


def test_by_lot_sums_are_of_fewer_on_average_since_a_lot_draws_more_now_and_then() -> None:
    lot: dict[str, Any] = {"sampling": "poisson", "answers": 9}
    for people, groups, largest in ((868, 1, 32), (869, 1, 16), (1736, 2, 32), (5884, 2, 8)):
        update = message(2)
        update = update._replace(rows={"q": update.rows["q"] * 100})
        for limit in narrow(people, groups=groups, **lot).limits():
            update = limit(update, keys(2))
        assert update.rows["q"].max() == largest
    with pytest.raises(InputError, match=r"bits: 7742 people in a sum on average; expected so few"):
        narrow(7742, **lot)


def test_words_that_noise_does_not_fit_are_refused_for_what_is_cut_is_no_noise() -> None:
    """A number is noise of at most 8 standard deviations."""
    assert narrow(5, noise=8.0).share == pytest.approx(8 / 5**0.5)
    assert narrow(4000, noise=60.0).share < 1
    with pytest.raises(InputError, match=r"share of noise, of 4\.47, may be beyond 32; .*64"):
        narrow(5, noise=10.0)
    # For more people numbers are nearer to 0, and so is noise.
    with pytest.raises(InputError, match=r"share of noise, of 1\.11, may be beyond 8"):
        narrow(4000, noise=70.0)


NOISED = """
import hashlib
import numpy as np
from entrenous.core.keys import key
from entrenous.privacy.discrete_gaussian import SEEDED, add_noise, gaussian_table

draws = np.random.default_rng(0)
for sigma in (2.5, 19_660.8, 1e7):  # tables of one, two and four levels
    table = gaussian_table(sigma)
    for count in (0, 1, 4_000):
        values = draws.normal(size=count).astype(np.float32)
        words = np.frombuffer(draws.bytes(8 * count * table.words), np.uint64)
        for source in (SEEDED, words):
            noised = values.copy()
            add_noise(noised, table, key(1), source)
            print(table.words, count, hashlib.sha256(noised.tobytes()).hexdigest())
"""


def test_noise_has_the_same_bits_compiled_and_for_all_numbers_at_once() -> None:
    lines = printed_both_ways(NOISED).splitlines()
    assert len(lines) == 18 and len({line.split()[0] for line in lines}) == 3
    # No numbers have no noise, whatever the source; all else differs.
    assert len(set(lines)) == 15
