"""What an operator reads who designs every model, and what bounds it."""

from __future__ import annotations

from typing import Any

import pytest
from entrenous_audit.examine import AuditFound, audited
from entrenous_audit.plan import AuditPlan
from entrenous_audit.python.audit_tables import first_said

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic

USERS = 120


@pytest.fixture(scope="module")
def rows() -> Interactions:
    return synthetic(users=USERS, items=300, interactions=3_600, seed=3)


def found(rows: Interactions, algorithm: str, **protect: Any) -> AuditFound:
    """An audit of an operator who designs models."""
    plan = AuditPlan(
        algorithm=algorithm,
        view="planted",
        cohort=40,
        rounds=6,
        watched=6,
        quick=True,
        protocol="random-80-20",
        threads=1,
        settings={"factors": 8},
        profile="private",
        protect={"people": 40, **protect},
    )
    return audited(plan, rows)


@pytest.mark.parametrize("algorithm", ["fcf", "pfpl+"])
def test_an_operator_reads_people_unless_noise_is_a_multiple_of_the_clip(
    rows: Interactions, algorithm: str
) -> None:
    loose = found(rows, algorithm, noise=0.1, clip=30.0)
    (read,) = loose["attacks"]
    assert read["advantage"] is not None and read["advantage"] > 0.1
    # The guess of the table is about the people who are read, without what was known of them.
    assert loose["popularity"]["r_precision"] == read["popularity_r_precision"]
    assert loose["seen"]["users"] == 6 and loose["rounds"] >= 6
    (said,) = first_said(loose)
    assert f"finds {read['r_precision']:.3f}" in said
    assert said.endswith("an AUC of at most 1.000")
    (hidden,) = found(rows, algorithm, multiple=2.0, clip=1.0)["attacks"]
    assert hidden["advantage"] is not None and hidden["advantage"] < 0.05
    # sqrt(6) answers, each moved by at most 2 clips of a half of the noise.
    assert hidden["auc_most"] == pytest.approx(0.958, abs=0.001)


def test_figures_under_private_begin_with_a_planted_model_or_that_none_was_measured(
    rows: Interactions,
) -> None:
    of_sums = {**found(rows, "fcf", noise=50.0, clip=1.0), "view": "sum"}
    (said,) = first_said(of_sums)
    assert "finds 0.327" in said and "measured at factors 32 (here 8)" in said
    (unknown,) = first_said({**of_sums, "algorithm": "fbalf"})
    assert "--view planted` measures it" in unknown
    assert first_said({**of_sums, "profile": "paper"}) == []


@pytest.mark.parametrize(
    ("algorithm", "more", "said"),
    [
        ("fcf", {"people": 2}, "without --people"),
        ("pepper-gmf", {}, "needs a server"),
        ("fcf", {"view": "list", "knows": 0.1}, "without --knows"),
        ("pepper-gmf", {"view": "list"}, "no view 'list'"),
    ],
)
def test_views_that_cannot_be_had_are_refused(
    rows: Interactions, algorithm: str, more: dict[str, Any], said: str
) -> None:
    asked: Any = {"view": "planted", "protocol": "random-80-20", "quick": True, **more}
    plan = AuditPlan(algorithm=algorithm, **asked)
    with pytest.raises(InputError, match=said):
        audited(plan, rows)
