"""An attack on a federation, and what is left of it under each defence: ER@K of the target and
HR@10 of the honest, with and without it.

Every figure is of the honest users, whose rows are the same in all runs: colluders are added to
them. What an attack cannot have is not given to it: it is told what its paper says
(`Poison.knows`), and what a device receives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..algorithms._gossip_gmf import GMFModel
from ..algorithms.named import maker_of
from ..core.contract.declared import bound, declared
from ..core.contract.protocols import Progress, silent
from ..core.errors import InputError, at_least
from ..core.keys import key
from ..core.registry.discover import offers, pick
from ..core.registry.own import short
from ..data.interactions import Interactions
from ..federation.defences import DEFENCES, known_of
from ..kernels.generator import generator
from ..runs.options import RunPlan
from ..runs.pipeline import material
from ..runs.plan import check, make, usual_protocol
from ..runs.recommenders import check_trainable
from .colluders import Poison
from .contest import AttackOutcome, Contest, trained
from .peers import PEER_DEFENCES, PEERS

COLD = (
    5,
    9,
    # consumers of an item that is drawn as a target: few, and not none, since such an item is never
    # recommended
)


def attack(
    algorithm: str,
    data: str | Interactions = "ml-100k",
    *,
    attack: str = "boost",
    share: float = 0.1,
    targets: Sequence[str] | int = 1,
    defences: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    attack_settings: Mapping[str, Any] | None = None,
    protocol: str | None = None,
    refit: bool | None = None,
    rounds: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    k: int = 10,
    load: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Trains a federation with and without colluding devices, under each of some defences.

    attack: a name of `poisons()`. share: of all devices that collude; they are added to the users
    of `data`. targets: ids of items to promote, or how many to draw among those with 5 to 9
    consumers. defences: by name; () = all of a peer, "none" and "robust" of a server. seeds:
    trainings with seeds seed, seed + 1, ... for each target. k: of ER@K. refit: whether devices
    train on validation rows too, as of a run.

    Returns a dictionary that is JSON: `rows` has one for each defence, with `hr@10` (no attack),
    `hr@10_attacked`, `er@K` (mean and most over targets and seeds), `er@K_before` and
    `rounds_to_half`. Raises InputError for what does not go together.
    """
    kind = declared(maker_of(algorithm)()).kind
    if kind == "central":
        raise InputError(
            "attack",
            f"{algorithm} is trained in one place",
            expected="devices with a server, or peers",
        )
    peers = kind == "gossip"
    poison = pick(
        "attack", attack, {name: one.poison for name, one in PEERS.items()} if peers else poisons()
    )
    known = _of_peers(algorithm) if peers else ["none", *DEFENCES]
    defences = tuple(defences) or (tuple(known) if peers else ("none", "robust"))
    _check(share, defences, known, rounds, seeds, k)
    name = data if isinstance(data, str) else data.name
    plan = RunPlan(
        algorithm=algorithm,
        data=name,
        protocol=protocol or usual_protocol(data, algorithm),
        seed=seed,
        rounds=rounds,
        settings=settings or {},
        load=load or {},
        refit=refit,
    )
    check(plan)
    rows, parts = material(plan, None if isinstance(data, str) else data)
    check_trainable(parts[0].final_train)
    contest = Contest(
        algorithm=_configured(plan, rows, parts[0].final_train, poison, attack),
        split=parts[0],
        attack=attack,
        poison=poison,
        settings=_settings(poison, attack_settings or {}),
        share=share,
        k=k,
        rounds=rounds or make(plan, rows).default_rounds(parts[0].final_train.catalogue),  # type: ignore[union-attr]
    )
    chosen = _targets(contest.train, targets, seed)
    found, done, work = [], 0, len(defences) * seeds * (1 + len(chosen))
    for one in defences:
        clean, dirty = [], []
        for number in range(seed, seed + seeds):
            clean.append(trained(contest, one, chosen[0], number, lying=False))
            progress(done := done + 1, work, f"{one}: without the attack")
            for target in chosen:
                dirty.append(trained(contest, one, target, number, lying=True))
                progress(done := done + 1, work, f"{one}: {attack}")
        found.append(_row(one, clean, dirty, k))
    return {
        "algorithm": short(algorithm),
        "data": name,
        "protocol": plan.protocol,
        "rounds": contest.rounds,
        "attack": attack,
        "source": poison.source,
        "knows": poison.knows,
        "settings": dict(contest.settings),
        "share": share,
        "colluders": len(contest.colluders),
        "honest": len(contest.train.users),
        "seed": seed,
        "seeds": seeds,
        "k": k,
        "targets": [
            {"item": contest.train.items[t], "consumers": int(contest.train.popularity[t])}
            for t in chosen
        ],
        "rows": found,
    }


def poisons() -> dict[str, Poison]:
    """All attacks by name: the POISONS of every file in audit/poison/."""
    return offers("entrenous.audit.poison", "POISONS")


def _row(
    name: str, clean: list[AttackOutcome], dirty: list[AttackOutcome], k: int
) -> dict[str, Any]:
    """What one defence came to."""
    exposed, half = [one.exposed for one in dirty], [one.half for one in dirty]
    reached = [number for number in half if number is not None]
    return {
        "defence": name,
        "hr@10": float(np.mean([one.hit_rate for one in clean])),
        "hr@10_attacked": float(np.mean([one.hit_rate for one in dirty])),
        f"er@{k}_before": float(np.mean([one.exposed for one in clean])),
        f"er@{k}": float(np.mean(exposed)),
        f"er@{k}_most": float(np.max(exposed)),
        "rounds_to_half": float(np.median(reached)) if len(reached) > len(half) / 2 else None,
        "refused": int(sum(one.refused for one in dirty)),
    }


# ---- what is asked for ---------------------------------------------------------------------------


def _check(
    share: float,
    defences: Sequence[str],
    known: Sequence[str],
    rounds: int | None,
    seeds: int,
    k: int,
) -> None:
    if not 0 < share < 1:
        raise InputError(
            "--share", f"got {share}", expected="a share of all devices above 0 and below 1"
        )
    for name in defences:
        pick("defence", name, dict.fromkeys(known))
    for option, value in (("--rounds", rounds), ("--seeds", seeds), ("--k", k)):
        at_least(option, value, 1)


def _of_peers(algorithm: str) -> list[str]:
    """The defences that a gossip algorithm has settings for."""
    settings = {name for name, _ in maker_of(algorithm)()}
    return [name for name, own in PEER_DEFENCES.items() if own.keys() <= settings]


def _configured(
    plan: RunPlan, rows: Interactions, train: Interactions, poison: Poison, attack: str
) -> Any:
    """The algorithm as it is among honest users: colluders do not change T or the size of a cohort,
    unless a round is everybody.
    """
    made: Any = make(plan, rows)
    settings = dict(made)
    if declared(made).kind == "gossip":
        if attack == "boost" and not isinstance(made.model, GMFModel):
            problem = (
                f"boost makes a vector long, and {plan.algorithm} scores by how near vectors are"
            )
            raise InputError(
                "--attack",
                problem,
                expected="pip (--attack-set beyond=1), fake, sign-flip, noise or not-finite",
            )
        return made
    own = made.configured(train.catalogue)
    if settings.get("cohort") == 0:
        own = own.model_copy(update={"cohort": 0})
    contract = bound(own.configured(train.catalogue), train.catalogue)
    server = own.init_server(train.catalogue, key(plan.seed, "server"))
    if poison.needs_rows and not known_of(own, contract, server).tables.field:
        fix = "fake, sign-flip, scaling or noise, which work on whatever is sent"
        raise InputError(
            "--attack",
            f"{attack} writes rows of items, and {plan.algorithm} sends none that it knows",
            fix=fix,
        )
    return own


def _settings(poison: Poison, given: Mapping[str, Any]) -> dict[str, float]:
    for name, value in given.items():
        if name not in poison.settings:
            expected = ", ".join(poison.settings) or "none"
            raise InputError(
                "--attack-set", f"the attack has no setting '{name}'", expected=expected
            )
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
            raise InputError("--attack-set", f"'{name}' is {value!r}", expected="a finite number")
    return {**poison.settings, **{name: float(value) for name, value in given.items()}}


def _targets(train: Interactions, asked: Sequence[str] | int, seed: int) -> list[int]:
    """The numbers of the items to promote."""
    popularity = train.popularity
    if not isinstance(asked, int):
        found = [train.items.index(name) for name in asked]
        for number in found:
            if not popularity[number]:
                problem = (
                    f"nobody has item '{train.items[number]}' in training, and such an item is"
                    " never recommended"
                )
                raise InputError("--target", problem, expected="an item with a consumer")
        return found
    at_least("--targets", asked, 1)
    low, high = COLD
    cold = np.flatnonzero((popularity >= low) & (popularity <= high))
    if len(cold) < asked:
        problem = f"{len(cold)} items have {low} to {high} consumers"
        raise InputError(
            "--targets", problem, expected=f"at least {asked}", fix="name them with --target ITEM"
        )
    return [
        int(number)
        for number in cold[generator(key(seed, "targets")).permutation(len(cold))[:asked]]
    ]
