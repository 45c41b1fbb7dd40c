"""Attacks: one field of one kind of frame towards some nodes; another world for some nodes; two
lists for two groups of nodes and some who collude with the server."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import combinations
from typing import Any

import numpy as np
from adversary.changes import Change, apply, changes, same
from adversary.leaves import (
    Opened,
    Where,
    leaves,
    put_together,
    take_apart,
    with_value,
)
from adversary.watch import Watch, _put
from adversary.world import ATTACKED, Attack, Frames, World, changed_state, frames_of
from entrenous_network.frames.frames import opened
from entrenous_network.server import server as server_module
from entrenous_network.server.server_folder import ServerFolder

STAGES = ("advert", "share", "mask", "consent", "unmask")


class Nothing(Attack):
    """An honest server and honest nodes."""


class Mutation(Attack):
    """Fields of the frames of one kind are others, towards some nodes."""

    def __init__(
        self,
        world: World,
        kind: str,
        changed: Sequence[Change],
        victims: Sequence[str],
        colluders: Sequence[str] = (),
    ) -> None:
        self.world, self.kind, self.changed = world, kind, tuple(changed)
        self.victims, self.colluders = frozenset(victims), frozenset(colluders)
        self.first = sorted(victims)[0]

    def __repr__(self) -> str:
        said = [
            f"{'.'.join(map(str, one.path))}: {one.name}{', agreed' if one.agreed else ''}"
            for one in self.changed
        ]
        return f"{self.kind} to {sorted(self.victims)}: {'; '.join(said)}"

    def requests(self, node: str, frame: bytes, turn: int) -> list[bytes]:
        found = opened(frame)
        if node not in self.victims or found.head.kind != self.kind or found.head.round < ATTACKED:
            return [frame]
        return [self.lie(take_apart(frame))]

    def lie(self, frame: Opened) -> bytes:
        """The frame with the changes, signed by the operator."""
        for one in self.changed:
            try:
                frame = apply(frame, self.of_this_attempt(one), self.world.contract)
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change has removed the field
        return put_together(frame, self.world.key)

    def of_this_attempt(self, change: Change) -> Change:
        """The same with what the other frame says in this attempt: vectors are masked otherwise in
        another.
        """
        if change.name not in (OF_ANOTHER, OF_BEFORE):
            return change
        frame = elsewhere(self.world, self.kind, self.first)[change.name]
        return change._replace(value=dict(leaves(frame))[change.path])


OF_ANOTHER, OF_BEFORE = "another node's", "an earlier round's"


def elsewhere(world: World, kind: str, node: str) -> dict[str, Opened]:
    """Frames of the same kind from which a node's frame may take values."""
    other = next(name for name in world.names if name != node)
    places = {
        OF_ANOTHER: world.honest.get((kind, other)),
        OF_BEFORE: world.earlier.get((kind, node)),
    }
    return {name: take_apart(said) for name, said in places.items() if said is not None}


def mutations(
    world: World, victims: Sequence[str], colluders: Sequence[str] = ()
) -> Iterator[Mutation]:
    """Every change of one field of every kind of frame towards `victims`, from the declarations."""
    first = victims[0]
    for (kind, node), frame in world.honest.items():
        if node != first:
            continue
        for change in changes(take_apart(frame), elsewhere(world, kind, first), world.contract):
            yield Mutation(world, kind, [change], victims, colluders)


def some_mutations(world: World, count: int, seed: int) -> Iterator[Mutation]:
    """So many mutations: every single one towards one node, two, all, and then two fields at
    once.
    """
    draw = random.Random(seed)
    names = world.names
    towards = [names[:1], names[:2], names[1:], names]
    singles = [list(mutations(world, victims)) for victims in towards]
    flat = [one for some in singles for one in some]
    draw.shuffle(flat)
    yield from flat[:count]
    for _ in range(count - len(flat)):
        some = draw.choice(singles)
        one = draw.choice(some)
        others = [other for other in some if other.kind == one.kind]
        two = [*one.changed, *draw.choice(others).changed]
        colluders = draw.choice([(), names[-1:]])
        yield Mutation(world, one.kind, two, sorted(one.victims), colluders)


class Dropping(Attack):
    """The server says that some nodes did not answer a stage."""

    def __init__(self, stage: str, dropped: Sequence[str]) -> None:
        self.stage, self.dropped = stage, frozenset(dropped)

    def __repr__(self) -> str:
        return f"{sorted(self.dropped)} are said not to have answered `{self.stage}`"

    def answers(self, node: str, frame: bytes, answer: bytes, turn: int) -> list[bytes]:
        found = opened(frame).head
        return (
            []
            if node in self.dropped and found.kind == self.stage and found.round == ATTACKED
            else [answer]
        )


# ---- a second world that agrees with itself ------------------------------------------------------


class Without(Attack):
    """An attack on nodes that lack one of their checks. place, name: of the check; instead: what is
    there.
    """

    def __init__(self, attack: Attack, place: Any, name: str, instead: Any) -> None:
        self.attack, self.place, self.name, self.instead = attack, place, name, instead
        self.colluders, self.passes, self.lenient = attack.colluders, attack.passes, attack.lenient

    def __repr__(self) -> str:
        return f"without {self.name}: {self.attack!r}"

    def requests(self, node: str, frame: bytes, turn: int) -> list[bytes]:
        return self.attack.requests(node, frame, turn)

    def answers(self, node: str, frame: bytes, answer: bytes, turn: int) -> list[bytes]:
        return self.attack.answers(node, frame, answer, turn)

    def within(self, undo: ExitStack, watch: Watch, world: World) -> None:
        self.attack.within(undo, watch, world)
        _put(undo, self.place, self.name, self.instead)


class OtherModel(Attack):
    """An honest server with another model."""

    def __init__(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        self._change = change

    def within(self, undo: ExitStack, watch: Watch, world: World) -> None:
        made = server_module.round_work

        def round_work(*given: Any) -> Any:
            attacked = next(number for number in given if isinstance(number, int)) >= ATTACKED
            return made(*(_other_state(one, self._change) if attacked else one for one in given))

        _put(undo, server_module, "round_work", round_work)


def _other_state(given: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A server's state with other numbers; anything else as it is."""
    is_state = isinstance(given, tuple) and hasattr(given, "_fields")
    return changed_state(given, change) if is_state else given


class Equivocation(Attack):
    """Some nodes see another world: at some stages, some fields are those that an honest server
    with another model would send. The fields are found by comparing both worlds, not listed
    here.
    """

    def __init__(
        self,
        world: World,
        other: dict[str, Frames],
        stages: Sequence[str],
        fields: Sequence[Where],
        victims: Sequence[str],
        whole: bool = False,
    ) -> None:
        self.world, self.other, self.stages, self.fields = (
            world,
            other,
            tuple(stages),
            tuple(fields),
        )
        self.victims, self.whole = frozenset(victims), whole

    def __repr__(self) -> str:
        said = "all" if self.whole else ", ".join(".".join(map(str, path)) for path in self.fields)
        return f"another world at {'+'.join(self.stages)} to {sorted(self.victims)}: {said}"

    def brings(self, arrays: set[str]) -> bool:
        """Whether it is another download as a whole, at the stage that trains, and nothing else but
        what the header says of it."""
        own = {path for path in self.fields if path[0] == "body"}
        heads = set(self.fields) - own
        whole = own == {("body", "arrays", name) for name in arrays}
        return self.stages == ("mask",) and whole and heads <= {("head", "model")}

    def is_whole_model(self, arrays: set[str]) -> bool:
        """Whether it is C1: all of the download and what the header says of it, at the stage that
        trains or at every one."""
        own = {str(path[2]) for path in self.fields if path[:2] == ("body", "arrays")}
        stages = (("mask",), STAGES)
        return self.stages in stages and own == arrays and ("head", "model") in self.fields

    def requests(self, node: str, frame: bytes, turn: int) -> list[bytes]:
        kind = opened(frame).head.kind
        theirs = self.other[self.world.history].get((kind, node))
        if (
            node not in self.victims
            or kind not in self.stages
            or theirs is None
            or opened(frame).head.round < ATTACKED
        ):
            return [frame]
        if self.whole:
            return [theirs]
        found, said = take_apart(frame), dict(leaves(take_apart(theirs)))
        for path in self.fields:
            if path in said:
                found = with_value(found, path, said[path])
        return [put_together(found, self.world.key)]


def other_world(world: World, change: Callable[[np.ndarray], np.ndarray]) -> dict[str, Frames]:
    """The frames of the attacked round from an honest server with another model, to honest nodes,
    by history."""
    found = {
        history: frames_of(world.attempt(history, OtherModel(change))) for history in world.start
    }
    world.history = "a"
    return found


def equivocations(
    world: World, other: dict[str, Frames], victims: Sequence[str]
) -> Iterator[Equivocation]:
    """At each stage, and from the first up to it, and from it to the last: each field in which the
    worlds differ, each two of them, and all of them."""
    for at, stage in enumerate((*STAGES, "model")):
        differ = differing(world.meant["a"][stage, victims[0]], other["a"][stage, victims[0]])
        for fields in _together(differ):
            yield Equivocation(world, other, (stage,), fields, victims)
        heads = [path for path in differ if path[0] == "head"]
        model = [*heads, *(("body", "arrays", field.name) for field in world.contract.receives)]
        for span in (STAGES[: at + 1], STAGES[at:], (stage,)):
            yield Equivocation(world, other, span, (), victims, whole=True)
            yield Equivocation(world, other, span, heads, victims)
            yield Equivocation(world, other, span, model, victims)


def _together(differ: list[Where]) -> list[tuple[Where, ...]]:
    """Each field, the download as a whole, each two of these, everything but one of them, and
    everything.
    """
    download = tuple(path for path in differ if path[:2] == ("body", "arrays") and len(path) == 3)
    parts = [(path,) for path in differ[:8]]
    parts += [download] if len(download) > 1 else []
    some = [*parts, *((*one, *other) for one, other in combinations(parts, 2))]
    some += [tuple(path for path in differ if path not in part) for part in parts]
    some.append(tuple(differ))
    return list(dict.fromkeys(tuple(dict.fromkeys(fields)) for fields in some))


def differing(frame: bytes, other: bytes) -> list[Where]:
    """The fields in which two frames differ, but for what is fresh in every frame or follows from
    the rest; the head's first, then whole arrays."""
    said = dict(leaves(take_apart(other)))
    fresh = {("head", "size"), ("head", "digest")}
    found = []
    for path, value in leaves(take_apart(frame)):
        if path in fresh or path not in said or "said" in path:
            continue
        if not isinstance(value, list | dict) and not same(value, said[path]):
            found.append(path)
    return sorted(
        found, key=lambda path: (path[0] != "head", path[:2] != ("body", "arrays"), len(path))
    )


# ---- two lists -----------------------------------------------------------------------------------


class TwoLists(Attack):
    """From one stage on, two groups of nodes see two different attempts, which were one before: in
    the second the server says that `dropped` did not answer. Who colludes takes part in both; who
    is absent, in neither.
    """

    passes = 2

    def __init__(
        self,
        world: World,
        stage: str,
        dropped: Sequence[str],
        group: Sequence[str],
        colluders: Sequence[str],
        absent: Sequence[str] = (),
    ) -> None:
        self.world, self.stage, self.absent = world, stage, frozenset(absent)
        self.dropped, self.group, self.colluders = (
            frozenset(dropped),
            frozenset(group),
            frozenset(colluders),
        )

    def __repr__(self) -> str:
        return (
            f"two attempts from `{self.stage}` on: {sorted(self.group)} see one, the others one"
            f" without {sorted(self.dropped)}; with {sorted(self.colluders)}, without"
            f" {sorted(self.absent)}"
        )

    def requests(self, node: str, frame: bytes, turn: int) -> list[bytes]:
        kind = opened(frame).head.kind
        if kind not in STAGES or node in self.absent:
            return []
        if STAGES.index(kind) < STAGES.index(self.stage) or node in self.colluders:
            return [frame]
        return [frame] if (node in self.group) == (turn == 0) else []

    def answers(self, node: str, frame: bytes, answer: bytes, turn: int) -> list[bytes]:
        before = STAGES[STAGES.index(self.stage) - 1]
        kind = opened(frame).head.kind
        return [] if turn and node in self.dropped and kind == before else [answer]


def two_lists(world: World, stage: str, colluders: int, absent: int = 0) -> Iterator[TwoLists]:
    """Every size of the two groups. The first node is the one that is left out, and it is in the
    first. absent: how many are in neither."""
    bad = world.names[len(world.names) - colluders :]
    there = world.names[: len(world.names) - colluders]
    good, gone = there[: len(there) - absent], there[len(there) - absent :]
    for size in range(1, len(good)):
        yield TwoLists(world, stage, good[:1], good[:size], bad, gone)


class Again(Attack):
    """The round is tried a second time, after the first attempt went up to a stage; in the second
    the server says that some did not answer."""

    passes = 2
    attempts = 2

    def __init__(
        self, last: str, stage: str, dropped: Sequence[str], colluders: Sequence[str] = ()
    ) -> None:
        self.last, self.stage = last, stage
        self.dropped, self.colluders = frozenset(dropped), frozenset(colluders)

    def __repr__(self) -> str:
        return (
            f"a second attempt after `{self.last}`, without {sorted(self.dropped)} from"
            f" `{self.stage}` on"
        )

    def requests(self, node: str, frame: bytes, turn: int) -> list[bytes]:
        kind = opened(frame).head.kind
        if kind not in STAGES or opened(frame).head.round < ATTACKED:
            return []
        return [frame] if turn or STAGES.index(kind) <= STAGES.index(self.last) else []

    def answers(self, node: str, frame: bytes, answer: bytes, turn: int) -> list[bytes]:
        return (
            []
            if turn and node in self.dropped and opened(frame).head.kind == self.stage
            else [answer]
        )

    def within(self, undo: ExitStack, watch: Watch, world: World) -> None:
        _put(undo, ServerFolder, "newest_attempt", lambda folder, number, first=0: watch.turn)


class TwoModels(Attack):
    """The server runs twice, with two trained models at the end; every node is given both, and some
    are told that all have agreed on the second one."""

    passes = 2

    def __init__(self, world: World, group: Sequence[str], colluders: Sequence[str] = ()) -> None:
        self.world, self.group, self.colluders = world, frozenset(group), frozenset(colluders)
        self.turn = 0

    def __repr__(self) -> str:
        return (
            f"two trained models, of which {sorted(self.group)} are told that all have the second"
        )

    def requests(self, node: str, frame: bytes, turn: int) -> list[bytes]:
        self.turn = turn
        kind = opened(frame).head.kind
        return [] if turn and kind == "agreed" and node not in self.group else [frame]

    def within(self, undo: ExitStack, watch: Watch, world: World) -> None:
        made = server_module.FederationServer._work_of
        self.turn = 0

        def work_of(server: Any, given: Any) -> Any:
            if self.turn:
                given = given._replace(state=_other_state(given.state, lambda array: array + 1))
            return made(server, given)

        _put(undo, server_module.FederationServer, "_work_of", work_of)
