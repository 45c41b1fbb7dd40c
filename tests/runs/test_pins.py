"""A stored run is tied to its settings, code and libraries: what has changed since is said, and
nothing is mixed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Command, write_shop
from paths import ROOT

from entrenous.core.errors import InputError
from entrenous.runs import manifest, store
from entrenous.runs.options import OpenOptions
from entrenous.runs.pipeline import run
from entrenous.runs.reopen import recommended, resume

EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"


@pytest.fixture
def shop(tmp_path: Path) -> str:
    return str(write_shop(tmp_path / "shop.csv"))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "my_algo.py"
    path.write_text(EXAMPLE.read_text())
    return path


def stored(tmp_path: Path) -> store.StoredRun:
    return store.read("latest", tmp_path / "runs")


def change(path: Path, **entries: Any) -> None:
    """Overwrites entries of a run's manifest."""
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, **entries}))


def test_a_library_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "LIBRARIES", ("numpy", "no_such_compiler"))
    assert {"numpy", "no_such_compiler"} & manifest.versions().keys() == {"numpy"}


def test_a_manifest_has_every_setting_the_code_and_the_versions(shop: str, tmp_path: Path) -> None:
    made = run(
        "fpl", shop, protocol="loo-20", rounds=2, settings={"factors": 3}, out=tmp_path / "runs"
    ).manifest
    assert made["settings"] == {"factors": 3}
    assert (
        made["settings_in_force"]["factors"] == 3
        and {"pi", "learning_rate", "cohort"} <= made["settings_in_force"].keys()
    )
    assert len(made["algorithm_sha256"]) == len(made["program_sha256"]) == 64
    assert {"entrenous", "python", "numpy", "numba"} <= made["versions"].keys()
    other = run("fcf", shop, protocol="loo-20", rounds=2).manifest
    assert (
        other["algorithm_sha256"] != made["algorithm_sha256"]
        and other["program_sha256"] == made["program_sha256"]
    )


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            {"algorithm_sha256": "0" * 64},
            (
                "the code of fpl has changed since the run; expected the same; run it again, or say"
                " --todays-code"
            ),
        ),
        ({"settings_in_force": {"pi": 0.25}}, "the setting pi is no longer what it was in the run"),
        (
            {"settings_in_force": 3},
            "manifest.json: 'settings_in_force' is int; expected entries by name",
        ),
    ],
)
def test_another_code_or_default_is_refused_unless_asked_for(
    entries: dict[str, Any], said: str, shop: str, tmp_path: Path
) -> None:
    run("fpl", shop, protocol="loo-20", rounds=2, out=tmp_path / "runs")
    expected = recommended(stored(tmp_path), ["u3"])
    change(stored(tmp_path).path, **entries)
    with pytest.raises(InputError) as refused:
        recommended(stored(tmp_path), ["u3"])
    assert said in str(refused.value)
    assert recommended(stored(tmp_path), ["u3"], how=OpenOptions(todays_code=True)) == expected


def test_a_run_of_an_earlier_version_says_so(shop: str, tmp_path: Path) -> None:
    run("popular", shop, protocol="loo-20", out=tmp_path / "runs")
    path = stored(tmp_path).path
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(
        json.dumps({name: manifest[name] for name in manifest if name != "algorithm_sha256"})
    )
    with pytest.raises(
        InputError, match="does not say by which code it was made: it is of an earlier version"
    ):
        recommended(stored(tmp_path), ["u3"])


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"program_sha256": "0" * 64}, "the code that trains has changed since the run began"),
        ({"versions": {"numpy": "1.0"}}, "numpy was 1.0 when the run began and is "),
        ({"versions": None}, "manifest.json: 'versions' is NoneType; expected entries by name"),
    ],
)
def test_a_run_goes_on_with_what_it_began_with(
    entries: dict[str, Any], said: str, shop: str, tmp_path: Path
) -> None:
    made = run("fpl", shop, protocol="loo-20", rounds=4, out=tmp_path / "runs")
    change(stored(tmp_path).path, status="running", **entries)
    with pytest.raises(InputError) as refused:
        resume(made.manifest["run"], root=tmp_path / "runs")
    assert said in str(refused.value)
    again = resume(made.manifest["run"], root=tmp_path / "runs", todays_code=True)
    assert again.manifest["model_sha256"] == made.manifest["model_sha256"]


def test_a_file_is_run_only_where_somebody_names_it(
    shop: str, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, folder = Command(capsys), tmp_path / "runs"
    command("run", own, "--data", shop, "--protocol", "loo-20", "--rounds", "2", "--out", folder)
    refused = command("recommend", "latest", "--user", "u3", "--runs", folder)
    assert refused.code == 2 and f"name it, if you trust it: --algorithm {own}" in refused.err
    found = command(
        "recommend", "latest", "--user", "u3", "--runs", folder, "--algorithm", own, "--json"
    ).json
    assert len(found["recommendations"]) == 10
    own.write_text(own.read_text().replace("self.weight * mean", "0 * mean"))
    assert (
        "the code of"
        in command("recommend", "latest", "--user", "u3", "--runs", folder, "--algorithm", own).err
    )
    other = command("recommend", "latest", "--user", "u3", "--runs", folder, "--algorithm", "fpl")
    assert other.code == 2 and "--algorithm: got fpl" in other.err


def test_an_interrupted_run_of_ones_own_goes_on_where_it_is_named(
    shop: str, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run(str(own), shop, protocol="loo-20", rounds=4, out=tmp_path / "runs")
    change(stored(tmp_path).path, status="running")
    command = Command(capsys)
    found = command(
        "run", own, "--resume", made.manifest["run"], "--out", tmp_path / "runs", "--json"
    ).json
    assert found["model_sha256"] == made.manifest["model_sha256"]


def test_a_command_is_kept_without_its_folder() -> None:
    assert (
        manifest.command(["/opt/x/bin/entrenous", "run", "fpl", "--set", "pi=0 5"])
        == "entrenous run fpl --set 'pi=0 5'"
    )
    assert manifest.command(["/home/me/script.py", "x"]) == "" == manifest.command([])
