"""An attack on a federation under each of some defences: ER@10 of the target and HR@10 of the
honest users, with and without the attack.

Every figure is of the honest users, whose rows are the same in all trainings: colluders are added
to them. Colluders know what the paper of their attack says (`Poison.knows`) and what a device
receives, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from typing_extensions import TypedDict

from entrenous.core.contract.declared import bound, declared
from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.core.keywords import at_least
from entrenous.core.registry.discover import offers, pick, short
from entrenous.core.values import SettingValue
from entrenous.data.interactions import Interactions
from entrenous.federation.defences import DEFENCES, known_of
from entrenous.kernels.generator import generator
from entrenous.runs.options import RunPlan
from entrenous.runs.pipeline import material
from entrenous.runs.plan import check, make, usual_protocol
from entrenous.runs.recommenders import check_trainable
from entrenous.systems._gossip_gmf import GMFModel
from entrenous.systems.named import maker_of

from .colluders import Poison
from .contest import AttackOutcome, Contest, trained
from .peers import PEER_DEFENCES, PEERS
from .plan import AttackPlan
from .scene import selects_cohort

# Consumers of an item that is drawn as a target: few, and not none, since an item that nobody has
# is never recommended.
COLD_LEAST = 5
COLD_MOST = 9


class AttackedItem(TypedDict):
    """An item that an attack promotes."""

    item: str
    consumers: int


# `defence`, `hr@10`, `hr@10_attacked`, `er@10_before`, `er@10`, `er@10_most`, `refused`.
DefenceRow: TypeAlias = dict[str, str | float]


class AttackFound(TypedDict):
    """The report of an attack on training."""

    algorithm: str
    data: str
    protocol: str | None
    rounds: int
    attack: str
    source: str
    """The paper of the attack."""
    knows: str
    """What the attack knows of the users, by its paper."""
    settings: dict[str, float]
    share: float
    colluders: int
    honest: int
    """Users who do not collude."""
    seed: int
    seeds: int
    targets: list[AttackedItem]
    rows: list[DefenceRow]
    """The figures under each defence."""


def attack(
    plan: AttackPlan, rows: Interactions | None = None, *, progress: Progress = silent
) -> AttackFound:
    """Trains a federation with and without colluding devices, under each of some defences.

    rows: the data, where it is at hand; None = loaded as the plan says.

    Returns a dictionary that is JSON: `rows` has one entry for each defence, with `hr@10` (no
    attack), `hr@10_attacked`, `er@10` (mean and most over targets and seeds) and `er@10_before`.
    Raises InputError for options that do not go together.
    """
    # Who colludes depends on who there is: devices around a server, or peers.
    kind = declared(maker_of(plan.algorithm)()).kind
    if kind == "central":
        raise InputError(
            "attack",
            f"{plan.algorithm} is trained in one place",
            expected="devices with a server, or peers",
        )
    # Peers have defences of their own, and some algorithms lack the settings of some.
    if kind == "gossip":
        attacks = {name: peer.poison for name, peer in PEERS.items()}
        known = _defences_of_peers(plan.algorithm)
        usual = tuple(known)
    else:
        attacks = poisons()
        known = ["none", *DEFENCES]
        usual = ("none", "robust")
    poison = pick("attack", plan.attack, attacks)
    defences = plan.defences or usual
    _check(plan, defences, known)
    # The usual protocol depends on the data, which may be at hand already.
    data = plan.data if rows is None else rows
    name = plan.data if rows is None else rows.name
    training = RunPlan(
        algorithm=plan.algorithm,
        data=name,
        protocol=plan.protocol or usual_protocol(data, plan.algorithm),
        seed=plan.seed,
        rounds=plan.rounds,
        settings=plan.settings,
        load=plan.load,
        refit=plan.refit,
    )
    # All options are refused before anything is trained.
    check(training)
    given = material(training, rows)
    train = given.parts[0].final_train
    check_trainable(train)
    made: Any = make(training, given.rows)
    contest = Contest(
        algorithm=_among_honest(made, plan, train, poison),
        split=given.parts[0],
        attack=plan.attack,
        poison=poison,
        settings=_settings(poison, plan.attack_settings),
        share=plan.share,
        rounds=plan.rounds or made.default_rounds(train.catalogue),
    )
    targets = _targets(plan, train)
    outcomes = _outcomes(contest, plan, defences, targets, progress)
    return {
        "algorithm": short(plan.algorithm),
        "data": name,
        "protocol": training.protocol,
        "rounds": contest.rounds,
        "attack": plan.attack,
        "source": poison.source,
        "knows": poison.knows,
        "settings": dict(contest.settings),
        "share": plan.share,
        "colluders": len(contest.colluders),
        "honest": len(train.users),
        "seed": plan.seed,
        "seeds": plan.seeds,
        "targets": [
            {"item": train.items[target], "consumers": int(train.popularity[target])}
            for target in targets
        ],
        "rows": outcomes,
    }


def poisons() -> dict[str, Poison]:
    """All attacks by name: the POISONS of every file in poison/."""
    return offers("entrenous_audit.poison", "POISONS")


def _outcomes(
    contest: Contest,
    plan: AttackPlan,
    defences: Sequence[str],
    targets: Sequence[int],
    progress: Progress,
) -> list[DefenceRow]:
    """Trains under each defence with every seed: once without the attack, and once a target."""
    # For each seed one training without the attack, and one for each target.
    work = len(defences) * plan.seeds * (1 + len(targets))
    done = 0
    rows = []
    for defence in defences:
        clean = []
        attacked = []
        for seed in range(plan.seed, plan.seed + plan.seeds):
            # Without colluders the target plays no part, so any will do.
            clean.append(trained(contest, defence, targets[0], seed, lying=False))
            done += 1
            progress(done, work, f"{defence}: without the attack")
            for target in targets:
                attacked.append(trained(contest, defence, target, seed, lying=True))
                done += 1
                progress(done, work, f"{defence}: {plan.attack}")
        rows.append(_row(defence, clean, attacked))
    return rows


def _row(defence: str, clean: list[AttackOutcome], attacked: list[AttackOutcome]) -> DefenceRow:
    """The figures of one defence over all its trainings."""
    exposed = [outcome.exposed for outcome in attacked]
    return {
        "defence": defence,
        "hr@10": float(np.mean([outcome.hit_rate for outcome in clean])),
        "hr@10_attacked": float(np.mean([outcome.hit_rate for outcome in attacked])),
        "er@10_before": float(np.mean([outcome.exposed for outcome in clean])),
        "er@10": float(np.mean(exposed)),
        "er@10_most": float(np.max(exposed)),
        "refused": int(sum(outcome.refused for outcome in attacked)),
    }


# ---- checks of the plan --------------------------------------------------------------------------


def _check(plan: AttackPlan, defences: Sequence[str], known: Sequence[str]) -> None:
    """Refuses options out of their range, and defences that are not `known`."""
    if not 0 < plan.share < 1:
        raise InputError(
            "--share", f"got {plan.share}", expected="a share of all devices above 0 and below 1"
        )
    for name in defences:
        pick("defence", name, dict.fromkeys(known))
    for option in ("rounds", "seeds"):
        at_least(f"--{option}", getattr(plan, option), 1)


def _defences_of_peers(algorithm: str) -> list[str]:
    """The defences that a gossip algorithm has settings for."""
    # A defence of peers is a set of settings; an algorithm without them cannot have it.
    settings = {name for name, _ in maker_of(algorithm)()}
    return [name for name, needed in PEER_DEFENCES.items() if needed.keys() <= settings]


def _among_honest(made: Any, plan: AttackPlan, train: Interactions, poison: Poison) -> Any:
    """Returns the algorithm as configured for the honest users: colluders change neither T nor the
    size of a cohort, unless everybody takes part in a round. Raises InputError where the attack
    has nothing to write on.
    """
    if declared(made).kind == "gossip":
        if plan.attack == "boost" and not isinstance(made.model, GMFModel):
            raise InputError(
                "--attack",
                f"boost makes a vector long, and {plan.algorithm} scores by how near vectors are",
                expected="pip (--attack-set beyond=1), fake, sign-flip, noise or not-finite",
            )
        return made
    configured = made.configured(train.catalogue)
    # A cohort of 0 stands for everybody: with the colluders it is everybody again.
    if selects_cohort(made) and made.cohort == 0:
        configured = configured.model_copy(update={"cohort": 0})
    contract = bound(configured.configured(train.catalogue), train.catalogue)
    # Whether rows of items leave devices can be told from the first model alone.
    server = configured.init_server(train.catalogue, key(plan.seed, "server"))
    if poison.needs_rows and not known_of(configured, contract, server).tables.field:
        raise InputError(
            "--attack",
            f"{plan.attack} writes rows of items, and {plan.algorithm} sends none that it knows",
            fix="fake, sign-flip, scaling or noise, which work on whatever is sent",
        )
    return configured


def _settings(poison: Poison, given: Mapping[str, SettingValue]) -> dict[str, float]:
    """The settings of an attack with those that were given. Raises InputError for an unknown one,
    or for one that is no finite number.
    """
    settings = dict(poison.settings)
    for name, value in given.items():
        if name not in poison.settings:
            raise InputError(
                "--attack-set",
                f"the attack has no setting '{name}'",
                expected=", ".join(poison.settings) or "none",
            )
        # A number that float cannot read is refused below, with those that are not finite.
        try:
            settings[name] = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            settings[name] = np.nan
        if not np.isfinite(settings[name]):
            raise InputError("--attack-set", f"'{name}' is {value!r}", expected="a finite number")
    return settings


def _targets(plan: AttackPlan, train: Interactions) -> list[int]:
    """The numbers of the items to promote."""
    popularity = train.popularity
    if plan.target:
        targets = [train.items.index(name) for name in plan.target]
        for number in targets:
            if not popularity[number]:
                raise InputError(
                    "--target",
                    f"nobody has item '{train.items[number]}' in training, and such an item is"
                    " never recommended",
                    expected="an item with a consumer",
                )
        return targets
    at_least("--targets", plan.targets, 1)
    cold = np.flatnonzero((popularity >= COLD_LEAST) & (popularity <= COLD_MOST))
    if len(cold) < plan.targets:
        raise InputError(
            "--targets",
            f"{len(cold)} items have {COLD_LEAST} to {COLD_MOST} consumers",
            expected=f"at least {plan.targets}",
            fix="name them with --target ITEM",
        )
    # Drawn by the seed alone: the same targets under every attack and defence.
    order = generator(key(plan.seed, "targets")).permutation(len(cold))
    return cold[order[: plan.targets]].tolist()
