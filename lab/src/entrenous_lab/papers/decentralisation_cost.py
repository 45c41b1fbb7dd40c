"""What decentralisation costs: generalised matrix factorisation in one place, around a server, and
between peers, on one split.

Accuracy, the worst tenth of users, what is sent, and processor seconds, side by side. Popular and
iALS stand for no learning at all and for the best that one place has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from .measures import CPU_SECONDS, MB_SENT, each
from .opened import pepper
from .pepper_accuracy import MOVIELENS, WHOLE_MOVIELENS, split_note
from .pepper_tails import figure, tails
from .study import System
from .table import PaperTable, Trained, Values, on_test_rows
from .values import worded

NAMES = (
    "popular",
    "ials",
    "central-gmf",
    "fedavg-gmf",
    "fedfast-gmf",
    "gossip-average-gmf",
    "gossip-reptile-gmf",
    "pepper-gmf",
)
SYSTEMS = tuple(map(System, NAMES))
STEPS = {  # from one system to another
    "a server in place of one place": ("central-gmf", "fedavg-gmf"),
    "peers in place of a server": ("fedavg-gmf", "pepper-gmf"),
}
HR, MEGABYTES = "hr@10", "MB a user"
WORST = f"{HR} worst 10 %"


def values_of(trained: Trained, system: System) -> Values:
    """A value for each seed. What one place collects is not counted: it is the users' rows
    themselves.
    """
    looks, users = trained.looks[system], int((trained.study.part("test").rows.counts > 0).sum())
    return {
        **{name: each(looks, name) for name in ("hr@20", HR, "ndcg@10")},
        WORST: tails(looks, HR)[WORST],
        MEGABYTES: [megabytes / users for megabytes in each(looks, MB_SENT)],
        CPU_SECONDS: each(looks, CPU_SECONDS),
    }


def steps_note(trained: Trained) -> list[str]:
    """What each step away from one place costs."""
    of = {
        str(system): values_of(trained, system) for system, looks in trained.looks.items() if looks
    }
    mean = {
        system: {name: sum(some) / len(some) for name, some in values.items()}
        for system, values in of.items()
    }
    said = "; ".join(
        f"{what} ({b} for {a}): {_change(mean[a], mean[b])}"
        for what, (a, b) in STEPS.items()
        if {a, b} <= mean.keys()
    )
    return [
        f"{trained.name}: {said or 'a training diverged'}.",
        worded("pepper", "counted", name=trained.name),
    ]


def _change(a: Mapping[str, float], b: Mapping[str, float]) -> str:
    mb, cpu = ((a[name], b[name]) for name in (MEGABYTES, CPU_SECONDS))
    hr, ndcg, worst = (b[name] - a[name] for name in (HR, "ndcg@10", WORST))
    return worded("pepper", "step", hr=hr, ndcg=ndcg, worst=worst, mb=mb, cpu=cpu)


EXPERIMENTS = {
    "decentralisation-cost": PaperTable(
        title="GMF in one place, around a server and between peers (beyond PEPPER)",
        data=pepper(MOVIELENS, WHOLE_MOVIELENS),
        systems=SYSTEMS,
        train=partial(on_test_rows, timed=True),
        metrics=values_of,
        findings=(split_note, steps_note),
        figures=lambda trained: {f"users-{trained.slug}": figure(trained.name, HR, trained.looks)},
    )
}
