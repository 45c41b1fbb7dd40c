"""`entrenous bench secure-sum`, with a few parties: it sums exactly, and its bytes are those of the
messages.
"""

from __future__ import annotations

import pytest
from entrenous_lab.benches.secure_sum import SummedTable, measure


def test_the_bench_sums_exactly_and_counts_what_is_sent() -> None:
    asked: list[str] = []
    tables = (SummedTable(50, 3, 64), SummedTable(50, 3, 32))
    found = measure(
        parties=10,
        tables=tables,
        dropouts=(0.0, 0.3),
        progress=lambda done, of, what: asked.append(what),
    )
    assert (
        len(asked) == 4 and [found[key] for key in found if key.startswith("exact")] == [True] * 4
    )
    for mark, plain in (("50x3", 1200), ("50x3_32_bits", 600)):
        assert (
            found[f"plain_bytes_{mark}"] == plain
            and plain < found[f"mask_bytes_{mark}"] < plain + 128
        )
        boxes, hashes = 9 * 126, 10 * 64
        assert boxes + hashes < found[f"shares_bytes_{mark}"] < boxes + hashes + 9 * 3 + 128
        assert 10 * 33 < found[f"unmask_bytes_{mark}"] < 10 * 33 + 256
        sent = sum(found[f"{phase}_bytes_{mark}"] for phase in ("keys", "shares", "mask", "unmask"))
        assert found[f"up_bytes_{mark}"] == sent < found[f"down_bytes_{mark}"] + plain
        for also in ("", "_dropout_30"):
            phases = [
                found[f"{phase}_ms_{mark}{also}"] for phase in ("keys", "shares", "mask", "unmask")
            ]
            assert (
                found[f"client_ms_{mark}{also}"] == pytest.approx(sum(phases)) and min(phases) > 0
            )
            assert found[f"server_ms_{mark}{also}"] > found[f"server_unmask_ms_{mark}{also}"] > 0
    assert (
        found["bytes_ratio"] == found["up_bytes_50x3"] / 1200
        and found["ratio"] > 1
        and "1,200 bytes" in found["against"]
    )
