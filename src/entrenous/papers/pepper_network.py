"""Beyond the paper, its own future work (section 6): PEPPER over a network that loses, delays, cuts and floods, with nodes that come and
go, that differ in bandwidth, or that send rubbish.

Each system is trained for the rounds that the weighting sets chose for it on a clean network, and mostly looked at there and at twice as
many. The paper has no such figures; what must hold is in `WITHIN_NETWORK` and `WITHIN_BAD`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.declared import bound
from ..report.figures import bars
from .cell import CurvePoint
from .opened import pepper
from .pepper_accuracy import MOVIELENS
from .pepper_tails import tails
from .result import Row
from .study import Study, System
from .table import PaperTable, Train, Trained, system_rows

HR = "hr@10"
WITHIN_NETWORK, WITHIN_BAD = 0.03, 0.02  # HR@10 that a harsh network, and one node in ten sending rubbish, may cost
SHORT = "0.1"  # periods that a message takes where nodes push at moments of their own
BASES = (System("pepper-gmf"), System("gossip-average-gmf"))
Networks = Mapping[str, Mapping[str, Any]]  # {what it is called: settings of federation.network.Network}
SeedLooks = Sequence[Sequence[CurvePoint]]  # two looks for each seed


def churn(study: Study, base: System, rounds: int) -> Networks:
    """Nodes that leave and come back with their state, up to half of them away; and nodes that lose all but their rows."""
    away = {f"churn {share:g}": {"churn": share} for share in (0.1, 0.3, 0.5)}
    long = {f"churn 0.5, sessions of {rounds // 4}": {"churn": 0.5, "session": float(max(1, rounds // 4))}}
    return {**away, **long, "restarts 0.01": {"restarts": 0.01}}


def loss(study: Study, base: System, rounds: int) -> Networks:
    """Messages that never arrive, that take up to five periods, or that cannot cross for a third of the time; and all at once."""
    cut = f"{rounds // 3}:{max(rounds // 3 + 1, 2 * rounds // 3)}"
    lost = {f"loss {share:g}": {"loss": share} for share in (0.1, 0.3)}
    late = {"delays 0 to 5": {"latency": "uniform:0:5"}}
    worst = {"loss": 0.3, "latency": "uniform:0:5", "partition": cut, "churn": 0.5}
    return {**lost, **late, "partition that heals": {"partition": cut}, "all of these, churn 0.5": worst}


def heterogeneity(study: Study, base: System, rounds: int) -> Networks:
    """Uplinks over two orders of magnitude, in pushes (a model to each peer of the view) that one takes in a period; and clocks."""
    algorithm, catalogue = study.made(base), study.part("test").rows.catalogue
    push = algorithm.view * bound(algorithm, catalogue).message_bytes
    spread = {
        f"{low:g} to {100 * low:g} pushes a period": {"bandwidth": f"loguniform:{low * push:g}:{100 * low * push:g}"}
        for low in (1, 0.3)
    }
    clocks = {
        name: {"clock": clock, "latency": SHORT} for name, clock in (("own moments", "regular"), ("exponential gaps", "random"))
    }
    both = {"0.3 to 30 pushes, exponential gaps": {**spread["0.3 to 30 pushes a period"], **clocks["exponential gaps"]}}
    return {**clocks, **spread, **both}


def bad(study: Study, base: System, rounds: int) -> Networks:
    """Nodes that send NaN, infinity, numbers that are too large, or a model of another length."""
    return {f"bad {share:g}": {"bad": share} for share in (0.1, 0.3)}


# ---- each on one split ---------------------------------------------------------------------------------------------------------------


def on_networks(networks: Callable[[Study, System, int], Networks], times: Sequence[int]) -> Train:
    """PEPPER and decentralised FedAvg over a clean network and under each of the others, after so many times their rounds.

    `more` is {system: a list of evaluations for each seed}; `systems` the networks of all bases.
    """

    def train(study: Study, bases: list[System]) -> Trained:
        every, rounds = dict[System, list[list[CurvePoint]]](), dict[System, int]()
        for base in bases:
            rounds[base] = study.rounds([base])[base]
            several = [base, *(base.over(**how) for how in networks(study, base, rounds[base]).values())]
            every |= study.tested_at(several, times, study.seeds)
        named = {base: {"clean": base, **_named(study, base, rounds[base], networks)} for base in bases}
        return Trained(study=study, systems=bases, rounds=rounds, more=(every, named))

    return train


def _named(study: Study, base: System, rounds: int, networks: Callable[[Study, System, int], Networks]) -> dict[str, System]:
    return {name: base.over(**how) for name, how in networks(study, base, rounds).items()}


def rows_of(trained: Trained) -> list[Row]:
    """A row for each base, network and metric."""
    rows, (looks, every) = list[Row](), trained.more
    for base, named in every.items():
        for name, system in named.items():
            alone = Trained(study=trained.study, systems=[system], rounds={system: trained.rounds[base]})
            rows += system_rows(alone, system, values_of(looks[system]), {}, called=f"{base}, {name}")
    return rows


def costs_of(trained: Trained, base: System) -> dict[str, list[float]]:
    """What each network costs, seed by seed."""
    looks, every = trained.more
    return {name: costs(looks[base], looks[system]) for name, system in every[base].items() if system != base}


def verdicts(trained: Trained) -> list[str]:
    """What each network costs each base."""
    looks, every = trained.more
    return [verdict(trained.study, b, trained.rounds[b], costs_of(trained, b), looks, every[b]) for b in trained.systems]


def values_of(looks: SeedLooks) -> dict[str, list[float]]:
    """What is told of a network: how well it recommends, and what of the traffic arrives. Empty lists if a training diverged."""
    first = [look for look, *_ in looks]
    later = [look for _, *rest in looks for look in rest]
    served = [(look.ledger["messages"], look.ledger["lost"], look.ledger["refused"]) for look in first]
    return {
        **{name: [look.metrics[name] for look in first] for name in ("hr@20", HR, "ndcg@10")},
        f"{HR} worst 10 %": tails(first, HR)[f"{HR} worst 10 %"],
        **({f"{HR}, twice the rounds": [look.metrics[HR] for look in later]} if later else {}),
        "models a node": [float(np.mean(look.nodes["received"])) for look in first],
        "lost": [lost / max(1, sent) for sent, lost, _ in served],
        "refused": [refused / max(1, sent) for sent, _, refused in served],
        "MB a node": [look.ledger["bytes_up"] / 1e6 / len(look.nodes["received"]) for look in first],
    }


def costs(clean: SeedLooks, other: SeedLooks, at: int = 0) -> list[float]:
    """HR@10 over the clean network minus that over another, seed by seed, of the users whose nodes are not bad."""
    return [hit_ratio(a[at], b[at]) - hit_ratio(b[at], b[at]) for a, b in zip(clean, other, strict=False) if at < len(b)]


def hit_ratio(look: CurvePoint, of: CurvePoint) -> float:
    """Mean HR@10 of the users whose nodes are not bad in the training `of`."""
    values, bad = np.array(look.per_user[HR]), np.array(of.nodes["bad"], bool)
    good = ~bad if len(bad) == len(values) else np.ones(len(values), bool)
    return float(values[good].mean())


def verdict(
    study: Study,
    base: System,
    rounds: int,
    cost: Mapping[str, Sequence[float]],
    looks: Mapping[System, SeedLooks],
    named: Mapping[str, System],
) -> str:
    """What each network costs, and whether that is as little as it has to be."""
    said, missed = [], []
    for name, gap in cost.items():
        rubbish = "bad" in dict(named[name].network)
        most = WITHIN_BAD if rubbish else WITHIN_NETWORK
        later = costs(looks[base], looks[named[name]], 1)
        if len(gap):
            said.append(f"{name} {np.mean(gap):+.4f}" + (f" (twice the rounds {np.mean(later):+.4f})" if later else ""))
            missed += [name] if np.mean(gap) > most and not name.startswith("bad 0.3") else []
        else:
            said.append(f"{name}: diverged")
    what = "HR@10 that it costs" + (
        ", of users whose nodes are good" if any("bad" in dict(other.network) for other in named.values()) else ""
    )
    limit = f"at most {WITHIN_BAD} with one bad node in ten" if "bad 0.1" in cost else f"at most {WITHIN_NETWORK}"
    kept = f"missed by {', '.join(missed)}" if missed else "kept"
    return f"{study.name}, {base}, {rounds} rounds, {what}, mean over seeds: {'; '.join(said)}. It has to be {limit}: {kept}."


def _figure(trained: Trained) -> dict[str, str]:
    drawn = {
        str(base): {name: float(np.mean(gap)) for name, gap in costs_of(trained, base).items() if gap} for base in trained.systems
    }
    names = list(dict.fromkeys(name for cost in drawn.values() for name in cost))
    series = {base: [cost.get(name, float("nan")) for name in names] for base, cost in drawn.items()}
    drawing = bars(names, series, x_label="HR@10 lost", y_label="", title=trained.name)
    return {f"cost-{trained.study.source.slug}": drawing}


def under(what: str, networks: Callable[[Study, System, int], Networks], times: Sequence[int]) -> PaperTable:
    """One of the four."""
    return PaperTable(
        title=f"gossip with {what} (beyond PEPPER)",
        data=pepper(MOVIELENS),
        systems=BASES,
        train=on_networks(networks, times),
        rows=rows_of,
        findings=(verdicts,),
        figures=_figure,
    )


EXPERIMENTS = {
    "pepper-churn": under("half of the nodes away, and restarts", churn, (1, 2)),
    "pepper-loss": under("lost and late messages, and a network cut in two", loss, (1, 2)),
    "pepper-heterogeneity": under("bandwidth over two orders of magnitude, and clocks", heterogeneity, (1,)),
    "pepper-bad": under("nodes that send NaN, infinite, oversized and wrong-shape models", bad, (1, 2)),
}
