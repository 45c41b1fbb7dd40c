"""What a list of recommendations tells of the history that it leaves out."""

from __future__ import annotations

from typing import Any

from entrenous_audit.examine import audited
from entrenous_audit.plan import AuditPlan
from entrenous_audit.python.audit_tables import first_said
from entrenous_lab.planted import planted


def test_a_list_tells_its_owners_history_and_by_scores_for_sure() -> None:
    rows = planted(users=80, items=200, each=20, tastes=4)
    asked: Any = {"view": "list", "quick": True, "protocol": "random-80-20", "rounds": 20}
    found = audited(AuditPlan(algorithm="fcf", settings={"factors": 8}, threads=1, **asked), rows)
    kinds = ("10 titles", "10 titles with scores", "50 titles", "50 titles with scores")
    attacks: Any = found["attacks"]
    assert [one["name"] for one in attacks] == [f"served-list, {kind}" for kind in kinds]
    ten, scored, fifty, whole = attacks
    # Fifty numbers give a vector of eight: what it would rank higher was consumed.
    assert whole["precision"] > 0.99 and whole["recall"] > 0.8
    assert ten["precision"] is None and scored["precision"] > 0.8
    assert whole["advantage"] > fifty["advantage"] > ten["advantage"] > 0.2
    # Items of the list are no find, and popular items are compared without them.
    assert found["popularity"]["r_precision"] == ten["popularity_r_precision"]
    assert fifty["popularity_r_precision"] > ten["popularity_r_precision"]
    said = first_said(found)[0]
    assert said.startswith(f"served-list, 10 titles finds {ten['r_precision']:.3f}")
