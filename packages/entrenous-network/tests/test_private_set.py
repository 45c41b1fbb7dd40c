"""What the profile `private` brings besides noise: settings that were tested together, said before
the training, in manifests and in terms; what is asked for wins.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from entrenous_network.agreement.catalogue import Items
from entrenous_network.operate.founding import found_federation
from entrenous_network.operate.plans import FoundingPlan
from small_data import interactions

from entrenous.core.contract.declared import private_set
from entrenous.core.contract.protocols import Catalogue
from entrenous.core.errors import InputError
from entrenous.core.values import FEW_PEOPLE
from entrenous.data.interactions import Interactions
from entrenous.privacy.lengths import usual_limits
from entrenous.privacy.protection import FEWER_PEOPLE, OF_A_HUNDRED, PRIVATE, Protection
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import RunRequest, carry_out
from entrenous.runs.plan import brought, in_words, of_rows, with_set
from entrenous.systems.named import algorithms, kind_of

FPL_SET = {"factors": 8, "epochs": 35, "cohort": 0, "learning_rate": 0.1}
FPL_LIMITS = usual_limits("fpl", 900)
SMALL: dict[str, Any] = {"protocol": "loo-20", "profile": PRIVATE}


def plan(algorithm: str = "pfpl+", **more: Any) -> RunPlan:
    return RunPlan(algorithm=algorithm, **{"profile": PRIVATE, **more})


def people(users: int) -> Interactions:
    """Rows of so many users: three items each, of 40."""
    pairs = [(f"u{u}", f"i{(u + step) % 40}") for u in range(users) for step in (0, 3, 7)]
    return interactions(pairs)


def test_the_set_completes_a_plan_and_what_is_asked_for_wins() -> None:
    whole = with_set(plan(), 900)
    assert whole.settings == FPL_SET and whole.protect == FPL_LIMITS
    assert with_set(whole, 900) == whole
    asked = with_set(plan(settings={"factors": "20"}, protect={"noise": "1"}), 900)
    assert asked.settings == {**FPL_SET, "factors": "20"}
    assert asked.protect == {"noise": "1", "clip": FPL_LIMITS["clip"], "step": FPL_LIMITS["step"]}
    for profile in ("paper", "dp", "robust"):
        assert with_set(plan(profile=profile), 900) == plan(profile=profile)
    assert with_set(plan("pepper-gmf"), 900) == plan("pepper-gmf")


def test_it_says_who_has_an_item_alone_and_where_popular_items_are_as_good() -> None:
    # Each has one item of their own.
    rows = interactions([(f"u{u}", f"i{item}") for u in range(900) for item in (u % 40, 50 + u)])
    (alone,) = of_rows(plan(), rows)
    assert alone.startswith("100% of 900 people in a sum have an item that nobody else there has")
    shared, popular = of_rows(plan(), replace(people(900), name="gowalla-nyc"))
    assert shared.startswith("0% of 900") and "popular items is as good" in popular
    assert of_rows(plan(profile="paper"), rows) == of_rows(plan("pepper-gmf"), rows) == []


def test_it_is_said_in_a_line_with_what_was_changed_of_it() -> None:
    brings = f"private brings: {in_words({**FPL_SET, **FPL_LIMITS})}"
    assert brought(plan(), 900) == [brings] == brought(with_set(plan(), 900), 900)
    assert brought(plan(profile="paper"), 900) == [] == brought(plan("pepper-gmf"), 900)
    clip, usual = FPL_LIMITS["clip"], FPL_LIMITS["multiple"]
    loud = brought(plan(protect={"noise": str(2 * clip)}), 900)
    assert loud[1] == (
        f"this is not the set that was tested: multiple 2; tested: multiple {usual:g}"
    )
    asked = plan(settings={"factors": "20"}, rounds=5)
    assert brought(asked, 2000) == [
        f"private brings: {in_words({'cohort': 0, **usual_limits('fpl', 2000)})}",
        "this is not the set that was tested: factors 20, epochs replaced by 5 rounds; tested:"
        " factors 8, epochs 23",
    ]
    (first, little, few) = brought(plan("fedcold"), 900)
    alone = in_words(usual_limits("fedcold", 900))
    assert first == f"private brings: {alone}: no settings of fedcold were tested with it"
    assert "one answer may tell 5,009 bits" in little
    assert OF_A_HUNDRED in few


def test_below_a_thousand_people_more_than_eight_factors_say_the_figure() -> None:
    wide = plan(settings={"factors": "80"})
    assert brought(wide, 999)[-1] == f"80 factors for 999 people: {OF_A_HUNDRED}"
    assert OF_A_HUNDRED not in "".join(brought(wide, 1000)) and "0.39 with 8" in OF_A_HUNDRED
    assert OF_A_HUNDRED not in "".join(brought(plan(), 999))


def test_every_set_is_of_settings_that_there_are() -> None:
    """And says who takes part, in a form that a second reading leaves."""
    found = {name for name, make in algorithms().items() if private_set(make(), 900)}
    assert {"fcf", "pfpl+", "fpl"} <= found
    assert not {"sfpl", "pfpl", "fcf-huawei"} & found
    for name, users in product(sorted(found), (900, 9000)):
        kind, preset = kind_of(name)
        tested = private_set(kind.parse(preset), users)
        if not tested and users >= FEW_PEOPLE:
            continue  # it was tested on few people alone, and `brought` says so
        assert tested.keys() <= {*kind.model_fields, *Protection.model_fields}
        catalogue = Catalogue(users, 100, 20 * users)
        half = kind.parse(preset).configured(catalogue).cohort == users // 2
        assert "cohort" in tested or half
        whole = with_set(plan(name), users)
        kind.parse({**preset, **whole.settings})


def test_terms_say_it_and_a_lot_draws_a_cohort(tmp_path: Path) -> None:
    floor = {"people": 20}
    plan = FoundingPlan(algorithm="fpl", users=120, protect=floor)
    items = Items.of(people(120))
    made = found_federation(tmp_path / "f", items, [], plan).terms
    assert made.settings == {**FPL_SET, "cohort": 49}
    assert made.protection.noise == FPL_LIMITS["multiple"] * FPL_LIMITS["clip"]
    assert made.rounds == 35
    asked = replace(plan, rounds=4, settings={"factors": 3})
    made = found_federation(tmp_path / "g", items, [], asked).terms
    assert made.rounds == 4 and made.settings["factors"] == 3


@pytest.mark.parametrize("users", [40, 120])
def test_the_remedy_of_too_few_people_works_and_says_what_it_costs(users: int) -> None:
    asked = RunRequest("fcf", people(users), settings={"rounds": 1}, **SMALL)
    with pytest.raises(InputError) as why:
        carry_out(asked)
    remedy = f"--protect people={min(users, FEWER_PEOPLE)}"
    assert f"or {remedy}: {OF_A_HUNDRED}" in str(why.value)
    protect = {"people": remedy.rpartition("=")[2]}
    ran = carry_out(replace(asked, protect=protect))
    # 0 = everybody.
    assert ran.manifest["settings"]["cohort"] == 0
