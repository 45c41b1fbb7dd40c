"""The figures that `explain`, `run` and receipts repeat are those of the file, which only audits
write.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from entrenous.core.contract.declared import declared
from entrenous.privacy import evidence
from entrenous.privacy import told as told_
from entrenous.privacy.protection import PROFILES, Protection
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import with_set
from entrenous.systems.named import algorithms, kind_of

ATTACK = {
    "name": "match",
    "precision": 0.999,
    "recall": 0.5,
    "r_precision": 0.7,
    "popularity_r_precision": 0.33,
    "auc": 0.9,
    "by_round": [[1, 0.1], [5, 0.5]],
    "verdict": "EXPOSED",
}
ENTRY = {
    "algorithm": "pfpl+",
    "view": "individual",
    "profile": "paper",
    "cohort": 943,
    "people": 1,
    "rounds": 5,
    "data": "ml-100k",
    "protocol": "loo-99",
    "seed": 0,
    "users": 200,
    "popularity": {"r_precision": 0.33, "auc": 0.87},
    "accuracy": {},
    "epsilon": None,
    "arrays": {"q": None, "b": {**ATTACK, "name": "sizes", "r_precision": 0.33, "recall": 0}},
    "attacks": [ATTACK, {**ATTACK, "name": "sign", "r_precision": 0.6}],
}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "entries", lambda: (ENTRY,))


@pytest.mark.beside
def test_the_file_names_what_there_is() -> None:
    for one in evidence.entries():
        assert (
            one["algorithm"] in algorithms()
            and one["profile"] in PROFILES
            and one["view"] in evidence.VIEWS
        )
        assert "safe" not in json.dumps(one) and told_.said(one)


def test_a_line_has_the_best_attack_beside_popularity(told: None) -> None:
    line = evidence.gives_away("pfpl+")
    assert (
        "'match' names 50% of a history, 0.999 of it rightly; R-precision 0.700 (popularity alone"
        " 0.330)" in line
    )
    assert "ml-100k" in line and "5 rounds" in line and evidence.gives_away("fcf") == ""


def test_each_array_says_what_is_known_with_it_and_without(told: None) -> None:
    assert evidence.of_array("pfpl+", "q").endswith("without this array nothing")
    assert "without this array 'sizes' has R-precision 0.330" in evidence.of_array("pfpl+", "b")
    assert evidence.of_array("pfpl+", "x") == ""


def test_what_is_expected_grows_with_the_rounds_as_it_was_measured(told: None) -> None:
    def recalls(rounds: int) -> list[Any]:
        return [one["recall"] for one in told_.expected("pfpl+", "paper", rounds)["expected"]]

    assert recalls(0) == [], "nothing is expected of messages that nobody sent"
    assert recalls(3) == pytest.approx([0.3, 0.3]) and recalls(5) == recalls(50) == [0.5, 0.5]
    assert told_.expected("pfpl+", "paper", 50)["expected"][0]["beyond"]
    assert not told_.expected("pfpl+", "paper", 5)["expected"][0]["beyond"]
    assert "loo-99" in told_.expected("pfpl+", "paper", 5)["expected"][0]["measured"]


def test_a_figure_says_in_what_it_was_measured_otherwise() -> None:
    """Of settings that decide what is seen; not of how long was trained, nor of who adds the
    noise.
    """
    entry = {
        "view": "individual",
        "settings": {"pi": 1.0, "factors": 80, "rounds": 900, "cohort": 943, "groups": "none"},
        "protect": {"noise": 0.1, "noise_by": "server", "people": 100},
    }
    alike = {"pi": "1", "factors": 80, "rounds": 20, "cohort": 5, "groups": "none"}
    same = {"noise": "0.1", "noise_by": "devices", "people": 5}
    assert told_.otherwise(entry, alike, same) == told_.otherwise(entry, {}, {}) == ""
    other = told_.otherwise(entry, {"pi": 0, "factors": 8}, {"noise": 2.0})
    assert other == "pi 1 (here 0), factors 80 (here 8), noise 0.1 (here 2)"
    assert told_.otherwise({**entry, "view": "sum"}, {"cohort": 20}, {}) == "cohort 943 (here 20)"
    assert (
        told_.otherwise(entry, {}, {"groups": 9}) == "groups 1 (here 9)"
    )  # a smaller sum than was measured
    assert told_.otherwise({"view": "sum"}, {}, {}) == "settings that were not kept"


@pytest.mark.beside
def test_the_file_has_the_settings_in_which_each_figure_was_measured() -> None:
    """A run with the defaults is told of no other settings than its own."""
    for one in evidence.entries():
        kind, preset = kind_of(one["algorithm"])
        with_profile: dict[str, Any] = {}
        if one["profile"] == "private":
            own = declared(kind.parse(preset)).traits.private_settings
            plan = RunPlan(algorithm=one["algorithm"], profile="private")
            with_profile = {**own, **with_set(plan, one["users"]).settings}
        usual = dict(kind.parse({**preset, **with_profile}))
        named = {
            name: value for name, value in usual.items() if value and name not in told_.OF_TRAINING
        }
        assert (
            one["settings"].keys() >= kind.model_fields.keys()
            and told_.otherwise(one, named, {}) == ""
        )
        assert one["protect"].keys() - {"multiple", "step"} == Protection().model_dump().keys()


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ("fcf", "Your list is not sent; it can be computed from what is."),
        ("pfpl", "Your list is not sent; part of it can be guessed from what is."),
        (
            "svd++",
            "Your list is not sent; whether it can be computed from what is has not been measured.",
        ),
    ],
)
def test_what_becomes_of_a_list_that_is_not_sent_follows_from_what_attacks_found(
    algorithm: str, said: str
) -> None:
    assert told_.of_the_list(algorithm) == said


def test_what_was_not_measured_is_said_to_be_so(told: None) -> None:
    """Figures of one profile are never those of another, nor of another algorithm."""
    for name, profile in (("pfpl+", "private"), ("fcf", "paper")):
        found = told_.expected(name, profile, 3)
        assert found["expected"] == [] and f"entrenous audit {name}" in found["not_measured"]


def test_names_that_share_figures_are_of_one_class_with_the_same_settings() -> None:
    made = algorithms()
    assert all(made[name]() == made[other]() for name, other in evidence.SAME_AS.items())


def test_a_figure_of_members_is_not_said_of_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody was left out of a second training, both parts say that it was not measured."""
    model = {**ENTRY, "view": "model", "rounds": 0, "attacks": [{**ATTACK, "name": "membership"}]}
    monkeypatch.setattr(evidence, "entries", lambda: (model,))
    found = told_.of_profiles("pfpl+")["paper"]
    assert "tried on people who took part, not others" in found["guessable"][0]
    assert found["because"] == [
        "How much more the model knows of people who took part was not measured."
    ]
    monkeypatch.setattr(evidence, "entries", lambda: (ENTRY,))
    found = told_.of_profiles("pfpl+")["paper"]
    assert found["guessable"] == ["Not measured."]
    assert found["because"] == [
        "Who reads these messages can name about 50 of 100 items (attack 'match'), measured at"
        " settings that were not kept."
    ]
    monkeypatch.setattr(evidence, "entries", lambda: ())
    nothing = told_.account([], told_.expected("pfpl+", "paper", 1), 9)
    assert nothing["guessable"] == nothing["because"]
    assert "`entrenous audit pfpl+ --profile paper` measures it" in nothing["because"][0]


def test_an_operator_who_plants_models_comes_first_with_its_own_popular_items() -> None:
    first = evidence.measured("fcf", "private")[0]
    said = told_.said(first)
    assert first["view"] == "planted"
    assert "finds 0.327 of a list, where popular items find 0.321" in said
    assert "learns at most 32 bits of a person" in said
    # The figures are the promise, without a verdict.
    assert said.endswith("an AUC of at most 1.000")
    assert told_.of_operator("fcf", first["settings"], {"noise": 6.5}).endswith(
        "(ml-100k, measured at noise 5.6 (here 6.5))"
    )
    found = told_.of_profiles("fcf")["private"]
    assert found["part"][0].startswith("An operator who plants models finds 0.327 of a list")
    assert found["expected"][0]["verdict"] == ""
    assert found["expected"][0]["interval"] == "0.004 to 0.010 more, 95 % over 160 people"


def test_a_guess_no_better_than_popular_items_is_no_knowledge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weak = {**ATTACK, "precision": 0.5, "r_precision": 0.32}
    monkeypatch.setattr(evidence, "entries", lambda: ({**ENTRY, "attacks": [weak]},))
    found = told_.account([], told_.expected("pfpl+", "paper", 5), 10)["because"]
    assert "finds nothing more than a list of what is popular (attack 'match')" in found[0]
