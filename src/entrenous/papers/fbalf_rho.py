"""FBALF, eq. 6: what decoys cost, in error and in bytes, over rho: how many unrated items a device adds to each that it rated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluate.ratings import ERRORS
from ..report.figures import lines
from .cell import Look
from .fbalf_table3 import FBALF, FEDREC_B, FEDREC_PP_B
from .rating_study import RatingStudy, Source, System, over_sources
from .result import Experiment, Found, Row

RHO = (0, 1, 2, 3)
BYTES = "kB up, a device and round"
SYSTEMS = {
    "fbalf-bayes": FBALF,
    "fedrec, user average": System("fedrec", "fedrec, user average", (*FEDREC_B.own, ("filling", "average"))),
    "fedrec, hybrid filling": System("fedrec", "fedrec, hybrid filling", (*FEDREC_B.own, ("filling", "hybrid"))),
    "fedrec++": FEDREC_PP_B,
}
SOURCES = (Source("ml-100k"), Source("ml-1m"))
# research/peers.md 2.5: the results that FedRec's authors ship, batch style, means of five copies of a random 80/20 split
SHIPPED = {
    ("ml-100k", "fedrec, user average"): {1: (0.7670, 0.9710), 2: (0.7787, 0.9843), 3: (0.7857, 0.9920)},
    ("ml-100k", "fedrec, hybrid filling"): {0: (0.7418, 0.9424), 1: (0.7440, 0.9432), 2: (0.7445, 0.9431), 3: (0.7447, 0.9431)},
    ("ml-1m", "fedrec, user average"): {1: (0.7506, 0.9494), 2: (0.7643, 0.9662), 3: (0.7724, 0.9757)},
    ("ml-1m", "fedrec, hybrid filling"): {0: (0.7193, 0.9106), 1: (0.7217, 0.9129), 2: (0.7239, 0.9152), 3: (0.7263, 0.9178)},
}
PAPER = {
    (data, f"{system}, rho {rho}", metric): value
    for (data, system), by_rho in SHIPPED.items()
    for rho, values in by_rho.items()
    for metric, value in zip(ERRORS, values, strict=True)
}


def one(study: RatingStudy) -> Found:
    """Every system at every rho, everything else as chosen for it."""
    systems = {(name, rho): system.replaced(rho=rho) for name, system in SYSTEMS.items() for rho in RHO}
    looks = study.tested(list(systems.values()))
    of = {which: looks[system] for which, system in systems.items()}
    rows = [row for which, system in systems.items() for row in _rows(study, *which, system, of[which])]
    figures = {f"rho-rmse-{study.slug}": _figure(study, of, "rmse"), f"rho-bytes-{study.slug}": _figure(study, of, BYTES)}
    return Found(rows=rows, notes=_notes(study, of), figures=figures)


def _rows(study: RatingStudy, name: str, rho: int, system: System, looks: Sequence[Look]) -> list[Row]:
    label = f"{name}, rho {rho}"
    return [
        study.row(system, metric, _values(looks, metric), PAPER.get((study.name, label, metric))) | {"system": label}
        for metric in (*ERRORS, BYTES)
    ]


def _values(looks: Sequence[Look], metric: str) -> list[float]:
    """One value a fold."""
    if metric == BYTES:
        return [look.ledger["bytes_up"] / look.ledger["device_rounds"] / 1e3 for look in looks]
    return [look.metrics[metric] for look in looks]


Of = Mapping[tuple[str, int], Sequence[Look]]


def _notes(study: RatingStudy, of: Of) -> list[str]:
    """What the most decoys cost each system."""
    said = []
    for name in SYSTEMS:
        first, last = of[name, RHO[0]], of[name, RHO[-1]]
        if first and last:
            rmse, nbytes = (np.mean(_values(last, metric)) - np.mean(_values(first, metric)) for metric in ("rmse", BYTES))
            said.append(f"{name} {rmse:+.4f} RMSE, {nbytes:+.1f} kB a device and round")
    return [f"{study.name}, rho {RHO[-1]} against rho {RHO[0]}: {'; '.join(said) or 'every training diverged'}."]


def _figure(study: RatingStudy, of: Of, metric: str) -> str:
    series = {
        name: (
            [rho for rho in RHO if of[name, rho]],
            [float(np.mean(_values(of[name, rho], metric))) for rho in RHO if of[name, rho]],
        )
        for name in SYSTEMS
    }
    label = "RMSE" if metric == "rmse" else metric
    return lines(series, x_label="rho", y_label=label, title=f"Decoys: {study.name}")


EXPERIMENTS = {
    "fbalf-rho": Experiment("error and bytes over rho (FBALF, eq. 6; FedRec)", PAPER, over_sources(one, SOURCES, SOURCES[:1]))
}
