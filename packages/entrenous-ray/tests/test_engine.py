"""What is refused before Ray is started, in one line each, and soon."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from command_line import shop
from entrenous_ray import engine

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.runs.pipeline import (
    run,  # which speaks of options; entrenous.run has words of its own
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Interactions:
    return shop(tmp_path_factory.mktemp("shop"))


@pytest.mark.parametrize(
    ("algorithm", "asked", "said"),
    [
        ("pfpl+", {"workers": 0}, "--workers: got 0; expected a whole number from 1"),
        (
            "pfpl+",
            {"workers": 41},
            "--workers: got 41 for 40 users; expected no more workers than users",
        ),
        (
            "pfpl+",
            {"workers": 2, "debug": True},
            "--debug: one device at a time, in one process; leave --workers and --ray out",
        ),
        (
            "pfpl+",
            {"workers": 2, "threads": -1},
            "--threads: got -1; expected a whole number from 0",
        ),
        (
            "popular",
            {"workers": 2},
            (
                "--workers: popular has no rounds around a server; expected a server-coordinated"
                " algorithm"
            ),
        ),
        (
            "gossip-average-gmf",
            {"workers": 2},
            "--workers: gossip-average-gmf has no rounds around a server",
        ),
        (
            "sfpl+",
            {"workers": 2},
            "--workers: a round of sfpl+ is one device here; expected rounds of many devices",
        ),
        (
            "pfpl+",
            {"ray": "here"},
            (
                "--ray here: not an address; expected HOST:PORT or auto; start one with `ray start"
                " --head`"
            ),
        ),
        ("pfpl+", {"ray": "host:70000"}, "--ray host:70000: not an address"),
        (
            "pfpl+",
            {"ray": "ray://127.0.0.1:10001"},
            "--ray ray://127.0.0.1:10001: a Ray client address; expected HOST:PORT or auto",
        ),
        (
            "pfpl+",
            {"ray": "127.0.0.1:1"},
            "--ray 127.0.0.1:1: nothing answers there (Connection refused)",
        ),
    ],
)
def test_what_cannot_be_shared_out(
    algorithm: str, asked: dict[str, Any], said: str, data: Interactions, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        run(algorithm, data, protocol="loo-20", out=tmp_path, **asked)
    assert "\n" not in str(refused.value) and not list(tmp_path.iterdir())  # nothing was written


def test_what_answers_but_is_not_ray(data: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would wait for two minutes and then end the process."""
    monkeypatch.setattr(engine, "JOIN", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(
            InputError,
            match=re.escape(
                f"--ray {address}: cannot be joined (no answer as Ray gives it within 1 s)"
            ),
        ):
            run("pfpl+", data, protocol="loo-20", ray=address)
