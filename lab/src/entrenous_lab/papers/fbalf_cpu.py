"""FBALF, section 4.2.2: the processor time that decoys cost, over rho.

The trainings of the other tables run at the same time. Here those of a fold run one after another,
so that their processor time can be compared.
"""

from __future__ import annotations

from .effort import ratings
from .fbalf_variants import AT_RHO, RHO
from .measures import CPU_SECONDS, each
from .opened import rated
from .study import Study, System
from .table import PaperTable, Trained, Values, on_test_rows
from .values import worded

FORM = "fbalf, p_u learns from ratings"  # the paper's form under the reading of its tables
OVER_RHO = tuple(AT_RHO[FORM, rho] for rho in RHO)
TIMES_RHO_0 = "CPU s, x rho 0"


def timed(study: Study, systems: list[System]) -> Trained:
    """Trains on each fold one after another, and evaluates on its test rows."""
    return on_test_rows(study, systems, timed=True)


def seconds(trained: Trained, system: System) -> Values:
    """Returns the processor time of each fold, and how many times that without decoys it is."""
    mine = each(trained.looks[system], CPU_SECONDS)
    without = each(trained.looks[AT_RHO[FORM, 0]], CPU_SECONDS)
    if not mine or not without or min(without) == 0:
        return {CPU_SECONDS: mine, TIMES_RHO_0: []}
    ratios = [a / b for a, b in zip(mine, without, strict=True)]
    return {CPU_SECONDS: mine, TIMES_RHO_0: ratios}


def cost_note(trained: Trained) -> list[str]:
    """States how many times as much processor time each rho takes."""
    said = []
    for rho in RHO:
        ratios = seconds(trained, AT_RHO[FORM, rho])[TIMES_RHO_0]
        if ratios:
            said.append(f"rho {rho} {sum(ratios) / len(ratios):.2f}")
    return [worded("fbalf", "cpu", name=trained.name, said=", ".join(said) or "none")]


EXPERIMENTS = {
    "fbalf-cpu": PaperTable(
        title="processor time over rho (FBALF, section 4.2.2)",
        data=rated(ratings("ml-100k")),
        systems=OVER_RHO,
        train=timed,
        metrics=seconds,
        findings=(cost_note,),
    ),
}
