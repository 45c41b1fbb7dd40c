"""Beyond the paper, its own future work (section 6): PEPPER over a network that loses, delays, cuts
and floods, with nodes that come and go, that differ in bandwidth, or that send rubbish.

Each system is trained for the rounds that the weighting sets chose for it on a clean network, and
mostly looked at there and at twice as many. The paper has no such figures; what must hold is in
`WITHIN_NETWORK` and `WITHIN_BAD`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from entrenous.core.contract.declared import bound
from entrenous.report.figures import FigureFormat, bars

from .cell import CurvePoint
from .opened import pepper
from .pepper_accuracy import MOVIELENS
from .pepper_tails import tails
from .study import Study, System
from .table import PaperTable, Train, Trained, Values
from .values import worded

HR = "hr@10"
WITHIN_NETWORK, WITHIN_BAD = (
    0.03,
    0.02,
)  # HR@10 that a harsh network, and one node in ten sending rubbish, may cost
SHORT = "0.1"  # periods that a message takes where nodes push at moments of their own
BASES = (System("pepper-gmf"), System("gossip-average-gmf"))
Networks = Mapping[
    str, Mapping[str, Any]
]  # {what it is called: settings of federation.network.Network}
SeedLooks = Sequence[Sequence[CurvePoint]]  # two looks for each seed


def churn(study: Study, base: System, rounds: int) -> Networks:
    """Nodes that leave and come back with their state, up to half of them away; and nodes that lose
    all but their rows.
    """
    away = {f"churn {share:g}": {"churn": share} for share in (0.1, 0.3, 0.5)}
    long = {
        f"churn 0.5, sessions of {rounds // 4}": {
            "churn": 0.5,
            "session": float(max(1, rounds // 4)),
        }
    }
    return {**away, **long, "restarts 0.01": {"restarts": 0.01}}


def loss(study: Study, base: System, rounds: int) -> Networks:
    """Messages that never arrive, that take up to five periods, or that cannot cross for a third of
    the time; and all at once.
    """
    cut = f"{rounds // 3}:{max(rounds // 3 + 1, 2 * rounds // 3)}"
    lost = {f"loss {share:g}": {"loss": share} for share in (0.1, 0.3)}
    late = {"delays 0 to 5": {"latency": "uniform:0:5"}}
    worst = {"loss": 0.3, "latency": "uniform:0:5", "partition": cut, "churn": 0.5}
    return {
        **lost,
        **late,
        "partition that heals": {"partition": cut},
        "all of these, churn 0.5": worst,
    }


def heterogeneity(study: Study, base: System, rounds: int) -> Networks:
    """Uplinks over two orders of magnitude, in pushes (a model to each peer of the view) that one
    takes in a period; and clocks.
    """
    algorithm, catalogue = study.made(base), study.part("test").rows.catalogue
    push = algorithm.view * bound(algorithm, catalogue).message_bytes
    spread = {
        f"{low:g} to {100 * low:g} pushes a period": {
            "bandwidth": f"loguniform:{low * push:g}:{100 * low * push:g}"
        }
        for low in (1, 0.3)
    }
    clocks = {
        name: {"clock": clock, "latency": SHORT}
        for name, clock in (("own moments", "regular"), ("exponential gaps", "random"))
    }
    both = {
        "0.3 to 30 pushes, exponential gaps": {
            **spread["0.3 to 30 pushes a period"],
            **clocks["exponential gaps"],
        }
    }
    return {**clocks, **spread, **both}


def bad(study: Study, base: System, rounds: int) -> Networks:
    """Nodes that send NaN, infinity, numbers that are too large, or a model of another length."""
    return {f"bad {share:g}": {"bad": share} for share in (0.1, 0.3)}


# ---- each on one split ---------------------------------------------------------------------------


def on_networks(networks: Callable[[Study, System, int], Networks], times: Sequence[int]) -> Train:
    """PEPPER and decentralised FedAvg over a clean network and under each of the others, after so
    many times their rounds.

    `systems` are all of them, the clean one first of each base; `more` is {system: a list of
    evaluations for each seed}.
    """

    def train(study: Study, bases: list[System]) -> Trained:
        every, rounds = dict[System, list[list[CurvePoint]]](), dict[System, int]()
        for base in bases:
            until = study.rounds([base])[base]
            several = {"clean": base} | {
                name: base.over(**how) for name, how in networks(study, base, until).items()
            }
            called = [system._replace(called=f"{base}, {name}") for name, system in several.items()]
            every |= study.tested_at(called, times)
            rounds |= dict.fromkeys(called, until)
        return Trained(study=study, systems=list(every), rounds=rounds, more=every)

    return train


def by_base(trained: Trained) -> dict[System, list[System]]:
    """{base: it over a clean network, and over each of the others}."""
    found = {base: [system for system in trained.systems if system.base == base] for base in BASES}
    return {base: several for base, several in found.items() if several}


def name_of(system: System) -> str:
    """Of the network alone."""
    return str(system).removeprefix(f"{system.base}, ")


def costs_of(trained: Trained, several: Sequence[System], at: int = 0) -> dict[System, list[float]]:
    """What each network costs, seed by seed."""
    clean, *others = several
    return {system: costs(trained.more[clean], trained.more[system], at) for system in others}


def verdicts(trained: Trained) -> list[str]:
    """What each network costs each base."""
    return [verdict(trained, base, several) for base, several in by_base(trained).items()]


def values_of(trained: Trained, system: System) -> Values:
    """What is told of a network: how well it recommends, and what of the traffic arrives. Empty
    lists if a training diverged.
    """
    first = [look for look, *_ in trained.more[system]]
    later = [look for _, *rest in trained.more[system] for look in rest]
    served = [
        (look.ledger["messages"], look.ledger["lost"], look.ledger["refused"]) for look in first
    ]
    return {
        **{name: [look.metrics[name] for look in first] for name in ("hr@20", HR, "ndcg@10")},
        f"{HR} worst 10 %": tails(first, HR)[f"{HR} worst 10 %"],
        **({f"{HR}, twice the rounds": [look.metrics[HR] for look in later]} if later else {}),
        "models a node": [float(np.mean(look.nodes["received"])) for look in first],
        "lost": [lost / max(1, sent) for sent, lost, _ in served],
        "refused": [refused / max(1, sent) for sent, _, refused in served],
        "MB a node": [
            look.ledger["bytes_up"] / 1e6 / len(look.nodes["received"]) for look in first
        ],
    }


def costs(clean: SeedLooks, other: SeedLooks, at: int = 0) -> list[float]:
    """HR@10 over the clean network minus that over another, seed by seed, of the users whose nodes
    are not bad.
    """
    return [
        hit_ratio(a[at], b[at]) - hit_ratio(b[at], b[at])
        for a, b in zip(clean, other, strict=False)
        if at < len(b)
    ]


def hit_ratio(look: CurvePoint, of: CurvePoint) -> float:
    """Mean HR@10 of the users whose nodes are not bad in the training `of`."""
    values, bad = np.array(look.per_user[HR]), np.array(of.nodes["bad"], bool)
    good = ~bad if len(bad) == len(values) else np.ones(len(values), bool)
    return float(values[good].mean())


def verdict(trained: Trained, base: System, several: Sequence[System]) -> str:
    """What each network costs, and whether that is as little as it has to be."""
    later, said, missed = costs_of(trained, several, 1), list[str](), list[str]()
    rubbish = any("bad" in dict(system.network) for system in several)
    most = WITHIN_BAD if rubbish else WITHIN_NETWORK
    for system, gap in costs_of(trained, several).items():
        name, twice = (
            name_of(system),
            f" (twice the rounds {np.mean(later[system]):+.4f})" if later[system] else "",
        )
        said.append(f"{name} {np.mean(gap):+.4f}{twice}" if gap else f"{name}: diverged")
        missed += [name] if gap and np.mean(gap) > most and name != "bad 0.3" else []
    what = "HR@10 that it costs" + (", of users whose nodes are good" if rubbish else "")
    limit = f"at most {most}" + (" with one bad node in ten" if rubbish else "")
    kept = f"missed by {', '.join(missed)}" if missed else "kept"
    of = {"name": trained.name, "base": base, "rounds": trained.rounds[several[0]], "what": what}
    return worded("pepper", "network", said="; ".join(said), limit=limit, kept=kept, **of)


def _figure(trained: Trained) -> dict[str, str]:
    of = {str(base): costs_of(trained, several) for base, several in by_base(trained).items()}
    drawn = {
        base: {name_of(system): float(np.mean(gap)) for system, gap in cost.items() if gap}
        for base, cost in of.items()
    }
    names = list(dict.fromkeys(name for cost in drawn.values() for name in cost))
    series = {
        base: [cost.get(name, float("nan")) for name in names] for base, cost in drawn.items()
    }
    drawing = bars(
        names, series, FigureFormat(title=trained.name, x_label="HR@10 lost", y_label="")
    )
    return {f"cost-{trained.slug}": drawing}


def under(
    what: str, networks: Callable[[Study, System, int], Networks], times: Sequence[int]
) -> PaperTable:
    """One of the four."""
    return PaperTable(
        title=f"gossip with {what} (beyond PEPPER)",
        data=pepper(MOVIELENS),
        systems=BASES,
        train=on_networks(networks, times),
        metrics=values_of,
        findings=(verdicts,),
        figures=_figure,
    )


EXPERIMENTS = {
    "pepper-churn": under("half of the nodes away, and restarts", churn, (1, 2)),
    "pepper-loss": under("lost and late messages, and a network cut in two", loss, (1, 2)),
    "pepper-heterogeneity": under(
        "bandwidth over two orders of magnitude, and clocks", heterogeneity, (1,)
    ),
    "pepper-bad": under(
        "nodes that send NaN, infinite, oversized and wrong-shape models", bad, (1, 2)
    ),
}
