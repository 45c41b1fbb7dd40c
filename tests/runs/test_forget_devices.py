"""A run that forgets its devices: nothing of them is in its folder, and what needs them refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Command, write_shop

import entrenous
from entrenous.core.errors import InputError
from entrenous.data.load import load
from entrenous.runs import store

SMALL: dict[str, Any] = {"protocol": "loo-20", "rounds": 3, "settings": {"factors": 4}}
OWN = ("devices.", "nodes.")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which holds shop.csv."""
    monkeypatch.chdir(tmp_path)
    return write_shop(tmp_path / "shop.csv")


def found(folder: Path, run: Any) -> list[str]:
    """The arrays of single people of which a row, as bytes, is in some file of a folder. FedFast's
    server has vectors of users.
    """
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return [
        name
        for name, array in run.arrays.items()
        if name.startswith((*OWN, "server.user"))
        and any(row.tobytes() in content for row in array if row.any())
    ]


@pytest.mark.parametrize("algorithm", ["fcf", "pfpl+", "gossip-average-gmf", "fedfast-gmf"])
def test_no_file_of_the_folder_has_bytes_of_a_device(shop: Path, algorithm: str) -> None:
    asked = {**SMALL, "settings": {"factors": 4, **CLUSTERS.get(algorithm, {})}}
    run = entrenous.run(algorithm, "shop.csv", out="runs", **asked)
    assert run.path is not None
    assert found(run.path, run) and any("model.safetensors" in said for said in of(run))
    less = entrenous.run(algorithm, "shop.csv", out="runs", forget_devices=True, **asked)
    assert less.path is not None
    assert found(less.path, run) == [] and of(less) == []
    assert less.manifest["model_sha256"] == run.manifest["model_sha256"]
    arrays, _ = store.read_arrays(less.path / "model.safetensors")
    users = less.manifest["catalogue"]["users"]
    assert not any(name.startswith(OWN) or len(kept) == users for name, kept in arrays.items())
    assert not (less.path / "users.safetensors").exists()
    copied = less.save("copy")
    assert found(copied, run) == []


CLUSTERS = {"fedfast-gmf": {"clusters": 3}}


def of(run: Any) -> list[str]:
    """The files of a run that are of single people, as its folder's manifest says."""
    return store.read_manifest(run.path)["of_people"]


def test_rows_in_memory_are_forgotten_too(shop: Path) -> None:
    rows = load("shop.csv")
    run = entrenous.run("fcf", rows, out="runs", **SMALL)
    assert run.path is not None and (run.path / "split").exists()
    assert [said.split(" (")[0] for said in of(run)] == [
        "model.safetensors",
        "users.safetensors",
        "split/",
    ]
    less = entrenous.run("fcf", rows, forget_devices=True, **SMALL)
    folder = less.save("saved")
    names = {path.name for path in folder.iterdir()}
    assert names == {"manifest.json", "model.safetensors", "trace.jsonl"}
    assert found(folder, run) == []


@pytest.mark.beside
def test_what_needs_the_devices_refuses_and_its_remedy_works(shop: Path) -> None:
    run = entrenous.run("fcf", "shop.csv", out="runs", forget_devices=True, **SMALL)
    with pytest.raises(InputError, match="train again without forget_devices"):
        entrenous.open("latest")
    with pytest.raises(InputError, match="its devices were forgotten"):
        entrenous.audit("latest")
    again = entrenous.run("fcf", "shop.csv", out="runs", **SMALL)
    assert entrenous.open("latest").recommend("u1").height == 10
    assert again.metrics == run.metrics


@pytest.mark.beside
def test_the_rest_goes_on(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without its devices can be listed, reported, repeated for a receipt, and audited as
    far as its messages go.
    """
    command = Command(capsys)
    words = ["run", "fcf", "--data", "shop.csv", "--protocol", "loo-20", "--set", "factors=4"]
    said = command(*words, "--rounds", "3")
    assert (
        "- of single people the folder holds model.safetensors (devices.x), users.safetensors"
        in said.out
    )
    said = command(*words, "--rounds", "3", "--forget-devices")
    assert "- the devices were forgotten: of single people the folder holds nothing" in said.out
    assert command("report", "latest", "--out", "page.html").code == 0
    assert "of single people the folder holds" in Path("page.html").read_text()
    assert command("runs").code == 0
    assert command("receipt", "latest", "--user", "u7", "--json").json["rounds_answered"] == 3
    assert command("audit", "latest", "--quick", "--json").json["attacks"]
    for refused in (
        ["recommend", "latest", "--user", "u7"],
        ["predict", "latest", "--user", "u7", "--item", "i1"],
        ["export", "latest", "--out", "exported"],
        ["audit", "latest"],
    ):
        error = command(*refused).error
        assert "devices were forgotten" in error and "without --forget-devices" in error


def test_a_centralised_algorithm_has_no_devices_to_forget(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    words = ["run", "popular", "--data", "shop.csv", "--protocol", "loo-20"]
    assert "has no devices" in command(*words, "--forget-devices").error
    assert command(*words).code == 0
