"""The order of the tests (conftest.py) names folders that there are, and leaves each file whole."""

from __future__ import annotations

from paths import ROOT

from conftest import COMPILED, COMPILING, FREE, LATER, _place


def test_folders_that_are_named_hold_tests() -> None:
    for folder in (*COMPILING, *COMPILED, *LATER):
        assert list((ROOT / folder).rglob("test_*.py")), folder


def test_what_compiles_comes_before_what_needs_it_compiled() -> None:
    ray, fpl, data, gossip = (
        _place(f"{file}.py::test")
        for file in (
            "packages/entrenous-ray/tests/test_cli",
            "tests/algorithms/test_fpl",
            "tests/data/test_fetch",
            "tests/federation/test_gossip",
        )
    )
    assert fpl < ray < data == FREE < gossip
