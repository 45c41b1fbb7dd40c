"""Tests of real data skip where there is none and say so, and fail where CI was promised the
folder; one figure of the README comes out.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import paths
import pytest
from paths import ROOT, SHARED, absent, real

from entrenous.runs.pipeline import run


def test_what_is_there_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ml-100k").mkdir()
    monkeypatch.setattr(paths, "SHARED", tmp_path)
    assert real("ml-100k") == tmp_path / "ml-100k"


@pytest.mark.parametrize(
    ("ci", "named", "there", "fails"),
    [
        ("true", True, False, True),
        (
            "true",
            True,
            True,
            False,
        ),  # the folder is there, but not this data set: some may not be passed on
        ("true", False, False, False),
        ("", True, False, False),
    ],
)
def test_a_missing_folder_fails_where_ci_expects_it_and_skips_elsewhere(
    ci: str, named: bool, there: bool, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path if there else tmp_path / "nowhere"
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("ENTRENOUS_SHARED", str(folder) if named else "")
    monkeypatch.setattr(paths, "SHARED", folder)
    kind, said = (
        (pytest.fail.Exception, "where there is nothing")
        if fails
        else (pytest.skip.Exception, "ml-100k is absent")
    )
    for ask in (lambda: absent("ml-100k"), lambda: real("ml-100k")):
        with pytest.raises(kind, match=said):
            ask()


def test_a_figure_that_the_readme_prints_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Popularity on MovieLens-100K, leave one out among 99, seeds 0 to 4; the README prints seed 0,
    as the demo does.
    """
    real("ml-100k")
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))
    found = [run("popular", "ml-100k", protocol="loo-99", seed=seed).metrics for seed in range(5)]
    for metric, mean in (("hr@10", 0.407635), ("ndcg@10", 0.225717)):
        assert np.mean([one[metric] for one in found]) == pytest.approx(mean, abs=1e-6)
        printed = re.search(rf"^│ {metric} .* (\S+) │$", (ROOT / "README.md").read_text(), re.M)
        assert printed and float(printed[1]) == pytest.approx(found[0][metric], abs=5e-5)
