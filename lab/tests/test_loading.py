"""The bench of loading, on a small file."""

from __future__ import annotations

from entrenous_lab.benches.loading import loading


def silent(done: int, of: int, what: str) -> None:
    """Shows no progress."""


def test_the_bench_loads_what_it_wrote() -> None:
    found = loading(1, silent, rows=60_000)
    assert 50_000 < found["rows"] < 60_000
    assert found["ratio"] > 0 and found["cpu_ratio"] > 0
    # The peak is that of the process, which may have run other tests.
    assert found["peak_mb"] > 50
