"""Settings tried at once in workers: a grid is the same, a search is the same for the same number
of workers. One Ray for this file.
"""

from __future__ import annotations

import json
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
from entrenous.runs.tuning.search import search

pytest.importorskip("ray")
pytest.importorskip("optuna")

SPACE = {"learning_rate": "0.001..1:log", "factors": "2..6", "pi": "0.5,1"}


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


def searched(data: Interactions, **options: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "protocol": "loo-20",
        "space": SPACE,
        "trials": 14,
        "rounds": 6,
        "every": 3,
        "threads": 1,
    }
    return search("pfpl+", data, **{**usual, **options})


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


@pytest.mark.usefixtures("kept")
def test_one_at_a_time_searches_as_no_worker_does(data: Interactions) -> None:
    assert searched(data, workers=1) == searched(data)


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
        searched(data, workers=1)


@pytest.mark.usefixtures("kept")
def test_two_at_once_are_the_same_every_time_and_the_same_beginning_of_a_longer_search(
    data: Interactions, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("first", "again", "longer")]
    first, again, longer = (
        searched(data, workers=2, out=file, trials=many)
        for file, many in zip(files, (13, 13, 16), strict=True)
    )
    assert first == again and first["workers"] == 2
    lines = [file.read_bytes().split(b"\n") for file in files]
    assert lines[0] == lines[1] and lines[0][:-1] == lines[2][:14] and longer["trials"] == 16
    assert first["rows"] != searched(data, trials=13)["rows"]  # it knows less when it draws


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("there", [3, 6])  # the middle of a batch, and its end
def test_a_search_goes_on_from_the_middle_of_a_batch(
    there: int, data: Interactions, tmp_path: Path
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    expected = searched(data, workers=2, out=whole, trials=9)
    part.write_bytes(
        b"".join(line + b"\n" for line in whole.read_bytes().split(b"\n")[: 1 + there])
        + b'{"trial": 3, "se'
    )
    assert searched(data, workers=2, out=part, trials=9, resume=True) == expected
    assert part.read_bytes() == whole.read_bytes()


def test_a_search_goes_on_with_as_many_workers_only(data: Interactions, tmp_path: Path) -> None:
    old = tmp_path / "old"
    searched(data, out=old, trials=2)
    about = json.loads(old.read_bytes().split(b"\n")[0])
    assert about.pop("workers") == 1  # which files of before do not say
    old.write_bytes(b"\n".join([json.dumps(about).encode(), *old.read_bytes().split(b"\n")[1:]]))
    assert searched(data, out=old, trials=3, resume=True)["trials"] == 3
    with pytest.raises(
        InputError, match="it is a search with another workers; expected workers = 1"
    ):
        searched(data, out=old, trials=3, resume=True, workers=2)


@pytest.mark.usefixtures("kept")
def test_what_does_not_go_together_is_told_as_ever(data: Interactions) -> None:
    asked: dict[str, Any] = {
        "protocol": "loo-20",
        "space": {"cohort": "30..50"},
        "trials": 6,
        "rounds": 2,
    }
    found = search("fcf", data, workers=2, **asked)
    assert found["failed"] and all(
        "expected at most 40" in one["reason"] for one in found["failed"]
    )


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


def test_one_that_ends_every_worker_ends_the_search(two: Crew, tmp_path: Path) -> None:
    first = prepare(two, ("hold", 0))
    with (
        pytest.warns(EntrenousWarning),
        pytest.raises(EntrenousError, match="4 times at the same work; out of memory"),
    ):
        list(spread(two, first, "do", [(killer(tmp_path / "died", True),)]))
