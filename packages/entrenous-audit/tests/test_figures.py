"""What whole audits of MovieLens-100K find, pinned: whoever breaks the protocol of an algorithm or
an attack breaks a figure here.
"""

from __future__ import annotations

import pytest
from entrenous_audit.measures import NOT_TRIED, NOTHING
from paths import SHARED, real

import entrenous

pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    real("ml-100k")
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "new_row", "low", "high"),
    [
        (0.3, False, 0.25, 1),
        (2.0, False, -0.02, 0.02),
        (0.3, True, 0.5, 1),
        (2.0, True, -0.1, 0.05),
    ],
)
def test_two_sums_that_differ_by_one_person_or_one_row_need_noise_of_two(
    noise: float, new_row: bool, low: float, high: float
) -> None:
    found = entrenous.audit(
        "fcf",
        "ml-100k",
        attacks=["new-row" if new_row else "em"],
        view="difference",
        profile="private",
        protect={"secure_sum": False, "noise": noise},
        new_row=new_row,
        rounds=60,
        quick=True,
        progress=False,
    ).found
    (one,) = found["attacks"]
    assert low <= one["advantage"] <= high


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm, within", [("fcf", 0.005), ("pfpl+", 0.02), ("fedavg-neumf", 0.02)]
)
def test_in_sums_of_the_profile_private_these_attacks_find_nothing_at_nearly_the_same_accuracy(
    algorithm: str, within: float
) -> None:
    found = entrenous.audit(
        algorithm, "ml-100k", profile="private", rounds=60, progress=False
    ).found
    sums = [one for one in found["attacks"] if one["view"] == "sum"]
    ranked = [
        one["advantage"] for one in sums if one["advantage"] is not None
    ]  # an attack that found nothing to rank has none
    assert (
        ranked
        and max(ranked) <= 0.02
        and {one["verdict"] for one in sums} - {NOT_TRIED} == {NOTHING}
    )
    plain = entrenous.run(algorithm, "ml-100k", settings={"cohort": 100}, progress=False)
    assert found["accuracy"]["hr@10"] >= plain.metrics["hr@10"] - within
