"""Files for a public forge say what this repository has: targets of make, scripts, versions of
Python, programs of the hooks. That a forge runs them is untried, and they say so.
"""

from __future__ import annotations

import re
import tomllib

import pytest
from paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_there_and_says_that_it_is_untried(workflow) -> None:
    text = workflow.read_text(encoding="utf-8")
    assert "UNTRIED" in text.split("name:")[0]
    targets = re.findall(r"- run: make (\w+)", text)
    scripts = re.findall(r"\b(?:tests|ops)/[\w./]+", text)
    assert targets or scripts
    for target in targets:
        assert re.search(rf"^{target}:", MAKEFILE, re.M), target
    for script in scripts:
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_and_nothing_else_by_default(workflow) -> None:
    text = workflow.read_text(encoding="utf-8")
    assert "\npermissions: {contents: read}\n" in text
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
    assert "secrets." not in text


def test_every_declared_python_is_in_the_matrix_and_the_untried_one_is_not_declared() -> None:
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"python: \[(.*?)\]", text)
    versions = re.findall(r"\d\.\d+", matrix)
    declared = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d", c)]
    assert set(declared) < set(versions)
    for version in set(versions) - set(declared):
        assert f"matrix.python == '{version}'" in text, "may fail, since it was never tried"


def test_publishing_needs_no_secret() -> None:
    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8")
    assert "id-token: write" in text and "environment: release" in text
    assert "password" not in text.split("jobs:")[1]


def test_hooks_run_the_checks_of_make_lint() -> None:
    programs = re.findall(r"entry: \.venv/bin/(.*)", HOOKS)
    assert programs == ["ruff check", "ruff format --check", "mypy"]
    lint = MAKEFILE.replace("$(BIN)/", "")
    assert all(f"\t{program}" in lint for program in programs)
