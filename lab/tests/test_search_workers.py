"""A search in workers is the same for the same number of workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from entrenous_lab.search.tpe import SearchFound, SearchRequest, try_space

import entrenous.runs.tuning.grid as tuning
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
