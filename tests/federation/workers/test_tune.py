"""Settings tried at once in workers: a grid is the same. One Ray for this file."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import shop

import entrenous.federation.workers.crew as crews
import entrenous.runs.tuning.grid as tuning
from entrenous.core.errors import EntrenousError, EntrenousWarning, InputError
from entrenous.data.interactions import Interactions
from entrenous.federation.workers.calls import prepare, spread
from entrenous.federation.workers.crew import Crew
from entrenous.federation.workers.engine import EngineOptions, crew
from entrenous.runs.tuning.grid import TrialHand, tune

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def two() -> Iterator[Crew]:
    with crew(EngineOptions(2, None, 1), TrialHand, 2) as hired:
        yield hired


@pytest.fixture
def kept(two: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for workers gets those that are there: to start some takes seconds."""

    @contextmanager
    def the_same(asked: EngineOptions, *_: Any) -> Iterator[Crew]:
        assert asked
        yield two

    monkeypatch.setattr(tuning, "crew", the_same)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Interactions:
    return shop(tmp_path_factory.mktemp("shop"))


@pytest.mark.usefixtures("kept")
def test_a_grid_is_the_same(data: Interactions) -> None:
    grid = {"factors": ["3", "6"], "learning_rate": ["0.1", "1e38"]}
    here, there = (
        tune(
            "fcf", data, protocol="loo-20", grid=grid, rounds=4, every=2, threads=1, workers=workers
        )
        for workers in (None, 2)
    )
    assert here == there and len(here["failed"]) == 2


@pytest.mark.usefixtures(
    "two"
)  # Ray is there already, with two CPUs that are taken: a third is not to be had
def test_more_workers_than_there_are_cpus_is_one_line(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "READY", 3.0)
    with pytest.raises(
        InputError,
        match="1 of 1 did not start within 3 s; the cluster has 2 CPUs; expected 1 free for each",
    ):
        tune("fcf", data, protocol="loo-20", grid={"factors": ["3"]}, rounds=4, workers=1)


def killer(marker: Path, always: bool) -> Any:
    """A trial that ends its worker, the first time or always. It travels by value: workers do not
    have this module.
    """

    def killing(task: Any) -> int:
        if always or not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return int(task)

    return killing


def test_a_trial_whose_worker_dies_is_begun_again(two: Crew, tmp_path: Path) -> None:
    first = prepare(two, ("hold", 7))
    with pytest.warns(
        EntrenousWarning, match=r"worker \d of 2 .* died .*; another begins its work again"
    ):
        ended = dict(spread(two, first, "do", [(killer(tmp_path / "died", False),)] * 5))
    assert ended == dict.fromkeys(range(5), 7)


def test_one_that_ends_every_worker_ends_the_choice(two: Crew, tmp_path: Path) -> None:
    first = prepare(two, ("hold", 0))
    with (
        pytest.warns(EntrenousWarning),
        pytest.raises(EntrenousError, match="4 times at the same work; out of memory"),
    ):
        list(spread(two, first, "do", [(killer(tmp_path / "died", True),)]))
