"""Going back to a kept model when sums are masked: the model is an old one, the numbers of the
rounds are new.

A node sends only one masked input for each round number, since two sums of one round over different
nodes would tell what a single node sent. So a server that goes back to the model of round 100 after
round 180 continues with round 181, from that model. For nodes this is one more round with another
model: no node goes back, and nobody has to be told. A node still remembers all earlier sums, also
those of this very model.

A node counts the masked inputs that have left it, and sends no more than the terms say. If that
does not leave enough for the rounds to come, its owner decides: going back costs its users further
sums.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from ...core.errors import EntrenousError, InputError
from ...core.lock import holding
from ...runs import store
from ..agreement.files import read_json
from ..agreement.terms import LAST_NUMBER, TERMS, FederationTerms, further
from ..node.node_store import NODE, STORE, NodeStore, floors_of
from ..node.secure_node import ALLOWED, allowed_inputs, inputs
from ..server.server_folder import (
    CHECKPOINTS,
    JOURNALS,
    KEPT_MODELS,
    MODEL,
    PHASE,
    RoundCount,
    ServerFolder,
    first_standing,
    number_of,
    standing,
)
from .enrolment import check_epsilon


class WentBack(NamedTuple):
    """The result of going back."""

    before: int
    """The rounds that counted before."""
    counted: int
    """The rounds that count now."""
    number: int
    """The number of the next round."""
    left: int
    """The further rounds that each node answers at least, without its owner's word."""
    wanted: int
    """The rounds to come."""


class AllowedSums(NamedTuple):
    """The masked inputs of a node."""

    sent: int
    """The rounds of which a masked input has left the node."""
    most: int
    """The rounds of which a masked input may leave the node."""
    epsilon: float | None
    """The epsilon of each user by then; None = nothing is proven."""


def go_back(folder: Path, counted: int, after: int = -1) -> WentBack:
    """Makes the model of `counted` rounds the newest of a server that is not running, under a
    number that no node has been asked about.

    after: the largest number that nodes know, where the folder was restored from a backup and
    cannot know it. Raises InputError for a model that is not kept, and for a server at work."""
    with closing(ServerFolder(folder)) as held:
        algorithm = held.terms.make(place=held.algorithm)
        now = standing(held, algorithm)
        kept = kept_rounds(folder)
        choose_kept(kept, counted)
        then = held.kept(algorithm, kept[counted]) if counted else first_standing(held, algorithm)
        begun = held.newest_begun()
        number = max(now.round, begun + 1, after + 1)
        if number >= LAST_NUMBER:
            problem = f"round {number} would be the next"
            raise InputError("--after", problem, expected=f"a number below {LAST_NUMBER - 1}")
        # Nodes may have answered a round that is still open.
        is_open = begun >= now.round
        asked = now.tally.asked + is_open
        # Models of undone rounds go first: if a kill left them here, they would pass for those of
        # rounds to come.
        drop_models(folder, above=counted)
        tally = RoundCount(counted, 0, asked, then.tally.drawn)
        held.commit(then._replace(round=number, tally=tally))
        drop_models(folder, above=counted, but=number)
        wanted = held.terms.rounds - counted
        left = max(0, held.terms.sums - asked)
        # By lot each node answers until its own answers are spent, whatever was asked.
        if held.terms.by_lot:
            left = wanted
    return WentBack(now.tally.counted, counted, number, left, wanted)


def allow_sums(folder: Path, counted: int) -> AllowedSums:
    """Allows a node to take part until a server that went back to `counted` rounds has done the
    rounds of its terms. A tenth more rounds are allowed, for lost ones.

    Raises InputError for a number of rounds that the terms do not have, if that would spend more
    than the owner's epsilon, where answers come free with time, and where rounds have no end.
    """
    terms = FederationTerms.read(folder / TERMS)
    about = read_json(folder / NODE)
    if terms.protection.days:
        problem = "its answers come free with time, so that it needs no permission"
        raise InputError(str(folder), problem, fix="leave it as it is")
    if terms.endless:
        problem = "rounds go on without end, and its answers would too"
        raise InputError(str(folder), problem, fix="leave it as it is")
    if counted > terms.rounds:
        expected = f"at most {terms.rounds}, the rounds of the terms"
        raise InputError("--rounds", f"got {counted}", expected=expected)
    wanted = terms.rounds - counted
    people = floors_of(folder, about).people
    with closing(NodeStore(folder / STORE)) as store:
        sent = inputs(store)
        needed = sent + wanted + further(wanted)
        # An earlier permission is not taken back.
        most = max(allowed_inputs(store, terms), needed)
        check_epsilon(folder, terms, about.get("epsilon"), people, most)
        store.note(ALLOWED, str(most))
    return AllowedSums(sent, most, terms.proven(people, most))


# ---- the models that are kept --------------------------------------------------------------------


def kept_rounds(folder: Path) -> dict[int, Path]:
    """Returns the counts of rounds whose model a server still has, ascending, each with its file.
    Round 0, which needs none, is not among them.
    """
    models = {number_of(path): path for path in folder.glob(KEPT_MODELS)}
    for path in sorted(folder.glob(CHECKPOINTS)):
        # Nobody can go back to a damaged checkpoint.
        with suppress(EntrenousError):
            _, about = store.read_arrays(path)
            models.setdefault(RoundCount.of(about).counted, path)
    return dict(sorted(models.items()))


def choose_kept(models: Mapping[int, Path], counted: int) -> None:
    """Raises InputError for a count of rounds whose model is not among `models`."""
    if counted not in (0, *models):
        known = ", ".join(str(count) for count in sorted({0, *models}))
        problem = f"the model of round {counted} is not kept"
        raise InputError("--rounds", problem, expected=f"one of {known}")


def drop_models(folder: Path, above: int, but: int = -1) -> None:
    """Deletes the kept models of more rounds than `above`, and the trained model. but: the number
    of the one checkpoint that stays; -1 = all stay.
    """
    for path in folder.glob(KEPT_MODELS):
        if number_of(path) > above:
            path.unlink(missing_ok=True)
    for path in folder.glob(CHECKPOINTS):
        if but >= 0 and number_of(path) != but:
            path.unlink(missing_ok=True)
    (folder / MODEL).unlink(missing_ok=True)


def rewind(folder: Path, number: int) -> int:
    """Makes the model after `number` rounds the newest one of a server that is not running. Returns
    how many rounds the server had done.

    Raises InputError for a round that is not kept, and for a server at work.
    """
    with holding(folder / "lock"):
        models = kept_rounds(folder)
        choose_kept(models, number)
        newest = folder / f"checkpoint-{PHASE}-{number:09d}.safetensors"
        if number and not newest.exists():
            os.link(models[number], newest)
        later = [path for count, path in models.items() if count > number]
        later += folder.glob(CHECKPOINTS)
        later += folder.glob(JOURNALS)
        for path in (*later, folder / MODEL):
            if path != newest or not number:
                path.unlink(missing_ok=True)
    return max((0, *models))
