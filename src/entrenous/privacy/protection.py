"""`Protection`: the limits on the data that leaves devices, as one settings object, and the four
profiles that name combinations of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, Self, final

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from ..core.contract.declarations import Traits
from ..core.contract.settings import Settings
from ..core.errors import InputError, did_you_mean
from .noise import Source

PROTECT = "--protect"
MOST_GROUPS = 99


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
    row_clip: float = Field(
        0, ge=0, le=1e6, description="Euclidean length of each row of a message at most; 0 = any"
    )
    quantise: float = Field(
        0,
        ge=0,
        le=1e3,
        description="step to whose multiples numbers are rounded at random; 0 = not at all",
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
            " probability cohort / users"
        ),
    )
    defence: Literal[
        "none", "clip", "rowclip", "satcap", "proportion", "support", "trimmed", "krum", "robust"
    ] = Field(
        "none",
        description=(
            "what the server does to the updates of a round before it adds them, against poisoning;"
            " it must see them singly. robust = clipped rows, a cap on each item's row that falls"
            " as the item rises, and items held to their support"
        ),
    )
    secure_sum: bool = Field(False, description="single messages are masked: nobody sees but sums")
    people: int = Field(1, ge=1, description="users in a sum, at least")
    parties: int = Field(1, ge=1, description="nodes or gateways in a sum, at least")
    groups: int = Field(
        1,
        ge=1,
        le=MOST_GROUPS,
        description=(
            "masked sums of a round, each of nodes of its own and as large as a sum must be; one"
            " that is longer than the median one is shortened to that before they are added. 1 ="
            " one sum of everybody"
        ),
    )
    epsilon: float | None = Field(
        None,
        gt=0,
        le=1e4,
        description="budget of user-level differential privacy for the whole training",
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="of differential privacy")

    @field_validator("groups")
    @classmethod
    def _with_a_middle(cls, value: int) -> int:
        if value == 2:
            raise ValueError("1, or at least 3: of two sums none is in the middle")
        return value

    @model_serializer(mode="wrap")
    def _said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The settings without `groups` where there are none, so that terms from before this
        setting hash as they did.
        """
        settings: dict[str, Any] = handler(self)
        if self.groups == 1:
            settings.pop("groups", None)
        return settings

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.groups > 1 and not self.secure_sum:
            raise ValueError(
                "groups together with secure_sum: where nodes are seen singly, `defence` is for"
                " liars"
            )
        if self.noise_by == "devices" and self.noisy and self.sampling == "poisson":
            raise ValueError(
                "noise_by=server with sampling=poisson: a device cannot know how many others add a"
                " share of the noise"
            )
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
        if self.epsilon is not None and self.quantise:
            raise ValueError(
                "epsilon with quantise=0: rounding up at random may make a message longer than its"
                " clip"
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
        return self != Protection(rows=self.rows) or self.rows in ("padded", "all")


PAPER: Final = "paper"
PRIVATE: Final = "private"
DP: Final = "dp"
ROBUST: Final = "robust"
PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        PAPER: {},
        PRIVATE: {"noise": 0.1, "rows": "all", "secure_sum": True, "people": 100, "parties": 3},
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


def refuse_groups(protection: Protection) -> None:
    """Raises InputError for a protection with groups, which a simulation has no nodes for."""
    if protection.groups > 1:
        problem = f"{protection.groups} groups, and a simulation has no nodes that could be in them"
        fix = "leave it out; it is for `entrenous federation new`"
        raise InputError(f"{PROTECT} groups", problem, expected="1", fix=fix)


def protection_of(profile: str, asked: Mapping[str, Any], traits: Traits) -> Protection:
    """The protection of a profile for an algorithm: the settings of the profile, then those that
    were measured for the algorithm (`Traits.private` and `Traits.dp`), then those that were asked
    for. Later ones win.

    Raises InputError for a profile or a setting that does not exist, and for settings that do not
    go together.
    """
    if profile not in PROFILES:
        expected = ", ".join(PROFILES)
        fix = did_you_mean(profile, PROFILES)
        raise InputError("--profile", f"unknown profile '{profile}'", expected=expected, fix=fix)
    measured = {PRIVATE: traits.private, DP: traits.dp}.get(profile, {})
    return Protection.parse({**PROFILES[profile], **measured, **asked}, PROTECT)
