"""The code stays as plain as it is: each figure of `python -m tests.house` against its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrenous.systems.named import algorithms
from tests.house import bounds
from tests.house.budgets import budgets, size_file
from tests.house.english import AVOIDED, OPENINGS, avoided_words, weak_openings
from tests.house.readers import files_of
from tests.house.source import Source, every_file, packages, signatures, source_of
from tests.house.traced import from_csv_to_recommendation, from_device_to_model


def test_what_is_counted_is_what_the_bounds_say(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text('"""A docstring."""\n\nx = 1  # why\n# alone\ny = f(x)  # noqa: E501\n')
    # x = 1 is Assign, Name, Constant; y = f(x) is Assign, Name, Call, Name, Name; the docstring two
    assert source_of((file,)) == Source(files=1, nodes=10, code=2, lines=5, commented=2)


@pytest.mark.skipif(not size_file().is_file(), reason="the budgets are not on this machine")
def test_budgets() -> None:
    # Measured here and not while tests are collected, which each worker does for itself.
    assert [one for one in budgets() if not one.met] == []


@pytest.mark.parametrize("name", packages())
def test_nodes_per_code_line(name: str) -> None:
    assert source_of(packages()[name]).nodes_a_line <= bounds.NODES_A_LINE[name]


@pytest.mark.parametrize("name", packages())
def test_comments(name: str) -> None:
    assert source_of(packages()[name]).comment_share >= bounds.LEAST_COMMENTS[name]


def test_what_english_is_counted() -> None:
    assert OPENINGS.match("What of it is a plan.") and not OPENINGS.match("Whatever holds.")
    assert AVOIDED.findall("ours beside theirs, of one's own") == ["beside", "of one's own"]


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    assert len(weak_openings()) <= bounds.WEAK_OPENINGS


def test_words_to_avoid() -> None:
    assert len(avoided_words()) <= bounds.AVOIDED_WORDS


def test_nothing_is_kept_from_the_formatter() -> None:
    kept = [str(path) for path in every_file() if "# fmt:" in path.read_text(encoding="utf-8")]
    assert kept == []


def test_parameters() -> None:
    found = signatures()
    many = [one for one in found if one.parameters > 8]
    assert len(many) <= bounds.MORE_THAN_8
    assert found[0].parameters <= bounds.MOST_PARAMETERS, found[0]


def test_files_from_a_csv_to_a_recommendation(tmp_path: Path) -> None:
    opened = from_csv_to_recommendation(tmp_path)
    assert {"data/load.py", "systems/fpl.py", "evaluation/recommend.py"} <= set(opened)
    assert len(opened) <= bounds.CSV_TO_RECOMMENDATION


@pytest.mark.beside
def test_files_of_one_https_round(tmp_path: Path) -> None:
    opened = from_device_to_model(tmp_path)
    way = {"node/node.py", "server/intake.py", "links/application.py"}
    assert way <= set(opened)
    assert len(opened) <= bounds.HTTPS_ROUND


@pytest.mark.parametrize("name", sorted(algorithms()))
def test_files_of_an_algorithm(name: str) -> None:
    assert len(files_of(name)) <= bounds.FILES_OF_AN_ALGORITHM
