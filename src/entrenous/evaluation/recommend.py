"""Recommend: the n best items that a user has not consumed, computed block by block, so that the
block bounds memory; and lists by external ids, of chosen items and for users who may be unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

import numpy as np
from typing_extensions import TypedDict

from ..core.contract.protocols import Scorer, TopN
from ..core.errors import EntrenousWarning, InputError, NonFiniteError
from ..core.keys import key
from ..core.keywords import at_least
from ..core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from ..data.interactions import Interactions, Vocabulary
from ..kernels.arrays import nonfinite_row, top_n
from ..kernels.sampling import shuffle_places
from .list_options import ListOptions, Seen, Unknown

# Scores in a block: 16 MB.
BLOCK_SCORES = 1 << 22
# Ids that an error or a warning names; the others are counted.
NAMED = 20


class Recommended(TypedDict):
    """An item of a list."""

    item: str
    """The external id."""
    title: str
    score: float | None
    """None where nobody asked for scores, and for a user whom the training does not know."""


class Allowed(NamedTuple):
    """The items that lists may have."""

    items: BoolArray
    """bool [items]: the items that may be recommended."""
    seen: bool = False
    """True if a list may have items that its user has already."""


def recommend(
    recommender: Scorer,
    data: Interactions,
    users: Array,
    n: int,
    *,
    allowed: Allowed | None = None,
    label: str = "recommender",
    seed: int = 0,
) -> TopN:
    """The n best items of each user: item int32 [len(users), n] (-1 where fewer are left) and score
    float32 (-inf there).

    data: the rows the recommender was trained on. allowed: the items that lists may have; None =
    those with a row in `data` (nothing was learnt about others) that the user does not have. Equal
    scores are ordered by a shuffle keyed by `seed`. label: the algorithm's name, for errors.

    Raises NonFiniteError that names the user and the algorithm if a score is NaN or infinite.
    """
    users = np.asarray(users, np.int64)
    best = empty_lists(len(users), n)
    place = tie_places(len(data.items), seed)
    if allowed is None:
        allowed = Allowed(data.popularity > 0)
    ptr = data.ptr
    item = data.item
    if allowed.seen:
        ptr = np.zeros_like(ptr)
        item = item[:0]
    for part, scores in score_blocks(recommender, data.users, len(data.items), users, label=label):
        # The rows of `best` are views: they are written to here.
        top_n(
            scores,
            users[part],
            allowed.items,
            ptr,
            item,
            place,
            best.item[part],
            best.score[part],
        )
    return best


def scores_of_one(recommender: Scorer, train: Interactions, user: int, label: str) -> Float32Array:
    """The scores of all items for one user, float32 [items]."""
    users = np.array([user], np.int64)
    ((_, scores),) = score_blocks(recommender, train.users, len(train.items), users, label=label)
    return scores[0]


def best_of_one(score: Array, competing: Array, n: int, seed: int) -> Array:
    """The n best of the competing items, in the order of `kernels.arrays`; in NumPy, since loading
    compiled code would take longer than the rest.
    """
    place = tie_places(len(score), seed)
    # By score, the highest first, and equal scores by their place in the shuffle.
    order = np.lexsort((place[competing], -score[competing]))
    return competing[order[:n]]


def best_but(train: Interactions, own: Int64Array, score: Array, n: int, seed: int) -> Array:
    """The n best items without `own`, of those of which something was learnt; see `best_of_one`."""
    competes = train.popularity > 0
    competes[own] = False
    return best_of_one(score, np.flatnonzero(competes), n, seed)


def title_of(train: Interactions, item: int) -> str:
    """The title of an item in the data; "" if there is none."""
    titles = train.features.get("title")
    if titles is None:
        return ""
    return str(titles[item])


def empty_lists(m: int, n: int) -> TopN:
    """Uninitialised lists for m users, of length n >= 1. Raises ValueError for a smaller n."""
    if n < 1:
        raise ValueError(f"the list length n must be at least 1, not {n}")
    return TopN(np.empty((m, n), np.int32), np.empty((m, n), np.float32))


def tie_places(items: int, seed: int) -> Int32Array:
    """The order of items with equal scores, int32 [items]: the same for every user and every
    algorithm under one seed.
    """
    return shuffle_places(items, key(seed, "ties"))


def score_blocks(
    recommender: Scorer,
    names: Vocabulary,
    items: int,
    users: Int64Array,
    *,
    label: str,
) -> Iterator[tuple[slice, Float32Array]]:
    """Yields the positions of some users in `users` and their scores, float32 [block, items], block
    after block; every score is finite.

    Raises NonFiniteError as `recommend` does, and ValueError if the recommender returns another
    shape.
    """
    size = max(1, BLOCK_SCORES // max(items, 1))
    for start in range(0, len(users), size):
        part = slice(start, min(start + size, len(users)))
        # Kernels are compiled for contiguous arrays.
        scores = np.ascontiguousarray(recommender.scores(users[part]))
        count = part.stop - part.start
        if scores.shape != (count, items):
            raise ValueError(
                f"{label} returned scores {scores.shape} for {count} users and {items} items"
            )
        bad = -1
        # One row is checked in NumPy, since loading compiled code would take longer.
        if len(scores) > 1 or not np.isfinite(scores).all():
            bad = nonfinite_row(scores)
        if bad >= 0:
            raise NonFiniteError(
                f"{label}: a score of user '{names[int(users[start + bad])]}' is NaN or infinite;"
                " nothing was ranked (training diverged? try a smaller learning rate)"
            )
        yield part, scores


def scores_of_some(
    recommender: Scorer, train: Interactions, users: Int64Array, items: Int64Array, label: str
) -> Float32Array:
    """The scores of some items for some users, float32 [users, items]. Raises as `score_blocks`
    does.
    """
    blocks = score_blocks(recommender, train.users, len(train.items), users, label=label)
    # Without users there is no block.
    none = np.empty((0, len(items)), np.float32)
    return np.concatenate([none, *(block[:, items] for _, block in blocks)])


# ---- lists by external ids -----------------------------------------------------------------------


class NamedLists(NamedTuple):
    """The lists of some users."""

    users: list[str]
    """The users who get a list, in the order in which they were asked for."""
    item: Int32Array
    """int32 [users, n]: the items, best first; -1 where a list is shorter."""
    score: Array
    """float32 [users, n]; NaN in the list of a user whom the training does not know."""


def lists_of(
    recommender: Scorer,
    train: Interactions,
    users: Sequence[str],
    n: int,
    options: ListOptions,
    *,
    label: str,
    seed: int,
) -> NamedLists:
    """The n best items of each user, of all users at once.

    users: external ids. label: the algorithm's name, for errors. seed: orders equal scores. Raises
    InputError for users and items that are not known, unless `options` allow them.
    """
    at_least("--n", n, 1)
    numbers, names = _served(train, users, options)
    allowed = _allowed(train, options)
    # A list cannot be longer than the catalogue.
    n = min(n, len(train.items))
    is_known = numbers >= 0
    best = recommend(
        recommender, train, numbers[is_known], n, allowed=allowed, label=label, seed=seed
    )
    item = np.full((len(names), n), -1, np.int32)
    score = np.full((len(names), n), np.nan, np.float32)
    item[is_known], score[is_known] = best
    if not is_known.all():
        popular = _most_popular(train, allowed, n, seed)
        item[~is_known, : len(popular)] = popular
    return NamedLists(names, item, score)


def list_of_each(
    recommender: Scorer,
    train: Interactions,
    users: Sequence[str],
    n: int,
    options: ListOptions | None = None,
    *,
    label: str,
    seed: int,
) -> dict[str, list[Recommended]]:
    """The lists of `lists_of`, computed user by user, since loading compiled code would take longer
    than a few lists: {user: [{"item", "title", "score"}]}, best first; the score is None for a
    user whom the training does not know.

    options: None where the caller was not offered any, so that no error speaks of them.
    """
    at_least("--n", n, 1)
    numbers, names = _served(train, users, options)
    allowed = _allowed(train, options or ListOptions())
    lists: dict[str, list[Recommended]] = {}
    for u, name in zip(numbers.tolist(), names, strict=True):
        score = None
        if u < 0:
            best = _most_popular(train, allowed, n, seed)
        else:
            score = scores_of_one(recommender, train, u, label)
            best = best_of_one(score, _competing(train, u, allowed), n, seed)
        rows: list[Recommended] = []
        for item in best.tolist():
            value = None
            if score is not None:
                value = float(score[item])
            rows.append({"item": train.items[item], "title": title_of(train, item), "score": value})
        lists[name] = rows
    return lists


def competing_of(train: Interactions, user: int, options: ListOptions) -> Array:
    """The numbers of the items that compete for a user's list, ascending. Raises InputError as
    `lists_of` does.
    """
    check_options(options)
    return _competing(train, user, _allowed(train, options))


def _competing(train: Interactions, user: int, allowed: Allowed) -> Array:
    competing = allowed.items.copy()
    if not allowed.seen:
        competing[train.item[train.ptr[user] : train.ptr[user + 1]]] = False
    return np.flatnonzero(competing)


def check_options(options: ListOptions) -> None:
    """Raises InputError for a choice that there is not."""
    choices = {"seen": (options.seen, Seen), "unknown": (options.unknown, Unknown)}
    for name, (value, kind) in choices.items():
        known = get_args(kind)
        if value not in known:
            raise InputError(
                f"--{name}",
                f"got {value!r}",
                expected=" or ".join(known),
                fix=f"such as --{name}={known[1]}",
            )


def _served(
    train: Interactions, users: Sequence[str], options: ListOptions | None
) -> tuple[Array, list[str]]:
    """The numbers, int64 with -1 for an unknown user, and the ids of the users who get a list."""
    way = ""
    if options is None:
        options = ListOptions()
    else:
        check_options(options)
        way = "--unknown=popular gives the most popular items"
        if len(users) > 1:
            way = f"--unknown=skip serves the others, {way}"
    numbers = train.users.indices(users).astype(np.int64)
    strange = [user for user, number in zip(users, numbers, strict=True) if number < 0]
    if not strange:
        return numbers, list(users)
    if options.unknown == "refuse":
        expected = f"ids of the {len(train.users)} users in training"
        raise _refusal(train.users, strange, expected, way)
    if options.unknown == "popular":
        _warn("users whom the training does not know, who get the most popular items", strange)
        return numbers, list(users)
    _warn("users whom the training does not know, who get no list", strange)
    is_known = numbers >= 0
    return numbers[is_known], [users[place] for place in np.flatnonzero(is_known).tolist()]


def _allowed(train: Interactions, options: ListOptions) -> Allowed:
    """The items that lists may have. Raises InputError if there are none."""
    # Nothing was learnt about an item without a training row.
    learnt = train.popularity > 0
    allowed = learnt.copy()
    if options.items is not None:
        allowed = learnt & _marked(train, options.items, learnt, options)
    # An item that is in no list anyway need not have a row.
    allowed &= ~_marked(train, options.without, np.ones_like(learnt), options)
    if not allowed.any():
        raise InputError(
            "--items",
            "no item is left that may be recommended",
            expected=f"some of the {learnt.sum()} items with a training row",
            fix="name others, or leave --items and --without out",
        )
    return Allowed(allowed, options.seen == "keep")


def _marked(
    train: Interactions, items: Sequence[str], usable: BoolArray, options: ListOptions
) -> BoolArray:
    """Marks items by their ids, bool [items]. Raises InputError for those that are not known or not
    `usable`, or warns of them.
    """
    numbers = train.items.indices(items)
    is_strange = numbers < 0
    is_strange[~is_strange] = ~usable[numbers[~is_strange]]
    strange = [items[place] for place in np.flatnonzero(is_strange).tolist()]
    if strange and options.unknown == "refuse":
        expected = f"ids of the {usable.sum()} items in training"
        raise _refusal(train.items, strange, expected, "--unknown=skip goes on without them")
    if strange:
        _warn("items of which nothing was learnt, left out", strange)
    marked = np.zeros(len(train.items), bool)
    marked[numbers[~is_strange]] = True
    return marked


def _refusal(names: Vocabulary, strange: Sequence[str], expected: str, way: str) -> InputError:
    """An error that names the unknown ids, and for a single one the nearest known id."""
    kind = names.kind
    if len(strange) > 1:
        return InputError(f"{kind}s", f"unknown: {_named(strange)}", expected=expected, fix=way)
    problem = f"unknown {kind} '{strange[0]}'"
    ways = filter(None, (way, names.hint(strange[0])))
    return InputError(kind, problem, expected=expected, fix="; ".join(ways))


def _named(ids: Sequence[str]) -> str:
    """Ids in words: `2 ('a', 'b')`."""
    shown = ", ".join(f"'{name}'" for name in ids[:NAMED])
    return f"{len(ids)} ({shown}{', ...' if len(ids) > NAMED else ''})"


def _warn(what: str, ids: Sequence[str]) -> None:
    warnings.warn(f"{what}: {_named(ids)}", EntrenousWarning, stacklevel=4)


def _most_popular(train: Interactions, allowed: Allowed, n: int, seed: int) -> Array:
    """The n allowed items with the most training rows."""
    return best_of_one(train.popularity, np.flatnonzero(allowed.items), n, seed)
