"""FBALF's parts. Section 4.2.1: what the training bias buys, for all ratings and by group. Eq. 6:
what decoys cost, over rho, under two readings of section 4.3.1. Section 5.1.4: every system with
one latent dimension.

The paper has no table of the first; its claim is that "a significant portion of the variance in
rating values is due to bias". rho is how many unrated items a device adds to each that it rated:
they cost error and bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from entrenous.evaluation.ratings import ERRORS
from entrenous.report.figures import FigureFormat, bars, lines

from .cell import CurvePoint
from .effort import ratings
from .error_groups import EVERYBODY, GENEROUS, OFFSET, POPULAR, RARE, STRICT
from .fbalf_accuracy import FBALF, FEDERATED, FEDREC_B, FEDREC_PP_B, PLAIN
from .fbalf_variance import variance_rows
from .measures import KB_UP, mean
from .opened import rated
from .result import Row
from .study import System
from .table import PaperTable, Trained, Values, metric_rows
from .values import listed, printed, worded

# ---- biases --------------------------------------------------------------------------------------

# All begin at the middle of the scale: without b_u, p_u alone would have to make up a whole rating
# from 0, which diverges.
MIDDLE = PLAIN._replace(own=(("start", "middle"),))
BIASES = {
    "both biases": MIDDLE,
    "item bias only": MIDDLE.replaced(user_bias=False),
    "user bias only": MIDDLE.replaced(item_bias=False),
    "no bias": MIDDLE.replaced(user_bias=False, item_bias=False),
}
VARIANTS = {name: system._replace(called=f"{PLAIN}, {name}") for name, system in BIASES.items()}
GROUPS = (EVERYBODY, STRICT, GENEROUS, RARE, POPULAR)
MEASURES = ("rmse", "mae", OFFSET)


def values_of(trained: Trained, system: System) -> Values:
    """Every measure of every group; the other settings are those chosen for both biases."""
    looks = trained.looks[system]
    named = {
        (m, group): m if group == EVERYBODY else f"{m}, {group}"
        for m in MEASURES
        for group in GROUPS
    }
    return {name: _values(looks, measure, group) for (measure, group), name in named.items()}


def _values(looks: Sequence[CurvePoint], measure: str, group: str) -> list[float]:
    """One value a fold."""
    return [look.by_category[measure][group] for look in looks]


def bias_rows(trained: Trained) -> list[Row]:
    """What every variant errs, and the share of the variance that the biases explain."""
    return [*metric_rows(trained, values_of, {}), *variance_rows(trained, VARIANTS["both biases"])]


def gains(trained: Trained) -> list[str]:
    """How much less each group errs with both biases than without any."""
    both, none = (trained.looks[VARIANTS[name]] for name in ("both biases", "no bias"))
    if not both or not none:
        return [f"{trained.name}: a training diverged."]
    gains = {
        group: np.array(_values(none, "rmse", group)) - np.array(_values(both, "rmse", group))
        for group in GROUPS
    }
    each = [
        f"{group} {gain.mean():+.4f} (in {int((gain > 0).sum())} of {len(gain)} folds)"
        for group, gain in gains.items()
    ]
    return [worded("fbalf", "gains", name=trained.name, said=", ".join(each))]


def bias_figure(trained: Trained) -> dict[str, str]:
    """RMSE of every variant by group."""
    there = {
        name: trained.looks[system] for name, system in VARIANTS.items() if trained.looks[system]
    }
    values = {
        name: [float(np.mean(_values(looks, "rmse", group))) for group in GROUPS]
        for name, looks in there.items()
    }
    title = f"What the biases buy: {trained.name}"
    return {
        f"bias-{trained.slug}": bars(
            list(GROUPS), values, FigureFormat(title=title, x_label="RMSE", y_label="")
        )
    }


# ---- decoys --------------------------------------------------------------------------------------

RHO = (0, 1, 2, 3)
SYSTEMS = {
    str(FBALF): FBALF,
    "fbalf, p_u learns from ratings": PLAIN,
    "fbalf, p_u learns from decoys too": System(
        "fbalf", "fbalf, decoys_move_u", (("decoys_move_u", True),)
    ),
    "fedrec, user average": System(
        "fedrec", "fedrec, user average", (*FEDREC_B.own, ("filling", "average"))
    ),
    "fedrec, hybrid filling": System(
        "fedrec", "fedrec, hybrid filling", (*FEDREC_B.own, ("filling", "hybrid"))
    ),
    "fedrec++": FEDREC_PP_B,
}
AT_RHO = {
    (name, rho): system.replaced(rho=rho)._replace(called=f"{name}, rho {rho}")
    for name, system in SYSTEMS.items()
    for rho in RHO
}
# The paper's form under both readings of 4.3.1: what is run on the sets that FedRec's authors have
# no figures of.
OF_PAPER = tuple(
    AT_RHO[name, rho]
    for name, system in SYSTEMS.items()
    for rho in (0, 1, 3)
    if system.algorithm == str(PLAIN)
)
DECOY_FIGURES = {
    "rmse": ("rmse", "RMSE"),
    "bytes": (KB_UP, KB_UP),
}  # by file: the metric, and the axis


def most_decoys(trained: Trained) -> list[str]:
    """What the most decoys cost each system."""
    said = []
    for name in SYSTEMS:
        first, last = (trained.looks.get(AT_RHO[name, rho]) for rho in (RHO[0], RHO[-1]))
        if first and last:
            rmse, nbytes = (mean(last, metric) - mean(first, metric) for metric in ("rmse", KB_UP))
            said.append(f"{name} {rmse:+.4f} RMSE, {nbytes:+.1f} kB a device and round")
    words = "; ".join(said) or "every training diverged"
    return [worded("fbalf", "decoys", name=trained.name, most=RHO[-1], least=RHO[0], said=words)]


def decoy_figures(trained: Trained) -> dict[str, str]:
    """RMSE and bytes of every system over rho."""
    drawn, title = {}, f"Decoys: {trained.name}"
    there = {
        name: {rho: looks for rho in RHO if (looks := trained.looks[AT_RHO[name, rho]])}
        for name in SYSTEMS
    }
    for file, (metric, label) in DECOY_FIGURES.items():
        series = {
            name: (list(of), [mean(looks, metric) for looks in of.values()])
            for name, of in there.items()
        }
        drawn[f"rho-{file}-{trained.slug}"] = lines(
            series, FigureFormat(title=title, x_label="rho", y_label=label)
        )
    return drawn


# ---- one latent dimension ------------------------------------------------------------------------

FACTORS = 20  # of every system; the text has one for all and its number is lost
ALIKE = tuple(
    system.replaced(factors=FACTORS, **({"members": 1} if system == FBALF else {}))._replace(
        called=f"{system}, {FACTORS} factors"
    )
    for system in FEDERATED
)


def ranked_alike(trained: Trained) -> list[str]:
    """The systems by their mean RMSE."""
    rmse = sorted(trained.means(trained.systems, "rmse").items(), key=lambda one: one[1])
    return [worded("fbalf", "alike", name=trained.name, said=listed(dict(rmse), ".4f"))]


EXPERIMENTS = {
    "fbalf-factors": PaperTable(
        title=(
            "federated rating prediction with one latent dimension for all (FBALF, section 5.1.4)"
        ),
        data=rated(*map(ratings, ("ml-100k", "yahoo-r3", "ml-1m"))),
        systems=ALIKE,
        metrics=ERRORS,
        findings=(ranked_alike,),
    ),
    "fbalf-bias": PaperTable(
        title="what the biases buy, by group of users and items (FBALF, section 4.2.1)",
        data=rated(*map(ratings, ("ml-100k", "yahoo-r3", "ml-1m"))),
        systems=tuple(VARIANTS.values()),
        rows=bias_rows,
        findings=(gains,),
        figures=bias_figure,
    ),
    "fbalf-rho": PaperTable(
        title="error and bytes over rho (FBALF, eq. 6; FedRec)",
        data=rated(*map(ratings, ("ml-100k", "ml-1m"))),
        systems=tuple(AT_RHO.values()),
        metrics=(*ERRORS, KB_UP),
        printed=printed("fbalf", "shipped"),
        findings=(most_decoys,),
        figures=decoy_figures,
    ),
    "fbalf-rho-rest": PaperTable(
        title="error and bytes over rho on the paper's other two data sets (FBALF, eq. 6)",
        data=rated(*map(ratings, ("hetrec-ml", "yahoo-r3"))),
        systems=OF_PAPER,
        metrics=(*ERRORS, KB_UP),
        findings=(most_decoys,),
    ),
}
