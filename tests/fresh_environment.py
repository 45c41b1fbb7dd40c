"""The wheel alone in fresh environments: each Python that is given, with the newest dependencies
and with the lowest declared ones.

    python tests/fresh_environment.py python3.11 python3.12 python3.13

In each, from an empty folder: the help and a list without a warning, the demo, a run on the command
line, the same run in Python, an algorithm in a file, rows of one's own. Prints a table in Markdown;
exit code 1 if anything failed or two models differ. Needs a package index, 2 GB under --folder, and
minutes. The data folder (ENTRENOUS_DATA) is shared, so that MovieLens-100K is fetched at most once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "docs" / "examples" / "my_algo.py"
NEWEST, LOWEST = "newest", "lowest"
FIRST_WHEEL = {
    "numpy": {(3, 13): "2.1.0"}
}  # the first version with a wheel for that Python, where it is above the declared one
SHOWN = ("numpy", "numba", "polars", "pydantic")
ROUNDS = 5
PROGRAM = f"""
import entrenous
data = entrenous.load("ml-100k")
run = entrenous.run("pfpl+", data, protocol="loo-99", seed=0, rounds={ROUNDS})
assert run.recommend("196", n=10).height == 10
print(run.manifest["model_sha256"])
"""


class Row(NamedTuple):
    """An environment and what came of it. models: {what: model sha256, or what went wrong}."""

    python: str
    dependencies: str
    versions: dict[str, str]
    megabytes: int
    helped: bool
    models: dict[str, str]


def lowest(version: tuple[int, int]) -> list[str]:
    """The declared dependencies at their lower bounds, as requirements."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "dependencies"
    ]
    found = []
    for requirement in declared:
        name, least = re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<[\d.]+)?", requirement).groups()  # type: ignore[union-attr]
        found.append(f"{name}=={FIRST_WHEEL.get(name, {}).get(version, least)}")
    return found


def environment(python: str, dependencies: str, wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel and nothing else; returns its interpreter."""
    home = folder / f"{Path(python).name}-{dependencies}"
    subprocess.run([python, "-m", "venv", str(home)], check=True)
    inside = home / "bin" / "python"
    said = subprocess.run(
        [inside, "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    )
    major, minor = map(int, said.stdout.split())
    wanted = [str(wheel), *(lowest((major, minor)) if dependencies == LOWEST else [])]
    quiet = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([inside, "-m", "pip", "install", *quiet, *wanted], check=True)
    return inside


def size(python: Path) -> int:
    """Megabytes (2^20 bytes) of the packages, without pip and setuptools, compiled code
    included.
    """
    packages = next((python.parent.parent / "lib").glob("python*/site-packages"))
    tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    files = (
        path
        for path in packages.rglob("*")
        if not path.relative_to(packages).parts[0].startswith(tools)
    )
    return round(sum(path.lstat().st_blocks * 512 for path in files) / 2**20)


def tried(python: Path, dependencies: str) -> Row:
    """What a new user does, from an empty folder."""
    with tempfile.TemporaryDirectory() as empty:
        clean = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "VIRTUAL_ENV")
        }

        def ran(*command: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(python), *command],
                cwd=empty,
                env=clean,
                capture_output=True,
                text=True,
                check=False,
            )

        megabytes = size(python)  # before anything is compiled by its first use
        about = "from importlib.metadata import version; import sys, json; "
        about += (
            "print(json.dumps({'python': sys.version.split()[0], **{n: version(n) for n in"
            f" {SHOWN}}}}}))"
        )
        versions = json.loads(ran("-c", about).stdout)
        listed = ran("-m", "entrenous", "algorithms")
        helped = ran("-m", "entrenous", "--help").returncode == 0 and not listed.stderr
        models = {"demo": _demo(ran("-m", "entrenous", "demo"), Path(empty))}
        asked = (
            "run",
            "pfpl+",
            "--protocol",
            "loo-99",
            "--seed",
            "0",
            "--rounds",
            str(ROUNDS),
            "--json",
        )
        run = ran("-m", "entrenous", *asked)
        models["run"] = (
            run.stderr[-300:] if run.returncode else json.loads(run.stdout)["model_sha256"]
        )
        api = ran("-c", PROGRAM)
        models["Python"] = api.stderr[-300:] if api.returncode else api.stdout.split()[-1]
        (Path(empty) / OWN.name).write_bytes(OWN.read_bytes())
        own = ran("-m", "entrenous", "run", f"./{OWN.name}", *asked[2:])
        models["own file"] = (
            own.stderr[-300:] if own.returncode else json.loads(own.stdout)["model_sha256"]
        )
        (Path(empty) / "rows.csv").write_text(own_rows(), encoding="utf-8")
        rows = ("--data", "rows.csv", "--protocol", "loo-20", "--rounds", "2", "--json")
        read = ran("-m", "entrenous", "run", "fpl", *rows)
        models["own rows"] = (
            read.stderr[-300:] if read.returncode else json.loads(read.stdout)["model_sha256"]
        )
        return Row(versions.pop("python"), dependencies, versions, megabytes, helped, models)


def own_rows() -> str:
    """A file of 50 users and 60 items, with names, quotes, values and times."""
    lines = ["user,item,rating,time"]
    for user in range(50):
        for turn in range(10):
            item = (7 * user + 3 * turn) % 60
            lines.append(f'u{user},"item {item}",{1 + (user + turn) % 5},{1_700_000_000 + turn}')
    return "\n".join(lines) + "\n"


def _demo(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    manifests = list(folder.glob("runs/pfpl*/manifest.json"))
    report = list(folder.glob("runs/pfpl*/report.html"))
    return (
        json.loads(manifests[0].read_text())["model_sha256"]
        if done.returncode == 0 and report
        else done.stderr[-300:]
    )


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    head = ["Python", "dependencies", *SHOWN, "MB", "help", *rows[0].models]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        models = [
            f"`{said[:12]}`" if re.fullmatch("[0-9a-f]{64}", said) else f"FAILED {said}"
            for said in row.models.values()
        ]
        versions = [row.versions[name] for name in SHOWN]
        lines.append(
            [
                row.python,
                row.dependencies,
                *versions,
                str(row.megabytes),
                "yes" if row.helped else "NO",
                *models,
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("python", nargs="*", default=[sys.executable])
    asked.add_argument(
        "--folder",
        type=Path,
        help="where the environments are made, and left; default: a temporary one",
    )
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(folder),
            str(ROOT),
        ]
        subprocess.run(command, check=True)
        wheel = max(folder.glob("entrenous-*.whl"), key=lambda path: path.stat().st_mtime)
        rows = []
        for python in given.python:
            for dependencies in (NEWEST, LOWEST):
                rows.append(tried(environment(python, dependencies, wheel, folder), dependencies))
                print(rows[-1], file=sys.stderr, flush=True)
    print(table(rows))
    same = all(len({row.models[what] for row in rows}) == 1 for what in rows[0].models) and all(
        row.helped for row in rows
    )
    whole = all(re.fullmatch("[0-9a-f]{64}", said) for row in rows for said in row.models.values())
    return (
        0
        if same and whole and len({rows[0].models[what] for what in ("run", "Python")}) == 1
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
