"""What Paillier costs FedMF: one round of 10 users and 40 items, the size of the authors' example,
encrypted and not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.contract.update import Total, Update, add_update, empty_total
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.rounds import Rounds
from entrenous.systems.fedmf_ratings import FedMFRatings

from ..paillier import (
    SLOT,
    PrivateKey,
    add_sealed,
    empty_sealed,
    new_key,
    seal,
    unseal,
)
from .timing import Cost, cost

USERS, ITEMS = 10, 40


def small() -> Interactions:
    """A data set of 10 users, each with 16 of 40 items, rated 1 to 5."""
    user = np.repeat(np.arange(USERS), 16)
    item = (user * 7 + np.tile(np.arange(16), USERS) * 3) % ITEMS
    value = (1 + (user * 3 + item) % 5).astype(np.float32)
    return build(
        user,
        item,
        value=value,
        users=Vocabulary(size=USERS, kind="user"),
        items=Vocabulary(size=ITEMS, kind="item"),
    )


def measure(
    *, bits: int = 2048, factors: int = 10, send: str = "full", progress: Progress | None = None
) -> dict[str, Any]:
    """Measure a round of all devices in the clear, encrypted with one value a ciphertext as
    published, and with as many as fit."""
    data, everyone = small(), np.arange(USERS)
    fedmf = FedMFRatings.parse(
        {"factors": factors, "send": send, "step": "sum", "learning_rate": 0.001}
    )
    start = Rounds(fedmf, data).start()
    sent: list[tuple[Update, Total]] = []

    def plain() -> None:
        update = fedmf.local(
            start.server, start.devices, data.histories(everyone), everyone, key(0)
        )[1]
        total = add_update(empty_total(update, ITEMS), update)
        fedmf.aggregate(start.server, total)
        sent.append((update, total))

    plain()  # compiles
    base = min(cost(plain).cpu for _ in range(20))
    update, total = sent[-1]
    found: dict[str, Any] = {
        "users": USERS,
        "items": ITEMS,
        "factors": factors,
        "bits": bits,
        "send": send,
    }
    for name, slots in (("", 1), ("packed_", max(1, (bits - 1) // SLOT))):
        if progress is not None:
            progress(
                int(slots > 1),
                2,
                "encrypting" + (f", {slots} values a ciphertext" if slots > 1 else ""),
            )
        found |= {
            f"{name}{what}": value
            for what, value in _encrypted(update, total, new_key(bits, slots=slots), base).items()
        }
    against = f"the same round in the clear: {1e3 * base:.2f} ms of CPU, {update.nbytes:,} bytes up"
    return {**found, "plain_seconds": base, "against": against}


def _encrypted(update: Update, total: Total, private: PrivateKey, plain: float) -> dict[str, Any]:
    """The same update encrypted (by all devices together), added and decrypted: seconds of each,
    and ratios of a whole round.
    """
    public, box = private.public, dict[str, Any]()
    steps: dict[str, Cost] = {
        "encrypt": cost(lambda: box.update(sealed=seal(update, public))),
        "add": cost(
            lambda: box.update(
                sum=add_sealed(empty_sealed(box["sealed"], ITEMS), box["sealed"], public)
            )
        ),
        "decrypt": cost(lambda: box.update(total=unseal(box["sum"], private))),
    }
    return {
        "ratio": (plain + sum(step.cpu for step in steps.values())) / plain,
        "bytes_ratio": box["sealed"].nbytes(public) / update.nbytes,
        **{f"{name}_seconds": step.cpu for name, step in steps.items()},
        "ciphertexts": sum(
            array.size for array in (*box["sealed"].rows.values(), *box["sealed"].dense.values())
        ),
        "same_sum": all(
            _same(getattr(box["total"], part), getattr(total, part)) for part in ("rows", "dense")
        ),
    }


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name]) for name in left
    )


def bench(threads: int, progress: Progress) -> dict[str, Any]:
    """FedMF under Paillier-2048 on 10 users x 40 items, F = 10, all items sent: time and bytes
    against the same round in the clear.
    """
    return measure(progress=progress)


BENCHES = {"fedmf-paillier": bench}
