"""The parts of a secure sum: quorums, Shamir's shares, masks, keys, the vector of a
Total.
"""

from __future__ import annotations

import secrets
from itertools import combinations

import numpy as np
import properties  # noqa: F401  # how patient Hypothesis is
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from entrenous_network.secure_sum import messages as m
from entrenous_network.secure_sum import primitives as p
from entrenous_network.secure_sum.merkle import LogHead
from entrenous_network.secure_sum.quorum import faults, quorum
from entrenous_network.secure_sum.shamir import PRIME, combine, split, weights
from entrenous_network.secure_sum.vector import SumRows, pack, rows_of, size, unpack
from hypothesis import given, settings
from hypothesis import strategies as st
from secure_sum_in_memory import terms

from entrenous.core.contract.update import ShownArrays, Total
from entrenous.core.errors import InputError

# ---- quorum --------------------------------------------------------------------------------------


def test_a_quorum_counts_one_fault_at_least_and_a_tenth() -> None:
    for parties in range(3, 200):
        tenth = -(-parties // 10)
        least = next(q for q in range(2 * parties) if 2 * q > parties + max(1, tenth))
        assert quorum(parties) == least <= parties


@pytest.mark.parametrize("members", [3, 9, 10, 11, 20, 127, 128])
def test_who_is_left_out_makes_nobody_harmless(members: int) -> None:
    """A server that asks 10 of 11 members has two on its side all the same."""
    for parties in range(2, members + 1):
        assert faults(parties, members=members) == faults(members)
        assert 2 * quorum(parties, members=members) > parties + faults(members)


# ---- shares --------------------------------------------------------------------------------------


def test_the_field_is_that_of_the_first_prime_above_256_bits() -> None:
    assert PRIME == 2**256 + 297
    assert pow(3, PRIME - 1, PRIME) == 1


def test_any_t_shares_give_the_secret_and_fewer_do_not() -> None:
    for secret in (bytes(32), b"\xff" * 32, secrets.token_bytes(32)):
        shares = dict(zip(range(1, 7), split(secret, 4, range(1, 7)), strict=True))
        assert {len(share) for share in shares.values()} == {m.SHARE}
        for some in combinations(shares, 4):
            assert combine({x: shares[x] for x in some}) == secret
        for few in combinations(shares, 3):
            assert combine({x: shares[x] for x in few}) != secret


def test_t_minus_1_shares_fit_every_secret_alike() -> None:
    """For three shares of a 4-of-6 and any secret there is the one polynomial through both: the
    shares exclude none.
    """
    shares = split(secrets.token_bytes(32), 4, range(1, 7))[:3]
    for guess in (bytes(32), b"\x01" * 32):
        points = {0: guess.rjust(m.SHARE, b"\0"), **{x: share for x, share in enumerate(shares, 1)}}
        fourth = sum(
            w * int.from_bytes(y, "big")
            for w, y in zip(
                weights([x - 4 for x in points]), points.values(), strict=True
            )  # the value at 4
        )
        made = {**dict(enumerate(shares, 1)), 4: (fourth % PRIME).to_bytes(m.SHARE, "big")}
        assert combine(made) == guess


# ---- masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<u8", "<u4"])
def test_masks_are_aes_ctr_and_cancel(dtype: str) -> None:
    keys, n = [secrets.token_bytes(32) for _ in range(5)], p.BLOCK // 4 + 777
    words = np.arange(n).astype(dtype)
    masked = words.copy()
    p.add_masks(masked, keys[:1])
    stream = (
        Cipher(algorithms.AES(keys[0]), modes.CTR(bytes(16)))
        .encryptor()
        .update(bytes(words.nbytes))
    )
    assert np.array_equal(masked - words, np.frombuffer(stream, dtype))
    p.add_masks(masked, keys[1:], keys[:1])
    p.add_masks(masked, [], keys[1:])
    assert np.array_equal(masked, words)


def test_keys_differ_by_purpose_and_boxes_open_by_their_key_alone() -> None:
    secret = secrets.token_bytes(32)
    assert (
        len(
            {
                p.derive(secret, *about)
                for about in [
                    ("pair", b"v", 0, 1),
                    ("box", b"v", 0, 1),
                    ("pair", b"w", 0, 1),
                    ("pair",),
                ]
            }
        )
        == 4
    )
    box = p.seal(secret, b"x" * 66)
    assert (
        len(box) == m.BOX
        and p.unseal(secret, box) == b"x" * 66
        and p.seal(secret, b"x" * 66) != box
    )
    assert p.unseal(bytes(32), box) is None
    assert all(
        p.unseal(secret, box[:k] + bytes([box[k] ^ 1]) + box[k + 1 :]) is None
        for k in range(len(box))
    )


def test_signatures() -> None:
    public = p.identity_of(bytes(32))
    signature = p.sign(bytes(32), b"said")
    assert p.verified(public, signature, b"said")
    assert not p.verified(public, signature, b"other") and not p.verified(
        p.identity_of(b"\1" * 32), signature, b"said"
    )
    assert not p.verified(b"short", signature, b"said") and not p.verified(
        public, b"short", b"said"
    )


# ---- terms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"bits": 16},
        {"model": b"short"},
        {"length": 0},
        {"round": -1},
        {"attempt": -1},
    ],
)
def test_terms_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        terms(**wrong)  # type: ignore[arg-type]


def test_every_term_and_the_log_are_in_the_digest() -> None:
    log = LogHead(1, bytes(32))
    others = [
        {"run": "b"},
        {"round": 4},
        {"attempt": 1},
        {"length": 9},
        {"bits": 32},
        {"items": "b"},
    ]
    digests = {terms(**other).digest(log) for other in others} | {
        terms().digest(log),
        terms().digest(LogHead(1, b"\1" * 32)),
        terms().digest(LogHead(2, bytes(32))),
    }  # type: ignore[arg-type]
    assert len(digests) == len(others) + 3
    assert m.roster_view(b"these terms", []) != m.roster_view(
        b"others", []
    )  # and in all that follows a roster


# ---- the vector of a Total -----------------------------------------------------------------------


def some_total(items: int, width: int, groups: int, seed: int) -> Total:
    rng = np.random.default_rng(seed)
    ends = np.iinfo(np.int64)
    draw = lambda *shape: rng.integers(ends.min, ends.max, shape, endpoint=True)  # noqa: E731
    rows = {"v": draw(items, width), "b": draw(items)}
    return Total(
        rows,
        draw(items),
        {"net": draw(groups, 2, 3), "a": draw(groups)},
        draw(groups),
        int(rng.integers(1, 99)),
    )


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 7), st.integers(0, 5), st.integers(1, 3), st.integers(0, 99))
def test_a_total_is_a_vector_and_back(items: int, width: int, groups: int, seed: int) -> None:
    total = some_total(items, width, groups, seed)
    vector = pack(total)
    back = unpack(vector, some_total(items, width, groups, seed + 1))
    assert (
        vector.dtype == np.int64
        and len(vector) == size(total) == items * (width + 2) + groups * 8 + 1
    )
    assert (
        list(back.rows) == list(total.rows)
        and list(back.dense) == list(total.dense)
        and back.devices == total.devices
    )
    for left, right in [
        (back.rows, total.rows),
        (back.dense, total.dense),
        ({"": back.senders}, {"": total.senders}),
    ]:
        assert all(
            np.array_equal(left[name], right[name]) and left[name].dtype == np.int64
            for name in right
        )
    assert np.array_equal(back.weight, total.weight)


def test_the_order_is_that_of_the_names_and_sums_are_sums() -> None:
    total = some_total(3, 2, 1, 0)
    vector = pack(total)
    assert np.array_equal(vector[:3], total.rows["b"]) and np.array_equal(
        vector[3:9], total.rows["v"].ravel()
    )
    turned = total._replace(
        rows=dict(reversed(total.rows.items())), dense=dict(reversed(total.dense.items()))
    )
    assert np.array_equal(pack(turned), vector)
    back = unpack(vector + vector, total)
    assert np.array_equal(back.rows["v"], total.rows["v"] * 2) and back.devices == 2 * total.devices
    vector[:] = 0
    assert total.devices and total.rows["v"].any()  # a copy


def test_what_is_no_vector_of_the_total() -> None:
    total = some_total(3, 2, 1, 0)
    for wrong in (pack(total)[:-1], pack(total).astype(np.float64), pack(total)[None]):
        with pytest.raises(InputError, match="expected int64"):
            unpack(wrong, total)
    with pytest.raises(InputError, match="shows arrays singly"):
        pack(total._replace(shown=(ShownArrays(np.zeros(1, np.int64), {}),)))


def test_row_occupancy() -> None:
    total = some_total(4, 2, 1, 0)._replace(
        senders=np.array([1, 0, 0, 1]), dense={"net": np.zeros((1, 5, 3), np.int64)}
    )
    assert rows_of(total) == SumRows(2, 4)
    assert rows_of(total._replace(rows={})) == SumRows(2, 0)
    assert SumRows(85, 1700).occupancy(100) == 5.0
    # No message says anything of an item.
    assert SumRows(4, 0).occupancy(7) == 7.0


def test_a_message_with_a_row_for_every_item_is_counted_in_equations() -> None:
    """FCF: all send all rows, so that full rows hide nobody; 100 people in one number each against
    20 numbers an item and sum.
    """
    every = some_total(4, 2, 1, 0)._replace(
        rows={}, senders=np.ones(4, np.int64), dense={"f": np.zeros((1, 4, 20), np.int64)}
    )
    assert rows_of(every) == SumRows(4, 0, 20)
    assert [rows_of(every).occupancy(100, sums) for sums in (1, 2, 5, 8)] == [5.0, 2.5, 1.0, 0.625]
    same = every._replace(rows={"own": np.zeros((4, 20), np.int64)}, dense={})
    assert rows_of(same, same_rows=True).occupancy(100, 8) == 0.625
    assert rows_of(same).occupancy(100, 8) == 100
    both = rows_of(every._replace(rows={"q": np.zeros((4, 2), np.int64)}))
    assert both.occupancy(100) == 5.0
    assert both._replace(width=0).occupancy(100) == 100
