"""A server that says something else to each: every field of every frame, towards any of the nodes,
alone or in agreement with itself, with and without nodes that tell it all they know.

What it has found: C1, the download that only the victim trains from, and M1, two lists of survivors
(commit 65aafe2); two trained models, each with a quorum (e4ee260). What a run says of an attack is
`judged`'s list: empty, or the rules that it broke."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from adversary import oracle
from adversary.attacks import (
    STAGES,
    Again,
    Attack,
    Dropping,
    Nothing,
    TwoModels,
    Without,
    differing,
    equivocations,
    mutations,
    other_world,
    some_mutations,
    two_lists,
)
from adversary.leaves import (
    declared_structs,
    field_of,
    leaves,
    put_together,
    take_apart,
)
from adversary.oracle import judged
from adversary.world import VICTIM, World
from entrenous_network.frames.request import Responder
from entrenous_network.node import secure_node
from entrenous_network.node.secure_node import SecureSide
from entrenous_network.secure_sum.terms import Floors
from entrenous_network.secure_sum.vector import unpack
from entrenous_network.wire.statement import Head

from entrenous.core.contract.update import STEP

FULL, SLICES = 20_000, 10
QUICK = 40  # attacks of a kind in the quick tests
NOISE = 50.0  # far above what devices send without it
SHOWN = 12  # attacks that a failing test names


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A federation of five nodes, in memory where there is a file system for that."""
    with folder() as place:
        yield World(place)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that goes away."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="adversary-", dir=memory if memory.is_dir() else None))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def assert_nothing_achieved(world: World, attacks: Iterable[Attack]) -> None:
    """Runs attacks, and says of the first ones that break a rule which, and how."""
    found, count = [], 0
    for attack in attacks:
        count += 1
        found += [f"{attack!r}\n    {one.rule}: {one.text}" for one in judged(world, attack)]
    assert count, "no attack was tried"
    assert not found, f"{len(found)} of {count} attacks achieved something:\n" + "\n".join(
        found[:SHOWN]
    )


# ---- the harness itself --------------------------------------------------------------------------


def test_frames_are_put_together_as_they_were(world: World) -> None:
    for frame in world.honest.values():
        assert put_together(take_apart(frame), world.key) == frame


def test_without_an_attack_the_histories_cannot_be_told_apart(world: World) -> None:
    """And all nodes are in one sum, which the server knows, and end with one model."""
    assert judged(world, Nothing()) == []
    trace = world.attempt("a", Nothing())
    (opening,) = oracle.openings(trace, frozenset())
    assert len(opening.weights) == len(world.names)
    assert (opening.vector == trace.watch.totals[0]).all()
    assert len(set(trace.kept.values())) == 1
    assert {one.kind for one in trace.asked} == {*STAGES, "model", "agreed"}


@pytest.mark.parametrize("colluders", [1, 2])
def test_those_who_collude_may_know_the_sum_of_the_others(world: World, colluders: int) -> None:
    attack = Nothing()
    attack.colluders = frozenset(world.names[-colluders:])
    assert judged(world, attack) == []
    (opening,) = oracle.openings(world.attempt("a", attack), attack.colluders)
    assert len(opening.weights) == len(world.names) - colluders


def test_enough_who_collude_do_tell_the_histories_apart(world: World) -> None:
    """Who has three nodes of five has a quorum with any one: the harness sees what that opens."""
    rules = {one.rule for attack in two_lists(world, "consent", 3) for one in judged(world, attack)}
    assert {"smaller-sum", "both-kinds", "told-apart"} <= rules


def test_every_declared_field_is_attacked(world: World) -> None:
    """Of the frames' heads, of the messages of the sum, of the download and of the header of
    tensors.
    """
    asked = {
        field_of(take_apart(frame), path)
        for frame in world.honest.values()
        for path in attacked(frame)
    }
    said = {
        field_of(take_apart(one.answer), path)
        for one in world.attempt("a", Nothing()).asked
        for path in attacked(one.answer)
    }
    heads = {("Head", name) for name in Head.__struct_fields__}
    assert heads <= asked & said
    assert {("array", field.name) for field in world.contract.receives} <= asked
    assert {("tensors", name) for name in ("dtype", "shape", "data_offsets")} <= asked
    messages = [
        kind
        for kind in declared_structs()
        if kind.__module__.endswith(("secure_sum.messages", "secure_sum.merkle"))
    ]
    own = {(kind.__name__, name) for kind in messages for name in kind.__struct_fields__}
    # Of the server's journal, and the parts of a frame: they never travel.
    own = {(kind, name) for kind, name in own if kind not in ("Close", "Signed")}
    # Taken apart into the fields of an advert, and of its sender's entry.
    own -= {("SignedAdvert", "body"), ("SignedAdvert", "entry"), ("LogEntry", "leaf")}
    assert own <= asked | said


def attacked(frame: bytes) -> Iterator[tuple[str | int, ...]]:
    """The fields of a frame."""
    yield from (path for path, _ in leaves(take_apart(frame)))


def test_every_change_of_a_field_is_one(world: World) -> None:
    """No mutation says what the honest server says."""
    for attack in mutations(world, [VICTIM]):
        frame = world.honest[attack.kind, VICTIM]
        assert attack.requests(VICTIM, frame, 0) != [frame], attack


# ---- attacks -------------------------------------------------------------------------------------


def stages_only(attacks: Iterable[Attack]) -> list[Attack]:
    """Those on the stages of a sum."""
    return [
        attack
        for attack in attacks
        if not re.search("^(model|agreed) to|at (model|agreed)", repr(attack))
    ]


def test_one_other_field_tells_nothing(world: World) -> None:
    assert_nothing_achieved(world, stages_only(some_mutations(world, QUICK, seed=36)))


def test_another_download_that_agrees_with_its_header_tells_nothing(world: World) -> None:
    """C1, by single arrays: each array of the download is another, with the hash that follows."""
    arrays = [
        attack
        for attack in mutations(world, [VICTIM])
        if attack.kind == "mask"
        and attack.changed[0].agreed
        and attack.changed[0].path[2] in received(world)
    ]
    assert len(arrays) > 10
    assert_nothing_achieved(world, arrays)


def received(world: World) -> set[str]:
    return {field.name for field in world.contract.receives}


def test_another_world_at_some_stages_tells_nothing(world: World) -> None:
    """C1: one node is shown a loud model where the others have the real one. Every field in which
    both worlds differ, each two of them, the whole download, all fields but one, whole frames; at
    each stage, up to it and from it on."""
    loud = other_world(world, lambda array: array * 8)
    both = world.meant["a"]["mask", VICTIM], loud["a"]["mask", VICTIM]
    download = [path for path in differing(*both) if "arrays" in path]
    assert {path[2] for path in download} >= received(world)
    attacks = stages_only(equivocations(world, loud, [VICTIM]))
    some = [
        attack
        for k, attack in enumerate(attacks)
        if k % 4 == 0 or attack.is_whole_model(received(world))
    ]
    assert any(attack.is_whole_model(received(world)) for attack in some)
    assert_nothing_achieved(world, some)


class Anything:
    """Equal to everything: what a comparison finds that is not made."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


CHECKS = {
    "of each stage's header with what was signed": (
        SecureSide,
        "_as_agreed",
        lambda self, client, frame: None,
    ),
    "of the download with its header": (
        Responder,
        "_is_announced",
        lambda self, model, download: True,
    ),
    "of the download with what was signed": (
        secure_node,
        "announced",
        lambda contract, download: Anything(),
    ),
}


@pytest.mark.parametrize("last", STAGES)
def test_a_second_attempt_says_no_more_than_the_first(world: World, last: str) -> None:
    """Up to the masked input a round may be tried again, with other nodes; then it is over for
    every node.
    """
    attacks = [
        Again(last, stage, world.names[:1], bad)
        for stage in ("advert", "mask")
        for bad in ((), world.names[-1:])
    ]
    assert_nothing_achieved(world, attacks)
    done = {
        one.kind for one in world.attempt("a", attacks[0]).asked if one.turn and not one.refused
    }
    assert ("unmask" in done) == (STAGES.index(last) < STAGES.index("mask"))


@pytest.mark.parametrize("left_out", CHECKS)
def test_any_two_of_the_three_comparisons_of_the_model_are_enough(
    world: World, left_out: str
) -> None:
    """Each of them stands for a lie that another may not see; so each is there, whatever the others
    do.
    """
    loud = other_world(world, lambda array: array * 8)
    attacks = [
        attack for attack in equivocations(world, loud, [VICTIM]) if attack.brings(received(world))
    ]
    assert {("head", "model") in attack.fields for attack in attacks} == {True, False}
    assert_nothing_achieved(world, [Without(attack, *CHECKS[left_out]) for attack in attacks])


def test_no_sum_comes_out_with_less_noise_than_was_promised() -> None:
    """M6: whoever the server says is missing, and however many: the noise of what opens is
    measured. Shares are for the four people of a sum.
    """
    protect = {"noise": NOISE, "noise_by": "devices"}
    floors = Floors(people=4)
    with folder() as place:
        made = World(place, floors=floors, items=200, profile="private", protect=protect)
        opened = Counter[int]()
        for count in range(len(made.names) - 1):
            for stage in ("advert", "share", "mask"):
                trace = made.attempt("a", Dropping(stage, made.names[:count]))
                for one in oracle.openings(trace, frozenset()):
                    opened[count] += 1
                    assert noise_of(one, made) > 0.9 * NOISE, (count, stage)
        # Four people of five, and no fewer.
        assert opened == {0: 3, 1: 3}


def noise_of(opening: oracle.Opening, world: World) -> float:
    """The standard deviation of the numbers of a sum, which are far smaller without noise."""
    total = unpack(opening.vector, world.contract.empty_total())
    sent = [array.ravel() for array in (*total.rows.values(), *total.dense.values())]
    return float(np.std(np.concatenate(sent) * STEP))


@pytest.mark.parametrize("nodes", [4, 5, 7, 9])
def test_two_lists_open_no_second_sum(nodes: int) -> None:
    """M1: two groups are shown two lists of those who shared, masked or consented; one node
    colludes.
    """
    stages = ("share", "mask", "consent") if nodes <= 5 else ("consent",)
    half = (nodes - 1) // 2
    sizes = {half, nodes - 1 - half}
    with folder() as place:
        made = World(place, nodes)
        attacks = [
            attack
            for stage in stages
            for attack in two_lists(made, stage, 1)
            if len(attack.group) in sizes
        ]
        assert_nothing_achieved(made, attacks)


def test_a_smaller_roster_allows_for_no_fewer_in_league() -> None:
    """Two may be in league of eleven. The server leaves one of the others out, and shows the rest
    two lists.
    """
    with folder() as place:
        made = World(place, nodes=11)
        attacks = [
            attack for attack in two_lists(made, "consent", 2, absent=1) if len(attack.group) == 4
        ]
        assert_nothing_achieved(made, attacks)


def test_changed_boxes_give_the_server_nothing(world: World) -> None:
    """Towards one node, and towards all but one that colludes."""
    attacks = [
        attack
        for victims, colluders in (([VICTIM], ()), (world.names[:-1], world.names[-1:]))
        for attack in mutations(world, victims, colluders)
        if "boxes" in attack.changed[0].path
    ]
    assert len(attacks) > 4 * QUICK
    assert_nothing_achieved(world, attacks[::8])


def test_the_trained_model_is_the_same_for_all(world: World) -> None:
    """No honest node ends with other bytes than the others, whatever one of them is sent at the
    end.
    """
    attacks = [attack for attack in mutations(world, [VICTIM]) if attack.kind not in STAGES]
    loud = [
        attack for attack in attacks if attack.changed[0].name in ("loud", "zero", "last doubled")
    ]
    assert {attack.kind for attack in loud} == {"model", "agreed"}
    assert_nothing_achieved(world, loud)


def test_no_two_trained_models_are_agreed_on(world: World) -> None:
    """All nodes are given two models, one after the other, and sign that they have taken either."""
    assert_nothing_achieved(world, [TwoModels(world, [VICTIM]), TwoModels(world, world.names[:2])])


# ---- all of it -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(SLICES))
def test_20000_mutations_tell_nothing(world: World, part: int) -> None:
    """Every field once with every other value, towards one node, two, all others, all; then two
    fields at once, with and without a node that colludes."""
    attacks = list(some_mutations(world, FULL, seed=2026))
    assert len(attacks) == FULL
    assert_nothing_achieved(world, stages_only(attacks[part::SLICES]))
