"""What a simulated network draws, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.core.keys import folds, key
from entrenous.federation.network import Draws, Network, spread

KEYS = folds(key(3, "spread"), np.arange(20_000))


@pytest.mark.parametrize(
    ("text", "low", "high", "mean"),
    [
        ("2.5", 2.5, 2.5, 2.5),
        ("constant:2.5", 2.5, 2.5, 2.5),
        ("uniform:1:5", 1, 5, 3),
        ("exponential:2", 0, np.inf, 2),
        ("loguniform:1:100", 1, 100, 99 / np.log(100)),
    ],
)
def test_draws_lie_where_they_should(text: str, low: float, high: float, mean: float) -> None:
    drawn = spread(text).draw(KEYS)
    assert drawn.min() >= low and drawn.max() <= high
    assert abs(drawn.mean() - mean) <= 5 * drawn.std() / len(drawn) ** 0.5
    assert spread(text).least == (0 if text.startswith("exp") else low)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "uniform:1",
        "uniform:5:1",
        "normal:0:1",
        "constant:-1",
        "constant:nan",
        "loguniform:0:5",
        "constant:1:2",
    ],
)
def test_what_is_no_distribution_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^--network latency: got .*; expected .*") as refused:
        Network.read({"latency": text})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", 1),
        ("loss", -0.1),
        ("churn", 1),
        ("partition", "5:2"),
        ("partition", "x"),
        ("clock", "sundial"),
        ("period", 0),
        ("bad", 2),
        ("delay", 1),
    ],
)
def test_impossible_networks_are_refused(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^--network {name}"):
        Network.read({name: value})


def test_nodes_are_away_for_the_share_of_the_time_that_churn_says() -> None:
    draws = Draws(Network.read({"churn": 0.25, "session": 8}), 4000, key(0, "network"))
    nodes = np.arange(4000)
    assert abs(draws.away.mean() - 0.25) < 0.04
    away, here = (draws.stay(nodes, nodes, np.full(4000, flag)).mean() for flag in (True, False))
    assert abs(here - 8) < 0.7 and abs(away / (away + here) - 0.25) < 0.03


def test_each_node_has_a_bandwidth_and_a_period_of_its_own() -> None:
    draws = Draws(
        Network.read(
            {"clock": "regular", "bandwidth": "loguniform:10:1000", "period": "uniform:0.5:1.5"}
        ),
        500,
        key(0, "n"),
    )
    assert (
        len(np.unique(draws.bandwidth)) == 500
        and draws.bandwidth.max() / draws.bandwidth.min() > 50
    )
    nodes = np.arange(500)
    assert (draws.gap(nodes, nodes) == draws.gap(nodes, nodes + 1)).all()  # regular
    assert (draws.first_push(nodes) < draws.period).all()
    assert np.isinf(Draws(Network(), 5, key(0, "n")).bandwidth).all()
