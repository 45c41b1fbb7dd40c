"""Arms: federations that compare models on disjoint people.

Two models need two sums, two floors and two budgets, so an arm is a federation, with a server, a
key and a list of members. The first is in FOLDER, and each other one in FOLDER-NAME next to it.
They differ in some settings of the algorithm, and in who is in them, which lots decide.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ...core.contract.settings import parse_assignments
from ...core.errors import InputError
from ...core.files import write_text
from ...privacy.told import OF_TRAINING
from ..agreement.catalogue import Items
from ..agreement.files import read_json, write_json
from ..agreement.join_link import MOST_ARMS, arm_of
from ..agreement.members import MEMBERS, Members
from ..agreement.terms import TERMS, FederationTerms
from ..frames.contribution import contract_of
from ..server.accuracy import Arm, Difference, difference_of, noted_tests
from ..server.server_folder import own_algorithm
from .founding import FoundedFederation, Founding, Place, Requests, planned, write_founding
from .membership import changed_items
from .newcomers import check_joinable, make_link
from .plans import FoundingPlan

FIRST = "a"  # the arm that has no setting changed
ARMS = "arms.json"
NAME = re.compile("[a-z0-9]{1,8}")
# A value may have commas, so one ends a setting only where the next has a name.
BETWEEN = re.compile(r",(?=\s*\w+=)")
Arms = Mapping[str, Mapping[str, str]]


def parse_arms(given: Sequence[str]) -> Arms:
    """Reads the values of --arm. Returns the changed settings of each arm by its name. Raises
    InputError.

    >>> parse_arms(["b:learning_rate=0.05,factors=8"])
    {'b': {'learning_rate': '0.05', 'factors': '8'}}
    """
    arms: dict[str, Mapping[str, str]] = {}
    for text in given:
        name, colon, settings = text.partition(":")
        if not colon or not settings or not NAME.fullmatch(name):
            raise InputError(
                "--arm",
                f"got {text!r}",
                expected="NAME:name=value, a name of 1 to 8 of a-z and 0-9",
                fix="for example --arm b:learning_rate=0.05",
            )
        if name == FIRST or name in arms:
            raise InputError(
                "--arm",
                f"'{name}' is an arm already",
                expected=f"another than {', '.join([FIRST, *arms])}",
                fix="settings of one arm have commas between them",
            )
        arms[name] = parse_assignments(BETWEEN.split(settings), f"--arm {name}")
    if len(arms) >= MOST_ARMS:
        raise InputError(
            "--arm",
            f"{1 + len(arms)} arms with the first",
            expected=f"at most {MOST_ARMS}",
        )
    return arms


def found_arms(
    folder: Path,
    items: Items,
    requests: Requests,
    plan: FoundingPlan,
    place: Place,
) -> dict[str, FoundedFederation]:
    """Founds a federation and the further arms of its plan, each with some settings changed. Those
    who asked are dealt among them by the hash of their keys. Returns them by name.

    place: of the first server; the others have the ports that follow. Raises InputError as
    `found_federation` does, for any arm before anything is written for one.
    """
    arms = parse_arms(plan.arms)
    _check(plan, place, arms)
    names = [FIRST, *arms]
    dealt: dict[str, list[Any]] = {name: [] for name in names}
    for asked in requests:
        # The key alone: its name or its place among them is for the operator to choose.
        key = bytes.fromhex(asked[0].key)
        drawn = arm_of(key, len(names))
        dealt[names[drawn]].append(asked)
    foundings: dict[str, Founding] = {}
    for number, name in enumerate(names):
        changed = arms.get(name, {})
        settings = {**plan.settings, **changed}
        own = replace(plan, settings=settings)
        # All servers may be on one machine.
        at = place._replace(port=place.port + number)
        try:
            founding = planned(
                folder_of(folder, name),
                items,
                dealt[name],
                own,
                at,
            )
        except InputError as why:
            # Where no arm has people yet, the first is what the operator asked for as it comes.
            if name == FIRST and not requests:
                raise
            # Too few people are the lots' doing, which the operator cannot see elsewhere.
            nodes = f" with {len(dealt[name])} of {len(requests)} nodes" if requests else ""
            raise _of_arm(f"{name}{nodes}", why) from None
        foundings[name] = founding
        _check_alike(name, foundings[FIRST].terms, founding.terms, changed)
    made = {name: write_founding(founding) for name, founding in foundings.items()}
    # Names of folders, so that all of them may be moved together.
    further = {name: folder_of(folder, name).name for name in arms}
    write_json(folder / ARMS, {"arms": further})
    return made


def _check(plan: FoundingPlan, place: Place, arms: Arms) -> None:
    """Raises InputError for a plan that can have no arms."""
    if plan.peers:
        raise InputError(
            "--arm",
            "peers have no sums that could be compared",
            fix="leave it out with --peers",
        )
    if not plan.accuracy:
        raise InputError(
            "--arm",
            "nobody tests new rows, so there would be nothing to compare",
            fix="add --accuracy 3",
        )
    if place.port + len(arms) > 65535:
        raise InputError(
            "--port",
            f"got {place.port}, and each of {1 + len(arms)} arms has a port",
            expected=f"at most {65535 - len(arms)}",
        )
    for name, changed in arms.items():
        for setting in sorted(OF_TRAINING & changed.keys()):
            raise InputError(
                f"--arm {name}:{setting}",
                "people in one arm would answer more often than in another",
                fix=f"give it to all arms with --set {setting}={changed[setting]}",
            )


def _check_alike(
    name: str, first: FederationTerms, other: FederationTerms, changed: Mapping[str, str]
) -> None:
    """Raises InputError if an arm differs from the first in more than the settings that were
    changed: a profile brings settings, noise and rounds by the number of people.
    """
    here = _decided(other)
    there = _decided(first)
    named = here.keys() | there.keys()
    for setting in sorted(named - changed.keys()):
        own = here.get(setting)
        its = there.get(setting)
        if own != its:
            raise InputError(
                f"arm {name}",
                f"{setting} would be {own}, and {its} in arm a",
                fix=f"say {setting} for all arms: --rounds, --protect or --set {setting}=...",
            )


def _decided(terms: FederationTerms) -> dict[str, Any]:
    """Returns all that a profile may bring."""
    return {**terms.settings, **terms.protection.model_dump(), "rounds": terms.rounds}


def folder_of(folder: Path, name: str) -> Path:
    """Returns the folder of a new arm: that of the first, or its sibling FOLDER-NAME."""
    if name == FIRST:
        return folder
    named = _named(folder)
    return named.parent / f"{named.name}-{name}"


def _named(folder: Path) -> Path:
    """Returns a folder by its name, for one such as `.`, which has siblings too."""
    return folder.resolve() if folder.name in ("", "..") else folder


def arms_of(folder: Path) -> dict[str, Path]:
    """Returns the folders of all arms of a federation by name, that of the first at the front.
    Raises InputError for a federation without arms.
    """
    path = folder / ARMS
    if not path.exists():
        raise InputError(
            str(folder),
            "has no arms",
            fix="name the folder that `entrenous federation new --arm` made, or leave --arms out",
        )
    try:
        names = msgspec.convert(read_json(path)["arms"], dict[str, str])
    except (KeyError, msgspec.ValidationError) as wrong:
        raise InputError(
            str(path),
            f"no list of arms ({wrong})",
            expected='{"arms": {NAME: FOLDER}}, as `federation new --arm` writes it',
        ) from None
    siblings = _named(folder).parent
    return {FIRST: folder, **{name: siblings / other for name, other in names.items()}}


def make_links(folder: Path, uses: int, days: float, an_hour: int) -> str:
    """Makes one link to all arms of a federation. uses, days, an_hour: of each arm, as for
    `make_link`. Raises InputError, before anything is written, where an arm cannot be joined.
    """
    folders = list(arms_of(folder).values())
    for each in folders:
        check_joinable(each)
    # A comma is in no link, and the text stays one word.
    return ",".join(str(make_link(each, uses, days, an_hour)) for each in folders)


def change_all_items(
    folder: Path, more: Items | None, retired: Collection[str]
) -> dict[str, Items]:
    """Changes the list of items of every arm, as `change_items` does. Returns the new lists by the
    names of the arms. Raises InputError, before anything is written, for a change that one of the
    arms refuses.
    """
    changed = {}
    for name, each in arms_of(folder).items():
        # An arm may have got an item, or lost one, by itself before.
        try:
            changed[name] = changed_items(each, more, retired)
        except InputError as why:
            raise _of_arm(name, why) from None
    for file, items in changed.values():
        write_text(file, items.text)
    return {name: items for name, (_, items) in changed.items()}


def _of_arm(name: str, why: InputError) -> InputError:
    return InputError(f"arm {name}: {why.where}", why.problem, expected=why.expected, fix=why.fix)


def compared(server: Path, other: Path) -> Difference:
    """Returns the difference that tests of new rows show between two arms, by the folders of their
    servers: that of `other` less that of `server`. Raises InputError for federations that recommend
    from two lists.
    """
    first = FederationTerms.read(server / TERMS)
    second = FederationTerms.read(other / TERMS)
    # Also by another path, or a copy on another machine.
    if first.run == second.run:
        raise InputError(
            "--against",
            "is the same federation",
            expected="the folder of another arm",
        )
    if first.items_sha256 != second.items_sha256:
        raise InputError(
            "--against",
            f"{other} has another list of items, and ten of few items are hit more often",
            expected="an arm of the same federation",
        )
    return difference_of(_arm(server, first), _arm(other, second))


def _arm(server: Path, terms: FederationTerms) -> Arm:
    """Returns what is known of an arm, by the folder of its server."""
    members = Members.read(server / MEMBERS, terms.users)
    share = 1.0
    # Where no lot decides, everybody may be in each round.
    if terms.by_lot:
        contract = contract_of(terms, own_algorithm(server))
        share = contract.cohort / terms.users
    people = sum(members.ever().values())
    return Arm(noted_tests(server), people, share, terms.sums)
