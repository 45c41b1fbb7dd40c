"""`Protection`: the limits on the data that leaves devices, as one settings object, and the four
profiles that name combinations of them. `ProtectionInForce`: a protection with the sizes of one
federation: the limits on devices' messages, the choice of users, and the noise in sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, Self, final

import numpy as np
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ..core.contract.declarations import Traits
from ..core.contract.declared import Contract
from ..core.contract.protocols import State
from ..core.contract.settings import Settings
from ..core.contract.update import LIMIT, STEP, Total, Update, fixed, real
from ..core.errors import InputError, did_you_mean
from ..core.keys import fold_name
from ..core.types import Int64Array, UInt64Array
from .adaptive_clip import AdaptiveClip, counting_clip
from .clip import clip, within
from .discrete_gaussian import SEEDED, GaussianTable, gaussian_table, integers, system_words
from .limit import Limit
from .noise import Source, noise, share_of
from .rows import all_rows, padded_rows
from .step import check_step, within_step
from .turnout import Turnout

PROTECT = "--protect"
MOST_GROUPS = 99
# By the program in docs/results/audits.md, "A model of a hundred people".
OF_A_HUNDRED: Final = (
    "the pFPL+ model of 100 people of MovieLens-100K names 0.64 of the hidden half of their"
    " histories with 80 factors, 0.39 with 8, and 0.27 to 0.30 of people who never took part"
)
FEWER_PEOPLE: Final = 100  # in a sum, where fewer than the profile asks for are there
# Standard deviations of a lot, of which it draws more once in a million rounds.
SPREADS: Final = 5
# Of how many people the numbers within these bounds fit a sum in words of 32 bits, at most.
NARROW: Final = {bound: int(LIMIT / bound) - 1 for bound in (32.0, 16.0, 8.0, 4.0)}
# Standard deviations of a share of noise that must lie within the bound: what is cut is no noise.
UNCUT: Final = 8


@final
class Protection(Settings):
    """The limits on what leaves the devices of a federation. The defaults are the profile `paper`,
    which limits nothing but the order of rows.
    """

    clip: float = Field(
        0, ge=0, le=1e6, description="Euclidean length of a device's whole message at most; 0 = any"
    )
    clip_quantile: float = Field(
        0,
        ge=0,
        lt=1,
        description=(
            "share of messages that the clip should leave whole: `clip` is then where it begins,"
            " and each round moves it; 0 = the clip stays"
        ),
    )
    noise: float = Field(
        0,
        ge=0,
        le=1e6,
        description=(
            "standard deviation of the noise in the sum of a round, on every number of it, sent or"
            " not; 0 = none"
        ),
    )
    multiple: float | None = Field(
        None,
        gt=0,
        le=1e3,
        description=(
            "the noise as a multiple of the clip, in place of `noise`: a model decides how large"
            " the numbers of a person are, up to the clip"
        ),
    )
    step: float = Field(
        0,
        ge=0,
        le=1e6,
        description=(
            "how far one round moves each row of the model at most, an item's or that of a whole"
            " network; devices refuse a model that has moved further. 0 = any"
        ),
    )
    noise_by: Literal["devices", "server"] = Field(
        "devices",
        description=(
            "who adds noise: devices, a share each, before sums; or the server, on the sum: the"
            " same distribution, cheap"
        ),
    )
    noise_from: Source = Field(
        "seed",
        description="seed: noise that a run repeats; system: of the operating system's generator",
    )
    lost: float = Field(
        0,
        ge=0,
        lt=1,
        description=(
            "share of devices that may fail to arrive; the noise of the others is still enough"
        ),
    )
    rows: Literal["as sent", "sorted", "padded", "all"] = Field(
        "sorted",
        description=(
            "rows of a message: as sent = in the order of training; sorted by item; padded ="
            " sorted, with rows of zeros up to a power of two; all = one for each item of the"
            " catalogue, as noise needs"
        ),
    )
    sampling: Literal["fixed", "poisson"] = Field(
        "fixed",
        description=(
            "fixed: the algorithm's own choice of devices; poisson: each device by itself, with"
            " probability cohort / users, and no sum is opened of fewer than `people`"
        ),
    )
    answers: int = Field(
        0,
        ge=0,
        description=(
            "sums that a device answers in, at most; then it only downloads. 0 = any number"
        ),
    )
    days: int = Field(
        0,
        ge=0,
        le=3650,
        description=(
            "days after which an answer counts no more, by the device's clock: it answers in at"
            " most `answers` sums in any so many days. 0 = each counts for ever"
        ),
    )
    defence: Literal[
        "none", "clip", "rowclip", "satcap", "proportion", "support", "krum", "robust"
    ] = Field(
        "none",
        description=(
            "what the server does to the updates of a round before it adds them, against poisoning;"
            " it must see them singly. robust = clipped rows, a cap on each item's row that falls"
            " as the item rises, and items held to their support"
        ),
    )
    secure_sum: bool = Field(False, description="single messages are masked: nobody sees but sums")
    bits: int = Field(
        64,
        ge=32,
        le=64,
        multiple_of=32,
        description=(
            "bits of a number in a masked sum, 64 or 32. With 32 an answer has half the bytes. Its"
            " numbers are moved into -32 to 32, of which a sum of 1,023 people fits, and nearer to"
            " 0 where more are in a sum: into -4 to 4 for 8,191"
        ),
    )
    people: int = Field(1, ge=1, description="users in a sum, at least")
    parties: int = Field(1, ge=1, description="nodes in a sum, at least")
    groups: int = Field(
        1,
        ge=1,
        le=MOST_GROUPS,
        description=(
            "masked sums of a round, each as large as a sum must be, of groups that are dealt anew"
            " in each round; 1 = one sum of everybody"
        ),
    )
    epsilon: float | None = Field(
        None,
        gt=0,
        le=1e4,
        description="budget of user-level differential privacy for the whole training",
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="of differential privacy")

    @model_serializer(mode="wrap")
    def _said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The settings without the later ones where these are as they always were, so that terms
        from before these settings hash as they did.
        """
        settings: dict[str, Any] = handler(self)
        unsaid = {"groups": 1, "answers": 0, "days": 0, "bits": 64, "multiple": None, "step": 0}
        for name, none in unsaid.items():
            if name in settings and settings[name] == none:
                del settings[name]
        return settings

    @model_validator(mode="before")
    @classmethod
    def _noise_of_the_clip(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings with the noise that `multiple` says."""
        try:
            noise = float(settings.get("multiple") or 0) * float(settings.get("clip") or 0)
        except (TypeError, ValueError):
            # What is no number is refused below, by its own name.
            return settings
        # What is 0 or no number is refused below, by its own name.
        return {"noise": noise, **settings} if 0 < noise < math.inf else settings

    @model_validator(mode="after")
    def _together(self) -> Self:
        # Each rule names two settings that take each other's ground away, and why.
        said = self.epsilon is not None or self.noise != (self.multiple or 0) * self.clip
        if self.multiple and said:
            raise ValueError("multiple without noise and epsilon, each of which says the noise too")
        if self.groups > 1 and not self.secure_sum:
            raise ValueError(
                "groups together with secure_sum: where nodes are seen singly, `defence` is for"
                " liars"
            )
        if self.bits == 32 and not self.secure_sum:
            raise ValueError("bits=32 together with secure_sum: only masked numbers have words")
        chosen_by_itself = self.sampling == "poisson"
        shared = self.noisy and self.noise_by == "devices"
        if shared and chosen_by_itself and self.people == 1:
            raise ValueError(
                "people above 1, or noise_by=server, with sampling=poisson: a device makes its"
                " share of the noise large enough for the fewest people in a sum"
            )
        if self.answers and not chosen_by_itself:
            raise ValueError(
                "answers together with sampling=poisson, by which a device itself decides whether"
                " it answers"
            )
        if self.days and not self.answers:
            raise ValueError("days together with answers, which are counted in any so many days")
        if self.epsilon is not None and not (self.clip and self.sampling == "poisson"):
            raise ValueError(
                "epsilon together with clip (above 0) and sampling=poisson, on which its proof"
                " rests"
            )
        if self.epsilon is not None and self.noise_from == "seed":
            raise ValueError(
                "epsilon together with noise_from=system: whoever knows a seed draws its noise"
                " again and subtracts it"
            )
        if self.epsilon is not None and (self.people > 1 or self.answers):
            raise ValueError(
                "epsilon with people=1 and answers=0: its proof is of sums that all come out, each"
                " of an independent draw"
            )
        if self.clip_quantile and not (self.clip and self.noisy and self.noise_by == "server"):
            raise ValueError(
                "clip_quantile together with clip (above 0) and with noise by the server, which"
                " counts the messages within"
            )
        if self.defence != "none" and (self.secure_sum or self.noisy):
            raise ValueError(
                "defence=none with secure_sum or noise: a server that sees sums alone cannot tell"
                " updates apart"
            )
        return self

    @property
    def noisy(self) -> bool:
        """Checks whether sums carry noise: as much as `noise` says, or as `epsilon` needs."""
        return self.noise > 0 or self.epsilon is not None

    @property
    def active(self) -> bool:
        """Checks whether the protection limits anything but the order of rows."""
        # Rows that are sorted say no less; padded ones, or one for each item, do.
        return self != Protection(rows=self.rows) or self.rows in ("padded", "all")


PAPER: Final = "paper"
PRIVATE: Final = "private"
DP: Final = "dp"
ROBUST: Final = "robust"
PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        PAPER: {},
        PRIVATE: {"rows": "all", "secure_sum": True, "people": 300, "parties": 3},
        DP: {
            "clip": 1.0,
            "noise_by": "server",
            "noise_from": "system",
            "rows": "all",
            "sampling": "poisson",
            "secure_sum": True,
            "epsilon": 8.0,
        },
        ROBUST: {"defence": "robust"},
    }
)


def epsilon_in_words(
    epsilon: float, delta: float, trainings: int = 1, *, exchanged: float = 0.0
) -> str:
    """The sentence of every epsilon: whose it is, of how many trainings, and over which noise.
    exchanged: the epsilon where one user is exchanged for another, 0 = not told.

    >>> epsilon_in_words(7.98, 1e-5)
    'epsilon 7.980 at delta 1e-05 of each user, of 1 training, over noise of the operating system'
    >>> epsilon_in_words(7.98, 1e-5, exchanged=11.6)[-48:]
    '(11.600 where one user is exchanged for another)'
    """
    of = "1 training"
    if trainings > 1:
        of = f"all {trainings} trainings on the same people"
    # Noise of the seed proves nothing, and no protection with an epsilon has it.
    noise = "noise of the operating system"
    told = f"epsilon {epsilon:.3f} at delta {delta:g} of each user, of {of}, over {noise}"
    if exchanged:
        told += f" ({exchanged:.3f} where one user is exchanged for another)"
    return told


def refuse_of_networks(protection: Protection) -> None:
    """Raises InputError for settings that a network alone can have: groups, which a simulation has
    no nodes for, days, for which it has no clocks, and answers that nobody could count again."""
    if protection.answers and protection.noise_from == "system":
        raise InputError(
            f"{PROTECT} answers",
            "the draws of the operating system are not to be had again, and a simulation counts by"
            " them who has answered",
            expected="noise_from=seed",
            fix="leave noise_from out; across a network each device counts for itself",
        )
    fix = "leave it out; it is for `entrenous federation new`"
    if protection.days:
        problem = f"{protection.days} days, and no device of a simulation has a clock"
        raise InputError(f"{PROTECT} days", problem, expected="0", fix=fix)
    if protection.groups > 1:
        problem = f"{protection.groups} groups, and a simulation has no nodes that could be in them"
        raise InputError(f"{PROTECT} groups", problem, expected="1", fix=fix)


def protection_of(profile: str, asked: Mapping[str, Any], traits: Traits) -> Protection:
    """The protection of a profile for an algorithm: the settings of the profile, then those that
    were measured for the algorithm under `dp` (`Traits.dp`), then those that were asked for. Later
    ones win.

    Raises InputError for a profile or a setting that does not exist, and for settings that do not
    go together.
    """
    # Checked here, not by a type: the name may come from a file or from Python.
    if profile not in PROFILES:
        expected = ", ".join(PROFILES)
        fix = did_you_mean(profile, PROFILES)
        raise InputError("--profile", f"unknown profile '{profile}'", expected=expected, fix=fix)
    measured = traits.dp if profile == DP else {}
    return Protection.parse({**PROFILES[profile], **measured, **asked}, PROTECT)


# ---- in a federation -----------------------------------------------------------------------------


def narrow_bound(protection: Protection, in_sum: float) -> float | None:
    """Returns how far from 0 a device's number may be, so that sums fit words of 32 bits; None
    where too many people are in one. in_sum: people in a sum on average.
    """
    for bound, most in NARROW.items():
        usual = most
        # A lot draws more or fewer than on average.
        if protection.sampling == "poisson":
            usual -= SPREADS * math.isqrt(most)
        if in_sum <= usual:
            return bound
    return None


@final
class ProtectionInForce:
    """A protection with the sizes of one federation.

    protection: its `epsilon`, if it has one, must already be a number in `noise` for the noise to
        be added. contract: of the algorithm in this federation.

    Raises InputError where the federation is too small for the protection, or where sums carry
    noise but the algorithm shows arrays of each device singly.
    """

    def __init__(self, protection: Protection, contract: Contract) -> None:
        self.protection = protection
        self.contract = contract
        self.users = contract.sizes["users"]
        self.items = contract.sizes["items"]
        _check(protection, contract)
        self._noisy = protection.noisy
        # Each device adds a share of the noise, so that no server has to be trusted with it.
        self._shared_noise = protection.noise > 0 and protection.noise_by == "devices"
        self.adaptive: AdaptiveClip | None = None
        self._of_bits: GaussianTable | None = None
        self._table: GaussianTable | None = None
        # An epsilon that has not become a noise yet has no multiplier to share with the clip.
        if protection.clip_quantile and protection.noise:
            multiplier = protection.noise / protection.clip
            self.adaptive = AdaptiveClip(protection.clip_quantile, multiplier, contract.cohort)
            self._of_bits = gaussian_table(self.adaptive.of_bits / STEP)
        elif protection.noise and protection.noise_by == "server":
            self._table = gaussian_table(protection.noise / STEP)
        self._narrow = math.inf  # how far from 0 a device's number may be
        if protection.bits == 32:
            self._narrow = _checked_narrow(protection, contract, self.share)

    @property
    def rate(self) -> float:
        """The probability with which a device takes part in a round, cohort / users."""
        return self.contract.cohort / self.users

    @property
    def in_sum(self) -> float:
        """The number of devices in one sum, for which shares of noise are made: the cohort, or the
        fewest that a sum may have where each device decides by itself.
        """
        return self.protection.people if self.by_devices else self.contract.cohort

    @property
    def by_devices(self) -> bool:
        """True where each device decides by itself whether it takes part."""
        return self.protection.sampling == "poisson"

    @cached_property
    def noisy(self) -> bool:
        """True where noise is on the sums that are released."""
        return self.protection.noisy

    @property
    def sorts(self) -> bool:
        """Checks whether the rows of a message are sorted by item."""
        return self.protection.rows != "as sent"

    @cached_property
    def wide(self) -> bool:
        """Checks whether a device's message has a row for every item."""
        padded = self.protection.rows == "all" or self._shared_noise
        return bool(self.contract.way("rows")) and padded

    @property
    def share(self) -> float:
        """The standard deviation of the noise that each device adds to every number that it sends;
        0 where devices add none.
        """
        if not self._shared_noise:
            return 0.0
        return share_of(self.protection.noise, self.in_sum, self.protection.lost)

    @property
    def fewest(self) -> int:
        """The fewest devices whose shares add up to the promised noise; 1 where devices add none.

        A share is large enough for so many, less the devices that may be lost. A sum of fewer
        devices has less noise, so no device may let it come out.
        """
        if not self._shared_noise:
            return 1
        # Shares are made large enough for what is left when some are lost.
        arriving = self.in_sum * (1 - self.protection.lost)
        # 1e-9, since 100 (1 - 0.1) is a little above 90 in binary.
        return math.ceil(arriving - 1e-9)

    @property
    def first_clip(self) -> float:
        """The clip of the first round if rounds move it, else 0."""
        if self.adaptive:
            return self.protection.clip
        return 0.0

    def limits(self, moved: float = 0.0) -> tuple[Limit, ...]:
        """The limits that each device applies to its message, in order. moved: the clip of the
        round, where rounds move it.
        """
        limited = self.protection
        limits: list[Limit] = []
        # A weight says how many rows a device has: under noise all weigh alike.
        if self._noisy and self.contract.weighs:
            limits.append(even_weight(self.contract.usual_weight))
        if limited.clip:
            # Rounds that move the clip say which one holds now.
            bound = moved or limited.clip
            limits.append(counting_clip(bound) if self.adaptive else clip(bound))
        # Noise must be on every row, so the limit that adds it sends a row for every item too.
        if self._shared_noise:
            source = limited.noise_from
            limits.append(noise(limited.noise, self.in_sum, self.items, source, limited.lost))
        elif limited.rows == "all" and not self._noisy:
            limits.append(all_rows(self.items))
        elif limited.rows == "padded":
            limits.append(padded_rows(self.items, self.contract.sizes["rows"]))
        # The last, since noise must fit too.
        if limited.bits == 32:
            limits.append(within(self._narrow))
        return tuple(limits)

    def select(self, chosen: Int64Array, rounds: np.uint64, number: int) -> Int64Array:
        """The users who take part in a round: those whom the algorithm chose or, where devices
        decide by themselves, each user by an independent draw, which may leave nobody.

        rounds: the key of the run for its rounds, from which the draws come, or they come from the
        operating system if the noise does too. number: of the round.
        """
        if not self.by_devices:
            return chosen
        if self.protection.noise_from == "system":
            # A random word of 64 bits is below rate 2^64 with probability `rate`.
            return np.flatnonzero(system_words(self.users) < np.float64(self.rate) * 2.0**64)
        return self._turnout.of(rounds, number)

    @property
    def floor(self) -> int:
        """The people without whom no sum is opened, where each device decides by itself; else 0."""
        # A release that depended on how many came would break the proof of an epsilon.
        if self.by_devices and self.protection.epsilon is None:
            return self.protection.people
        return 0

    @cached_property
    def _turnout(self) -> Turnout:
        own = self.protection
        return Turnout(self.users, self.rate, self.floor, own.answers, own.groups)

    def next_clip(self, total: Total, key: np.uint64, moved: float) -> float:
        """The clip of the next round, moved by the noisy number of messages within this round's
        clip; 0 where rounds do not move it.

        Call this before `on_sum`: the number is in the weights of `total`, which `on_sum` replaces.
        key: of the round. moved: the clip of this round.
        """
        if self.adaptive is None or self._of_bits is None:
            return 0.0
        noise = self._drawn(self._of_bits, 1, fold_name(key, "noise", "bits"))
        bits = real(total.weight + noise)
        return self.adaptive.moved(moved, float(bits.sum()))

    def stepped(self, before: State, after: State) -> State:
        """Returns the state of a server after a round, with moves of the model shortened to the
        step.
        """
        step = self.protection.step
        return within_step(self.contract, before, after, step) if step else after

    def on_sum(self, total: Total, key: np.uint64, moved: float = 0.0) -> Total:
        """Returns the sum that is released under a noisy protection. It has the server's noise on
        every number, if the server adds the noise, and no counts that depend on histories or on who
        took part.

        key: of the round. moved: as in `limits`.
        """
        table = self._table
        if self.adaptive:
            # This noise is in units of the clip, which the round has moved.
            table = gaussian_table(self.adaptive.of_numbers * moved / STEP)
        if table is not None:
            for kind, arrays in (("rows", total.rows), ("dense", total.dense)):
                for name, array in arrays.items():
                    noise = self._drawn(table, array.size, fold_name(key, "noise", kind, name))
                    array += noise.reshape(array.shape)
        # The true counts carry no noise, so the expected ones take their place.
        cohort = self.contract.cohort
        if self.contract.way("rows"):
            total.senders[...] = cohort
        total.weight[...] = cohort * fixed(np.array([self.contract.usual_weight]))
        return total._replace(devices=cohort)

    def _drawn(self, table: GaussianTable, count: int, key: np.uint64) -> Int64Array:
        """Draws noise for `count` numbers of a sum, in steps of the fixed-point grid, from `key`
        or from the operating system's generator: int64 [count].
        """
        words = SEEDED
        if self.protection.noise_from == "system":
            words = system_words(table.words * count)
        return integers(table, count, key, words)


def even_weight(usual: float) -> Limit:
    """A limit that gives every message the same weight, since sums release weights, and a weight
    may be the number of the user's interactions.
    """

    def even(update: Update, keys: UInt64Array) -> Update:
        return update._replace(weight=np.full(update.devices, usual, np.float32))

    return even


def _check(protection: Protection, contract: Contract) -> None:
    cohort = contract.cohort
    people = protection.people
    groups = protection.groups
    counted = protection.secure_sum or protection.sampling == "poisson"
    if protection.multiple and not protection.clip:
        raise InputError(
            f"{PROTECT} multiple",
            "there is no clip of which the noise could be a multiple",
            fix=f"add {PROTECT} clip=LENGTH",
        )
    if counted and cohort < people:
        fewer = FEWER_PEOPLE if cohort >= FEWER_PEOPLE else cohort
        raise InputError(
            f"{PROTECT} people",
            f"a round of {contract.name} has {cohort} devices here",
            expected=f"at least {people} in a sum",
            fix=(
                f"--set cohort={people} where the algorithm has it, or {PROTECT} people={fewer}:"
                f" {OF_A_HUNDRED}"
            ),
        )
    if groups > 1 and cohort < people * groups:
        most = cohort // people
        raise InputError(
            f"{PROTECT} groups",
            f"{groups} groups of the {cohort} devices of a round of {contract.name}",
            expected=f"at least {people} in each",
            fix=f"at most {most} groups" if most >= 3 else "leave it out",
        )
    if protection.step:
        check_step(contract)
    alone = list(contract.way("shown"))
    if contract.groups > 1:
        alone.append("group")
    if protection.noisy and alone:
        raise InputError(
            "--profile",
            f"{contract.name} shows '{alone[0]}' of each device singly, which no sum hides",
            expected="arrays that are added up",
            fix="another algorithm, such as fcf, or settings without it",
        )


def _checked_narrow(protection: Protection, contract: Contract, share: float) -> float:
    """Returns how far from 0 a device's number may be where sums have words of 32 bits. share: the
    standard deviation of a device's share of noise.

    Raises InputError where sums might not fit such words: for too many people, for weights that are
    larger than numbers may be, and for noise that would be cut.
    """
    fix = "leave it out"
    in_sum = contract.cohort / protection.groups
    bound = narrow_bound(protection, in_sum)
    if bound is None:
        most = NARROW[min(NARROW)]
        raise InputError(
            f"{PROTECT} bits",
            f"{in_sum:.0f} people in a sum on average",
            expected=f"so few with bits=32 that a lot draws at most {most}",
            fix=f"more groups, or {fix}",
        )
    problem = ""
    # Under noise all weigh alike.
    heavy = contract.usual_weight > bound
    if contract.weighs and (heavy or not protection.noisy):
        problem = f"devices of {contract.name} have weights that may be above {bound:.0f}"
    elif UNCUT * share > bound:
        problem = f"a device's share of noise, of {share:.3g}, may be beyond {bound:.0f}"
    if problem:
        raise InputError(f"{PROTECT} bits", problem, expected="64", fix=fix)
    return bound
