"""Every protocol that a file of `split/` offers keeps the same promises."""

from dataclasses import replace

import numpy as np
import pytest
from published_splits import write_all, write_all_pepper
from small_data import interactions, random_data, rows_of

from entrenous.core.errors import InputError
from entrenous.core.registry.discover import offers
from entrenous.data.interactions import SECOND
from entrenous.data.split.export import write
from entrenous.data.split.given import given
from entrenous.data.split.protocol import protocols, splits

DAY = 86_400 * SECOND
DATA = random_data(items=140)
# A name of which NCF published test rows; times of 20 days, that a day may be the moment.
DATA = replace(DATA, name="ml-1m", time=DATA.time * DAY)
OURS = {"pepper-given": "ml-100k", "pepper-given-100": "ml-100k"}  # where another name is needed
# The small data has 40 users, and times in January 1970.
FEWER = {
    "pepper-given-100": "pepper-given-40",
    "global-at-2020-01-01": "global-at-1970-01-16",
}
# Protocols whose parts have users of their own have tests of their own.
APART = {"stream", "stream-week", "stream-1000"}
NAMES = sorted(offers("entrenous.data.split", "PROTOCOLS").keys() - APART)


@pytest.fixture(autouse=True)
def published(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    write_all(home, DATA)
    write_all_pepper(home, DATA)
    monkeypatch.setenv("ENTRENOUS_DATA", str(home))


def made(name, seed=0):
    """The splits of a protocol on the small data; of `given`, one made from another protocol's
    parts.
    """
    if name != "given":
        return splits(
            FEWER.get(name, name), replace(DATA, name=OURS.get(name, DATA.name)), seed=seed
        )
    source = splits("loo-full", DATA)[0]
    return splits(
        "given", given=given(source.train, source.test.rows, source.validation.rows, name="given")
    )


def parts(split):
    return [split.train, split.validation.rows, split.test.rows]


@pytest.mark.parametrize("name", [*NAMES, "given"])
def test_parts_are_disjoint_and_together_the_data(name):
    for split in made(name):
        pairs, absent = (
            [rows_of(part) for part in parts(split)],
            0 if split.test.absent is None else split.test.absent.sum(),
        )
        assert sum(map(len, pairs)) == len(DATA) - absent
        assert set.union(*pairs) == {
            row for row in rows_of(DATA) if row[1] in set(split.train.items.ids)
        }


@pytest.mark.parametrize("name", [*NAMES, "given"])
def test_parts_share_users_items_and_features(name):
    for split in made(name):
        assert all(
            part.users is split.train.users and part.items is split.train.items
            for part in parts(split)
        )
        of_data = DATA.features["category"][DATA.items.indices(split.train.items.ids.tolist())]
        assert all(np.array_equal(part.features["category"], of_data) for part in parts(split))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_split(name):
    for one, other in zip(made(name), made(name), strict=True):
        assert [rows_of(part) for part in parts(one)] == [rows_of(part) for part in parts(other)]
        assert np.array_equal(one.test.candidates, other.test.candidates)
        assert one.notes == other.notes


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_source_matters_to_equal_times_alone(name):
    rows = [
        (DATA.users[u], DATA.items[i], t % 20 * DAY + t)
        for t, (u, i) in enumerate(zip(DATA.user.tolist(), DATA.item.tolist(), strict=True))
    ]
    users, items = (
        [f"u{n}" for n in range(len(DATA.users))],
        [f"i{n}" for n in range(len(DATA.items))],
    )
    named = OURS.get(name, "ml-1m")
    forward = splits(
        FEWER.get(name, name), interactions(rows, users=users, items=items, name=named)
    )
    backward = splits(
        FEWER.get(name, name), interactions(rows[::-1], users=users, items=items, name=named)
    )
    for one, other in zip(forward, backward, strict=True):
        assert [rows_of(part) for part in parts(one)] == [rows_of(part) for part in parts(other)]
        assert np.array_equal(one.test.candidates, other.test.candidates)


@pytest.mark.parametrize("name", [*NAMES, "given"])
def test_candidates_are_items_the_user_never_had(name):
    consumed = rows_of(DATA)
    for split in made(name):
        for held in (split.validation, split.test):
            if held.candidates is None:
                continue
            assert held.candidates.shape[0] == len(held.rows)
            for user, row in zip(held.rows.user.tolist(), held.candidates.tolist(), strict=True):
                assert len(set(row)) == len(row)
                assert not consumed & {(DATA.users[user], DATA.items[item]) for item in row}


@pytest.mark.parametrize("name", [*NAMES, "given"])
def test_cold_users_and_items_are_counted_and_named(name):
    for split in made(name):
        known = {item for _, item in rows_of(split.final_train)}
        held = rows_of(
            made("temporal-80-20")[0].test.rows if name == "fpl-80-20" else split.test.rows
        )  # with the absent ones
        cold = {item for _, item in held} - known
        said = [note for note in split.notes if note.startswith("items of the test rows")]
        assert len(said) == bool(cold)
        assert not cold or f"training: {len(cold)} (" in said[0]
        assert not cold or any(item in said[0] for item in cold)


@pytest.mark.parametrize("name", [*NAMES, "given"])
def test_final_training_rows_follow_refit(name):
    for split in made(name):
        expected = rows_of(split.train) | (rows_of(split.validation.rows) if split.refit else set())
        assert rows_of(split.final_train) == expected


@pytest.mark.parametrize("name", [*NAMES, "given"])
def test_an_exported_split_comes_back(name, tmp_path):
    split = made(name)[-1]
    back = splits("given", given=write(split, tmp_path / "split"))[0]
    assert [rows_of(part) for part in parts(back)] == [rows_of(part) for part in parts(split)]
    assert (back.refit, back.weighting, back.notes) == (split.refit, split.weighting, split.notes)


def test_names_are_listed_with_given():
    assert protocols() == sorted([*NAMES, *APART, "given"])
    assert {"loo-99", "loo-full", "temporal-80-20", "random-80-20", "kfold-5"} <= set(protocols())


def test_a_number_in_a_name_may_be_another():
    assert splits("loo-7", DATA)[0].test.candidates.shape[1] == 7
    assert len(splits("kfold-3", DATA)) == 3
    assert splits("temporal-90-10", DATA)[0].name == "temporal-90-10"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lo-99", "did you mean 'loo-99'"),
        ("temporal", "did you mean 'temporal-80-20'"),
        ("kfold-5x", "did you mean 'kfold-5'"),
        ("", "known: fpl-80-20, given, global-80-20"),
        ("loo-0", "loo-1 or more"),
        ("kfold-1", "2 to"),
        ("temporal-80-30", "sum 100"),
        ("random-100-0", "two positive percentages"),
        ("given", "no split was given"),
    ],
)
def test_a_protocol_that_cannot_be_is_refused(name, said):
    with pytest.raises(InputError, match=said):
        splits(name, DATA)


def test_a_protocol_needs_data():
    with pytest.raises(InputError, match="there is no data to split"):
        splits("loo-99")


def test_a_protocol_that_leaves_nothing_is_refused():
    single = interactions([("ann", "a"), ("bob", "b")])
    for name in ("loo-full", "temporal-80-20", "random-80-20"):
        with pytest.raises(InputError, match="leaves no test rows out of 2"):
            splits(name, single)


@pytest.mark.parametrize("name", ["loo-99", "loo-full", "temporal-80-20"])
def test_protocols_of_time_refuse_data_without_times(name):
    with pytest.raises(InputError, match="the data has no times"):
        splits(name, interactions([("ann", "a"), ("ann", "b")], times=False))
