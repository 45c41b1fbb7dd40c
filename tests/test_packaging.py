"""What the package says about itself: one version, extras that exist, a licence, and a core that is light."""

from __future__ import annotations

import re
import tomllib

from paths import ROOT, SOURCE

import entrenous
from tests.fresh_environment import lowest

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOT_IN_THE_CORE = {"matplotlib", "scipy", "torch", "implicit", "ray", "flwr", "iroh", "optuna", "lightphe", "pandas", "pyarrow"}


def name(requirement: str) -> str:
    """The package that a requirement names."""
    return re.split(r"[<>=\[]", requirement)[0]


def test_there_is_one_version() -> None:
    assert PROJECT["version"] == entrenous.__version__
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_there_is_one_licence() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text() and PROJECT["license"] == "Apache-2.0"
    assert "license: Apache-2.0" in (ROOT / "CITATION.cff").read_text()


def test_every_extra_that_is_named_exists() -> None:
    extras = PROJECT["optional-dependencies"]
    files = [*SOURCE.rglob("*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), *ROOT.glob("ops/*"), ROOT / "Makefile"]
    named = re.findall(r"(?:entrenous|[\"' ]\.)\[([a-z,]+)\]", "\n".join(file.read_text(encoding="utf-8") for file in files))
    assert {"plots", "implicit", "network"} <= {one for group in named for one in group.split(",")} <= extras.keys()


def test_the_core_is_light_and_each_extra_brings_its_own() -> None:
    assert not {name(one) for one in PROJECT["dependencies"]} & NOT_IN_THE_CORE
    extras = {extra: {name(one) for one in needs} for extra, needs in PROJECT["optional-dependencies"].items()}
    assert extras["implicit"] == {"implicit"} and extras["torch"] == {"torch"} and "torch" not in extras["dev"]


def test_the_lowest_versions_are_those_that_are_declared() -> None:
    found = lowest((3, 11))
    assert [name(one) for one in found] == [name(one) for one in PROJECT["dependencies"]] and "numpy==2.0" in found
    assert "numpy==2.1.0" in lowest((3, 13))
