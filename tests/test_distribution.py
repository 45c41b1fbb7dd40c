"""What is published: the wheel and the source distribution, built as for an index, and the wheel
used in an environment of its own, with the dependencies of this one and without its source.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from paths import ROOT

import entrenous
from entrenous.core.registry.neighbours import NEIGHBOURS
from tests.release import problems

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed"),
]
OURS = "entrenous"


class Built(NamedTuple):
    """The files of a release."""

    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    """Both distributions, built without a network."""
    return built_from(ROOT, tmp_path_factory.mktemp("dist"))


def built_from(folder: Path, out: Path) -> Built:
    """Builds the distribution in a folder of the repository."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    (source,) = out.glob("*.tar.gz")
    return Built(wheel, source)


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The folder of programs of an environment with the wheel of the library alone."""
    return environment(tmp_path_factory.mktemp("environment"), built.wheel)


def environment(folder: Path, *wheels: Path) -> Path:
    """The folder of programs of a new environment with some wheels and what they declare to need,
    which is linked from this environment.
    """
    home = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    packages = next((home / "lib").glob("python*/site-packages"))
    here = Path(sysconfig.get_path("purelib"))
    for name in needed(*wheels):
        (packages / name).symlink_to(here / name)
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps"]
    subprocess.run([*uv, "--python", home / "bin" / "python", *wheels], check=True)
    return home / "bin"


def needed(*wheels: Path) -> set[str]:
    """The files and folders of all packages that some wheels require, directly or not."""
    waiting = [one for wheel in wheels for one in metadata_of(wheel).requires_dist or ()]
    found = dict[str, Distribution]()
    while waiting:
        asked = waiting.pop()
        wanted = asked.marker is None or asked.marker.evaluate({"extra": ""})
        if wanted and asked.name not in found and not asked.name.startswith(OURS):
            found[asked.name] = distribution(asked.name)
            waiting += map(Requirement, found[asked.name].requires or ())
    files = [file for one in found.values() for file in one.files or ()]
    return {file.parts[0] for file in files} - {"..", "__pycache__", "bin"}


# Device code in plain Python: nothing is compiled, and the model is the same to the bit.
PLAIN = {"NUMBA_DISABLE_JIT": "1"}


def used(programs: Path, folder: Path, *words: str) -> str:
    """The output of a program of the environment, run in a folder without the source in reach."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST")
    clean = {name: value for name, value in os.environ.items() if name not in hidden}
    clean |= PLAIN
    program, *rest = words
    done = subprocess.run(
        [programs / program, *rest],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def metadata_of(wheel: Path) -> Metadata:
    """The metadata of a wheel. Raises for what an index would refuse."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Metadata.from_email(archive.read(name), validate=True)


def test_an_index_takes_the_metadata(built):
    metadata = metadata_of(built.wheel)
    assert metadata.name == "entrenous" and str(metadata.version) == entrenous.__version__
    assert metadata.description_content_type == "text/markdown" and metadata.description
    assert metadata.license_expression == "Apache-2.0" and metadata.author_email
    links = metadata.project_urls
    assert {"Homepage", "Source", "Issues", "Changelog", "Security"} == set(links)
    home = links["Homepage"]
    assert all(link.startswith(home) for link in links.values())


def test_the_links_of_the_readme_lead_to_the_repository(built):
    """On an index nothing lies beside it. Texts and pictures have addresses of their own."""
    metadata = metadata_of(built.wheel)
    home = metadata.project_urls["Homepage"]
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", metadata.description)
    assert len(links) > 10 and {"", "!"} == {picture for picture, _ in links}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for picture, link in links:
        kind = "raw" if picture else "blob"
        before = f"{home}/{kind}/main/"
        assert link.startswith(before)
        assert f"]({link.removeprefix(before)})" in readme


def test_a_release_is_refused_while_its_address_is_a_placeholder(built):
    assert list(problems(built.wheel.parent)) == []
    wrong = list(problems(built.wheel.parent, entrenous.__version__))
    assert any("still the placeholder" in line for line in wrong)
    assert any("with its date" in line for line in wrong)
    assert any("no release is on a package index" in line for line in wrong)
    assert any("expected 9.9" in line for line in problems(built.wheel.parent, "9.9"))


def test_the_wheel_has_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built.wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"entrenous", f"entrenous-{entrenous.__version__}.dist-info"}
    assert {"entrenous/py.typed", "entrenous/report/style.css"} <= set(names)
    assert not [name for name in names if name.endswith((".nbi", ".nbc", ".pyc"))]
    assert not [name for name in names if "/tests/" in name]
    assert built.wheel.stat().st_size < 2_000_000


def test_the_source_distribution_is_enough_to_build_the_wheel(built, tmp_path):
    with tarfile.open(built.source) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with (
        zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as again,
        zipfile.ZipFile(built.wheel) as one,
    ):
        same = {info.filename: info.CRC for info in one.infolist()}
        assert {info.filename: info.CRC for info in again.infolist()} == same


def test_the_wheel_does_the_core_of_the_demo(installed, tmp_path):
    """Trains as published, evaluates, recommends, reports; on a file, without the clone. The model
    is that of the source here.
    """
    draws = random.Random(0)
    rows = ["user,item,time"]
    for user in range(40):
        for time, item in enumerate(draws.sample(range(30), 8)):
            rows.append(f"u{user},i{item},{1_700_000_000 + time}")
    (tmp_path / "visits.csv").write_text("\n".join(rows) + "\n")
    assert used(installed, tmp_path, "entrenous", "--version").strip() == entrenous.__version__
    where = used(installed, tmp_path, "python", "-c", "import entrenous; print(entrenous.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent)
    asked = ("run", "fpl", "--data", "visits.csv", "--protocol", "loo-5", "--rounds", "2", "--json")
    run = json.loads(used(installed, tmp_path, "entrenous", *asked))
    here = entrenous.run("fpl", tmp_path / "visits.csv", protocol="loo-5", rounds=2)
    assert run["model_sha256"] == here.manifest["model_sha256"]
    told = used(installed, tmp_path, "entrenous", "recommend", "latest", "--user", "u1", "--json")
    assert len(json.loads(told)["recommendations"]) == 10
    used(installed, tmp_path, "entrenous", "report", "latest", "--out", "report.html")
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_library_has_no_server_and_no_attack(built):
    """Neither a file of the network or the audit, nor the constant that declares an attack."""
    with zipfile.ZipFile(built.wheel) as archive:
        texts = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
    parts = {part for name in texts for part in Path(name).parts}
    assert not parts & {"auditing", "attacks", "poison"}
    assert not parts & {"deploy", "server", "node", "peers", "secure_sum"}
    assert [
        name for name, text in texts.items() if re.search(rb"^(ATTACK|POISONS)\b", text, re.M)
    ] == []


def test_the_library_alone_names_what_is_not_installed(installed, tmp_path):
    shown = used(installed, tmp_path, "entrenous", "--help")
    for one in NEIGHBOURS:
        names = [name for group in one.commands.values() for name in group]
        for name in names:
            assert re.search(rf"{name} +Not installed: {re.escape(one.line)}", shown)
    explained = used(installed, tmp_path, "entrenous", "explain", "pfpl+")
    assert "EXPOSED" in explained, "what audits found is told without the audit"


@pytest.mark.parametrize("one", NEIGHBOURS, ids=lambda one: one.extra)
def test_each_neighbour_works_beside_the_library_alone(one, built, tmp_path):
    """What the table of neighbours says is there, and what others bring is not."""
    wheel = built_from(ROOT / "packages" / f"entrenous-{one.extra}", tmp_path / "dist").wheel
    assert str(metadata_of(wheel).version) == entrenous.__version__
    programs = environment(tmp_path, built.wheel, wheel)
    shown = used(programs, tmp_path, "entrenous", "--help")
    for other in NEIGHBOURS:
        for name in [name for group in other.commands.values() for name in group]:
            assert bool(re.search(rf"{name} +Not installed", shown)) == (other != one)
    program = f"""
from importlib.metadata import entry_points
from entrenous.systems.named import algorithms
import entrenous
engines = {{point.name: point for point in entry_points(group="entrenous.engines")}}
assert set(engines) == set({one.engines!r})
for name, point in engines.items():
    # Actors serve a federation, which needs the extra `network` as well.
    if name != "actors":
        point.load()
assert set({one.algorithms!r}) <= algorithms().keys()
for name, place in entrenous.LAZY.items():
    if place.startswith("entrenous_{one.extra}."):
        getattr(entrenous, name)
"""
    used(programs, tmp_path, "python", "-c", program)
