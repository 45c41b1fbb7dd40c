"""A search in workers is the same for the same number of workers."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import shop
from entrenous_lab.search.tpe import SearchFound, SearchRequest, try_space

import entrenous.runs.tuning.grid as tuning
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions

SPACE = {"learning_rate": "0.001..1:log", "factors": "2..6", "pi": "0.5,1"}


class Kept(ProcessPoolExecutor):
    """A pool that stays when a search has ended: to start its processes takes seconds."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does nothing."""

    def end(self) -> None:
        """Ends the processes."""
        super().shutdown()


@pytest.fixture(scope="module")
def two() -> Iterator[Kept]:
    pool = Kept(2, mp_context=multiprocessing.get_context("spawn"))
    yield pool
    pool.end()


@pytest.fixture
def kept(two: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that asks for workers gets those that are there."""
    monkeypatch.setattr(tuning, "ProcessPoolExecutor", lambda *_, **__: two)


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
