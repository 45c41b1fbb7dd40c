"""Errors are one line, whatever is in them."""

from __future__ import annotations

from entrenous.core.errors import InputError


def test_a_long_problem_is_cut_before_its_remedy() -> None:
    error = InputError("a.csv:1", "x" * 2_000, expected="less", fix="say y=1")
    assert len(str(error)) == 600
    assert str(error).endswith("…; expected less; say y=1")
