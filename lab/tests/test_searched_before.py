"""Settings chosen for a table: by validation alone, from the defaults on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import shop
from entrenous_lab.search import tpe
from entrenous_lab.search.before import chosen_before, space_of

from entrenous.core.contract.declared import search_space
from entrenous.systems.named import algorithms

FEW: dict[str, Any] = {"protocol": "loo-20", "rounds": 4, "settings": {"factors": 4}, "seed": 0}


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
    usual = {"fcf", "fcf-newton", "fpl", "pfpl+", "fedavg-gmf", "cali3f-neumf", "central-gmf"}
    assert usual | {"ials", "ease", "bpr-mf"} <= spaces.keys()
    assert spaces.keys().isdisjoint(("popular", "random"))


def test_the_defaults_come_first_and_the_best_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[dict[str, Any]] = []
    attempt = tpe.attempt

    def told(task: Any, settings: Any, stop: Any) -> Any:
        tried.append(dict(settings))
        return attempt(task, settings, stop)

    monkeypatch.setattr(tpe, "attempt", told)
    chosen = chosen_before("pfpl+", shop(tmp_path), trials=3, **FEW)
    usual = dict(algorithms()["pfpl+"]())
    first = {name: usual[name] for name in ("learning_rate", "init_std")}
    assert tried[0] == {"factors": 4, **first} and len(tried) == 3
    assert chosen is not None and chosen.settings in tried
    assert chosen.rounds in (1, 2, 3, 4)
