"""The documentation does what it says: the algorithm in docs/add-your-own.md runs, and the README's commands exist."""

from __future__ import annotations

import re

import numpy as np
from paths import ROOT, SOURCE

from entrenous.core.declared import is_federated
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.testing import conform
from tests.docstrings import FEW, public

OPEN = {"papers"}  # whose short docstrings are still to be rewritten


def test_the_algorithm_of_the_documentation_counts_popularity() -> None:
    page = (ROOT / "docs" / "add-your-own.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.S)
    assert code is not None
    space: dict = {"__name__": "documentation"}
    exec(compile(code[1], "docs/add-your-own.md", "exec", dont_inherit=True), space)
    algorithm = space["ALGORITHMS"]["fed-pop"]()
    assert is_federated(algorithm)
    conform(algorithm)
    data = synthetic(users=20, items=30, interactions=150, skew=0.5, seed=0)
    rounds = Rounds(algorithm, data)
    assert np.array_equal(rounds.advance(rounds.start(), 1).server.count, data.popularity)


def test_every_command_of_the_readme_exists() -> None:
    from entrenous.cli import _app

    readme = (ROOT / "README.md").read_text()
    named = set(re.findall(r"^(?:\.venv/bin/)?entrenous ([a-z]+)", readme, re.M))
    assert len(named) >= 8
    assert named <= {name for name in _app() if not name.startswith("-")}


def test_the_glossary_is_short_and_in_plain_sentences() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^- \*\*(.+?)\*\*(.*)$", page, re.M)
    assert 1 <= len(terms) == page.count("\n- ") <= 25
    assert len({term for term, _ in terms}) == len(terms)
    for term, said in terms:
        assert said.endswith(".") and len(re.findall(r"[.](?: |$)", said)) <= 2, term


def test_the_glossary_can_be_found() -> None:
    assert "(glossary.md)" in (ROOT / "docs" / "add-your-own.md").read_text()


def test_no_public_docstring_is_too_short_to_stand_alone() -> None:
    short = {".".join(one.module.split(".")[:2]) for one in public(SOURCE) if one.words <= FEW}
    assert {module for module in short if not {module, module.split(".")[0]} & OPEN} == set()
