"""Transcripts of small trainings, and how right an attack is about the histories behind them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from entrenous_audit import observe as observing
from entrenous_audit.attacks._rows_seen import prior
from entrenous_audit.claims import Claims
from entrenous_audit.plan import AuditPlan
from entrenous_audit.transcript import Transcript
from paths import real

from entrenous.core.contract.update import Update
from entrenous.core.types import UInt64Array
from entrenous.data.interactions import Interactions
from entrenous.federation.recorder import TAKEN, Seen

Limits = Sequence[Any]


@cache
def movielens() -> Interactions:
    """The training rows of MovieLens-100K, one row of every user held out. Skips where there is no
    such data.
    """
    from entrenous.data.load import load
    from entrenous.data.split.leave_one_out import sampled

    return sampled(load(str(real("ml-100k"))), 99, seed=0)[0].train


def observe(algorithm: str, data: Interactions, **asked: Any) -> Transcript:
    """What an onlooker sees of a training of an algorithm. asked: fields of `AuditPlan`."""
    plan = AuditPlan(algorithm=algorithm, threads=1, **asked)
    return observing.observe(plan, data)


def seen(
    data: Interactions,
    algorithm: str,
    *,
    rounds: int = 1,
    view: Any = "individual",
    cohort: int = 0,
    profile: str = "paper",
    protect: Any = None,
    limits: Limits = (),
    **settings: Any,
) -> Transcript:
    """What an onlooker sees of a training. limits: of what it sees, not of what the training
    takes.
    """
    asked = {
        "rounds": rounds,
        "view": view,
        "cohort": cohort,
        "profile": profile,
        "protect": protect or {},
        "settings": settings,
    }
    transcript = observe(algorithm, data, **asked)
    return (
        transcript._replace(
            rounds=tuple(_limited(transcript, one, limits) for one in transcript.rounds)
        )
        if limits
        else transcript
    )


def _limited(transcript: Transcript, one: Seen, limits: Limits) -> Seen:
    names = {
        way: {sent["name"] for sent in transcript.about["sends"] if sent["way"] == way}
        for way in ("rows", "dense")
    }
    places = {name: f"{name}_" if name in TAKEN else name for way in names for name in names[way]}
    arrays = {way: {name: one.sent[places[name]] for name in some} for way, some in names.items()}
    update = Update(
        one.sent["ptr"], one.sent["item"], arrays["rows"], arrays["dense"], one.sent["weight"]
    )
    for limit in limits:
        update = limit(update, None)
    changed = {places[name]: array for name, array in {**update.rows, **update.dense}.items()}
    return one._replace(sent={**one.sent, "ptr": update.ptr, "item": update.item, **changed})


def histories(data: Interactions) -> Any:
    """Who consumed what, bool [users, items]."""
    everyone = data.histories(np.arange(data.catalogue.users))
    out = np.zeros((data.catalogue.users, data.catalogue.items), bool)
    out[np.repeat(np.arange(len(out)), np.diff(everyone.ptr)), everyone.item] = True
    return out


class Right(NamedTuple):
    """How right claims are: precision and recall of what is claimed, and of the ranking the
    precision among the first n_u.
    """

    precision: float
    recall: float
    ranked: float


def right(claims: Claims, data: Interactions) -> Right:
    """How right claims about named users are."""
    true = histories(data)[claims.users]
    assert np.isfinite(claims.score).all() and claims.score.shape == true.shape
    claimed = np.zeros_like(true) if claims.claimed is None else claims.claimed
    hits = (claimed & true).sum()
    place = np.argsort(np.argsort(-claims.score, axis=1, kind="stable"), axis=1)
    many = true.sum(axis=1)
    ranked = ((place < many[:, None]) & true).sum(axis=1) / np.maximum(many, 1)
    return Right(
        float(hits / max(claimed.sum(), 1)),
        float(hits / max(true.sum(), 1)),
        float(ranked[many > 0].mean()),
    )


def by_popularity(transcript: Transcript, data: Interactions) -> float:
    """The share of the first n_u items by popularity that are right."""
    users = np.arange(transcript.users)
    return right(Claims(users, np.tile(prior(transcript), (len(users), 1))), data).ranked


def first_users(transcript: Transcript, many: int) -> Transcript:
    """The part of a transcript of single updates that the first `many` devices of each round sent:
    attacks on it are quicker.
    """
    return transcript._replace(rounds=tuple(_cut(one, many) for one in transcript.rounds))


def _cut(one: Seen, many: int) -> Seen:
    rows = int(one.sent["ptr"][many])
    of_rows = {"item"} | {
        name
        for name, array in one.sent.items()
        if name != "ptr" and len(array) == one.sent["ptr"][-1]
    }
    sent = {
        name: array[:rows] if name in of_rows else array[:many]
        for name, array in one.sent.items()
        if name != "ptr"
    }
    return one._replace(users=one.users[:many], sent={"ptr": one.sent["ptr"][: many + 1], **sent})


def noised(sd: float) -> Any:
    """A limit that adds Gaussian noise to every number that is sent."""
    rng = np.random.default_rng(0)
    add = lambda array: (array + rng.normal(0, sd, array.shape)).astype(np.float32)  # noqa: E731
    return lambda update, keys: update._replace(
        rows={name: add(row) for name, row in update.rows.items()},
        dense={name: add(array) for name, array in update.dense.items()},
    )


def sorted_rows(update: Update, keys: UInt64Array) -> Update:
    """A limit by which rows leave in the order of their items."""
    device = np.repeat(np.arange(update.devices), np.diff(update.ptr))
    order = np.lexsort((update.item, device))
    return update._replace(
        item=update.item[order], rows={name: row[order] for name, row in update.rows.items()}
    )


def every_item(items: int) -> Any:
    """A limit by which a device sends a row for every item, of zeros where it has none."""

    def padded(update: Update, keys: UInt64Array) -> Update:
        device = np.repeat(np.arange(update.devices), np.diff(update.ptr))
        rows = {
            name: np.zeros((update.devices * items, *row.shape[1:]), np.float32)
            for name, row in update.rows.items()
        }
        for name, row in update.rows.items():
            rows[name][device * items + update.item] = row
        item = np.tile(np.arange(items, dtype=np.int32), update.devices)
        return update._replace(ptr=np.arange(update.devices + 1) * items, item=item, rows=rows)

    return padded


def clipped(norm: float) -> Any:
    """A limit on the length of what a device sends."""

    def clip(update: Update, keys: UInt64Array) -> Update:
        device, squares = (
            np.repeat(np.arange(update.devices), np.diff(update.ptr)),
            np.zeros(update.devices),
        )
        for row in update.rows.values():
            np.add.at(
                squares, device, (row.reshape(len(row), -1).astype(np.float64) ** 2).sum(axis=1)
            )
        factor = np.minimum(1, norm / np.sqrt(np.maximum(squares, 1e-12)))[device].astype(
            np.float32
        )
        return update._replace(
            rows={
                name: row * factor.reshape(-1, *[1] * (row.ndim - 1))
                for name, row in update.rows.items()
            }
        )

    return clip
