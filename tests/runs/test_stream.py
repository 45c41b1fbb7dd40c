"""A stream: each row is ranked before it is learnt, users and items come and go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from events_file import write_events
from small_data import random_data

import entrenous
from entrenous import Event, Events, InputError
from entrenous.core.contract.protocols import model_sha256
from entrenous.data.interactions import Interactions
from entrenous.data.split.protocol import splits
from entrenous.evaluation.recommend import tie_places
from entrenous.federation.rounds import Rounds
from entrenous.runs.pipeline import run
from entrenous.runs.recommenders import fitted
from entrenous.runs.stream import _with_rows
from entrenous.runs.tuning.grid import tune
from entrenous.systems.fpl import FPL, FPLDevices

DATA = random_data()
# Another time for every row, so that it is clear which is before which.
DATA = replace(DATA, time=DATA.time * 1000 + np.arange(len(DATA)))


def lines(made: entrenous.Run | object) -> list[dict]:
    dropped = ("seconds",)
    return [
        {name: value for name, value in line.items() if name not in dropped}
        for line in made.trace  # type: ignore[attr-defined]
    ]


def test_popularity_is_ranked_as_by_hand() -> None:
    made = run("popular", DATA, protocol="stream-25")
    [split] = splits("stream-25", DATA)
    assert split.windows is not None
    events, ptr = split.windows
    place = tie_places(len(events.items), 0)
    learnt: list[tuple[int, int]] = []
    hits = []
    for start, stop in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True):
        counts = np.bincount([item for _, item in learnt], minlength=len(events.items))
        new: list[tuple[int, int]] = []
        for kind, user, item in events.numbers(start, stop):
            if kind != "row":
                continue
            own = {i for u, i in learnt + new if u == user}
            field = [i for i in np.flatnonzero(counts).tolist() if i not in own]
            order = sorted(field, key=lambda i: (-counts[i], place[i]))
            hits.append(item in order[:10])
            new.append((user, item))
        learnt += new
    assert len(hits) == len(DATA) and any(hits)
    assert made.metrics["hr@10"] == pytest.approx(np.mean(hits))
    # The baseline of any run is this algorithm.
    for line in made.trace:
        looked = line["validation"]
        assert looked["hr@10"] == looked["popular hr@10"]
        assert looked["ndcg@10"] == looked["popular ndcg@10"]
    assert sum(line["rows"] for line in made.trace) == len(DATA)


@pytest.mark.parametrize("name", ["fpl", "fcf", "fedavg-gmf", "ease"])
def test_no_row_is_ranked_with_a_later_one(name: str) -> None:
    """Another end of the stream changes nothing before it."""
    order = np.argsort(DATA.time)
    early = np.zeros(len(DATA), bool)
    early[order[:200]] = True
    whole = run(name, DATA, protocol="stream-50", rounds=2)
    begun = run(name, DATA.select(early), protocol="stream-50", rounds=2)
    assert lines(whole)[:4] == lines(begun)
    assert len(whole.trace) > 4


@pytest.mark.parametrize("name", ["fpl", "fedavg-gmf"])
def test_a_stream_of_one_window_trains_as_rounds_do(name: str) -> None:
    made = run(name, DATA, protocol="stream-100000", rounds=3)
    [split] = splits("stream-100000", DATA)
    rounds = Rounds(made.recommender.algorithm, split.train)
    trained = fitted(rounds, rounds.advance(rounds.start(), 3))
    assert made.manifest["rounds"] == 3
    assert made.manifest["model_sha256"] == model_sha256(trained.arrays)
    # Nothing had been learnt when its rows were ranked.
    assert made.metrics["hr@10"] == 0


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads() -> None:
    made = [run("fpl", DATA, protocol="stream-50", threads=threads) for threads in (1, 2)]
    other = run("fpl", DATA, protocol="stream-50", seed=1)
    assert made[0].manifest["model_sha256"] == made[1].manifest["model_sha256"]
    assert lines(made[0]) == lines(made[1])
    assert other.manifest["model_sha256"] != made[0].manifest["model_sha256"]
    assert made[0].manifest["rounds"] == len(made[0].trace)


def test_new_users_begin_as_if_they_had_been_there_and_old_ones_stay() -> None:
    algorithm = FPL(factors=3)
    rounds = Rounds(algorithm, DATA)
    first = rounds.start().devices
    old = FPLDevices(np.full((2, 3), 7, np.float32))
    grown = _with_rows(old, first)
    assert np.array_equal(grown.p[:2], old.p) and np.array_equal(grown.p[2:], first.p[2:])


LIFE = [
    *(Event(0, "item", "", item) for item in "abcdef"),
    *(Event(0, "join", user) for user in ("ann", "bob", "eve", "kim")),
    *(Event(1, "row", user, item) for user in ("ann", "bob", "eve", "kim") for item in "ab"),
    Event(86_400_000_001, "row", "ann", "c"),
    Event(86_400_000_002, "away", "ann"),
    Event(86_400_000_003, "retire", "", "a"),
    Event(86_400_000_004, "forget", "bob", "b"),
    Event(86_400_000_005, "row", "bob", "d"),
    Event(2 * 86_400_000_001, "leave", "kim"),
    Event(2 * 86_400_000_002, "row", "eve", "c"),
    Event(2 * 86_400_000_003, "row", "eve", "c"),
]


@pytest.fixture
def lived(tmp_path: Path) -> entrenous.Run:
    path = write_events(LIFE, tmp_path / "life.csv")
    return entrenous.run(
        "fpl", protocol="stream", given=path, out=tmp_path / "runs", settings={"factors": 4}
    )


def test_people_and_items_come_and_go(lived: entrenous.Run) -> None:
    assert [line["rows"] for line in lived.trace] == [8, 2, 1]
    assert [line["users"] for line in lived.trace] == [4, 4, 3]
    assert [line["items"] for line in lived.trace] == [6, 5, 5]
    # Four devices in the first round, then all but ann, then bob and eve.
    assert lived.manifest["ledger"]["device_rounds"] == 4 + 3 + 2
    rows = {
        (lived.train.users[user], lived.train.items[item])
        for user, item in zip(lived.train.user.tolist(), lived.train.item.tolist(), strict=True)
    }
    assert rows == {("ann", "b"), ("ann", "c"), ("bob", "d"), ("eve", "b"), ("eve", "c")}


def test_a_retired_item_is_recommended_to_nobody(lived: entrenous.Run) -> None:
    lists = lived.recommend(n=6)
    assert "a" not in lists["item"].to_list()
    # Bob forgot b, which may be recommended again.
    assert "b" in lived.recommend("bob", n=6)["item"].to_list()


def test_who_leaves_takes_the_private_state_along(lived: entrenous.Run) -> None:
    kim = lived.train.users.index("kim")
    rounds = Rounds(FPL(factors=4), lived.train)
    first = rounds.start().devices.p
    state = lived.arrays["devices.p"]
    assert np.array_equal(state[kim], first[kim])
    assert not np.array_equal(state[lived.train.users.index("eve")], first[2])


def test_a_stored_stream_is_opened_reported_and_exported(
    lived: entrenous.Run, tmp_path: Path
) -> None:
    assert lived.path is not None
    again = entrenous.open(lived.path)
    assert again.recommend(n=3).equals(lived.recommend(n=3))
    assert again.curve().equals(lived.curve())
    assert {"hr@10", "popular hr@10", "until", "rows"} <= set(lived.curve().columns)
    page = lived.report(tmp_path / "page.html").read_text()
    assert "popularity so far" in page and "rows so far" in page
    assert "popularity so far" in lived.plot("hr@10").svg
    with pytest.raises(InputError, match="no 'mrr@10'"):
        lived.plot("mrr@10")


def test_events_made_in_python_are_run() -> None:
    made = entrenous.run("popular", split=entrenous.stream(Events.of(LIFE), "stream"))
    assert next(line["until"] for line in made.trace).startswith("1970-01-01")


def test_a_window_with_too_few_people_for_a_sum_has_no_round() -> None:
    made = run("fpl", DATA, protocol="stream-20", profile="private", protect={"people": 30})
    rounds = [line["round"] for line in made.trace]
    people = [line["users"] for line in made.trace]
    assert rounds == np.cumsum([number >= 30 for number in people]).tolist()
    assert 0 in rounds and rounds[-1] > 0


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("pepper-gmf", {}, "protocol stream: pepper-gmf has no server"),
        ("fedfast-gmf", {}, "fedfast-gmf keeps something of each user on its server"),
        ("biased-mf", {}, "biased-mf predicts ratings"),
        ("fpl", {"every": 1}, "--every: protocol stream has many trainings"),
        ("fpl", {"every": 1, "patience": 1}, "--every: protocol stream"),
        ("fpl", {"negatives": "leaky"}, "--negatives: protocol stream"),
        ("fpl", {"profile": "dp"}, "--protect epsilon: protocol stream"),
        (
            "fpl",
            {"protect": {"sampling": "poisson", "answers": 3}},
            "--protect answers: protocol stream",
        ),
        ("fpl", {"refit": True}, "protocol stream has no validation rows"),
        ("fpl", {"given": "/nowhere/events.csv"}, "no such file"),
    ],
)
def test_what_cannot_follow_a_stream_is_refused(name: str, options: dict, said: str) -> None:
    with pytest.raises(InputError) as refused:
        run(name, DATA, protocol="stream", **options)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_stream_needs_times() -> None:
    with pytest.raises(InputError, match="the data has no times"):
        splits("stream", replace(DATA, time=None))
    assert isinstance(splits("stream", DATA)[0].train, Interactions)


# ---- choosing settings ---------------------------------------------------------------------------

FPL_SETTINGS = {"factors": 4, "triples": 20}


def test_settings_are_chosen_on_the_first_half_of_a_stream_alone() -> None:
    """The figure is that of a run's first windows, and what comes later changes nothing."""
    grid = {"learning_rate": ["0.01", "1.0"]}
    found = tune("fpl", DATA, protocol="stream-25", settings=FPL_SETTINGS, grid=grid)
    assert {row["rounds"] for row in found["rows"]} == {1}
    best = found["rows"][0]
    rate = {"learning_rate": best["settings"]["learning_rate"]}
    made = run("fpl", DATA, protocol="stream-25", settings={**FPL_SETTINGS, **rate})
    [split] = splits("stream-25", DATA)
    assert split.windows is not None
    half = split.windows.half
    rows = [line["rows"] for line in made.trace]
    assert sum(rows[: half - 1]) < len(DATA) / 2 <= sum(rows[:half])
    hits = [line["rows"] * line["validation"]["hr@10"] for line in made.trace]
    assert best["validation"]["hr@10"] == pytest.approx(sum(hits[:half]) / sum(rows[:half]))
    # The run names the figure of the rows on which nothing was chosen.
    [said] = [line for line in made.evaluations[0].protocol if "second half" in line]
    assert f"hr@10 {sum(hits[half:]) / sum(rows[half:]):.4f}" in said
    later = np.argsort(DATA.time)[sum(rows[:half]) :]
    other = DATA.value.copy()
    other[later] = 1.0
    item = DATA.item.copy()
    item[later] = np.roll(item[later], 1)
    shuffled = replace(DATA, item=item, value=other)
    again = tune("fpl", shuffled, protocol="stream-25", settings=FPL_SETTINGS, grid=grid)
    assert again["rows"] == found["rows"]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("fpl", {"protocol": "stream-25", "every": 1}, "--every: each row of protocol stream-25"),
        ("fpl", {"protocol": "stream-100000"}, "of 1 windows none comes after the first half"),
        ("pepper-gmf", {"protocol": "stream-25"}, "pepper-gmf has no server"),
    ],
)
def test_what_cannot_be_chosen_on_a_stream_is_refused(name: str, options: dict, said: str) -> None:
    with pytest.raises(InputError) as refused:
        tune(name, DATA, grid={"factors": ["4"]}, **options)
    assert said in str(refused.value) and "\n" not in str(refused.value)
