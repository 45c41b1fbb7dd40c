"""Going back to a model that a server has kept.

Under masks the model is an old one, and the numbers of the rounds are new. A node sends only one
masked input for each round number, since two sums of one round over different nodes would tell what
a single node sent. So a server that goes back to the model of round 100 after round 180 continues
with round 181, from that model. For nodes this is one more round with another model: nobody has to
be told, and each still counts its answers and holds every list against all before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from entrenous.core.errors import EntrenousError, InputError
from entrenous.core.lock import holding
from entrenous.runs import store

from ..frames.contribution import agreed_by
from ..server.server import moved_on
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


def go_back(folder: Path, counted: int) -> tuple[int, int]:
    """Makes the model of `counted` rounds the newest of a server under masks that is not running,
    under a number that it has not asked about. Returns how many rounds counted before, and that
    number. Raises InputError for a model that is not kept, and for a server at work.
    """
    with closing(ServerFolder(folder)) as held:
        algorithm = held.terms.make(place=held.algorithm)
        now = standing(held, algorithm)
        kept = kept_rounds(folder)
        choose_kept(kept, counted)
        then = held.kept(algorithm, kept[counted]) if counted else first_standing(held, algorithm)
        # Nodes may have answered a round that is still open.
        number = max(now.round, held.newest_begun() + 1)
        if held.terms.protection.step:
            # As many numbers as rounds are undone, for devices count steps by these.
            number += now.round - then.round
        if number >= held.terms.last_number:
            problem = f"round {number} would follow, and the terms allow {held.terms.last_number}"
            raise InputError("--rounds", problem, expected="the model of a later round")
        # A node that has answered this model answers it again only for the same people.
        state = moved_on(then.state, algorithm, agreed_by(held.terms, algorithm))
        # Models of undone rounds go first: if a kill left them here, they would pass for those of
        # rounds to come.
        drop_models(folder, above=counted)
        held.commit(then._replace(round=number, state=state, tally=RoundCount(counted)))
        drop_models(folder, above=counted, but=number)
    return now.tally.counted, number


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
