"""What decentralisation costs: generalised matrix factorisation in one place, around a server, and between peers, on one split.

Accuracy, the worst tenth of users, what is sent, and processor seconds, side by side. Popular and iALS stand for no learning at all and for
the best that one place has.
"""

from __future__ import annotations

from collections.abc import Mapping

from .measures import CPU_SECONDS, MB_SENT, each
from .opened import pepper
from .pepper_accuracy import MOVIELENS, WHOLE_MOVIELENS, split_note
from .pepper_tails import figure, tails
from .study import System
from .table import PaperTable, Trained, Values, timed_on_test_rows

SYSTEMS = tuple(
    map(
        System,
        ("popular", "ials", "central-gmf", "fedavg-gmf", "fedfast-gmf", "gossip-average-gmf", "gossip-reptile-gmf", "pepper-gmf"),
    )
)
HR, MEGABYTES = "hr@10", "MB a user"
WORST = f"{HR} worst 10 %"


def values_of(trained: Trained, system: System) -> Values:
    """A value for each seed. What one place collects is not counted: it is the users' rows themselves."""
    looks, users = trained.looks[system], int((trained.study.part("test").rows.counts > 0).sum())
    return {
        **{name: each(looks, name) for name in ("hr@20", HR, "ndcg@10")},
        WORST: tails(looks, HR)[WORST],
        MEGABYTES: [megabytes / users for megabytes in each(looks, MB_SENT)],
        CPU_SECONDS: each(looks, CPU_SECONDS),
    }


def steps_note(trained: Trained) -> list[str]:
    """What each step away from one place costs."""
    mean = {
        str(system): {name: sum(some) / len(some) for name, some in values_of(trained, system).items()}
        for system, looks in trained.looks.items()
        if looks
    }
    steps = (
        ("central-gmf", "fedavg-gmf", "a server in place of one place"),
        ("fedavg-gmf", "pepper-gmf", "peers in place of a server"),
    )
    said = [f"{what} ({b} for {a}): {_change(mean[a], mean[b])}" for a, b, what in steps if a in mean and b in mean]
    return [
        f"{trained.name}: {'; '.join(said)}." if said else f"{trained.name}: a training diverged.",
        f"{trained.name}: bytes are those of models and headers, up and down, without compression; seconds are of one thread, of all "
        "devices together, without evaluation (decentralised Reptile fine-tunes when it is evaluated).",
    ]


def _change(a: Mapping[str, float], b: Mapping[str, float]) -> str:
    return (
        f"HR@10 {b[HR] - a[HR]:+.4f}, NDCG@10 {b['ndcg@10'] - a['ndcg@10']:+.4f}, worst tenth {b[WORST] - a[WORST]:+.4f}, MB a user "
        f"{a[MEGABYTES]:.1f} -> {b[MEGABYTES]:.1f}, CPU s {a[CPU_SECONDS]:.1f} -> {b[CPU_SECONDS]:.1f}"
    )


def _figure(trained: Trained) -> dict[str, str]:
    return {f"users-{trained.study.source.slug}": figure(trained.name, HR, trained.looks)}


EXPERIMENTS = {
    "decentralisation-cost": PaperTable(
        title="GMF in one place, around a server and between peers (beyond PEPPER)",
        data=pepper(MOVIELENS, WHOLE_MOVIELENS),
        systems=SYSTEMS,
        train=timed_on_test_rows,
        metrics=values_of,
        findings=(split_note, steps_note),
        figures=_figure,
    )
}
