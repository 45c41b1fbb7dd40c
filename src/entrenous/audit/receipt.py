"""`receipt_of_run`: what the device of one user of a stored run gave away, round by round, and what
attacks make of that much.

A run keeps no updates. It is repeated from its manifest, the same to the bit, while a recorder
watches the one device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.contract.declared import Contract, bound, is_central, is_federated, is_gossip
from ..core.contract.protocols import Progress, silent
from ..core.errors import EntrenousError, InputError
from ..core.keys import key, select_key
from ..core.registry.own import short
from ..data.interactions import Interactions
from ..data.split.types import Split
from ..federation.executors import Threads
from ..federation.recorder import Recorder, Seen
from ..federation.rounds import Rounds, Training
from ..privacy.protection import Protection
from ..privacy.told import KNOWN_ATTACKS, expected, in_words, of_anybody
from ..runs.options import RunPlan
from ..runs.pins import check_algorithm
from ..runs.plan import algorithm_of, leaky, make, network_of, protection_in
from ..runs.recommenders import Algorithm, fitted
from ..runs.reopen import material_of, plan_of
from ..runs.store import StoredRun, model_sha256
from ..runs.train import Setup, federation_of

BESIDE = ("ptr", "item", "weight")  # of what is seen, beside the declared arrays

NEVER = "this device was in none of the {} rounds of the training: nothing left it"
ALONE = "the server could read each message by itself"
IN_SUMS = (
    "the server was given sums alone, in which what this device sent is added to what others sent"
)
ALL_ROWS = "a row left for every item of the catalogue, so that which items have rows says nothing"
NO_OWN_ROW = (
    "no row of an item consumed left; the other rows were made from the history, and attacks read"
    " them too"
)
WHOLE = (
    "each answer has numbers for every item at once ({}), made from the whole history of {} items:"
    " rows are not counted"
)
NO_REPEAT = (
    "noise came from the operating system: the repetition has other noise, and other devices where"
    " its model chooses them"
)
NOT_KEPT = (
    "who took part was drawn by the operating system and not kept: each user by chance, {:.3g} in"
    " each of the {} rounds; in which of them this device answered, and whether in any, cannot be"
    " said"
)
IN_A_ROUND = "in a round in which it answered, {}"
PUSHED = (
    "each push was the whole model of the device, which others could read; it holds what the device"
    " has trained on"
)
NO_PROOF = "no guarantee: there is no differential privacy"
PROOF = (
    "differential privacy: epsilon {:.3f} at delta {:g} of each user, asked or not, for the sums"
    " and the model of this training"
)


class GivenAway(NamedTuple):
    """What left one device in one round. rows: of items; positives: those of items that its user
    has consumed (both None: numbers for all items came at once, and no row by itself); numbers: in
    all arrays, rows and others; items: int32, the consumed items that what left was made of;
    arrays: names of what leaves beside rows.
    """

    round: int
    rows: int | None
    positives: int | None
    numbers: int
    arrays: tuple[str, ...] = ()
    items: Any = ()


def receipt_of_run(
    run: StoredRun,
    user: str,
    *,
    algorithm: str | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """The receipt of one user of a stored run, as `entrenous receipt --json` prints it.

    algorithm: the place of the class, of a run by one of one's own. Training before the last one
    (to find the number of rounds) and further folds are not in it. Raises InputError for an unknown
    user and an unfinished run, EntrenousError if the run cannot be repeated."""
    if run.manifest["status"] != "finished":
        raise InputError(
            str(run.path),
            "this run is not finished",
            fix=f"continue it with `entrenous run --resume {run.path}`",
        )
    plan = plan_of(run, algorithm)
    what = material_of(run, plan)
    made, split = make(plan, what.rows), what.parts[0]
    check_algorithm(run.manifest, made, str(run.path))
    who = split.final_train.users.index(user)
    about = {
        "run": run.manifest["run"],
        "user": user,
        "algorithm": short(plan.algorithm),
        "data": plan.data,
        "profile": plan.profile,
        "protect": dict(plan.protect),
        "history": len(split.final_train.of_users(np.array([who])).item),
    }
    privacy = run.manifest.get("privacy", {})
    if is_federated(made) and _not_kept(protection_in(plan, made)):
        return {
            **about,
            **_without_rounds(plan, made, split, run),
            "epsilon": privacy.get("epsilon"),
        }
    given = list(_given(plan, made, split, who, run, threads, progress))
    found = _expected(plan, made, split, len(given))
    sentences = [
        *_sentences(given, plan, made, split, run, int(about["history"])),
        *in_words(found["expected"], int(about["history"])),
        *_limits(run),
    ]
    return {**about, **summed(given, privacy.get("epsilon")), "sentences": sentences, **found}


def _in_force(
    plan: RunPlan, made: Algorithm, split: Split
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a training that are not those of every audit, as they were in force, with its
    cohort; and those of its protection.

    An audit has the algorithm's usual settings, of which some are of another size on other rows:
    these are no other settings.
    """
    if is_central(made):
        return {}, {}
    own: Any = made
    every_audit: Any = algorithm_of(plan.algorithm, {}, plan.profile)
    usual = dict(every_audit)
    chosen = {name for name, value in own if name == "cohort" or value != usual.get(name)}
    in_force = own.configured(split.final_train.catalogue)
    protect = dict(protection_in(plan, made)) if is_federated(made) else {}
    return {name: value for name, value in in_force if name in chosen}, protect


def _expected(plan: RunPlan, made: Algorithm, split: Split, rounds: int) -> dict[str, Any]:
    """What attacks are expected to know after so many rounds, and in what they were measured
    otherwise.
    """
    return expected(short(plan.algorithm), plan.profile, rounds, *_in_force(plan, made, split))


def _not_kept(protection: Protection) -> bool:
    """Whether nobody can say who took part: draws of the operating system cannot be made again, and
    are stored nowhere.
    """
    return protection.sampling == "poisson" and protection.noise_from == "system"


def _without_rounds(plan: RunPlan, made: Any, split: Split, run: StoredRun) -> dict[str, Any]:
    """What can be said of a device of which nobody knows when it took part."""
    catalogue, until = split.final_train.catalogue, int(run.manifest["rounds"])
    own = made.configured(catalogue)
    contract, protection = bound(own, catalogue), protection_in(plan, made)
    rate = contract.cohort / catalogue.users
    beside = (*contract.way("dense"), *contract.way("shown"))
    rows = (
        [f"rows of {'every item' if protection.rows == 'all' else 'items'}"]
        if contract.way("rows")
        else []
    )
    what = " and ".join([*rows, *beside])
    said = [
        NOT_KEPT.format(rate, until),
        IN_A_ROUND.format(what),
        IN_SUMS if protection.secure_sum else ALONE,
    ]
    nothing = dict.fromkeys(
        ("rounds_answered", "rows", "positives", "different_positives", "numbers")
    )
    likely = max(1, round(rate * until))
    found = _expected(plan, made, split, likely)
    return {
        "rounds": [],
        **nothing,
        "arrays": sorted(beside),
        "sentences": [*said, *_limits(run)],
        **found,
    }


def _sentences(
    given: list[GivenAway],
    plan: RunPlan,
    made: Algorithm,
    split: Split,
    run: StoredRun,
    history: int,
) -> list[str]:
    """What left, and who saw it; of a device that was not asked that nothing did."""
    until = int(run.manifest["rounds"])
    if is_central(made):
        return ["the server was given the whole history"]
    if not given:
        guess = of_anybody(short(plan.algorithm), plan.profile, *_in_force(plan, made, split))
        return [NEVER.format(until), *([guess] if guess else [])]
    times = f"this device answered in {len(given)} of {until} rounds"
    if not is_federated(made):
        return [times.replace("answered", "pushed"), PUSHED]
    protection = protection_in(plan, made)
    return [
        times,
        *([IN_SUMS, KNOWN_ATTACKS] if protection.secure_sum else [ALONE]),
        *_of_rows(given, protection, history),
        *_beside(given),
        *([NO_REPEAT] if protection.noise_from == "system" and protection.noisy else []),
    ]


def _of_rows(given: list[GivenAway], protection: Protection, history: int) -> list[str]:
    """What the rows of a device say by themselves."""
    if any(one.rows is None for one in given):
        return [WHOLE.format(", ".join(given[0].arrays), history)]
    if not any(one.rows for one in given):
        return []
    if protection.noisy or protection.rows == "all":
        return [ALL_ROWS]
    if not any(one.positives for one in given):
        return [NO_OWN_ROW]
    items = np.concatenate([np.asarray(one.items, np.int64) for one in given])
    return [f"rows of {len(np.unique(items))} of the items consumed left at least once"]


def _beside(given: list[GivenAway]) -> list[str]:
    """The arrays that leave beside rows."""
    names = sorted({name for one in given if one.rows is not None for name in one.arrays})
    return [f"beside rows, each round: {', '.join(names)}"] if names else []


def _limits(run: StoredRun) -> list[str]:
    """What is not in the counts, and what is proven."""
    privacy = run.manifest.get("privacy", {})
    said = (
        ["training to find the number of rounds is not counted"]
        if run.manifest.get("patience")
        else []
    )
    proof = PROOF.format(privacy["epsilon"], privacy["delta"]) if privacy else NO_PROOF
    return [*said, proof]


def summed(given: list[GivenAway], epsilon: float | None) -> dict[str, Any]:
    """The rounds of a receipt and their sums; None where one of them was not counted."""
    items = np.concatenate(
        [np.empty(0, np.int64), *(np.asarray(one.items, np.int64) for one in given)]
    )
    return {
        "rounds": [
            {name: getattr(one, name) for name in ("round", "rows", "positives", "numbers")}
            for one in given
        ],
        "rounds_answered": len(given),
        "rows": _sum([one.rows for one in given]),
        "positives": _sum([one.positives for one in given]),
        "different_positives": len(np.unique(items)),
        "numbers": sum(one.numbers for one in given),
        "arrays": sorted({name for one in given for name in one.arrays}),
        "epsilon": epsilon,
    }


def _sum(counts: list[int | None]) -> int | None:
    """A sum; None where one of them was not counted."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _given(
    plan: RunPlan,
    made: Algorithm,
    split: Split,
    who: int,
    run: StoredRun,
    threads: int,
    progress: Progress,
) -> Iterator[GivenAway]:
    """The rounds of a run in which one device took part, by repeating it. Raises EntrenousError
    where it comes to another model.
    """
    rows, until = split.final_train, int(run.manifest["rounds"])
    own = rows.of_users(np.array([who])).item
    if is_central(made):
        yield GivenAway(
            0, len(own), len(own), len(own), items=own
        )  # all of the history was handed over
        return
    avoid = split.all_rows if leaky(plan) else None
    if is_gossip(made):
        yield from _pushed(plan, made, split, who, run, threads, progress)
        return
    assert is_federated(made)
    protection = protection_in(plan, made)
    recorder = Recorder("individual", np.array([who]))
    common: dict[str, Any] = {
        "seed": plan.seed,
        "avoid": avoid,
        "protection": protection,
        "executor": Threads(threads),
    }
    watched, others = Rounds(made, rows, recorder=recorder, **common), Rounds(made, rows, **common)
    training = watched.start()
    while training.round < until:
        progress(training.round, until, "round")
        training = _ahead(watched, others, training, who, until)
        if training.round < until:
            training = watched.one_round(training)
            seen = recorder.rounds.pop()
            if len(seen.users):
                yield _of_one(seen, own, watched.contract)
    progress(until, until, "round")
    if protection.noise_from == "seed":
        _check(run, model_sha256(fitted(watched, training).arrays))


def _ahead(watched: Rounds, others: Rounds, training: Training, who: int, until: int) -> Training:
    """The state before the next round in which the device takes part: where rounds are of one
    device and compiled as a whole, those of the others are not watched."""
    if (
        watched.contract.declaration.solo_rounds is None
        or watched.contract.cohort != 1
        or watched.protected.protection.active
    ):
        return training
    number, rounds_key, select = (
        training.round,
        key(watched.seed, "rounds"),
        watched.algorithm.select,
    )
    while (
        number < until
        and int(
            select(training.server, watched.catalogue, np.uint64(select_key(rounds_key, number)))[0]
        )
        != who
    ):
        number += 1
    return others.advance(training, number) if number > training.round else training


def _of_one(seen: Seen, own: Any, contract: Contract) -> GivenAway:
    """What one device sent in a round. own: the items of its history."""
    numbers = sum(array.size for name, array in seen.sent.items() if name not in BESIDE)
    arrays = (*contract.way("dense"), *contract.way("shown"))
    if _at_once(contract) and not contract.way("rows"):
        return GivenAway(seen.round, None, None, numbers, arrays, own)
    item = seen.sent["item"]
    positive = item[np.isin(item, own)]
    return GivenAway(seen.round, len(item), len(positive), numbers, arrays, positive)


def _at_once(contract: Contract) -> bool:
    """Whether a device sends one array with numbers for every item of the catalogue."""
    shapes = [contract.shape(sent.sizes) for sent in contract.sends if sent.way == "dense"]
    return any(tuple(shape[:1]) == (contract.sizes["items"],) for shape in shapes)


def _pushed(
    plan: RunPlan,
    made: Any,
    split: Split,
    who: int,
    run: StoredRun,
    threads: int,
    progress: Progress,
) -> Iterator[GivenAway]:
    """The rounds in which a peer pushed its model: each carries all that the peer has trained
    on.
    """
    rows: Interactions = split.final_train
    setup = Setup(
        seed=plan.seed,
        executor=Threads(threads),
        network=network_of(plan),
        weighting=split.weighting_sets,
        avoid=split.all_rows if leaky(plan) else None,
    )
    gossip = federation_of(made, rows, setup)
    swarm: Any = gossip.start()
    own, until = rows.of_users(np.array([who])).item, int(run.manifest["rounds"])
    for number in range(until):
        progress(number, until, "round")
        before = int(swarm.counts.pushed[who])
        swarm = gossip.advance(swarm, number + 1)  # type: ignore[arg-type]
        if pushes := int(swarm.counts.pushed[who]) - before:
            yield GivenAway(
                number, None, None, pushes * swarm.pool.values.shape[1], ("model",), own
            )
    progress(until, until, "round")
    _check(run, model_sha256(fitted(gossip, swarm).arrays))


def _check(run: StoredRun, found: str) -> None:
    if found != run.manifest["model_sha256"]:
        problem = (
            "repeated today it ends with another model, so that what left its devices cannot be"
            " told"
        )
        raise EntrenousError(
            f"{run.path}: {problem}; use the version of entrenous and of its libraries that made it"
        )
