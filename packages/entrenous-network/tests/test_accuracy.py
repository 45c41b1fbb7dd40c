"""Accuracy without collecting: each device tests its new rows before it learns them, and the sums
of all say how good lists are.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from entrenous_network.frames import row_tests
from entrenous_network.frames.frames import FrameParts, opened
from entrenous_network.frames.row_tests import (
    RowTests,
    SummedTests,
    accuracy_of,
    with_tests,
    without_tests,
)
from entrenous_network.links.metrics import LinkTally, exposition
from entrenous_network.node.node_store import STORE, NodeStore
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.running import status
from entrenous_network.server.accuracy import curve, note_tests, noted_tests
from entrenous_network.server.server import serve
from federation_links import (
    by_lot,
    federation,
    linked,
    logged,
    nodes_of,
    ratings,
)

from entrenous import Device, InputError
from entrenous.core.contract.update import zero_total

DATA = ratings(60)
COHORT = 18
QUIET = 1e-3  # noise that hides nothing, so that sums can be compared with what went in
BEST, WORST = "node-02", "node-05"


pytestmark = pytest.mark.usefixtures("quick")


def masked(folder: Path, accuracy: float = QUIET, **protect: Any) -> FoundedFederation:
    """A federation of 60 people, of whom 18 a group answer, the same in each of eight rounds."""
    cohort = COHORT * protect.get("groups", 1)
    return by_lot(
        folder, rounds=8, people=8, cohort=cohort, data=DATA, accuracy=accuracy, protect=protect
    )


def consume(folder: Path, best: bool) -> str:
    """A user takes the first item of their list, or the last one that they may be shown."""
    with Device(folder) as device:
        items = [one["item"] for one in device.recommend(18).items]
        item = items[0] if best else items[-1]
        device.consumed(item)
    return item


def run(made: FoundedFederation, at: int = 3) -> str | None:
    """The model after all rounds, before one of which two people consume something."""
    nodes = nodes_of(made)
    answering = list(nodes)[: int(made.terms.settings["cohort"])]
    for name, node in nodes.items():
        node.offers = lambda number, name=name: name in answering  # type: ignore[misc]
    link = linked(nodes)
    sent = link.send
    happened: list[int] = []

    def send(address: str, frame: FrameParts, seconds: float) -> None:
        if opened(bytes(frame)).head.round == at and not happened:
            happened.append(at)
            consume(made.nodes[BEST], best=True)
            consume(made.nodes[WORST], best=False)
        sent(address, frame, seconds)

    link.send = send  # type: ignore[method-assign]
    ended = serve(link, made.server)
    for node in nodes.values():
        node.close()
    return ended


# ---- a federation --------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 3])
def test_a_sum_says_how_many_new_rows_lists_would_have_had(tmp_path: Path, groups: int) -> None:
    made = masked(tmp_path / "f", groups=groups, lost=0.3)
    assert run(made) is not None
    sums = noted_tests(made.server)
    assert [one.round for one in sums] == list(range(8))
    assert sums[3].people == pytest.approx(2, abs=0.02)
    # The first of a list is a hit of rank 1; the last of 12 or so is none.
    assert sums[3].hits == pytest.approx(1, abs=0.02)
    assert 1 < sums[3].ranks < 1.2
    others = [number for one in sums if one.round != 3 for number in (one.people, one.hits)]
    assert np.allclose(others, 0, atol=0.02)


def test_the_model_has_the_bytes_that_it_has_without_tests(tmp_path: Path) -> None:
    with_them = run(masked(tmp_path / "f"))
    assert with_them is not None
    assert with_them == run(masked(tmp_path / "g", accuracy=0))
    assert not noted_tests(tmp_path / "g" / "server")


def test_a_row_is_tested_once_and_before_it_is_learnt(tmp_path: Path) -> None:
    made = masked(tmp_path / "f")
    assert run(made) is not None
    folder = made.nodes[BEST]
    item = consume(folder, best=True)
    with closing(NodeStore(folder / STORE)) as store:
        (user,) = store.users.tolist()
        assert store.tests_of(user) == RowTests(1, 1, 1.0)
        with Device(folder) as device:
            device.consumed(item)  # no list would have had what one has
        assert store.tests_of(user) == RowTests(1, 1, 1.0)
        with Device(folder) as device:
            device.forget(item)
        # A test does not say of which row it was, so that none of before leaves.
        assert store.tests_of(user) == RowTests()


def test_before_the_first_model_nothing_is_tested(tmp_path: Path) -> None:
    made = masked(tmp_path / "f")
    with Device(made.nodes[BEST]) as device:
        had = {row["item"] for row in device.export()}
        device.consumed(next(item for item in DATA.items.ids if item not in had))
    with closing(NodeStore(made.nodes[BEST] / STORE)) as store:
        assert store.tests_of(int(store.users[0])) == RowTests()


def test_each_device_adds_its_share_of_the_noise_that_the_fewest_people_add_up_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = masked(tmp_path / "f")
    of = row_tests.with_tests
    shares = set[float]()

    def watched(total: Any, tests: RowTests, sigma: float, *given: Any, **named: Any) -> Any:
        shares.add(sigma)
        return of(total, tests, sigma, *given, **named)

    monkeypatch.setattr("entrenous_network.node.secure_node.with_tests", watched)
    assert run(made) is not None
    (share,) = shares
    assert share * made.terms.fewest**0.5 == pytest.approx(QUIET)


def test_numbers_that_nobody_can_have_are_left_out_and_the_round_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device claims a thousand hits of one person: masks hide who, and the model is not moved."""
    honest = run(masked(tmp_path / "g"))
    made = masked(tmp_path / "f")
    of = row_tests.with_tests

    def lying(total: Any, tests: RowTests, *given: Any, **named: Any) -> Any:
        if tests.rows:
            tests = RowTests(1, 1000, 0.0)
        return of(total, tests, *given, **named)

    monkeypatch.setattr("entrenous_network.node.secure_node.with_tests", lying)
    assert run(made) == honest
    assert 3 not in [one.round for one in noted_tests(made.server)]
    (line,) = [line for line in logged(made.server) if "tests of new rows" in line]
    assert "round 3: its tests of new rows are none that 18 devices can have" in line


# ---- numbers -------------------------------------------------------------------------------------


def test_a_person_with_many_rows_counts_as_one_with_few() -> None:
    empty = zero_total(4, {}, {}, 1)
    for tests, told in (
        (RowTests(1, 1, 0.5), [1, 1, 0.5]),
        (RowTests(100, 25, 10.0), [1, 0.25, 0.1]),
        (RowTests(), [0, 0, 0]),
    ):
        total = with_tests(empty, tests, 1e-4, np.uint64(1), secret=False)
        left, numbers = without_tests(total)
        assert np.allclose(numbers, told, atol=0.01)
        assert left.dense == {}


@pytest.mark.parametrize("secret", [False, True])
def test_the_noise_is_what_the_terms_say(secret: bool) -> None:
    """A device's share is noise of 3 on each number."""
    empty = zero_total(4, {}, {}, 1)
    sums = np.zeros((200, 3))
    for place in range(len(sums)):
        total = with_tests(empty, RowTests(), 3.0, np.uint64(place), secret=secret)
        sums[place] = without_tests(total)[1]
    assert sums.std() == pytest.approx(3, rel=0.12)
    assert abs(sums.mean()) < 0.5


@pytest.mark.parametrize("truth", [0.1, 0.6])
def test_the_interval_has_the_true_rate_as_often_as_it_says(truth: float) -> None:
    draws = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        sums = []
        for number in range(10):
            people = draws.binomial(300, 0.5)
            hits = draws.binomial(people, truth)
            noise = draws.normal(0, 3, 3)
            sums.append(SummedTests(number, people + noise[0], hits + noise[1], 0, 3, 300))
        found = accuracy_of(sums)
        assert found.low is not None and found.high is not None
        inside += found.low <= truth <= found.high
    assert inside / 400 > 0.92


def test_of_too_few_people_nothing_is_said() -> None:
    found = accuracy_of([SummedTests(7, 9.0, 4.0, 2.0, 3.0, 300)])
    assert (found.first, found.last, found.hit_rate, found.low) == (7, 7, None, None)


@pytest.mark.parametrize(
    ("numbers", "believable"),
    [
        ((20, 10, 5), True),
        ((-10, -10, -10), True),  # noise alone
        ((-20, 0, 0), False),
        ((320, 10, 5), False),
        ((20, 60, 5), False),
        ((20, 10, 60), False),
    ],
)
def test_what_devices_cannot_have_is_known(numbers: Any, believable: bool) -> None:
    assert SummedTests(0, numbers[0], numbers[1], numbers[2], 3.0, 300).believable is believable


# ---- the operator --------------------------------------------------------------------------------


def test_a_round_that_is_summed_again_is_stored_once_and_windows_follow_each_other(
    tmp_path: Path,
) -> None:
    for number in [*range(45), 44]:
        note_tests(tmp_path, SummedTests(number, 100, 30, 20, 3.0, 300))
    windows = curve(noted_tests(tmp_path))
    assert len(noted_tests(tmp_path)) == 45 and len(windows) == 15
    assert [window.first for window in windows] == list(range(0, 45, 3))
    assert {window.hit_rate for window in windows} == {0.3}
    assert curve([]) == []


def test_the_operator_sees_it_over_time(tmp_path: Path, command: Command) -> None:
    made = masked(tmp_path / "f", accuracy=0.01)
    assert run(made) is not None
    printed = command("federation", "status", tmp_path / "f", "--accuracy", "--json")
    found = json.loads(printed.out)["accuracy"]
    (window,) = [one for one in found if one["hit_rate"] is not None]
    assert window["first"] == window["last"] == 3
    assert window["hit_rate"] == pytest.approx(0.5, abs=0.05)
    # A status tells it of the newest rounds, and so do metrics.
    now = status(made.server)
    assert now["hit_rate"] == pytest.approx(0.5, abs=0.1)
    assert f"entrenous_hit_rate {now['hit_rate']}" in exposition(now, LinkTally())
    assert "hit_rate" not in exposition({"round": 1}, LinkTally())
    shown = command("federation", "status", made.server, "--accuracy").out
    assert "HR@10" in shown and "too few" in shown and "█" in shown
    assert "with tests of new rows (noise of 0.01 on each sum)" in made.terms.limits()


def test_singly_nobody_tells_tests(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no accuracy without secure_sum"):
        federation(tmp_path / "f", 4, 2, "fcf", DATA, accuracy=3.0)
    assert not (tmp_path / "f").exists()
