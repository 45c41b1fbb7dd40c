"""FBALF, eq. 6: what decoys cost, in error and in bytes, over rho: how many unrated items a device adds to each that it rated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..evaluate.ratings import ERRORS
from ..report.figures import lines
from .cell import CurvePoint
from .fbalf_accuracy import FBALF, FEDREC_B, FEDREC_PP_B
from .opened import rated
from .result import Row
from .source import ratings
from .study import System
from .table import PaperTable, Trained, system_rows
from .values import printed

RHO = (0, 1, 2, 3)
BYTES = "kB up, a device and round"
SYSTEMS = {
    str(FBALF): FBALF,
    "fedrec, user average": System("fedrec", "fedrec, user average", (*FEDREC_B.own, ("filling", "average"))),
    "fedrec, hybrid filling": System("fedrec", "fedrec, hybrid filling", (*FEDREC_B.own, ("filling", "hybrid"))),
    "fedrec++": FEDREC_PP_B,
}
AT_RHO = {(name, rho): system.replaced(rho=rho) for name, system in SYSTEMS.items() for rho in RHO}
PAPER = printed("fbalf", "shipped")


def rows_of(trained: Trained) -> list[Row]:
    """Every system at every rho, everything else as chosen for it."""
    rows = []
    for (name, rho), system in AT_RHO.items():
        values = {metric: _values(trained.looks[system], metric) for metric in (*ERRORS, BYTES)}
        rows += system_rows(trained, system, values, PAPER, called=f"{name}, rho {rho}")
    return rows


def _values(looks: Sequence[CurvePoint], metric: str) -> list[float]:
    """One value a fold."""
    if metric == BYTES:
        return [look.ledger["bytes_up"] / look.ledger["device_rounds"] / 1e3 for look in looks]
    return [look.metrics[metric] for look in looks]


def most_decoys(trained: Trained) -> list[str]:
    """What the most decoys cost each system."""
    said = []
    for name in SYSTEMS:
        first, last = (trained.looks[AT_RHO[name, rho]] for rho in (RHO[0], RHO[-1]))
        if first and last:
            rmse, nbytes = (np.mean(_values(last, metric)) - np.mean(_values(first, metric)) for metric in ("rmse", BYTES))
            said.append(f"{name} {rmse:+.4f} RMSE, {nbytes:+.1f} kB a device and round")
    return [f"{trained.name}, rho {RHO[-1]} against rho {RHO[0]}: {'; '.join(said) or 'every training diverged'}."]


def _figures(trained: Trained) -> dict[str, str]:
    slug = trained.study.source.slug
    return {f"rho-rmse-{slug}": _figure(trained, "rmse"), f"rho-bytes-{slug}": _figure(trained, BYTES)}


def _figure(trained: Trained, metric: str) -> str:
    there = {name: [rho for rho in RHO if trained.looks[AT_RHO[name, rho]]] for name in SYSTEMS}
    series = {
        name: (rhos, [float(np.mean(_values(trained.looks[AT_RHO[name, rho]], metric))) for rho in rhos])
        for name, rhos in there.items()
    }
    label = "RMSE" if metric == "rmse" else metric
    return lines(series, x_label="rho", y_label=label, title=f"Decoys: {trained.name}")


EXPERIMENTS = {
    "fbalf-rho": PaperTable(
        title="error and bytes over rho (FBALF, eq. 6; FedRec)",
        data=rated(*map(ratings, ("ml-100k", "ml-1m"))),
        systems=tuple(AT_RHO.values()),
        metrics=(*ERRORS, BYTES),
        printed=PAPER,
        rows=rows_of,
        findings=(most_decoys,),
        figures=_figures,
    )
}
