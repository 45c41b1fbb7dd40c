"""`receipt_of_run`: what the device of one user of a stored run gave away, round by round, and what attacks make of that much.

A run keeps no updates. It is repeated from its manifest, the same to the bit, while a recorder watches the one device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.declared import Contract, is_central, is_federated, is_gossip
from ..core.errors import EntrenousError, InputError
from ..core.keys import key, select_key
from ..core.own import short
from ..core.protocols import Progress, silent
from ..data.interactions import Interactions
from ..federation.executors import Threads
from ..federation.recorder import Recorder, Seen
from ..federation.rounds import Rounds, Training
from ..privacy.evidence import expected
from ..privacy.protection import Protection
from ..runs.pins import check_algorithm
from ..runs.plan import RunPlan, leaky, make, network_of, protection_in
from ..runs.recommenders import Algorithm, fitted
from ..runs.reopen import material_of, plan_of
from ..runs.store import StoredRun, model_sha256
from ..runs.train import federation_of
from ..split.types import Split

BESIDE = ("ptr", "item", "weight")  # of what is seen, beside the declared arrays

ALONE = "the server could read each message by itself"
IN_SUMS = "the server was given sums alone, in which these rows are added to those of others"
ALL_ROWS = "a row left for every item of the catalogue, so that which items have rows says nothing"
NO_REPEAT = "noise came from the operating system: the repetition has other noise, and perhaps other devices in its rounds"
PUSHED = "each push was the whole model of the device, which others could read; it holds what the device has trained on"


class GivenAway(NamedTuple):
    """What left one device in one round. rows: of items; positives: those of items that its user has consumed; numbers: in all arrays,
    rows and others; items: int32, the items of the rows; arrays: names of what leaves beside rows."""

    round: int
    rows: int
    positives: int
    numbers: int
    arrays: tuple[str, ...] = ()
    items: Any = ()


def receipt_of_run(
    run: StoredRun, user: str, *, algorithm: str | None = None, threads: int = 0, progress: Progress = silent
) -> dict[str, Any]:
    """The receipt of one user of a stored run, as `entrenous receipt --json` prints it.

    algorithm: the place of the class, of a run by one of one's own. Training before the last one (to find the number of rounds) and
    further folds are not in it. Raises InputError for an unknown user and an unfinished run, EntrenousError if the run cannot be repeated.
    """
    if run.manifest["status"] != "finished":
        raise InputError(str(run.path), "this run is not finished", fix=f"continue it with `entrenous run --resume {run.path}`")
    plan = plan_of(run, algorithm)
    what = material_of(run, plan)
    made, split = make(plan, what.rows), what.parts[0]
    check_algorithm(run.manifest, made, str(run.path))
    who = split.final_train.users.index(user)
    given = list(_given(plan, made, split, who, run, threads, progress))
    consumed = split.final_train.of_users(np.array([who])).item
    about = {
        "run": run.manifest["run"], "user": user, "algorithm": short(plan.algorithm), "data": plan.data, "profile": plan.profile,
        "protect": dict(plan.protect), "history": len(consumed),
    }  # fmt: skip
    own = protection_in(plan, made) if is_federated(made) else None
    sentences = _sentences(given, made, run, own)
    sums = summed(given, run.manifest.get("epsilon"))
    return {**about, **sums, "sentences": sentences, **expected(short(plan.algorithm), plan.profile, len(given))}


def _sentences(given: list[GivenAway], made: Algorithm, run: StoredRun, protection: Protection | None) -> list[str]:
    """Who saw what left, and what is not in the counts."""
    if protection is None:
        return ["the server was given the whole history" if is_central(made) else PUSHED]
    items = np.concatenate([np.empty(0, np.int64), *(np.asarray(one.items, np.int64) for one in given)])
    said = [IN_SUMS if protection.secure_sum else ALONE]
    if len(items) and protection.rows != "all" and not protection.noisy:
        said.append(f"rows of {len(np.unique(items))} of the items consumed left at least once")
    beside = sorted({name for one in given for name in one.arrays})
    said += [f"beside rows, each round: {', '.join(beside)}"] if beside else []
    every = any(one.rows for one in given) and (protection.noisy or protection.rows == "all")
    said += [ALL_ROWS] if every else []
    said += [NO_REPEAT] if protection.noise_from == "system" and protection.noisy else []
    said += ["training to find the number of rounds is not counted"] if run.manifest.get("patience") else []
    epsilon = run.manifest.get("epsilon")
    return [*said, "no guarantee: there is no differential privacy" if epsilon is None else f"epsilon spent: {epsilon}"]


def summed(given: list[GivenAway], epsilon: float | None) -> dict[str, Any]:
    """The rounds of a receipt and their sums."""
    items = np.concatenate([np.empty(0, np.int64), *(np.asarray(one.items, np.int64) for one in given)])
    return {
        "rounds": [{name: getattr(one, name) for name in ("round", "rows", "positives", "numbers")} for one in given],
        "rounds_answered": len(given),
        "rows": sum(one.rows for one in given),
        "positives": sum(one.positives for one in given),
        "different_positives": len(np.unique(items)),
        "numbers": sum(one.numbers for one in given),
        "arrays": sorted({name for one in given for name in one.arrays}),
        "epsilon": epsilon,
    }


def _given(
    plan: RunPlan, made: Algorithm, split: Split, who: int, run: StoredRun, threads: int, progress: Progress
) -> Iterator[GivenAway]:
    """The rounds of a run in which one device took part, by repeating it. Raises EntrenousError where it comes to another model."""
    rows, until = split.final_train, int(run.manifest["rounds"])
    own = rows.of_users(np.array([who])).item
    if is_central(made):
        yield GivenAway(0, len(own), len(own), len(own), items=own)  # all of the history was handed over
        return
    avoid = split.all_rows if leaky(plan) else None
    if is_gossip(made):
        yield from _pushed(plan, made, split, who, run, threads, progress)
        return
    assert is_federated(made)
    protection = protection_in(plan, made)
    recorder = Recorder("individual", np.array([who]))
    common: dict[str, Any] = {"seed": plan.seed, "avoid": avoid, "protection": protection, "executor": Threads(threads)}
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
    """The state before the next round in which the device takes part: where rounds are of one device and compiled as a whole, those of
    the others are not watched."""
    if watched.contract.declaration.solo_rounds is None or watched.contract.cohort != 1 or watched.protected.protection.active:
        return training
    number, rounds_key, select = training.round, key(watched.seed, "rounds"), watched.algorithm.select
    while number < until and int(select(training.server, watched.catalogue, np.uint64(select_key(rounds_key, number)))[0]) != who:
        number += 1
    return others.advance(training, number) if number > training.round else training


def _of_one(seen: Seen, own: Any, contract: Contract) -> GivenAway:
    """What one device sent in a round. own: the items of its history."""
    item = seen.sent["item"]
    positive = item[np.isin(item, own)]
    numbers = sum(array.size for name, array in seen.sent.items() if name not in BESIDE)
    return GivenAway(seen.round, len(item), len(positive), numbers, (*contract.way("dense"), *contract.way("shown")), positive)


def _pushed(
    plan: RunPlan, made: Any, split: Split, who: int, run: StoredRun, threads: int, progress: Progress
) -> Iterator[GivenAway]:
    """The rounds in which a peer pushed its model: each carries all that the peer has trained on."""
    rows: Interactions = split.final_train
    gossip = federation_of(made, rows, seed=plan.seed, executor=Threads(threads), network=network_of(plan),
                           weighting=split.weighting_sets, avoid=split.all_rows if leaky(plan) else None)  # fmt: skip
    swarm: Any = gossip.start()
    own, until = rows.of_users(np.array([who])).item, int(run.manifest["rounds"])
    for number in range(until):
        progress(number, until, "round")
        before = int(swarm.counts.pushed[who])
        swarm = gossip.advance(swarm, number + 1)  # type: ignore[arg-type]
        if pushes := int(swarm.counts.pushed[who]) - before:
            yield GivenAway(number, 0, 0, pushes * swarm.pool.values.shape[1], ("model",), own)
    progress(until, until, "round")
    _check(run, model_sha256(fitted(gossip, swarm).arrays))


def _check(run: StoredRun, found: str) -> None:
    if found != run.manifest["model_sha256"]:
        problem = "repeated today it ends with another model, so that what left its devices cannot be told"
        raise EntrenousError(f"{run.path}: {problem}; use the version of entrenous and of its libraries that made it")
