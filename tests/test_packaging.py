"""What the package says about itself: one version, extras that exist, a licence, and a core that is
light.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from paths import ROOT, SOURCE

import entrenous
from tests.fresh_environment import lowest

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BESIDE = sorted(ROOT.glob("packages/*/pyproject.toml"))
NOT_IN_THE_CORE = {
    "matplotlib",
    "scipy",
    "torch",
    "implicit",
    "ray",
    "flwr",
    "iroh",
    "optuna",
    "lightphe",
    "pandas",
    "pyarrow",
}


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
    files = [
        *SOURCE.rglob("*.py"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*.md"),
        *ROOT.glob("ops/*"),
        ROOT / "Makefile",
        ROOT / "lab" / "pyproject.toml",
        *BESIDE,
    ]
    named = re.findall(
        r"(?:entrenous|[\"' ]\.)\[([a-z,]+)\]",
        "\n".join(file.read_text(encoding="utf-8") for file in files),
    )
    assert (
        {"plots", "network"}
        <= {one for group in named for one in group.split(",")}
        <= extras.keys()
    )


def test_the_core_is_light_and_each_extra_brings_its_own() -> None:
    assert not {name(one) for one in PROJECT["dependencies"]} & NOT_IN_THE_CORE
    extras = {
        extra: {name(one) for one in needs}
        for extra, needs in PROJECT["optional-dependencies"].items()
    }
    assert (
        extras["implicit"] == {"implicit"}
        and extras["torch"] == {"torch"}
        and "torch" not in extras["dev"]
    )


def test_dev_brings_what_the_distributions_beside_the_package_need() -> None:
    """So that requirements-dev.lock, which is made from it, is enough for all three."""
    have = {each.name: each.specifier for each in declared_requirements("dev")}
    for path in (ROOT / "lab" / "pyproject.toml", *BESIDE):
        declared = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        assert declared["version"] == PROJECT["version"]
        for needed in map(Requirement, declared["dependencies"]):
            if needed.name.startswith(PROJECT["name"]):
                assert Version(PROJECT["version"]) in needed.specifier
                assert needed.extras <= PROJECT["optional-dependencies"].keys()
            else:
                assert have[needed.name] == needed.specifier, needed


def test_the_lowest_versions_are_those_that_are_declared() -> None:
    found = lowest((3, 11))
    assert [name(one) for one in found] == [
        name(one) for one in PROJECT["dependencies"]
    ] and "numpy==2.0" in found
    assert "numpy==2.1.0" in lowest((3, 13))


@pytest.mark.parametrize(("name", "parts"), [("numba", 2), ("cyclopts", 1)])
def test_what_may_break_us_is_capped_above_the_version_that_is_tested(
    name: str, parts: int
) -> None:
    """numba's internals are used, and cyclopts changes with each major. parts: of the version, up
    to the one that the ceiling raises by one.
    """
    (requirement,) = [each for each in declared_requirements() if each.name == name]
    ceiling = next(each for each in requirement.specifier if each.operator == "<")
    tested = list(locked("3.11")[name][0].release[:parts])
    tested[-1] += 1
    assert list(Version(ceiling.version).release) == tested


# ---- known holes, and the lock -------------------------------------------------------------------

LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
PYTHONS = [
    one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)
]
DECLARED_HOLES = {  # the first version without them
    "cryptography": ("46.0.7", "CVE-2024-12797, CVE-2026-26007, CVE-2026-34073, CVE-2026-39892"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "httptools": ("0.6.4", "CVE-2024-27982 of the llhttp in it"),
    "pyarrow": ("23.0.1", "CVE-2026-25087"),
    "pydantic": ("2.7", "CVE-2024-3772"),
    "ray": ("2.54.0", "CVE-2025-62593, CVE-2026-27482"),
    "starlette": (
        "1.3.1",
        "CVE-2025-62727, CVE-2026-48710, CVE-2026-48817, PYSEC-2026-248, PYSEC-2026-249",
    ),
    "torch": ("2.10.0", "CVE-2025-32434, CVE-2026-24747"),
}
BROUGHT_HOLES = {
    "certifi": "2024.7.4",
    "idna": "3.7",
    "requests": "2.32.4",
}  # of what others bring along: the lock alone names these


def declared_requirements(*extras: str) -> Iterator[Requirement]:
    """The core's requirements and those of some extras, with what these take from others."""
    for text in [
        *PROJECT["dependencies"],
        *(one for extra in extras for one in PROJECT["optional-dependencies"][extra]),
    ]:
        found = Requirement(text)
        if found.name == PROJECT["name"]:
            yield from declared_requirements(*sorted(found.extras))
        else:
            yield found


def locked(python: str) -> dict[str, tuple[Version, list[str]]]:
    """What the lock has for a version of Python on Linux: versions and hashes by name."""
    here = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    found = dict[str, tuple[Version, list[str]]]()
    lines = [
        line for line in LOCK.replace("\\\n", " ").splitlines() if line and not line.startswith("#")
    ]
    for line in lines:
        said, *hashes = line.split(" --hash=")
        requirement = Requirement(said)
        if requirement.marker is None or requirement.marker.evaluate(here):
            assert requirement.name not in found, requirement.name
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            found[requirement.name] = (Version(pin.version), [each.strip() for each in hashes])
    return found


@pytest.mark.parametrize("name", DECLARED_HOLES)
def test_lower_bounds_leave_known_holes_out(name: str) -> None:
    extras = PROJECT["optional-dependencies"]
    asked = [each for extra in extras for each in declared_requirements(extra) if each.name == name]
    assert asked, name
    for requirement in asked:
        least = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
        assert least and least[0] >= Version(DECLARED_HOLES[name][0]), (
            name,
            DECLARED_HOLES[name][1],
        )


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_and_the_declared_bounds_agree(python: str) -> None:
    """Whoever changes a bound runs `make lock`."""
    have = locked(python)
    for requirement in declared_requirements("dev"):
        assert requirement.name in have, requirement
        assert have[requirement.name][0] in requirement.specifier, requirement
    assert "torch" not in have and len(have) > len(
        {each.name for each in declared_requirements("dev")}
    )


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_no_known_hole_and_a_hash_of_every_file(python: str) -> None:
    have = locked(python)
    for name, (version, hashes) in have.items():
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), name
        assert version >= Version(DECLARED_HOLES.get(name, ("0",))[0]) and version >= Version(
            BROUGHT_HOLES.get(name, "0")
        ), name
    assert BROUGHT_HOLES.keys() <= have.keys()


def test_the_lock_names_no_index() -> None:
    assert "://" not in LOCK and "--index" not in LOCK and "file:" not in LOCK and len(PYTHONS) == 3
