"""Installed packages bring algorithms, metrics, splits, data sets and experiments by entry
points.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT

from entrenous.core.errors import InputError
from entrenous.core.registry import plugins
from entrenous.core.registry.discover import modules
from entrenous.data.dataset import datasets
from entrenous.data.split.protocol import protocols
from entrenous.evaluation.metric_kinds import metrics
from entrenous.runs.pipeline import run
from entrenous.systems.named import algorithms, maker_of

MODULE = """
import numpy as np
from entrenous import Dataset, QueryMetric, Split, Held, synthetic

DATA = Dataset(name="tiny", summary="s", terms="t", citation="c", origin="o",
               read=lambda path: synthetic(users=12, items=30, interactions=120, seed=1))
METRIC = QueryMetric(lambda ranking, n: (ranking.total(ranking.rank == 1) > 0).astype(np.float64), cutoff=False)

def halves(data, seed=0):
    keep = np.arange(len(data)) % 2 == 0
    return [Split(f"halves", data.select(keep), None, Held(data.select(~keep)), refit=False)]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package as pip installs it: modules and a dist-info folder."""
    (tmp_path / "brought.py").write_text(MODULE)
    (tmp_path / "brought_algo.py").write_text(
        (ROOT / "docs" / "examples" / "my_algo.py").read_text()
    )
    offer(
        tmp_path,
        algorithms="brought = brought_algo:MyAlgorithm",
        metrics="first = brought:METRIC",
        splits="halves = brought:halves",
        datasets="tiny = brought:DATA",
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugins.plugged.cache_clear()
    yield tmp_path
    plugins.plugged.cache_clear()
    for name in ("brought", "brought_algo"):
        sys.modules.pop(name, None)


def offer(folder: Path, **groups: str) -> None:
    info = folder / "brought-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[entrenous.{group}]\n{line}\n" for group, line in groups.items())
    )
    plugins.plugged.cache_clear()


def test_what_a_package_brings_is_used_by_name(package: Path) -> None:
    assert (
        "brought" in algorithms()
        and "first" in metrics()
        and "halves" in protocols()
        and "tiny" in datasets()
    )
    made = run("brought", "tiny", protocol="halves", rounds=2)
    assert (
        made.manifest["algorithm"] == "brought"
        and made.manifest["protocol"] == "halves"
        and 0 <= made.metrics["first"] <= 1
    )


def test_a_package_brings_all_that_its_files_offer(package: Path) -> None:
    """As the folders of the library do. A name imports its own file and no other."""
    files = package / "many"
    files.mkdir()
    (files / "__init__.py").write_text("")
    (files / "one.py").write_text(
        'from brought_algo import MyAlgorithm\n\nALGORITHMS = {"one": MyAlgorithm, "two": MyAlgorithm}\n'
    )
    (files / "other.py").write_text('raise RuntimeError\n\nALGORITHMS = {"other": None}\n')
    offer(package, algorithms="any = many")
    assert maker_of("two").__name__ == "MyAlgorithm"
    (files / "other.py").write_text('ALGORITHMS = {"fpl": None}\n')
    with pytest.raises(InputError, match="a package offers 'fpl', which is taken"):
        algorithms()
    (files / "other.py").unlink()
    modules.cache_clear()
    assert {"one", "two"} <= algorithms().keys() and "any" not in algorithms()


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (
            {"algorithms": "fpl = brought_algo:MyAlgorithm"},
            "entrenous.algorithms: a package offers 'fpl', which is taken",
        ),
        (
            {"algorithms": "gone = nothing_such:A"},
            "package brought: 'gone = nothing_such:A' cannot be loaded: ModuleNotFoundError",
        ),
        (
            {"algorithms": "gone = brought:Nothing"},
            "package brought: 'gone = brought:Nothing' cannot be loaded: AttributeError",
        ),
    ],
)
def test_what_cannot_be_used_names_its_package(
    package: Path, groups: dict[str, str], said: str
) -> None:
    offer(package, **groups)
    with pytest.raises(InputError) as refused:
        algorithms()
    assert said in str(refused.value)
