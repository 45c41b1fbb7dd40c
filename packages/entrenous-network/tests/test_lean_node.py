"""A node in an environment that has what ops/node_requirements.txt names and nothing else: without
numba, the compiler of device code, it ends with the bytes of a simulation all the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from federation_links import PATIENCE, simulated, whole_sha256
from gathered_model import gathered
from packaging.requirements import Requirement
from paths import NETWORK, ROOT, SOURCE
from service_processes import at_a_port, process

from entrenous.core.compiling import UNCOMPILED
from tests.test_packaging import declared_requirements

NEEDED = [
    Requirement(line.partition("#")[0])
    for line in (ROOT / "ops" / "node_requirements.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def brought(names: list[str]) -> set[str]:
    """The names of distributions, and of all that they need."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name in found:
            continue
        found.add(name)
        for needed in map(Requirement, distribution(name).requires or []):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                names.append(needed.name)
    return found


@pytest.fixture(scope="module")
def lean(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The Python of an environment with the needed distributions of this one, as a command."""
    home = tmp_path_factory.mktemp("lean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    packages = next((home / "lib").glob("python*/site-packages"))
    here = Path(sysconfig.get_path("purelib"))
    for name in brought([each.name for each in NEEDED]):
        for entry in {file.parts[0] for file in distribution(name).files or []} - {"..", "bin"}:
            if not (packages / entry).exists():
                (packages / entry).symlink_to(here / entry)
    # Its commands are found by their entry point.
    (entry,) = here.glob("entrenous_network-*.dist-info")
    (packages / entry.name).symlink_to(entry)
    return [str(home / "bin" / "python"), "-W", "ignore::RuntimeWarning"]


def ran(lean: list[str], *words: object) -> subprocess.CompletedProcess[str]:
    """What a command of the environment said."""
    command = [*lean, *map(str, words)]
    return subprocess.run(
        command, env=clean(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def clean() -> dict[str, str]:
    """The variables of this process, with the sources of the package and its network on the path."""
    sources = os.pathsep.join(map(str, [SOURCE.parent, NETWORK.parent]))
    return {**os.environ, "PYTHONPATH": sources, "NUMBA_DISABLE_JIT": "0"}


def test_the_list_has_bounds_that_the_package_declares() -> None:
    project = tomllib.loads(NETWORK.parents[1].joinpath("pyproject.toml").read_text())["project"]
    of_network = map(Requirement, project["dependencies"])
    declared = {each.name: each.specifier for each in (*of_network, *declared_requirements())}
    assert {each.name: each.specifier for each in NEEDED}.items() <= declared.items()


def test_a_node_without_numba_ends_with_the_bytes_of_the_simulation(
    lean: list[str], tmp_path: Path
) -> None:
    settings = {"factors": 4}
    made, _ = at_a_port(tmp_path / "f", algorithm="fcf", nodes=4, rounds=2, settings=settings)
    first, *others = made.nodes.values()
    node = [*lean, "-m", "entrenous", "node", str(first), "--threads", "1"]
    log = tmp_path / "lean.log"
    with (
        open(log, "wb") as said,
        subprocess.Popen(node, env=clean(), stdout=said, stderr=said) as one,
    ):
        try:
            with (
                process("node", others[0]),
                process("node", others[1]),
                process("node", others[2]),
                process("server", made.server) as server,
            ):
                _, error = server.communicate(timeout=PATIENCE)
        finally:
            one.terminate()
    assert server.returncode == 0, error + log.read_text()
    assert UNCOMPILED in log.read_text()
    assert gathered(made.server.parent).sha256 == whole_sha256(simulated(made))
    # The device of the folder recommends by the model that it was given.
    listed = ran(lean, "-m", "entrenous", "federation", "recommend", first, "--json")
    assert listed.returncode == 0 and '"items"' in listed.stdout, listed.stderr


def test_nothing_of_the_compiler_is_loaded_without_numba(lean: list[str]) -> None:
    code = (
        "import sys, entrenous.systems.fcf, entrenous.systems.fpl, entrenous_network.node.node;"
        " print({'numba', 'llvmlite', 'entrenous.core.lanes.simd_instructions'} & set(sys.modules))"
    )
    assert ran(lean, "-c", code).stdout.strip() == "set()"


def test_what_needs_more_says_so_in_one_line(lean: list[str], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("user,item\na,b\n")
    asked = ran(lean, "-m", "entrenous", "run", "fpl", "--data", tmp_path / "rows.csv")
    said = "error: polars is not installed, and this command needs it; pip install polars\n"
    assert (asked.returncode, asked.stderr) == (2, said)
    asked = ran(lean, "-m", "entrenous", "server", tmp_path)
    said = "error: federation: starlette, uvicorn not installed; pip install 'entrenous[network]'\n"
    assert (asked.returncode, asked.stderr) == (2, said)
