"""One grid on several data sets: mean ranks by hand, and the same trainings as on each set
alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command, write_shop

from entrenous.core.errors import InputError
from entrenous.runs.tuning.grid import TuneRequest, tune
from entrenous.runs.tuning.transfer import transfer

GRID = {"learning_rate": ["0.02", "0.2"], "factors": ["2", "4"]}


@pytest.fixture
def shops(tmp_path: Path) -> list[str]:
    return [str(write_shop(tmp_path / f"shop{seed}.csv", seed=seed)) for seed in (0, 1)]


def test_mean_ranks_are_those_of_the_sets_alone(shops: list[str]) -> None:
    usual = {"protocol": "loo-20", "grid": GRID, "rounds": 6, "every": 3, "threads": 1}
    found = transfer(shops, TuneRequest("pfpl+", **usual))
    alone = [tune("pfpl+", name, **usual)["rows"] for name in shops]
    assert len(found["rows"]) == 8 and [found["best"][name] for name in shops] == [
        rows[0] for rows in alone
    ]
    for row in found["rows"]:
        for name, rows in zip(shops, alone, strict=True):
            own = next(
                one
                for one in rows
                if (one["settings"], one["rounds"]) == (row["settings"], row["rounds"])
            )
            values = [one["validation"]["ndcg@10"] for one in rows]
            better, equal = (
                sum(value > own["validation"]["ndcg@10"] for value in values),
                values.count(own["validation"]["ndcg@10"]),
            )
            assert (
                row["ranks"][name] == better + (equal + 1) / 2
                and row["validation"][name] == own["validation"]
            )
        assert row["rank"] == sum(row["ranks"].values()) / 2
    assert [row["rank"] for row in found["rows"]] == sorted(row["rank"] for row in found["rows"])


def test_tune_on_several_sets_prints_ranks(
    shops: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "tune",
        "ease",
        "--data",
        ",".join(shops),
        "--protocol",
        "loo-20",
        "--grid",
        "reg=10,500",
    ]
    command = Command(capsys)
    found = command(*words, "--json").json
    assert [row["settings"]["reg"] for row in found["rows"]] != [] and found["data"] == shops
    out = command(*words).out
    assert "mean rank" in out and "shop1" in out and "default" in out
    with pytest.raises(InputError, match="two or more data sets, each once"):
        transfer([shops[0], shops[0]], TuneRequest("ease", grid={"reg": ["1"]}))


def test_a_set_that_is_not_there_is_told_before_any_training(shops: list[str]) -> None:
    trained: list[str] = []
    with pytest.raises(InputError, match="nowhere"):
        asked = TuneRequest(
            "pfpl+", grid=GRID, progress=lambda done, total, what: trained.append(what)
        )
        transfer([shops[0], "nowhere.csv"], asked)
    assert not trained
