"""A survey keeps what audits found: entry by entry, rounded, the newest of each kind; and leaves
arrays out one at a time.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from entrenous_lab.survey import LOOKS, PAGE, Look, keep, page, survey, without
from onlooker import observe
from small_data import random_data

from entrenous.systems.named import algorithms

ABOUT = {
    "algorithm": "fcf",
    "view": "sum",
    "profile": "paper",
    "cohort": 100,
    "people": 1,
    "rounds": 20,
}


def test_every_look_is_at_an_algorithm_that_there_is_and_no_two_are_alike() -> None:
    assert {look.algorithm for look in LOOKS} <= set(algorithms()) and len(set(LOOKS)) == len(LOOKS)


def test_the_page_of_the_documentation_is_what_the_file_says() -> None:
    assert PAGE.read_text() == page()
    assert page().index("* `fcf`: sums under planted models") < page().index("| algorithm |")


def test_an_entry_replaces_its_like_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_text('{"entries": []}')
    keep({**ABOUT, "attacks": [{"auc": 0.123456}]}, path)
    keep({**ABOUT, "rounds": 8, "attacks": []}, path)
    keep({**ABOUT, "attacks": [{"auc": 0.5}]}, path)
    found = json.loads(path.read_text())["entries"]
    assert [(one["rounds"], one["attacks"]) for one in found] == [(8, []), (20, [{"auc": 0.5}])]


def test_a_private_entry_takes_the_place_of_all_of_its_view(tmp_path):
    """Older cohorts and rounds are of a profile that brought other settings."""
    path = _empty(tmp_path)
    private = {**ABOUT, "profile": "private", "view": "sum"}
    for cohort in (100, 314):
        keep({**private, "cohort": cohort, "attacks": []}, path)
    keep({**private, "view": "model", "attacks": []}, path)
    keep({**ABOUT, "cohort": 100, "attacks": []}, path)
    kept = json.loads(path.read_text())["entries"]
    found = {(one["profile"], one["view"], one["cohort"]) for one in kept}
    assert ("private", "sum", 314) in found and ("private", "sum", 100) not in found
    assert len(kept) == 3


def test_a_transcript_without_an_array_has_everything_else() -> None:
    seen = observe("pfpl+", random_data(), settings={"factors": 4})
    less = without(seen, "b").rounds[0].sent
    assert (
        "b" not in less
        and np.array_equal(less["q"], seen.rounds[0].sent["q"])
        and len(less["item"])
    )
    bare = without(without(seen, "b"), "q")
    assert (
        not bare.about["sends"]
        and not len(bare.rounds[0].sent["item"])
        and "q" not in bare.rounds[0].sent
    )


def test_a_survey_measures_each_look_and_what_each_array_adds(tmp_path: Path) -> None:
    from command_line import write_shop

    (entry,) = survey(
        [Look("pfpl+", "individual", rounds=2)], str(write_shop(tmp_path / "shop.csv", items=130))
    )
    sign = next(one for one in entry["attacks"] if one["name"] == "sign")
    assert sign["precision"] == 1.0 and sign["recall"] > 0.5 and sign["verdict"] == "EXPOSED"
    assert [after for after, _ in sign["by_round"]] == [1, 2] and sign["by_round"][1][1] == sign[
        "recall"
    ]
    assert set(entry["arrays"]) == {"q", "b"} and entry["profile"] == "paper"
    assert entry["settings"]["pi"] == 1.0 and entry["protect"]["noise"] == 0.0
    keep({**entry, "settings": {"learning_rate": 1e-5}}, path := _empty(tmp_path))
    assert json.loads(path.read_text())["entries"][0]["settings"] == {"learning_rate": 1e-5}, (
        "settings are not rounded"
    )


def _empty(folder: Path) -> Path:
    """A file without entries."""
    path = folder / "evidence.json"
    path.write_text('{"entries": []}')
    return path
