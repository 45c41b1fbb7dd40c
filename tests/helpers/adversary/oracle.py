"""What no attack may achieve, and what an adversary can work out from all that it saw.

`judged` holds a pair of attempts, which differ by two exchanged histories alone, against:

- told-apart: a distinguisher says rightly whose history is whose
- smaller-sum: known keys open another sum of honest nodes than the one that these agreed on
- both-kinds: honest nodes have given shares of the seed and of the mask key of an honest node
- outsider: the seed of a node is known that an agreed list of survivors does not have
- models: honest nodes answered `mask` for different downloads
- bytes: honest nodes have different models of one round at the end
- blame: a refusal names an honest node as the one who lied
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from adversary.leaves import Arrays, leaves, take_apart
from adversary.watch import OWN, Masking, add_masks, combine, opened_vector, public_of
from adversary.world import ATTACKED, Asked, Attack, Trace, World
from entrenous_network.frames.frames import opened, reason
from entrenous_network.secure_sum import messages

from entrenous.core.contract.declared import Contract

LONG = 100_000  # bytes of an answer that is no message but a vector
EXCUSED = (
    "forged",
    "the server",
    "did not sign",
)  # a text with these words says who else it may be


class Found(NamedTuple):
    """Something that an attack has achieved. rule: which of the above; text: how."""

    rule: str
    text: str


class Opening(NamedTuple):
    """A combination of honest nodes' vectors that the adversary can compute. weights: by the place
    of the masking in the trace; vector: the numbers."""

    weights: dict[int, int]
    vector: np.ndarray


Guess = str | None  # "a", "b", or None: at chance
Distinguisher = Callable[[Trace, Trace, Trace, frozenset[str]], Guess]


# ---- what the adversary knows --------------------------------------------------------------------


def answered(trace: Trace, kind: str, honest: Collection[str]) -> list[tuple[int, Asked]]:
    """The questions of a kind that honest nodes have answered, with their places in the trace."""
    numbered = enumerate(trace.asked)
    return [(k, one) for k, one in numbered if one.node in honest and one.head.kind == kind]


def known_secrets(trace: Trace, colluders: frozenset[str]) -> dict[bytes, str]:
    """The secrets that follow from what was said, by whose they are: those of colluders, and of
    others whatever enough shares give."""
    if "secrets" not in trace.worked_out:
        trace.worked_out["secrets"] = _known_secrets(trace, colluders)
    return dict(trace.worked_out["secrets"])


def _known_secrets(trace: Trace, colluders: frozenset[str]) -> dict[bytes, str]:
    splits = trace.watch.splits
    found = {one.secret: one.node for one in splits if one.node in colluders}
    for one, plain in zip(splits, said_shares(trace, colluders), strict=True):
        own = _shares_of_colluders(trace, one.asked, one.shares, colluders)
        seen = {**own, **plain}
        if len(seen) > 1 and combine(seen) == one.secret:
            found[one.secret] = one.node
    return found


def said_shares(trace: Trace, colluders: frozenset[str]) -> list[dict[int, bytes]]:
    """Of each secret, the shares that honest nodes have said: in plain, or by the key of a box, or
    by the secret that gives it; but for those of colluders, which these have anyway."""
    if "shares" not in trace.worked_out:
        trace.worked_out["shares"] = _said_shares(trace, colluders)
    return list(trace.worked_out["shares"])


def _said_shares(trace: Trace, colluders: frozenset[str]) -> list[dict[int, bytes]]:
    said = [bytes(opened(one.answer).body) for one in trace.asked if one.node not in colluders]
    whole = b"".join(body for body in said if len(body) < LONG)
    keys = known_keys(trace, [secret for secret in trace.watch.drawn if secret in whole])
    whole += b"".join(box.plain for box in trace.watch.boxes if box.key in whole or box.key in keys)
    found = []
    for one in trace.watch.splits:
        own = _shares_of_colluders(trace, one.asked, one.shares, colluders)
        found.append(
            {x: share for x, share in one.shares.items() if share in whole and x not in own}
        )
    return found


def _shares_of_colluders(
    trace: Trace, asked: int, shares: Mapping[int, bytes], colluders: frozenset[str]
) -> dict[int, bytes]:
    """The shares in the boxes that a node has sent to those who collude."""
    question = trace.asked[asked]
    if question.head.kind != "share":
        return {}
    names = roster_of(question.sent)
    return {
        x: share for x, share in shares.items() if x <= len(names) and names[x - 1] in colluders
    }


@lru_cache(maxsize=256)
def roster_of(frame: bytes) -> list[str]:
    """The names of a roster, in its order."""
    found = (value for path, value in leaves(take_apart(frame)) if path[-1] == "name")
    return [str(name) for name in found]


def known_keys(trace: Trace, secrets: Collection[bytes]) -> set[bytes]:
    """The mask keys that secrets give: their own, and those of pairs of which one half is known."""
    publics = {public_of(secret) for secret in (*secrets, OWN)}
    commons = {common for common, pair in trace.watch.agreed.items() if pair & publics}
    known = {*secrets, *commons}
    return {key for key, sources in trace.watch.derived.items() if sources & known}


def maskings(trace: Trace, colluders: frozenset[str]) -> list[Masking]:
    """The masked vectors that have left honest nodes."""
    sent = (one for one in trace.watch.maskings if trace.asked[one.asked].head.kind == "mask")
    return [one for one in sent if one.node not in colluders]


def openings(trace: Trace, colluders: frozenset[str]) -> list[Opening]:
    """A basis of all combinations of honest nodes' vectors that known keys unmask."""
    if "openings" not in trace.worked_out:
        trace.worked_out["openings"] = _openings(trace, colluders)
    return list(trace.worked_out["openings"])


def _openings(trace: Trace, colluders: frozenset[str]) -> list[Opening]:
    masked = maskings(trace, colluders)
    known = known_keys(trace, known_secrets(trace, colluders))
    unknown = sorted({key for one in masked for key in (*one.plus, *one.minus)} - known)
    place = {key: k for k, key in enumerate(unknown)}
    rows = []
    for one in masked:
        row = [0] * len(unknown)
        for keys, sign in ((one.plus, 1), (one.minus, -1)):
            for key in keys:
                if key in place:
                    row[place[key]] += sign
        rows.append(row)
    return [_opening(masked, weights, known) for weights in left_null_space(rows)]


def _opening(masked: list[Masking], weights: list[int], known: set[bytes]) -> Opening:
    """The combination itself, from the words that were sent and the known keys alone."""
    whole = np.zeros_like(masked[0].after)
    for one, weight in zip(masked, weights, strict=True):
        words = one.after.copy()
        plus = [key for key in one.plus if key in known]
        minus = [key for key in one.minus if key in known]
        add_masks(words, minus, plus)
        whole += (words.astype(object) * weight % (1 << 64)).astype(whole.dtype)
    return Opening({k: weight for k, weight in enumerate(weights) if weight}, opened_vector(whole))


def left_null_space(rows: list[list[int]]) -> list[list[int]]:
    """A basis of all weights, whole numbers, under which the rows add up to nothing."""
    n = len(rows)
    left = [
        [Fraction(value) for value in row] + [Fraction(k == at) for k in range(n)]
        for at, row in enumerate(rows)
    ]
    width, done = (len(rows[0]) if rows else 0), 0
    for column in range(width):
        pivot = next((k for k in range(done, n) if left[k][column]), None)
        if pivot is None:
            continue
        left[done], left[pivot] = left[pivot], left[done]
        for k in range(done + 1, n):
            factor = left[k][column] / left[done][column]
            if factor:
                left[k] = [a - factor * b for a, b in zip(left[k], left[done], strict=True)]
        done += 1
    found = []
    for row in left[done:]:
        weights = row[width:]
        scale = int(np.lcm.reduce([one.denominator for one in weights]))
        found.append([int(one * scale) for one in weights])
    return found


# ---- distinguishers: whose history is whose? -----------------------------------------------------


def by_openings(trace: Trace, a: Trace, b: Trace, colluders: frozenset[str]) -> Guess:
    """Combines shares of both kinds, unmasks what they unmask, and compares it with what either
    history would have given."""
    for opening in openings(trace, colluders):
        either = [_expected(world, opening.weights, colluders) for world in (a, b)]
        guess = _which(opening.vector, *either)
        if guess:
            return guess
    return None


def by_totals(trace: Trace, a: Trace, b: Trace, colluders: frozenset[str]) -> Guess:
    """Compares each total of the server with the sums that either history would have given: of all
    that sent a vector, and of all but one. A model that only the victim has shows in the first."""
    for total in trace.watch.totals:
        for left_out in (None, *range(len(b.watch.maskings))):
            either = [_sum_without(world, left_out) for world in (a, b)]
            guess = _which(total, *either)
            if guess:
                return guess
    return None


def by_differences(trace: Trace, a: Trace, b: Trace, colluders: frozenset[str]) -> Guess:
    """Subtracts the server's totals from each other, and compares the difference with single
    vectors.
    """
    totals = trace.watch.totals
    for first in totals:
        for second in totals:
            if first.shape != second.shape or np.array_equal(first, second):
                continue
            for one, other in zip(a.watch.maskings, b.watch.maskings, strict=False):
                guess = _which(
                    first - second, opened_vector(one.before), opened_vector(other.before)
                )
                if guess:
                    return guess
    return None


def by_same_masks(trace: Trace, a: Trace, b: Trace, colluders: frozenset[str]) -> Guess:
    """Subtracts two vectors of one node under the same masks."""
    masked = maskings(trace, colluders)
    for one in masked:
        for other in masked:
            same = one.plus == other.plus and one.minus == other.minus
            if one is not other and same and not np.array_equal(one.after, other.after):
                return "a" if trace is a else "b"
    return None


def by_behaviour(trace: Trace, a: Trace, b: Trace, colluders: frozenset[str]) -> Guess:
    """Compares lengths, kinds and words of all answers, and what the server made of them."""
    either = [behaviour(world) for world in (a, b)]
    if either[0] == either[1]:
        return None
    return "a" if behaviour(trace) == either[0] else "b"


DISTINGUISHERS: tuple[Distinguisher, ...] = (
    by_openings,
    by_totals,
    by_differences,
    by_same_masks,
    by_behaviour,
)


def behaviour(trace: Trace) -> list[tuple[str, str, str, int, str]]:
    """All answers but for the bytes of messages: to whom, of which kind, how long."""
    found = []
    for one in trace.asked:
        body = opened(one.answer).body
        found.append((one.node, one.kind, one.head.kind, len(body), one.refused))
    return found


def _which(seen: np.ndarray, a: np.ndarray | None, b: np.ndarray | None) -> Guess:
    """Which of two expectations is what was seen, if they differ."""
    like_a = a is not None and np.array_equal(seen, a)
    like_b = b is not None and np.array_equal(seen, b)
    if like_a == like_b:
        return None
    return "a" if like_a else "b"


def _expected(
    world: Trace, weights: Mapping[int, int], colluders: frozenset[str]
) -> np.ndarray | None:
    masked = maskings(world, colluders)
    if any(k >= len(masked) for k in weights):
        return None
    whole = np.zeros(len(masked[0].before), np.int64)
    for k, weight in weights.items():
        whole += opened_vector(masked[k].before) * weight
    return whole


def _sum_without(world: Trace, left_out: int | None) -> np.ndarray | None:
    vectors = [
        opened_vector(one.before) for k, one in enumerate(world.watch.maskings) if k != left_out
    ]
    return np.sum(vectors, axis=0) if vectors else None


def advantage(a: Trace, b: Trace, colluders: frozenset[str]) -> tuple[float, str]:
    """How much better than chance the distinguishers tell the histories: 0 at chance, 1 always
    right; and the one that did it."""
    right, by = 0, ""
    for name, trace in (("a", a), ("b", b)):
        for distinguish in DISTINGUISHERS:
            guess = distinguish(trace, a, b, colluders)
            if guess:
                right += 1 if guess == name else -1
                by = distinguish.__name__
                break
    return right / 2, by


# ---- rules ---------------------------------------------------------------------------------------


def judged(world: World, attack: Attack) -> list[Found]:
    """Runs an attack, and returns all that it has achieved.

    Where the agreed sum has only one of the two whose histories are exchanged, it tells them apart
    by itself, as it may: then two others are exchanged."""
    bad = attack.colluders
    a = world.attempt("a", attack)
    found = of_one(world, a, bad)
    for history, pair in world.exchanged.items():
        if not fair(a, pair, bad):
            continue
        b = world.attempt(history, attack)
        found += [one for one in of_one(world, b, bad) if one not in found]
        gained, by = advantage(a, b, bad)
        if gained:
            found.append(Found("told-apart", f"advantage {gained:.1f}, {by}"))
        break
    return found


def fair(trace: Trace, pair: Collection[str], colluders: frozenset[str]) -> bool:
    """Whether each sum that came out has both of a pair, or none of them. One node alone is never
    what was agreed on."""
    masked = maskings(trace, colluders)
    some = [{masked[k].node for k in one.weights} for one in openings(trace, colluders)]
    return all(len(names & set(pair)) != 1 or len(names) < 2 for names in some)


def of_one(world: World, trace: Trace, colluders: frozenset[str]) -> list[Found]:
    """The rules that one attempt may break by itself."""
    honest = [name for name in world.names if name not in colluders]
    return [
        *_sums(world, trace, colluders),
        *_kinds(trace, colluders),
        *_outsiders(trace, colluders, honest),
        *_models(world.contract, trace, honest),
        *_bytes(trace, honest),
        *_blame(trace, honest),
    ]


def _sums(world: World, trace: Trace, colluders: frozenset[str]) -> list[Found]:
    """Whatever opens is a sum of all who agreed on it, and of enough. Several may come out if no
    node is in two.
    """
    masked = maskings(trace, colluders)
    some = [{masked[k].node for k in one.weights} for one in openings(trace, colluders)]
    if sum(map(len, some)) > len(set[str]().union(*some)):
        return [
            Found("smaller-sum", f"{len(some)} sums open, of {[sorted(names) for names in some]}")
        ]
    found = []
    honest = set(world.names) - colluders
    revealed = {one.node for _, one in answered(trace, "unmask", honest)}
    agreed = {
        one.node: agreed_list(trace, number) for number, one in answered(trace, "consent", revealed)
    }
    for one, names in zip(openings(trace, colluders), some, strict=True):
        theirs = set(names)
        for node in names & agreed.keys():
            theirs |= honest & (agreed[node] or revealed)
        few = len(names) + len(colluders) < world.floors.people
        if (
            len(set(one.weights.values())) > 1
            or len(names) < len(one.weights)
            or theirs != names
            or few
        ):
            found.append(
                Found(
                    "smaller-sum",
                    f"a sum of {sorted(names)} opens, where {sorted(theirs)} were agreed on",
                )
            )
    return found


def _kinds(trace: Trace, colluders: frozenset[str]) -> list[Found]:
    """Of no honest node are shares of both kinds said by honest nodes, however few."""
    said: dict[tuple[str, int], int] = {}
    for one, shares in zip(trace.watch.splits, said_shares(trace, colluders), strict=True):
        if one.node not in colluders and shares:
            said[one.node, one.asked] = said.get((one.node, one.asked), 0) + 1
    both = sorted({node for (node, _), kinds in said.items() if kinds > 1})
    return [
        Found("both-kinds", f"honest nodes gave shares of both secrets of {node}") for node in both
    ]


def _outsiders(trace: Trace, colluders: frozenset[str], honest: Collection[str]) -> list[Found]:
    """Nobody's seed comes out whom a list has left out under which honest nodes have given
    shares.
    """
    known = known_secrets(trace, colluders)
    gave = {one.node for _, one in answered(trace, "unmask", honest)}
    seeds = {
        known[secret]
        for secret in known
        if known[secret] in honest and not _is_mask_key(trace, secret)
    }
    out = set[str]()
    for number, one in answered(trace, "consent", gave):
        names = agreed_list(trace, number)
        same = {
            node for node in seeds if shared_under(trace, node) == shared_under(trace, one.node)
        }
        out |= same - names if names is not None else set()
    return [
        Found("outsider", f"the seed of {node}, whom a list of survivors does not have")
        for node in sorted(out)
    ]


def _is_mask_key(trace: Trace, secret: bytes) -> bool:
    public = public_of(secret)
    return any(
        public in bytes(opened(one.answer).body) for one in trace.asked if one.head.kind == "advert"
    )


def shared_under(trace: Trace, node: str) -> list[str]:
    """The names of the roster that a node has shared under last."""
    own = [one for one in trace.asked if one.node == node and one.head.kind == "share"]
    return roster_of(own[-1].sent) if own else []


def agreed_list(trace: Trace, number: int) -> set[str] | None:
    """The names of the survivors in a question for consent, if it has a list of them, by the roster
    that the same node has shared under. number: of the question."""
    asked = trace.asked[number]
    bits = bytes(opened(asked.sent).body)
    own = [
        one for one in trace.asked[:number] if one.node == asked.node and one.head.kind == "share"
    ]
    if not own:
        return None
    names = roster_of(own[-1].sent)
    places = messages.from_bits(bits, len(names))
    return None if places is None else {names[place] for place in places}


def download_digest(contract: Contract, frame: bytes) -> str:
    """The sha256 of what a frame downloads: of the arrays, not of what a header claims."""
    body = take_apart(frame).body
    digest = hashlib.sha256()
    if isinstance(body, Arrays):
        for field in contract.receives:
            digest.update(np.ascontiguousarray(body.arrays[field.name]).tobytes())
    return digest.hexdigest()[:12]


def _models(contract: Contract, trace: Trace, honest: Collection[str]) -> list[Found]:
    digests: dict[str, str] = {}
    for _, one in answered(trace, "mask", honest):
        if one.head.round == ATTACKED:
            digests[one.node] = download_digest(contract, one.sent)
    if len(set(digests.values())) < 2:
        return []
    return [Found("models", f"`mask` was answered for the downloads {digests}")]


def _bytes(trace: Trace, honest: Collection[str]) -> list[Found]:
    models = {name: trace.kept[name] for name in honest}
    by_round: dict[int, set[bytes]] = {}
    for number, model in models.values():
        by_round.setdefault(number, set()).add(model)
    differ = [number for number, some in by_round.items() if len(some) > 1]
    return [
        Found("bytes", f"honest nodes have different models of round {number}") for number in differ
    ]


def _blame(trace: Trace, honest: Collection[str]) -> list[Found]:
    found = []
    for one in trace.asked:
        if one.node in honest and one.refused:
            found += _accused(one.refused, honest, f"{one.node} says of `{one.kind}`")
    return found


def _accused(text: str, honest: Collection[str], who: str) -> list[Found]:
    names = set(re.findall(r"'([^']+)'", text)) & set(honest)
    if not names or any(word in text for word in EXCUSED):
        return []
    return [Found("blame", f"{who}: {reason(text.encode())}: {text.splitlines()[-1]}")]
