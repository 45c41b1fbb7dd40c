"""`receipt_of_run`: all that the device of one user gave away in a stored run, round by round, and
the findings that attacks on that much are expected to make.

A run keeps no updates. It is repeated from its manifest, the same to the bit, while a recorder
watches the one device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from pydantic import JsonValue

from entrenous.core.contract.declared import Contract, bound, is_central, is_federated, is_gossip
from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.errors import EntrenousError, InputError
from entrenous.core.keys import key, select_key
from entrenous.core.registry.discover import short
from entrenous.data.interactions import Interactions
from entrenous.data.split.types import Split
from entrenous.federation.recorder import Recorder, Seen
from entrenous.federation.rounds import Rounds, Training
from entrenous.federation.shard import Threads
from entrenous.privacy.protection import Protection, epsilon_in_words
from entrenous.privacy.told import (
    HOLDS_AGAINST,
    UserReceipt,
    account,
    expected,
    of_the_list,
    sum_if_known,
)
from entrenous.runs.manifest import check_algorithm
from entrenous.runs.options import OpenOptions, RunPlan
from entrenous.runs.plan import algorithm_of, leaky, make, network_of, protection_in
from entrenous.runs.recommenders import fitted
from entrenous.runs.reopen import material_of, plan_of
from entrenous.runs.store import StoredRun, model_sha256
from entrenous.runs.train import Setup, federation_of

BESIDE = ("ptr", "item", "weight")  # names in a message that are no declared arrays

NEVER = "You were not in this run, in none of its {} rounds; nothing left your device."
ANSWERED = "Your device answered {}."
ALONE = "The server could read each answer by itself."
IN_SUMS = "The server was given sums alone, in which your answer is added to those of others."
ALL_ROWS = "A row left for every item of the catalogue, so that which items have rows says nothing."
NO_OWN_ROW = (
    "You sent no row of an item that you consumed. The rows that you sent are made from your list."
)
SOME_ROWS = "Rows of {} of your {} items left at least once."
WHOLE = (
    "Each answer contains your whole list of {} items: it has numbers for every item at once ({}),"
    " and rows are not counted."
)
BESIDE_ROWS = "In addition to rows, each answer has: {}."
NO_REPEAT = (
    "Noise came from the operating system: the repetition has other noise, and other devices where"
    " its model chooses them."
)
NOT_KEPT = (
    "Who took part was drawn by the operating system and not kept: each user by chance, {:.3g} in"
    " each of the {} rounds; in which of them your device answered, and whether in any, cannot be"
    " said."
)
IN_A_ROUND = "In a round in which it answered, your device sent {}."
PUSHED = "Your device pushed its model {}. It holds your list, and others could read it."
CENTRAL = "The server was given your whole list."
ALL_KNOWN = "All your {} items: the server has them."
UNCOUNTED = "Training to find the number of rounds is not counted."
NO_PROOF = "No guarantee: there is no differential privacy."
PROOF = "Differential privacy, for the sums and the model, asked or not: {}."


class GivenAway(NamedTuple):
    """All that left one device in one round."""

    round: int
    rows: int | None
    """Rows of items. None: numbers for all items came at once, and no row by itself."""
    positives: int | None
    """The rows of items that the user has consumed; None as for `rows`."""
    numbers: int
    """Numbers in all arrays, rows and others."""
    arrays: tuple[str, ...] = ()
    """Names of the arrays that leave besides rows."""
    items: Any = ()
    """int32, the consumed items that the message was made of."""


class ReceiptFound(UserReceipt):
    """The receipt of one user of a run."""

    run: str | None
    protect: dict[str, JsonValue]
    different_positives: int | None
    arrays: list[str]
    """Names of the arrays that leave besides rows."""


class Repetition(NamedTuple):
    """A stored run that is repeated, and the user whose device is watched."""

    run: StoredRun
    plan: RunPlan
    made: Any
    """The algorithm with its settings."""
    split: Split
    who: int
    """The number of the user."""

    @property
    def train(self) -> Interactions:
        """The rows that devices train on."""
        return self.split.final_train

    @property
    def history(self) -> Any:
        """The items of the user, int32."""
        return self.train.of_users(np.array([self.who])).item

    @property
    def rounds(self) -> int:
        """The rounds of the run."""
        return int(self.run.manifest["rounds"])

    @property
    def protection(self) -> Protection:
        """The protection of the run."""
        return protection_in(self.plan, self.made)

    @property
    def avoid(self) -> Interactions | None:
        """Rows that devices do not draw as negatives, besides their own."""
        if leaky(self.plan):
            return self.split.all_rows
        return None


def receipt_of_run(
    run: StoredRun,
    user: str,
    *,
    how: OpenOptions = OpenOptions(),  # noqa: B008  # it is frozen
    threads: int = 0,
    progress: Progress = silent,
) -> ReceiptFound:
    """The receipt of one user of a stored run, as `entrenous receipt --json` prints it.

    how: `store.read` has put its data into the run. Training before the
    last one (to find the number of rounds) and further folds are not in it. Raises InputError for
    an unknown user and an unfinished run, EntrenousError if the run cannot be repeated.
    """
    if run.manifest["status"] != "finished":
        raise InputError(
            str(run.path),
            "this run is not finished",
            fix=f"continue it with `entrenous run --resume {run.path}`",
        )
    plan = plan_of(run, how.algorithm)
    material = material_of(run, plan)
    made = make(plan, material.rows)
    split = material.parts[0]
    # Another code of the same name would repeat another training.
    check_algorithm(run.manifest, made, str(run.path), how.todays_code)
    again = Repetition(run, plan, made, split, split.final_train.users.index(user))
    history = len(again.history)
    about = {
        "run": run.manifest["run"],
        "user": user,
        "algorithm": short(plan.algorithm),
        "data": plan.data,
        "profile": plan.profile,
        "protect": dict(plan.protect),
        "history": history,
    }
    epsilon = run.manifest.get("privacy", {}).get("epsilon")
    # Draws of the operating system cannot be made again, and are stored nowhere: nobody can say
    # who took part.
    drawn = again.protection
    forgotten = drawn.sampling == "poisson" and drawn.noise_from == "system"
    if is_federated(made) and forgotten:
        unknown = {**about, **_without_rounds(again), "epsilon": epsilon}
        return cast(ReceiptFound, unknown)
    if is_central(made):
        # Nothing is repeated: there are no rounds, and no messages to count.
        return cast(ReceiptFound, {**about, **_given_at_once(again)})
    repeated = _pushed if is_gossip(made) else _answered
    given = list(repeated(again, threads, progress))
    # One round stands for a training: the final model is the same for all.
    findings = _expected(again, max(1, len(given)))
    part = [*_part(given, again), *_uncounted(run)]
    told = account(part, findings, history, took_part=bool(given), proof=_proof(again, given))
    return cast(ReceiptFound, {**about, **summed(given, epsilon), **told})


# ---- expectations and sentences ------------------------------------------------------------------


def _in_force(again: Repetition) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings in which a training may differ from audits, as they were in force: those that
    were chosen, and its cohort; and the settings of its protection.

    Audits run with the algorithm's usual settings. Some of these depend on the rows, such as FPL's
    number of triples: that is no difference.
    """
    plan = again.plan
    made = again.made
    of_audits: Any = algorithm_of(plan.algorithm, {}, plan.profile)
    usual = dict(of_audits)
    chosen = {name for name, value in made if name == "cohort" or value != usual.get(name)}
    in_force = made.configured(again.train.catalogue)
    protect = dict(again.protection) if is_federated(made) else {}
    return {name: value for name, value in in_force if name in chosen}, protect


def _expected(again: Repetition, rounds: int) -> dict[str, Any]:
    """The expected findings of attacks after so many rounds, and the settings in which they were
    measured otherwise.
    """
    plan = again.plan
    return expected(short(plan.algorithm), plan.profile, rounds, *_in_force(again))


def _without_rounds(again: Repetition) -> dict[str, Any]:
    """The receipt of a device of which nobody knows when it took part."""
    catalogue = again.train.catalogue
    protection = again.protection
    contract = bound(again.made.configured(catalogue), catalogue)
    rate = contract.cohort / catalogue.users
    arrays = [*contract.way("dense"), *contract.way("shown")]
    sent = list(arrays)
    if contract.way("rows"):
        sent.insert(0, f"rows of {'every item' if protection.rows == 'all' else 'items'}")
    part = [
        NOT_KEPT.format(rate, again.rounds),
        IN_A_ROUND.format(" and ".join(sent)),
        IN_SUMS if protection.secure_sum else ALONE,
        *_uncounted(again.run),
    ]
    unknown = ("rounds_answered", "rows", "positives", "different_positives", "numbers")
    likely = max(1, round(rate * again.rounds))
    return {
        "rounds": [],
        **dict.fromkeys(unknown),
        "arrays": sorted(arrays),
        **account(
            part, _expected(again, likely), len(again.history), proof=_proof(again, [likely])
        ),
    }


def _given_at_once(again: Repetition) -> dict[str, Any]:
    """The receipt of a user whose whole list the server of a central algorithm was given."""
    history = again.history
    many = len(history)
    part = [CENTRAL, *_uncounted(again.run)]
    nothing = expected("", "", 0)
    return {
        **summed([GivenAway(0, many, many, many, items=history)], None),
        **account(part, nothing, many, proof=[ALL_KNOWN.format(many)]),
    }


def _part(given: list[GivenAway], again: Repetition) -> list[str]:
    """Sentences on the messages of a device and on who saw them, or on there being none."""
    if not given:
        return [NEVER.format(again.rounds)]
    times = f"{len(given)} times, in {again.rounds} rounds"
    if not is_federated(again.made):
        return [PUSHED.format(times)]
    protection = again.protection
    sentences = [ANSWERED.format(times), *_of_rows(given, again)]
    arrays = sorted({name for sent in given if sent.rows is not None for name in sent.arrays})
    if arrays:
        sentences.append(BESIDE_ROWS.format(", ".join(arrays)))
    sentences += [IN_SUMS, HOLDS_AGAINST] if protection.secure_sum else [ALONE]
    if protection.noise_from == "system" and protection.noisy:
        sentences.append(NO_REPEAT)
    return sentences


def _of_rows(given: list[GivenAway], again: Repetition) -> list[str]:
    """The information in the rows of a device by themselves."""
    protection = again.protection
    history = len(again.history)
    if any(sent.rows is None for sent in given):
        return [WHOLE.format(history, ", ".join(given[0].arrays))]
    if not any(sent.rows for sent in given):
        return []
    if protection.noisy or protection.rows == "all":
        return [ALL_ROWS]
    if not any(sent.positives for sent in given):
        return [NO_OWN_ROW, of_the_list(short(again.plan.algorithm))]
    return [SOME_ROWS.format(_different(given), history)]


def _uncounted(run: StoredRun) -> list[str]:
    """A sentence on rounds that are not in a receipt, if there are any."""
    return [UNCOUNTED] if run.manifest.get("patience") else []


def _proof(again: Repetition, given: Sequence[object]) -> list[str]:
    """A sentence on the proven bound of what is known of each user; where something was given away,
    also on there being none.
    """
    privacy = again.run.manifest.get("privacy", {})
    if privacy:
        exchanged = privacy["epsilon_exchanged"]
        spent = epsilon_in_words(privacy["epsilon"], privacy["delta"], exchanged=exchanged)
        return [PROOF.format(spent)]
    return [NO_PROOF] if given else []


# ---- counts --------------------------------------------------------------------------------------


def summed(given: list[GivenAway], epsilon: float | None) -> dict[str, Any]:
    """The rounds of a receipt and their sums. A sum is None if one of its rounds was not
    counted.
    """
    counted = ("round", "rows", "positives", "numbers")
    return {
        "rounds": [{name: getattr(sent, name) for name in counted} for sent in given],
        "rounds_answered": len(given),
        "rows": sum_if_known([sent.rows for sent in given]),
        "positives": sum_if_known([sent.positives for sent in given]),
        "different_positives": _different(given),
        "numbers": sum(sent.numbers for sent in given),
        "arrays": sorted({name for sent in given for name in sent.arrays}),
        "epsilon": epsilon,
    }


def _different(given: list[GivenAway]) -> int:
    """The number of different consumed items that all messages were made of."""
    items = [np.asarray(sent.items, np.int64) for sent in given]
    return len(np.unique(np.concatenate([np.empty(0, np.int64), *items])))


# ---- the repetition ------------------------------------------------------------------------------


def _answered(again: Repetition, threads: int, progress: Progress) -> Iterator[GivenAway]:
    """The rounds around a server in which the device answered, by repeating the run. Raises
    EntrenousError where it comes to another model, as `_pushed` does.
    """
    history = again.history
    until = again.rounds
    federation = partial(
        Rounds,
        again.made,
        again.train,
        seed=again.plan.seed,
        avoid=again.avoid,
        protection=again.protection,
        executor=Threads(threads),
    )
    recorder = Recorder("individual", np.array([again.who]))
    watched = federation(recorder=recorder)
    others = federation()
    training = watched.start()
    while training.round < until:
        progress(training.round, until, "round")
        training = _ahead(watched, others, training, again.who, until)
        if training.round < until:
            training = watched.one_round(training)
            seen = recorder.rounds.pop()
            if len(seen.users):
                yield _of_one(seen, history, watched.contract)
    progress(until, until, "round")
    if again.protection.noise_from == "seed":
        _check(again.run, model_sha256(fitted(watched, training).arrays))


def _ahead(watched: Rounds, others: Rounds, training: Training, who: int, until: int) -> Training:
    """The state before the next round in which the device takes part: where rounds are of one
    device and compiled as a whole, those of the others are not watched.
    """
    compiled = watched.contract.declaration.solo_rounds is not None
    if not compiled or watched.contract.cohort != 1 or watched.protected.protection.active:
        return training
    # Selection needs no training, so the next round of this device is known beforehand.
    rounds_key = key(watched.seed, "rounds")
    number = training.round
    while number < until:
        draw = np.uint64(select_key(rounds_key, number))
        selected = watched.algorithm.select(training.server, watched.catalogue, draw)
        if int(selected[0]) == who:
            break
        number += 1
    if number > training.round:
        return others.advance(training, number)
    return training


def _of_one(seen: Seen, history: Any, contract: Contract) -> GivenAway:
    """The message of one device in a round. history: the items of its user."""
    numbers = sum(array.size for name, array in seen.sent.items() if name not in BESIDE)
    arrays = (*contract.way("dense"), *contract.way("shown"))
    if _at_once(contract) and not contract.way("rows"):
        return GivenAway(seen.round, None, None, numbers, arrays, history)
    item = seen.sent["item"]
    positive = item[np.isin(item, history)]
    return GivenAway(seen.round, len(item), len(positive), numbers, arrays, positive)


def _at_once(contract: Contract) -> bool:
    """Checks whether a device sends one array with numbers for every item of the catalogue."""
    shapes = [contract.shape(sent.sizes) for sent in contract.sends if sent.way == "dense"]
    return any(tuple(shape[:1]) == (contract.sizes["items"],) for shape in shapes)


def _pushed(again: Repetition, threads: int, progress: Progress) -> Iterator[GivenAway]:
    """The rounds in which a peer pushed its model: each carries all that the peer has trained
    on.
    """
    setup = Setup(
        seed=again.plan.seed,
        executor=Threads(threads),
        network=network_of(again.plan),
        weighting=again.split.weighting_sets,
        avoid=again.avoid,
    )
    gossip = federation_of(again.made, again.train, setup)
    swarm: Any = gossip.start()
    history = again.history
    until = again.rounds
    for number in range(until):
        progress(number, until, "round")
        before = int(swarm.counts.pushed[again.who])
        swarm = gossip.advance(swarm, number + 1)  # type: ignore[arg-type]
        pushes = int(swarm.counts.pushed[again.who]) - before
        if pushes:
            numbers = pushes * swarm.pool.values.shape[1]
            yield GivenAway(number, None, None, numbers, ("model",), history)
    progress(until, until, "round")
    _check(again.run, model_sha256(fitted(gossip, swarm).arrays))


def _check(run: StoredRun, model: str) -> None:
    """Refuses a repetition that ends with another model."""
    if model != run.manifest["model_sha256"]:
        raise EntrenousError(
            f"{run.path}: repeated today it ends with another model, so that what left its devices"
            " cannot be told; use the version of entrenous and of its libraries that made it"
        )
