"""A sum under Paillier encryption is the plain sum, and what travels can only be read with the
private key.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from entrenous_lab import paillier

from entrenous.core.contract.update import Total, Update, add_update, empty_total
from entrenous.core.errors import InputError

BITS, ITEMS = 256, 5  # far too short for anything but a test


def some_update(devices: int = 3) -> Update:
    """Two rows and a dense array of each device; values of both signs, near the limits and below
    the grid.
    """
    rng = np.random.default_rng(0)
    item = np.concatenate([np.sort(rng.permutation(ITEMS)[:2]) for _ in range(devices)]).astype(
        np.int32
    )
    v = rng.normal(size=(2 * devices, 3)).astype(np.float32)
    v[0] = [32767.5, -32767.5, 1e-7]
    dense = rng.normal(size=(devices, 2, 2)).astype(np.float32) * 100
    return Update(
        np.arange(devices + 1) * 2, item, {"v": v}, {"net": dense}, np.ones(devices, np.float32)
    )


def same(left: Total, right: Total) -> bool:
    arrays = [(left.senders, right.senders), (left.weight, right.weight)]
    arrays += [(left.rows["v"], right.rows["v"]), (left.dense["net"], right.dense["net"])]
    return left.devices == right.devices and all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays
    )


def of_device(update: Update, d: int) -> Update:
    """What device d sends."""
    rows = slice(2 * d, 2 * d + 2)
    return Update(
        np.array([0, 2]),
        update.item[rows],
        {"v": update.rows["v"][rows]},
        {"net": update.dense["net"][d : d + 1]},
        update.weight[d : d + 1],
    )


@pytest.fixture(autouse=True)
def library() -> None:
    pytest.importorskip("lightphe")


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("gmp", [True, False])
def test_the_decrypted_sum_is_the_plain_total(
    slots: int, gmp: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Device by device, with and without gmpy2; items that nobody sent are 0."""
    if gmp:
        pytest.importorskip("gmpy2")
    else:
        monkeypatch.setitem(sys.modules, "gmpy2", None)
    update, private = some_update(), paillier.new_key(BITS, slots=slots)
    assert (type(private.phi) is int) is not gmp
    parts = [paillier.seal(of_device(update, d), private.public) for d in range(3)]
    total = paillier.empty_sealed(parts[0], ITEMS)
    for part in parts:
        total = paillier.add_sealed(total, part, private.public)
    plain = add_update(empty_total(update, ITEMS), update)
    assert (plain.senders == 0).any() and (plain.senders > 1).any()
    assert same(paillier.unseal(total, private), plain)


def test_what_cannot_be_encrypted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    private = paillier.new_key(BITS)
    with pytest.raises(InputError, match="1 to 3 for 256 bits"):
        paillier.new_key(BITS, slots=4)
    with pytest.raises(InputError, match="groups or shown"):
        paillier.seal(
            some_update()._replace(groups=2, group=np.array([0, 1, 1], np.int32)), private.public
        )
    for missing in ("lightphe.cryptosystems.Paillier", "sympy"):
        monkeypatch.setitem(sys.modules, missing, None)
    for call in (lambda: paillier.seal(some_update(), private.public), paillier.new_key):
        with pytest.raises(InputError, match=r'pip install "entrenous\[paillier\]"'):
            call()


def test_the_bench_compares_the_same_sum() -> None:
    from entrenous_lab.benches.paillier import measure

    found = measure(bits=BITS, factors=2, send="part")
    assert found["same_sum"] and found["packed_same_sum"]
    assert found["ciphertexts"] == 160 * 2 and found["packed_ciphertexts"] == 160
    assert found["bytes_ratio"] == pytest.approx((4 + 2 * 64) / (4 + 2 * 4))
    assert found["ratio"] > 1 and found["packed_ratio"] > 1
