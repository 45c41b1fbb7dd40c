"""The log of members: its roots are those of RFC 9162, and proofs of anything else are found out."""

from __future__ import annotations

from hashlib import sha256

import msgspec
from entrenous_network.secure_sum import merkle
from entrenous_network.secure_sum.merkle import Leaf, LogEntry, LogHead, MerkleTree
from msgspec.structs import replace
from pytest import MonkeyPatch

SIZE = 40
OTHER = bytes(32)
LEAVES = [Leaf(f"n{at}", bytes([at]) * 32, at, at, b"") for at in range(SIZE)]
ROOTS = {
    "": "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "00": "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "10": "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "2021": "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "3031": "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "40414243": "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "5051525354555657": "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "606162636465666768696a6b6c6d6e6f": (
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    ),
}


def grown() -> tuple[MerkleTree, list[LogHead]]:
    """The tree of all leaves, and its heads by size."""
    tree = MerkleTree()
    heads = [tree.head]
    for leaf in LEAVES:
        tree.append(msgspec.msgpack.encode(leaf))
        heads.append(tree.head)
    return tree, heads


def test_roots_are_those_of_certificate_transparency() -> None:
    """Its leaves, and its roots of one to eight of them."""
    tree = MerkleTree()
    assert tree.head == LogHead(0, sha256(b"").digest())
    for digits, root in ROOTS.items():
        tree.append(bytes.fromhex(digits))
        assert tree.head.root.hex() == root


def test_who_is_not_in_the_log_has_no_proof() -> None:
    tree, heads = grown()
    head = heads[-1]
    for at, leaf in enumerate(LEAVES):
        good = LogEntry(leaf, at, tree.inclusion(at))
        assert head.has(good)
        for wrong in (
            replace(good, leaf=replace(leaf, key=OTHER[1:] + b"\xff")),
            replace(good, index=(at + 1) % SIZE),
            replace(good, index=at + SIZE),
            replace(good, proof=[*good.proof, OTHER]),
            replace(good, proof=[OTHER, *good.proof[1:]]),
        ):
            assert not head.has(wrong)
        assert not heads[-2].has(good)


def test_a_log_that_does_not_begin_as_the_one_before_is_none() -> None:
    tree, heads = grown()
    head = heads[-1]
    for size in range(1, SIZE + 1):
        proof = tree.consistency(size)
        assert head.extends(heads[size], proof)
        assert not head.extends(LogHead(size, OTHER), proof)
        assert not LogHead(SIZE, OTHER).extends(heads[size], proof)
        assert not head.extends(heads[size], [*proof, OTHER])
        for at in range(len(proof)):
            assert not head.extends(heads[size], [*proof[:at], OTHER, *proof[at + 1 :]])
    # Fewer than before, and after nobody.
    assert not heads[3].extends(heads[4], [])
    assert not head.extends(heads[0], [])


def test_one_more_member_of_a_million_costs_few_hashes(monkeypatch: MonkeyPatch) -> None:
    tree = MerkleTree()
    # As if the hashes of all complete nodes were there.
    tree._levels = [bytearray(32 * (1_000_000 >> level)) for level in range(20)]
    made: list[bytes] = []
    honest = merkle.node_hash

    def counted(left: bytes, right: bytes) -> bytes:
        made.append(left)
        return honest(left, right)

    monkeypatch.setattr(merkle, "node_hash", counted)
    for _ in range(64):
        before = len(made)
        tree.append(b"one more")
        assert tree.head.size == len(tree)
        assert len(made) - before <= 62
    assert len(tree.inclusion(5)) == 20
