"""`entrenous bench secure-sum`, with a few parties: it sums exactly, and its bytes are those of the
messages.
"""

from __future__ import annotations

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
        assert found[f"plain_bytes_{mark}"] == plain
        assert plain < found[f"mask_bytes_{mark}"] < plain + 256
        sent = sum(found[f"{phase}_bytes_{mark}"] for phase in ("keys", "shares", "mask", "unmask"))
        assert found[f"up_bytes_{mark}"] == sent
    assert found["bytes_ratio"] == found["up_bytes_50x3"] / 1200
