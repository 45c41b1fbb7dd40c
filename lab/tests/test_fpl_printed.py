"""What FPL's tables print: complete, consistent with each other, and TCC equal to its formula."""

import pytest
from entrenous_lab.papers import fpl_accuracy, fpl_cost
from entrenous_lab.papers.opened import COUNTRIES, present, rows_of


def test_the_best_pi_of_brazil_in_table_2_is_the_best_of_table_4():
    brazil = COUNTRIES["Brazil"].data
    for system in fpl_cost.CONFIGURATIONS:
        values = [
            fpl_cost.PAPER[brazil, f"{system} pi {pi:g}", "precision@10"] for pi in fpl_cost.PI
        ]
        best = fpl_cost.PI[values.index(max(values))]
        assert best == fpl_accuracy.BEST_PI[brazil, system]
        assert max(values) == fpl_accuracy.TABLE_2[brazil, system, "precision@10"]


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
