"""Italy's real rows where the shared folder has them; Brazil's and Canada's where a user has
files.
"""

from dataclasses import replace

import numpy as np
import pytest
from entrenous_lab.papers.effort import GRIDS
from entrenous_lab.papers.fpl_accuracy import order_control, top_pop
from entrenous_lab.papers.fpl_bias import source_rows
from entrenous_lab.papers.fpl_shape import sizes_of
from entrenous_lab.papers.opened import COUNTRIES, fpl_study, rows_of
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context
from entrenous_lab.papers.study import Study
from entrenous_lab.papers.table import Trained
from paths import SHARED, real

from entrenous.data.home import VARIABLE


@pytest.fixture(scope="module")
def italy() -> Study:
    real("foursquare-italy", "interactions.parquet")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, str(SHARED))
        return fpl_study(Context(cells=Cells(None), grid=GRIDS[True]), rows_of(COUNTRIES["Italy"]))


def test_italy_has_the_users_and_training_rows_of_table_1(italy):
    train, country = italy.part("test").rows, COUNTRIES["Italy"]
    assert (len(train.users), len(train)) == (country.users, country.interactions)
    assert int((train.popularity > 0).sum()) == 25_498  # the paper has 24 more


def test_table_1_is_compared_with_the_rows_at_hand(italy):
    rows = sizes_of(Trained(study=italy, systems=[]))
    assert [(row["metric"], row["paper"], row["obtained"]) for row in rows] == [
        ("users", 1353, 1353),
        ("items", 25522, 25498),
        ("interactions", 54088, 54088),
    ]


def test_top_pop_is_the_better_the_older_the_rows_held_out(italy):
    printed = 0.04634
    turned = replace(italy.data, time=-italy.data.time)
    newest, oldest = (
        top_pop(italy, italy.data, italy.source.protocol),
        top_pop(italy, turned, italy.source.protocol),
    )
    random = top_pop(italy, italy.data, "random-80-20")
    assert newest < random < oldest < printed
    (note,) = order_control(italy, printed)
    assert all(f"{value:.5f}" in note for value in (newest, random, oldest, printed))


def test_only_italy_has_an_order_control(italy):
    other = fpl_study(
        Context(cells=Cells(None), grid=GRIDS[True]), replace(italy.data, name="other")
    )
    assert order_control(other, 0.1) == [] and order_control(italy, None) == []


def test_every_source_bias_of_italy_stands_on_the_side_of_1_that_table_5_prints(italy):
    rows = source_rows(italy)
    assert len(rows) == 9
    assert all((row["paper"] > 1) == (row["obtained"] > 1) for row in rows)
    assert np.mean([abs(row["paper"] - row["obtained"]) for row in rows]) < 0.1
