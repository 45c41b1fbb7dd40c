"""Figures that claims are held against and that no table of the lab has: with `by = "audit"`, what
audits found in single messages (`entrenous audit`, stored by `make evidence`).
"""

from __future__ import annotations

from entrenous.privacy import evidence

from .stored import StoredResult

AUDIT = "audit"


def audited() -> StoredResult:
    """Returns the precision of the best attack on the messages of each algorithm, as a result."""
    rows = []
    for entry in evidence.entries():
        attack = evidence.best(entry)
        if attack is None or (entry["view"], entry["profile"]) != ("individual", "paper"):
            continue
        about = {"data": entry["data"], "system": entry["algorithm"], "protocol": ""}
        rows.append({**about, "metric": "precision", "obtained": attack["precision"]})
    return StoredResult(AUDIT, {"rows": rows, "tests": [], "quick": False})
