"""What decentralisation costs: generalised matrix factorisation in one place, around a server, and between peers, on one split.

Accuracy, the worst tenth of users, what is sent, and processor seconds, side by side. Popular and iALS stand for no learning at all and for
the best that one place has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .cell import Look
from .pepper_plan import System
from .pepper_study import PepperStudy, over_sources
from .pepper_tables import MOVIELENS, WHOLE_MOVIELENS
from .pepper_tails import figure, tails
from .result import Experiment, Found

SYSTEMS = tuple(
    map(
        System,
        ("popular", "ials", "central-gmf", "fedavg-gmf", "fedfast-gmf", "gossip-average-gmf", "gossip-reptile-gmf", "pepper-gmf"),
    )
)
HR, MEGABYTES, SECONDS = "hr@10", "MB a user", "CPU s"


def one(study: PepperStudy) -> Found:
    """All on one split, trained one after another."""
    found = Found()
    systems = study.fitting(SYSTEMS, found)
    looks, rounds = study.timed_tests(systems), study.rounds(systems)
    users = int((study.part("test").rows.counts > 0).sum())
    for system in systems:
        found.rows.extend(study.rows(system, values_of(looks[system], users), {}, rounds[system]))
    found.notes.extend([study.about(), *_notes(study, looks, users)])
    found.figures[f"users-{study.source.slug}"] = figure(study.name, HR, looks)
    return found


def values_of(looks: Sequence[Look], users: int) -> dict[str, list[float]]:
    """A value for each seed. What one place collects is not counted: it is the users' rows themselves."""
    return {
        **{name: [look.metrics[name] for look in looks] for name in ("hr@20", HR, "ndcg@10")},
        f"{HR} worst 10 %": tails(looks, HR)[f"{HR} worst 10 %"],
        MEGABYTES: [(look.ledger["bytes_up"] + look.ledger["bytes_down"]) / 1e6 / users for look in looks],
        SECONDS: [look.cpu_seconds for look in looks],
    }


def _notes(study: PepperStudy, looks: Mapping[System, Sequence[Look]], users: int) -> list[str]:
    mean = {
        str(system): {name: sum(some) / len(some) for name, some in values_of(mine, users).items()}
        for system, mine in looks.items()
        if mine
    }
    steps = (
        ("central-gmf", "fedavg-gmf", "a server in place of one place"),
        ("fedavg-gmf", "pepper-gmf", "peers in place of a server"),
    )
    said = [f"{what} ({b} for {a}): {_change(mean[a], mean[b])}" for a, b, what in steps if a in mean and b in mean]
    return [
        f"{study.name}: {'; '.join(said)}." if said else f"{study.name}: a training diverged.",
        f"{study.name}: bytes are those of models and headers, up and down, without compression; seconds are of one thread, of all devices "
        "together, without evaluation (decentralised Reptile fine-tunes when it is evaluated).",
    ]


def _change(a: Mapping[str, float], b: Mapping[str, float]) -> str:
    worst = f"{HR} worst 10 %"
    return (
        f"HR@10 {b[HR] - a[HR]:+.4f}, NDCG@10 {b['ndcg@10'] - a['ndcg@10']:+.4f}, worst tenth {b[worst] - a[worst]:+.4f}, MB a user "
        f"{a[MEGABYTES]:.1f} -> {b[MEGABYTES]:.1f}, CPU s {a[SECONDS]:.1f} -> {b[SECONDS]:.1f}"
    )


EXPERIMENTS = {
    "decentralisation-cost": Experiment(
        "GMF in one place, around a server and between peers (beyond PEPPER)",
        {},
        over_sources(one, (MOVIELENS, WHOLE_MOVIELENS), (MOVIELENS,)),
    )
}
