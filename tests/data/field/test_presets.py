"""Published files load untouched by the name of their data set. The files are look-alikes that
`lookalikes` makes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lookalikes import FILES, of_users, rows, write

import entrenous
from entrenous.core.errors import InputError
from entrenous.data.load import load
from entrenous.data.recipe import recipes

PAIRS = len(list(rows()))
RUNS = {"popular": {}, "fcf": {"rounds": 1}, "pfpl+": {"rounds": 1}}
UNRATED = {"book-crossing", "goodreads", "goodreads poetry"}
WITHOUT_TIMES = {
    "anime",
    "book-crossing",
    "citeulike",
    "filmtrust",
    "goodreads",
    "lastfm-360k",
    "lastfm-hetrec",
    "lightgcn",
    "msd",
    "tenrec",
    "tenrec video",
}


@pytest.mark.parametrize("kind", FILES)
def test_a_published_file_loads_untouched(kind: str, tmp_path: Path) -> None:
    # Strict: a preset leaves nothing to be guessed.
    data = load(write(kind, tmp_path), format=kind.split(" ")[0], strict=True)
    # Each user's two last items are clicked, and the first user has no history.
    lost = len(of_users()[0]) - 2 if kind == "mind" else 0
    pairs = [(user, item) for user, item, _ in rows()]
    if kind in UNRATED:
        # A rating of 0 is none: these rows are left out, and counted.
        pairs = [(user, item) for user, item in pairs if user * item % 6]
    assert len(data) == len(pairs) - lost
    assert len(data.users) == len({user for user, _ in pairs})
    assert (data.time is None) == (kind in WITHOUT_TIMES)


def test_every_look_alike_has_a_recipe() -> None:
    assert {kind.split(" ")[0] for kind in FILES} <= recipes().keys()


@pytest.mark.parametrize("kind", ["yelp", "gowalla", "amazon-2018"])
def test_another_file_is_refused_by_its_first_line(kind: str, tmp_path: Path) -> None:
    path = write("movielens", tmp_path)
    with pytest.raises(InputError, match=rf"ratings.csv:1: .* published file of {kind}"):
        load(path, format=kind)


def test_an_option_of_the_user_comes_first(tmp_path: Path) -> None:
    path = write("kuairec", tmp_path)
    assert load(path, format="kuairec", value="").value.max() == 1
    # Without ratings, a book without one counts like the others.
    assert len(load(write("book-crossing", tmp_path), format="book-crossing", value="")) == PAIRS


@pytest.mark.parametrize("kind", FILES)
def test_algorithms_learn_from_a_published_file(kind: str, tmp_path: Path) -> None:
    data = load(write(kind, tmp_path), format=kind.split(" ")[0])
    for algorithm, options in RUNS.items():
        run = entrenous.run(algorithm, data, protocol="random-80-20", progress=False, **options)
        assert len(run.recommend(data.users[0], 3)) == 3
