"""Decoys: as many as rho says, never a rated item or one twice, drawn evenly, and kept from round
to round unless redrawn.
"""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.keys import folds, key
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.privacy.decoys import Mixed, SendsDecoys, with_decoys

USERS, ITEMS = 60, 25
KEYS = folds(key(0, "devices"), np.arange(USERS))


def ratings() -> Interactions:
    """User 0 has every item, user 1 none, the others about a quarter, each rated from 1 to 5."""
    rng = np.random.default_rng(0)
    has = rng.random((USERS, ITEMS)) < 0.25
    has[0], has[1] = True, False
    user, item = np.nonzero(has)
    value = rng.integers(1, 6, len(user))
    return build(
        user, item, value=value, users=Vocabulary(size=USERS), items=Vocabulary(size=ITEMS)
    )


DATA = ratings()
OWN = DATA.histories(np.arange(USERS))


def parts(mixed: Mixed) -> list[tuple[list[int], list[int]]]:
    """(rated items, decoys) of each user."""
    found = []
    for low, high in zip(mixed.ptr, mixed.ptr[1:], strict=False):
        item, rated = mixed.item[low:high], mixed.rated[low:high]
        assert (np.diff(item) > 0).all()  # their order tells nothing, and none comes twice
        found.append((item[rated].tolist(), item[~rated].tolist()))
    return found


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0, 3.0, 1000.0])
def test_rated_items_come_with_so_many_others(rho: float) -> None:
    mixed = with_decoys(OWN, rho, KEYS, ITEMS)
    for user, (rated, decoys) in enumerate(parts(mixed)):
        own = DATA.item[DATA.ptr[user] : DATA.ptr[user + 1]].tolist()
        assert rated == own and set(decoys).isdisjoint(own)
        assert len(decoys) == min(int(rho * len(own)), ITEMS - len(own))
    assert (
        mixed.value[mixed.rated].tolist() == DATA.value.tolist()
        and not mixed.value[~mixed.rated].any()
    )


def test_every_item_that_was_not_rated_is_as_likely() -> None:
    """4000 devices with the same 5 rated items and 5 decoys each, of 20 others: 1000 of each,
    standard deviation 27.
    """
    item = np.tile([0, 3, 11, 12, 24], 4000)
    many = build(
        np.repeat(np.arange(4000), 5),
        item,
        users=Vocabulary(size=4000),
        items=Vocabulary(size=ITEMS),
    )
    mixed = with_decoys(
        many.histories(np.arange(4000)), 1.0, folds(key(1, "devices"), np.arange(4000)), ITEMS
    )
    drawn = np.bincount(mixed.item[~mixed.rated], minlength=ITEMS)
    others = np.setdiff1d(np.arange(ITEMS), item)
    assert drawn.sum() == 20_000 and abs(drawn[others] - 1000).max() < 5 * 27
    together = {tuple(decoys) for _, decoys in parts(mixed)}
    assert len(together) > 3000  # of 15,504 sets


def test_a_device_keeps_its_decoys_unless_they_are_redrawn() -> None:
    """What comes in every round is what was rated, if all else changes."""
    rounds = [key(0, "round", number) for number in range(12)]
    kept, anew = (
        [parts(SendsDecoys(redraw=redraw).mixed(KEYS, OWN, ITEMS, number)) for number in rounds]
        for redraw in (False, True)
    )
    assert all(one == kept[0] for one in kept)
    assert SendsDecoys().redraw is False
    always = [
        set.intersection(*(set(one[user][0]) | set(one[user][1]) for one in anew))
        for user in range(USERS)
    ]
    given_away = sum(always[user] == set(anew[0][user][0]) for user in range(USERS))
    assert given_away > 0.9 * USERS


def test_a_device_alone_in_its_round_has_the_decoys_of_that_round() -> None:
    """As `local_key` names them: device d of a run of one-device rounds has round first + d."""
    from entrenous.core.keys import local_key

    whole = key(0, "rounds")
    for redraw in (False, True):
        settings = SendsDecoys(redraw=redraw)
        in_turn = parts(settings.mixed_in_turn(KEYS, OWN, ITEMS, whole, 7))
        for user in (3, 40):
            alone = settings.mixed(KEYS, OWN, ITEMS, np.uint64(local_key(whole, 7 + user)))
            assert in_turn[user] == parts(alone)[user]
