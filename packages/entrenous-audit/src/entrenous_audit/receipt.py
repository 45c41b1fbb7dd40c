"""`receipt_of_run`: all that the device of one user gave away in a stored run, round by round, and
the findings of attacks on these very messages.

A run keeps no updates. It is repeated from its manifest, the same to the bit, while a recorder
watches the one device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from entrenous.federation.gossip import Gossip
from entrenous.federation.recorder import NeighbourRecorder, Recorder, Seen
from entrenous.federation.rounds import Rounds, Training
from entrenous.federation.shard import Threads
from entrenous.privacy.evidence import best
from entrenous.privacy.protection import Protection, epsilon_in_words
from entrenous.privacy.told import (
    FORGETTING,
    HOLDS_AGAINST,
    MEMBERSHIP,
    UserReceipt,
    account,
    expected,
    sum_if_known,
)
from entrenous.runs.manifest import check_algorithm
from entrenous.runs.options import OpenOptions, RunPlan
from entrenous.runs.plan import algorithm_of, leaky, make, network_of, protection_in
from entrenous.runs.recommenders import fitted
from entrenous.runs.reopen import material_of, plan_of
from entrenous.runs.store import StoredRun, model_sha256

from .apart import attempts
from .measures import measured
from .observe import about_of
from .plan import AuditPlan, View
from .scene import KEPT_BYTES
from .transcript import Transcript, bytes_of

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
    "Noise came from the operating system: the repetition has other noise of the same size, and"
    " other devices where its model chooses them."
)
NOT_KEPT = (
    "Who took part was drawn by the operating system and not kept: each user by chance, {:.3g} in"
    " each of the {} rounds; in which of them your device answered, and whether in any, cannot be"
    " said."
)
IN_A_ROUND = "In a round in which it answered, your device sent these arrays: {}."
PUSHED = "Your device pushed its model {}. It holds your list, and others could read it."
CENTRAL = "The server was given your whole list."
ALL_KNOWN = "All your {} items: the server has them, and no attack is needed."
# The findings of attacks on the user's own messages.
OWN = (
    "Whoever reads {} of your messages, and nobody else's, finds {:.0f} of your {} items (attack"
    " '{}', R-precision {:.3f}); a list of what is popular finds {:.0f} of them."
)
BEFORE_SUMS = " Your messages hold this before they are added up; the server saw sums."
NO_ATTACK = "What {} of your messages tell was not measured: no attack could be tried on them."
NO_MESSAGES = "What your own messages tell was not measured: nobody can make them again."
# Figures of an attack on one user.
OF_ONE = ("precision", "recall", "r_precision", "popularity_r_precision", "note")
SINGLY = ("individual", "neighbour")  # views of single messages
# Known besides messages, and what can be undone.
SIMULATED = (
    "This run was simulated on one machine; it has no operator. A real server, or your real peers,"
    " know that you are a member, and when you answered."
)
LEAVING = "To leave this run, have it trained anew without your rows and delete it."
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
    own: list[dict[str, Any]]
    """The findings of each attack on the user's own messages; [] where none can be repeated."""


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
        "epsilon": run.manifest.get("privacy", {}).get("epsilon"),
        "own": [],
    }
    # Draws of the operating system cannot be made again, and are stored nowhere: nobody can say
    # who took part.
    drawn = again.protection
    if is_federated(made) and drawn.sampling == "poisson" and drawn.noise_from == "system":
        return cast(ReceiptFound, {**about, **_without_rounds(again)})
    if is_central(made):
        # Nothing is repeated: there are no rounds, and no messages to count.
        return cast(ReceiptFound, {**about, **_given_at_once(again)})
    repeated = _pushed if is_gossip(made) else _answered
    kept: list[Seen] = []
    given = list(repeated(again, kept, threads, progress))
    # One round stands for a training: the final model is the same for all.
    findings = _expected(again, max(1, len(given)))
    # What others' messages tell on average is no news beside the user's own.
    findings["expected"] = [line for line in findings["expected"] if line["view"] not in SINGLY]
    own = list(_attacked(again, kept, progress))
    part = [*_part(given, again), *_besides(again)]
    told = account(part, findings, history, took_part=bool(given), proof=_proof(again, given))
    if given:
        told["because"].insert(0, _of_own(again, own, len(kept)))
    return cast(ReceiptFound, {**about, **summed(given), **told, "own": own})


# ---- expectations and sentences ------------------------------------------------------------------


def _expected(again: Repetition, rounds: int) -> dict[str, Any]:
    """The expected findings of attacks after so many rounds, and the settings in which they were
    measured otherwise: those that were chosen, its cohort, and those of its protection.

    Audits run with the algorithm's usual settings. Some of these depend on the rows, such as FPL's
    number of triples: that is no difference.
    """
    plan = again.plan
    made = again.made
    of_audits: Any = algorithm_of(plan.algorithm, {}, plan.profile)
    usual = dict(of_audits)
    chosen = {name for name, value in made if name == "cohort" or value != usual.get(name)}
    in_force = made.configured(again.train.catalogue)
    settings = {name: value for name, value in in_force if name in chosen}
    protect = dict(again.protection) if is_federated(made) else {}
    return expected(short(plan.algorithm), plan.profile, rounds, settings, protect)


def _without_rounds(again: Repetition) -> dict[str, Any]:
    """The receipt of a device of which nobody knows when it took part."""
    catalogue = again.train.catalogue
    contract = bound(again.made.configured(catalogue), catalogue)
    rate = contract.cohort / catalogue.users
    part = [
        NOT_KEPT.format(rate, again.rounds),
        IN_A_ROUND.format(", ".join(sent.name for sent in contract.sends)),
        IN_SUMS if again.protection.secure_sum else ALONE,
        *_besides(again),
    ]
    likely = max(1, round(rate * again.rounds))
    return {
        **dict.fromkeys(summed([])),
        "rounds": [],
        "arrays": sorted(contract.way("dense") | contract.way("shown")),
        **account(
            part,
            _expected(again, likely),
            len(again.history),
            proof=[NO_MESSAGES, *_proof(again, [likely])],
        ),
    }


def _given_at_once(again: Repetition) -> dict[str, Any]:
    """The receipt of a user whose whole list the server of a central algorithm was given."""
    history = again.history
    many = len(history)
    return {
        **summed([GivenAway(0, many, many, many, items=history)]),
        **account([CENTRAL], expected("", "", 0), many, proof=[ALL_KNOWN.format(many)]),
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
    first = given[0]
    if first.rows is not None and first.arrays:
        sentences.append(BESIDE_ROWS.format(", ".join(first.arrays)))
    sentences += [IN_SUMS, HOLDS_AGAINST] if protection.secure_sum else [ALONE]
    if protection.noise_from == "system" and protection.noisy:
        sentences.append(NO_REPEAT)
    return sentences


def _besides(again: Repetition) -> list[str]:
    """Sentences on rounds that do not count, on what is known besides messages, and on leaving."""
    known = [UNCOUNTED] if again.run.manifest.get("patience") else []
    known.append(SIMULATED)
    if is_federated(again.made):
        known.append(MEMBERSHIP.format(short(again.plan.algorithm), again.plan.profile))
    return [*known, f"{LEAVING} {FORGETTING}"]


def _of_rows(given: list[GivenAway], again: Repetition) -> list[str]:
    """The information in the rows of a device by themselves."""
    protection = again.protection
    history = len(again.history)
    if given[0].rows is None:
        return [WHOLE.format(history, ", ".join(given[0].arrays))]
    if not any(sent.rows for sent in given):
        return []
    if protection.noisy or protection.rows == "all":
        return [ALL_ROWS]
    if not any(sent.positives for sent in given):
        return [NO_OWN_ROW]
    return [SOME_ROWS.format(_different(given), history)]


def _proof(again: Repetition, given: Sequence[object]) -> list[str]:
    """A sentence on the proven bound of what is known of each user; where something was given away,
    also on there being none.
    """
    privacy = again.run.manifest.get("privacy", {})
    if privacy:
        spent = epsilon_in_words(
            privacy["epsilon"], privacy["delta"], exchanged=privacy["epsilon_exchanged"]
        )
        return [PROOF.format(spent)]
    return [NO_PROOF] if given else []


# ---- attacks on the user's own messages ----------------------------------------------------------


def _attacked(
    again: Repetition, kept: Sequence[Seen], progress: Progress
) -> Iterator[dict[str, Any]]:
    """The findings of each attack on the messages of the one device."""
    if not kept:
        return
    plan = again.plan
    train = again.train
    view: View = "neighbour" if is_gossip(again.made) else "individual"
    audit = AuditPlan(algorithm=plan.algorithm, profile=plan.profile, view=view)
    about = about_of(audit, again.made, train, again.protection)
    seen = Transcript(about, train.popularity, tuple(kept))
    for attempt in attempts(seen, progress=progress):
        figures: dict[str, Any] = {"note": f"failed: {attempt.failed}"}
        if attempt.claims is not None:
            figures = measured(attempt.claims, seen, train)
        # Of one user there is no interval, and so no verdict.
        yield {"name": attempt.name, **{name: figures.get(name) for name in OF_ONE}}


def _of_own(again: Repetition, own: Sequence[Mapping[str, Any]], messages: int) -> str:
    """A sentence on the findings of the attack that ranks the user's own items best."""
    attack = best({"attacks": own})
    if attack is None:
        return NO_ATTACK.format(messages)
    items = len(again.history)
    found = attack["r_precision"]
    popular = attack["popularity_r_precision"]
    said = OWN.format(messages, found * items, items, attack["name"], found, popular * items)
    return said + BEFORE_SUMS * again.protection.secure_sum


def _keep(kept: list[Seen], seen: Seen) -> None:
    """Keeps a message for attacks, as long as memory holds them."""
    # The messages of one device are of about the same size.
    if bytes_of(seen) * (len(kept) + 1) <= KEPT_BYTES:
        kept.append(seen)


# ---- counts --------------------------------------------------------------------------------------


def summed(given: list[GivenAway]) -> dict[str, Any]:
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
    }


def _different(given: list[GivenAway]) -> int:
    """The number of different consumed items that all messages were made of."""
    return len({item for sent in given for item in sent.items})


# ---- the repetition ------------------------------------------------------------------------------


def _answered(
    again: Repetition, kept: list[Seen], threads: int, progress: Progress
) -> Iterator[GivenAway]:
    """The rounds around a server in which the device answered, by repeating the run; its messages
    are added to `kept`. Raises EntrenousError where it comes to another model, as `_pushed` does.
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
                _keep(kept, seen)
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
    items = contract.sizes["items"]
    return any(shape[:1] == (items,) for shape in contract.way("dense").values())


def _pushed(
    again: Repetition, kept: list[Seen], threads: int, progress: Progress
) -> Iterator[GivenAway]:
    """The rounds in which a peer pushed its model: each carries all that the peer has trained
    on. Messages that arrived are added to `kept`.
    """
    recorder = NeighbourRecorder(np.array([again.who]), sent=True)
    gossip = Gossip(
        again.made,
        again.train,
        seed=again.plan.seed,
        network=network_of(again.plan),
        weighting=again.split.weighting_sets,
        executor=Threads(threads),
        avoid=again.avoid,
        recorder=recorder,
    )
    swarm = gossip.start()
    history = again.history
    until = again.rounds
    for number in range(until):
        progress(number, until, "round")
        before = int(swarm.counts.pushed[again.who])
        swarm = gossip.advance(swarm, number + 1)
        pushes = int(swarm.counts.pushed[again.who]) - before
        if pushes:
            numbers = pushes * swarm.pool.values.shape[1]
            yield GivenAway(number, None, None, numbers, ("model",), history)
    progress(until, until, "round")
    for seen in recorder.rounds:
        _keep(kept, seen)
    _check(again.run, model_sha256(fitted(gossip, swarm).arrays))


def _check(run: StoredRun, model: str) -> None:
    """Refuses a repetition that ends with another model."""
    if model != run.manifest["model_sha256"]:
        raise EntrenousError(
            f"{run.path}: repeated today it ends with another model, so that what left its devices"
            " cannot be told; use the version of entrenous and of its libraries that made it"
        )
