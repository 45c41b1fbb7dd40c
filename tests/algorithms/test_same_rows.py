"""One meaning of a like (case 02; Surprise#10, #157, RecBole#1095, #2066): every algorithm of the
registry learns the same rows of one split, and the ranking of each is judged by the same ones.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import entrenous
from entrenous.core.contract.declared import is_central, predicts_ratings
from entrenous.data.interactions import Interactions
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Split
from entrenous.runs.recommenders import Fitted, fitted
from entrenous.runs.train import Setup, advance, federation_of, fit_central
from entrenous.systems.named import algorithms

ALL = algorithms()
RATING = [name for name, make in ALL.items() if predicts_ratings(make())]
NEEDS = {"vae": "torch", "ials": "implicit"}
# Fewer epochs and rounds than the defaults: rows are counted, not learnt well.
SHORT = {"epochs": 2, "rounds": 2, "hidden": 16}
USERS, ITEMS = 24, 16


def rows() -> list[tuple[str, str, int, int]]:
    """Ratings -1 to 3, of which -1 and 0 are no likes; a third of all pairs."""
    rng = np.random.default_rng(3)
    user, item = np.nonzero(rng.random((USERS, ITEMS)) < 0.4)
    value = rng.integers(-1, 4, len(user))
    listed = zip(user.tolist(), item.tolist(), value.tolist(), strict=True)
    return [(f"u{u}", f"i{i:02d}", v, 1_500_000_000 + 60 * n) for n, (u, i, v) in enumerate(listed)]


def data(likes: str) -> Interactions:
    place = np.random.default_rng(4).uniform(-80, 80, (2, ITEMS)).round(3)
    about = {
        "item_id": [f"i{i:02d}" for i in range(ITEMS)],
        "lat": place[0].astype(str).tolist(),
        "lon": place[1].astype(str).tolist(),
    }
    return entrenous.from_frame(rows(), likes=likes, items=about)


def split(likes: str) -> Split:
    return splits("random-80-20", data(likes))[0]


def short(name: str) -> Any:
    """The algorithm with settings for a short training; the test is skipped without its library."""
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    fields = ALL[name]().model_dump()
    return ALL[name](**{setting: n for setting, n in SHORT.items() if setting in fields})


# The rows have no features of items, without which FedCold warns and learns like FPL.
pytestmark = pytest.mark.filterwarnings("ignore:nothing is known of the items")


def trained(name: str, train: Interactions) -> Fitted:
    made = short(name)
    if is_central(made):
        return fit_central(made, train, 0)
    # In most rounds of rfrecf no device trains.
    rounds = 12 if name == "rfrecf" else 2
    federation = federation_of(made, train, Setup(seed=0), until=rounds)
    return fitted(federation, advance(federation, federation.start(), rounds))


def model(name: str, train: Interactions) -> dict[str, bytes]:
    return {part: array.tobytes() for part, array in trained(name, train).arrays.items()}


class Traced:
    """The rows of each user that algorithms are given, by wrappers around the two ways to them:
    the histories of devices, and the data of a central `fit`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of_user: dict[int, int] = {}
        self.own_filters = 0
        histories, select = Interactions.histories, Interactions.select

        def traced(data: Interactions, users: Any, avoid: Any = None) -> Any:
            given = histories(data, users, avoid)
            counts = np.diff(given.ptr)
            self.of_user |= dict(zip(np.asarray(users).tolist(), counts.tolist(), strict=True))
            return given

        def filtered(data: Interactions, keep: Any) -> Any:
            self.own_filters += 1
            return select(data, keep)

        monkeypatch.setattr(Interactions, "histories", traced)
        monkeypatch.setattr(Interactions, "select", filtered)

    def central(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        kind = type(short(name))
        fit = kind.fit

        def traced(made: Any, data: Interactions, *rest: Any) -> Any:
            self.of_user |= dict(enumerate(data.counts.tolist()))
            return fit(made, data, *rest)

        monkeypatch.setattr(kind, "fit", traced)


@pytest.mark.parametrize("likes", ["any", "positive"])
@pytest.mark.parametrize("name", ALL)
def test_every_algorithm_is_given_the_same_rows(
    name: str, likes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """259 rows for `popular` and 425 for `fcf` of one split was the fault."""
    train = split(likes).final_train
    wanted = {"any": len(rows()), "positive": sum(value > 0 for _, _, value, _ in rows())}
    assert len(train) + len(split(likes).test.rows) == wanted[likes]
    traced = Traced(monkeypatch)
    if is_central(short(name)):
        traced.central(name, monkeypatch)
    trained(name, train)
    assert traced.of_user == dict(enumerate(train.counts.tolist()))
    assert sum(traced.of_user.values()) == len(train) and traced.own_filters == 0


@pytest.mark.parametrize("name", sorted(set(ALL) - set(RATING)))
def test_no_value_makes_a_row_less_of_a_like(name: str) -> None:
    """An algorithm that drops rows by their value after the split learns another model."""
    train = split("any").final_train
    ones = replace(train, value=np.ones(len(train), np.float32))
    assert train.value.min() == -1 and model(name, train) == model(name, ones)


@pytest.mark.parametrize("name", RATING)
def test_a_rating_of_zero_is_learnt_as_any_other(name: str) -> None:
    train = split("any").final_train
    # All zeros, since some users may not be in the rounds.
    value = np.where(train.value == 0, np.float32(2), train.value)
    assert model(name, train) != model(name, replace(train, value=value))


@pytest.mark.parametrize("likes", ["any", "positive", "at_least=2"])
def test_rankings_are_judged_by_the_same_rows_and_name_the_rule(likes: str) -> None:
    said = []
    for name in ("popular", "fcf", "pepper-gmf"):
        run = entrenous.run(
            name, data(likes), split="random-80-20", rounds=1, progress=False
        ).manifest
        said.append([line for line in run["protocol_text"] if "held-out rows;" in line])
        rule = [line for line in run["protocol_text"] if line.startswith(f"likes={likes}: ")]
        assert len(rule) == 1
        assert any(f"likes={likes}" in note for note in run["notes"])
    counts = {lines[0].split(", left out")[0] for lines in said}
    assert counts and len(counts) == 1
