"""What FPL's tables print: complete, consistent with each other, and TCC equal to its formula."""

import math

import pytest
from entrenous_lab.papers import fpl_accuracy, fpl_bias, fpl_cost, fpl_pi
from entrenous_lab.papers.opened import COUNTRIES, present, rows_of
from entrenous_lab.papers.runner import experiments
from entrenous_lab.papers.values import printed, stored

OURS = ["fpl-devices", "fpl-goal"]  # beyond the paper: it prints no figures of them
NAMES = [
    "fpl-fcf",
    "fpl-fig2",
    "fpl-fig3",
    "fpl-rates",
    "fpl-rates-pi",
    "fpl-table1",
    "fpl-table2",
    "fpl-table3",
    "fpl-table4",
    "fpl-table6",
    "fpl-vae",
]


def test_every_experiment_is_found_by_name():
    assert [name for name in experiments() if name.startswith("fpl-")] == sorted([*OURS, *NAMES])


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_declares_what_the_paper_printed(name):
    experiment = experiments()[name]
    assert "FPL" in experiment.title and len(experiment.printed) >= (
        3 if name == "fpl-table1" else 12
    )
    for (data, system, metric), value in experiment.printed.items():
        assert (
            data in {country.data for country in COUNTRIES.values()}
            and system
            and metric
            and math.isfinite(value)
        )


def test_tables_2_and_3_have_eleven_systems_in_three_countries():
    for table in ("table2", "table3"):
        systems = {
            data.partition("-")[2]: len(of)
            for data, of in stored("printed", "fpl")[table]["values"].items()
        }
        assert systems == {"brazil": 11, "canada": 11, "italy": 11}
        assert len(printed("fpl", table)) == 3 * 11 * 2


def test_some_printed_figures():
    assert fpl_accuracy.TABLE_2["foursquare-italy", "popular", "precision@10"] == 0.04634
    assert fpl_accuracy.TABLE_2["foursquare-italy", "pfpl+", "recall@10"] == 0.06291
    assert fpl_accuracy.TABLE_3["foursquare-brazil", "item-knn", "gini@10"] == 0.07449
    assert fpl_bias.PAPER["foursquare-italy", "source bias", "B_T NS"] == 1.3559
    assert fpl_bias.PAPER["foursquare-brazil", "popular", "BD T&T"] == 6.660


def test_the_best_pi_of_brazil_in_table_2_is_the_best_of_table_4():
    brazil = COUNTRIES["Brazil"].data
    for system in fpl_cost.CONFIGURATIONS:
        values = [
            fpl_cost.PAPER[brazil, f"{system} pi {pi:g}", "precision@10"] for pi in fpl_cost.PI
        ]
        best = fpl_cost.PI[values.index(max(values))]
        assert best == fpl_accuracy.BEST_PI[brazil, system]
        assert max(values) == fpl_accuracy.TABLE_2[brazil, system, "precision@10"]


def test_figure_2_takes_its_points_from_table_2():
    precision, recall = 0.04701, 0.05600  # sFPL on Italy, pi 0.4
    expected = 2 * precision * recall / (precision + recall)
    assert fpl_pi.PRINTED_F1["foursquare-italy", "sfpl pi 0.4", "f1@10 of means"] == pytest.approx(
        expected, abs=1e-15
    )


# ---- table 4 -------------------------------------------------------------------------------------


def test_tcc_by_hand():
    brazil = COUNTRIES["Brazil"]
    t = 599_958 / 17_473
    assert fpl_cost.tcc(brazil, "sfpl", 0.1, 45, "run") == pytest.approx(
        45 * 599_958 * (47_270 + 1.1)
    )
    assert fpl_cost.tcc(brazil, "pfpl+", 0.5, 35, "run") == pytest.approx(
        35 * 599_958 * (47_270 + t * 1.5)
    )
    assert fpl_cost.tcc(brazil, "pfpl+", 0.5, 35, "printed") == pytest.approx(
        35 * 17_473 * (47_270 + t * 1.5)
    )


@pytest.mark.parametrize("system", ["sfpl", "sfpl+", "pfpl", "pfpl+"])
def test_every_printed_tcc_to_five_decimals_as_run(system):
    epochs = fpl_cost.EPOCHS[system]
    ours = [
        round(fpl_cost.tcc(COUNTRIES["Brazil"], system, pi, epochs, "run") / 1e12, 5)
        for pi in fpl_cost.PI
    ]
    assert ours == list(fpl_cost.TCC[system])


@pytest.mark.parametrize(("system", "needed"), [("sfpl+", 1717), ("pfpl+", 1202)])
def test_as_printed_the_plus_rows_would_need_far_more_epochs_than_were_explored(system, needed):
    one = fpl_cost.tcc(COUNTRIES["Brazil"], system, 0.1, 1, "printed") / 1e12
    assert round(fpl_cost.TCC[system][0] / one) == needed


def test_no_other_whole_number_of_epochs_up_to_50_gives_a_printed_tcc():
    for system, given in fpl_cost.TCC.items():
        fits = [
            (epochs, reading)
            for epochs in range(1, 51)
            for reading in ("run", "printed")
            if round(fpl_cost.tcc(COUNTRIES["Brazil"], system, 0.1, epochs, reading) / 1e12, 5)
            == given[0]
        ]
        readings = (
            {"run"} if system.endswith("+") else {"run", "printed"}
        )  # with T = 1 they are one
        assert fits == [
            (fpl_cost.EPOCHS[system], reading)
            for reading in ("run", "printed")
            if reading in readings
        ]


def test_the_arithmetic_rows_say_which_reading_fits():
    rows = fpl_cost.arithmetic()
    plus = [row for row in rows if row["system"] == "pfpl+" and row["pi"] == 0.3]
    assert {row["reading"]: round(row["obtained"], 5) == row["paper"] for row in plus} == {
        "run": True,
        "printed": False,
    }
    assert (
        "1,717 and 1,202 epochs" in fpl_cost.arithmetic_note()
        and "40 of 40 printed TCCs" in fpl_cost.arithmetic_note()
    )


# ---- the rows ------------------------------------------------------------------------------------


def test_missing_countries_are_named_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    assert not present(COUNTRIES["Brazil"])
    with pytest.raises(
        Exception,
        match=(
            r"foursquare-brazil: it is not in .*; expected interactions.parquet and items.parquet; "
        ),
    ):
        rows_of(COUNTRIES["Brazil"])
