"""FBALF, eq. 6: what decoys cost, in error and in bytes, over rho: how many unrated items a device adds to each that it rated."""

from __future__ import annotations

from ..evaluate.ratings import ERRORS
from ..report.figures import lines
from .fbalf_accuracy import FBALF, FEDREC_B, FEDREC_PP_B
from .measures import KB_UP, mean
from .opened import rated
from .source import ratings
from .study import System
from .table import PaperTable, Trained
from .values import printed

RHO = (0, 1, 2, 3)
SYSTEMS = {
    str(FBALF): FBALF,
    "fedrec, user average": System("fedrec", "fedrec, user average", (*FEDREC_B.own, ("filling", "average"))),
    "fedrec, hybrid filling": System("fedrec", "fedrec, hybrid filling", (*FEDREC_B.own, ("filling", "hybrid"))),
    "fedrec++": FEDREC_PP_B,
}
AT_RHO = {
    (name, rho): system.replaced(rho=rho)._replace(called=f"{name}, rho {rho}") for name, system in SYSTEMS.items() for rho in RHO
}
PAPER = printed("fbalf", "shipped")


def most_decoys(trained: Trained) -> list[str]:
    """What the most decoys cost each system."""
    said = []
    for name in SYSTEMS:
        first, last = (trained.looks[AT_RHO[name, rho]] for rho in (RHO[0], RHO[-1]))
        if first and last:
            rmse, nbytes = (mean(last, metric) - mean(first, metric) for metric in ("rmse", KB_UP))
            said.append(f"{name} {rmse:+.4f} RMSE, {nbytes:+.1f} kB a device and round")
    return [f"{trained.name}, rho {RHO[-1]} against rho {RHO[0]}: {'; '.join(said) or 'every training diverged'}."]


def _figures(trained: Trained) -> dict[str, str]:
    drawn = {"rmse": ("rmse", "RMSE"), "bytes": (KB_UP, KB_UP)}
    slug = trained.study.source.slug
    return {f"rho-{name}-{slug}": _figure(trained, metric, label) for name, (metric, label) in drawn.items()}


def _figure(trained: Trained, metric: str, label: str) -> str:
    there = {name: [rho for rho in RHO if trained.looks[AT_RHO[name, rho]]] for name in SYSTEMS}
    series = {name: (rhos, [mean(trained.looks[AT_RHO[name, rho]], metric) for rho in rhos]) for name, rhos in there.items()}
    return lines(series, x_label="rho", y_label=label, title=f"Decoys: {trained.name}")


EXPERIMENTS = {
    "fbalf-rho": PaperTable(
        title="error and bytes over rho (FBALF, eq. 6; FedRec)",
        data=rated(*map(ratings, ("ml-100k", "ml-1m"))),
        systems=tuple(AT_RHO.values()),
        metrics=(*ERRORS, KB_UP),
        printed=PAPER,
        findings=(most_decoys,),
        figures=_figures,
    )
}
