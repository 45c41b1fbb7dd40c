"""Settings chosen before a run: by validation alone, from the defaults on, and as if nothing had
interrupted it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Command, shop, write_shop

import entrenous
from entrenous.core.contract.declared import search_space
from entrenous.core.errors import InputError
from entrenous.runs.pipeline import RunRequest
from entrenous.runs.tuning import search as module
from entrenous.runs.tuning.before import chosen_before, space_of
from entrenous.systems.named import algorithms

FEW: dict[str, Any] = {
    "protocol": "loo-20",
    "rounds": 4,
    "settings": {"factors": 4},
    "threads": 1,
}


def test_declared_spaces_hold_their_defaults() -> None:
    """Trial 0 of a search has them. What a name presets elsewhere is not searched for."""
    spaces = {
        name: space for name, maker in algorithms().items() if (space := search_space(maker()))
    }
    elsewhere = {name: space.keys() - space_of(name, {}).keys() for name, space in spaces.items()}
    assert {name: gone for name, gone in elsewhere.items() if gone} == {
        "fcf-huawei": {"alpha"},
        "central-mlp": {"reg"},
        "fedmf-printed": {"reg", "batch"},
        "fedncf-printed": {"batch", "reg", "learning_rate_item", "learning_rate"},
        "fedrecon-printed": {"reg", "server_rate", "learning_rate"},
    }
    usual = {
        "fcf",
        "fcf-newton",
        "fpl",
        "pfpl+",
        "fedavg-gmf",
        "cali3f-neumf",
        "central-gmf",
        "ials",
        "ease",
        "bpr-mf",
    }
    assert usual <= spaces.keys() and spaces.keys().isdisjoint(("popular", "random"))


def test_the_defaults_come_first_and_a_file_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    data, begun = shop(tmp_path), list[int]()
    whole = chosen_before(RunRequest("pfpl+", data, out=tmp_path / "whole", **FEW), 3)
    settings, rounds = whole.request.settings, whole.request.rounds
    assert settings["factors"] == 4 and rounds is not None and 1 <= rounds <= 4
    assert set(whole.told["changed"]) <= {"learning_rate", "init_std"} and whole.told["trials"] == 3
    told = whole.told["validation"]
    assert told["chosen"] >= told["default"] > 0
    chosen_before(RunRequest("pfpl+", data, out=tmp_path / "part", **FEW), 1)
    (part,), (file,) = (list((tmp_path / name).iterdir()) for name in ("part", "whole"))
    first, usual = json.loads(part.read_text().splitlines()[1]), dict(algorithms()["pfpl+"]())
    assert first["settings"] == {name: usual[name] for name in ("learning_rate", "init_std")}
    assert part.name == file.name and file.read_bytes().startswith(part.read_bytes())
    real = module.attempt
    monkeypatch.setattr(module, "attempt", lambda *arguments: begun.append(1) or real(*arguments))
    again = chosen_before(RunRequest("pfpl+", data, out=tmp_path / "part", **FEW), 3)
    assert (again.request.settings, again.request.rounds, len(begun)) == (settings, rounds, 2)
    assert part.read_bytes() == file.read_bytes()


def test_what_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    data = shop(tmp_path)
    with pytest.raises(InputError, match="--tune: popular declares no search space"):
        chosen_before(RunRequest("popular", data, protocol="loo-20"), 2)
    with pytest.raises(InputError, match="all that is searched for is fixed"):
        chosen_before(RunRequest("ease", data, protocol="loo-20", settings={"reg": 100}), 2)


def test_run_tunes_first_says_what_changed_and_trains_with_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path / "shop.csv")
    command, words = (
        Command(capsys),
        ["run", "ease", "--data", "shop.csv", "--protocol", "loo-20", "--tune", "3"],
    )
    found = command(*words, "--json").json
    assert found["tuned"]["trials"] == 3 and (tmp_path / found["tuned"]["file"]).is_file()
    reg = float(found["settings"]["reg"])
    assert found["tuned"]["changed"] == ({} if reg == 500 else {"reg": [500.0, reg]})
    own = entrenous.run("ease", shop(tmp_path), split="loo-20", settings={"reg": reg})
    assert found["model_sha256"] == own.manifest["model_sha256"]
    assert f"tuned in 3 trials: reg 500.0 -> {reg}" in command(*words).out
    for extra in (["--patience", "2", "--every", "1"], ["--profile", "private"]):
        assert "does not go with --tune" in command(*words, *extra).error
