"""A search in workers is the same for the same number of workers. One Ray for this file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import shop
from entrenous_lab.search.tpe import SearchFound, SearchRequest, try_space

import entrenous.runs.tuning.grid as tuning
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.federation.workers.crew import Crew
from entrenous.federation.workers.engine import EngineOptions, crew
from entrenous.runs.tuning.grid import TrialHand

pytest.importorskip("ray")

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


def searched(data: Interactions, **options: Any) -> SearchFound:
    usual: dict[str, Any] = {
        "protocol": "loo-20",
        "space": SPACE,
        "trials": 14,
        "rounds": 6,
        "every": 3,
        "threads": 1,
    }
    return try_space(SearchRequest("pfpl+", data, **{**usual, **options}))


@pytest.mark.usefixtures("kept")
def test_one_at_a_time_searches_as_no_worker_does(data: Interactions) -> None:
    assert searched(data, workers=1) == searched(data)


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
    found = try_space(SearchRequest("fcf", data, workers=2, **asked))
    assert found["failed"] and all(
        "expected at most 40" in one["reason"] for one in found["failed"]
    )


def test_a_search_on_a_cluster_says_how_many_at_once(data: Interactions) -> None:
    with pytest.raises(InputError, match="--workers: it is not given; expected how many trials"):
        searched(data, ray="auto")
