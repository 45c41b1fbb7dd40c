"""A federation that begins with a model that was trained elsewhere: of a stored run, or of another
federation; items are matched by their ids.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.server.server_folder import ServerFolder, standing
from federation_links import federation, in_one_line, ratings, server_sha256, trained

import entrenous
from entrenous.core.contract.protocols import arrays_of
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.federation.rounds import Rounds
from entrenous.runs.store import read_arrays

DATA = ratings(20, 18)
SETTINGS = {"factors": 4}


pytestmark = pytest.mark.usefixtures("quick")


def founded(folder: Path, algorithm: str = "fcf", **terms: Any) -> FoundedFederation:
    return federation(folder, 4, 3, algorithm, settings=SETTINGS, **terms)


def first_arrays(made: FoundedFederation) -> dict[str, np.ndarray]:
    """The server's arrays before its first round."""
    with closing(ServerFolder(made.server)) as held:
        return dict(arrays_of(standing(held, made.terms.make()).state))


def other_items(first: int, last: int) -> Interactions:
    """Rows of the items of a stretch alone, so that they have other numbers."""
    keep = (DATA.item >= first) & (DATA.item < last)
    return build(
        DATA.user[keep],
        DATA.item[keep] - first,
        value=DATA.value[keep],
        users=DATA.users,
        items=Vocabulary([DATA.items[item] for item in range(first, last)], kind="item"),
    )


@pytest.mark.parametrize("algorithm", ["fcf", "fpl"])
def test_it_goes_on_from_the_model_of_another_federation(tmp_path: Path, algorithm: str) -> None:
    before = founded(tmp_path / "before", algorithm)
    trained(before)
    made = founded(tmp_path / "after", algorithm, from_model=str(tmp_path / "before"))
    assert made.known == 18
    whole, _ = read_arrays(before.server / "model.safetensors")
    begun = first_arrays(made)
    for name, array in begun.items():
        assert np.array_equal(array, whole[f"server.{name}"])
    # And ends as a simulation does that begins with these arrays.
    rounds = Rounds(made.terms.make(), DATA, seed=1, protection=made.terms.protection)
    start = rounds.start()
    start = start._replace(server=type(start.server)(**begun))
    assert trained(made) == server_sha256(rounds.advance(start, 3))


def test_items_are_matched_by_their_ids(tmp_path: Path) -> None:
    """The other federation has items 6 to 15 alone, as its numbers 0 to 8."""
    before = federation(tmp_path / "before", 4, 3, "fcf", other_items(6, 15), settings=SETTINGS)
    trained(before)
    made = founded(tmp_path / "after", from_model=str(before.server))
    assert made.known == 9
    whole, _ = read_arrays(before.server / "model.safetensors")
    new = first_arrays(founded(tmp_path / "new"))
    begun = first_arrays(made)
    assert np.array_equal(begun["y"][6:15], whole["server.y"])
    for other in (slice(0, 6), slice(15, 18)):
        assert np.array_equal(begun["y"][other], new["y"][other])
    assert not np.array_equal(begun["y"][6:15], new["y"][6:15])


def test_a_stored_run_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["user,item,value,time"]
    for row in range(len(DATA)):
        user, item = DATA.users[DATA.user[row]], DATA.items[DATA.item[row]]
        lines.append(f"{user},{item},{DATA.value[row]},{1000 + row}")
    Path("rows.csv").write_text("\n".join(lines))
    run = entrenous.run("fcf", "rows.csv", protocol="loo-full", rounds=3, settings=SETTINGS)
    folder = run.save(tmp_path / "kept")
    made = founded(tmp_path / "f", from_model=str(folder))
    assert made.known == 18
    arrays, _ = read_arrays(folder / "model.safetensors")
    assert set(map(bytes, first_arrays(made)["y"])) == set(map(bytes, arrays["server.y"]))


@pytest.mark.parametrize("listed", ["items.json", "longer-items.json"])
def test_a_federation_of_an_old_format_is_refused_but_its_model_will_do(
    tmp_path: Path, listed: str
) -> None:
    before = founded(tmp_path / "before")
    trained(before)
    terms = before.server / "terms.json"
    terms.write_text(json.dumps({**json.loads(terms.read_text()), "format": 4}))
    (before.server / "items.jsonl").unlink()
    with in_one_line("found the federation anew; `federation new --from-model FOLDER` takes"):
        ServerFolder(before.server)
    # The newer of its two lists is the one that its model is about.
    (before.server / "items.json").write_text('{"ids": ["an item of the founding"]}')
    ids = json.dumps({"ids": list(DATA.items.ids)})
    (before.server / listed).write_text(ids)
    made = founded(tmp_path / "after", from_model=str(tmp_path / "before"))
    assert made.known == 18
    whole, _ = read_arrays(before.server / "model.safetensors")
    assert np.array_equal(first_arrays(made)["y"], whole["server.y"])
    for bad in ('{"ids": [1]}', '{"ids": "x"}', "[" * 5000, "{}", ""):
        (before.server / listed).write_text(bad)
        with in_one_line("no list of items of format 4"):
            founded(tmp_path / "bad", from_model=str(before.server))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("another algorithm", "is a model of fpl; expected one of fcf"),
        ("other factors", "its 'y' has sizes (18, 8); expected (18, 4)"),
        ("other items", "none of the 18 items is one of"),
        ("untrained", "no round of this federation is over"),
        ("nothing", "is not a run"),
    ],
)
def test_a_model_that_does_not_fit_gets_one_line(tmp_path: Path, what: str, said: str) -> None:
    source = tmp_path / "before"
    settings = {"factors": 8} if what == "other factors" else SETTINGS
    data = DATA
    if what == "other items":
        names = Vocabulary([f"x{item}" for item in range(18)], kind="item")
        data = build(DATA.user, DATA.item, value=DATA.value, users=DATA.users, items=names)
    algorithm = "fpl" if what == "another algorithm" else "fcf"
    if what != "nothing":
        before = federation(source, 4, 2, algorithm, data, settings=settings)
        if what != "untrained":
            trained(before)
    with in_one_line(said):
        founded(tmp_path / "f", from_model=str(source))
    assert not (tmp_path / "f").exists()
