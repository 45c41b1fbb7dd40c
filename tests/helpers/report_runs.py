"""Audited runs for the tests of the report: FPL as published, FPL private, and popularity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entrenous_audit.examine import audited
from entrenous_audit.plan import AuditPlan
from stored_runs import stored, tiny

from entrenous.privacy.protection import PRIVATE
from entrenous.runs.store import StoredRun

SETTINGS = {"factors": 4, "triples": 10}
# Sums of half of the 40 users.
PROTECT = {"noise_by": "server", "people": 20}


def three_runs(out: Path) -> tuple[StoredRun, ...]:
    """The runs, stored and read back."""
    return (
        stored(out, "fpl", protocol="loo-5"),
        stored(out, "fpl", protocol="loo-5", profile=PRIVATE, protect=PROTECT),
        stored(out, "popular", protocol="loo-5"),
    )


def audits_of(runs: Sequence[StoredRun]) -> dict[str, dict[str, Any]]:
    """{name of a run: audit} of the first two."""
    common: dict[str, Any] = {"algorithm": "fpl", "protocol": "loo-5", "rounds": 4, "quick": True}
    common |= {"settings": SETTINGS, "cohort": 20}
    published = AuditPlan(view="individual", watched=20, **common)
    private = AuditPlan(view="sum", profile=PRIVATE, protect=PROTECT, **common)
    names = [str(run.manifest["run"]) for run in runs]
    reports = [audited(plan, tiny()) for plan in (published, private)]
    return dict(zip(names, reports, strict=False))
