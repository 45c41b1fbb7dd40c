"""Declarations of algorithms: what devices receive, keep and send, and further traits, each
declared once.

A state is a NamedTuple whose fields say their shapes in named sizes; what leaves a device is listed
with what it reveals:

    class MyDownload(NamedTuple):
        q: Annotated[Float32Array, axes("items", "factors")]
        cluster: Annotated[Int32Array, axes("devices", below="clusters")]

    class MyAlgorithm(Settings):
        receives, keeps, holds = MyDownload, MyDevices, MyServer
        sends = (rows("q", "factors", when="each round", reveals="..."),)
        traits = Traits(decided_by_user=("pi",))

Known sizes are `items` and `users` of the catalogue, `devices` of this delivery, and every setting
that is a whole number. Others come from the algorithm's method `sizes(catalogue)`.
Byte counts, `entrenous explain`, empty sums, wire formats, storage and checks are derived from the
declaration (core/contract/declared.py, core/contract/enforce.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, final

from ..values import SettingValue


class UpTo(NamedTuple):
    """A size that the first array with it decides, and that all others must have."""

    name: str
    most: str
    """The name of another size, which it does not exceed."""

    def __str__(self) -> str:
        return self.name


Size: TypeAlias = str | int | UpTo


class Axes(NamedTuple):
    """The shape of an array in named sizes, and the range of its numbers."""

    sizes: tuple[Size, ...]
    below: str | int | None = None
    """Integers are less than this size or number."""
    least: int | None = None
    """Integers are at least this."""
    finite: bool = True
    """Floats are neither NaN nor infinite."""


def axes(
    *sizes: Size, below: str | int | None = None, least: int | None = None, finite: bool = True
) -> Axes:
    """Returns the shape of an annotated array, in named sizes.

    Args:
        sizes: names of sizes, or numbers. Arrays that a device keeps have the axis of the devices
            before these.
        below: integers are less than this size or number, and at least 0 unless `least` says
            otherwise.
        least: integers are at least this.
        finite: floats must be finite.

    >>> axes("devices", below="clusters").least
    0
    """
    # Numbers with an upper bound are places in an array, and places count from 0.
    if below is not None and least is None:
        least = 0
    return Axes(sizes, below, least, finite)


Way: TypeAlias = Literal["rows", "dense", "shown", "weight", "pushed"]


class SentArray(NamedTuple):
    """One array that leaves a device, made by `rows`, `dense`, `shown`, `weight` or `pushed`."""

    way: Way
    name: str
    sizes: tuple[Size, ...]
    """The shape of one row, or of one device's array."""
    dtype: str
    when: str
    """How often it leaves."""
    reveals: str
    """What somebody who sees it learns."""
    only_if: str = ""
    """The setting without which it does not leave; "" = it always leaves."""
    below: str | int | None = None
    """Of a shown array, as in `shown`."""
    least: int | None = None
    """Of a shown array, as in `shown`."""
    usual: float | None = None
    """Of a weight, as in `weight`."""

    @property
    def said(self) -> str:
        """The shape and type in words.

        >>> rows("q", "factors", when="each round", reveals="...").said
        '[rows, factors] float32'
        """
        extents = [str(size) for size in self.sizes]
        # A device decides how many rows it sends, so that the first axis has no number.
        if self.way == "rows":
            extents = ["rows", *extents]
        if extents:
            return f"[{', '.join(extents)}] {self.dtype}"
        return self.dtype


def rows(name: str, *sizes: Size, when: str, reveals: str, only_if: str = "") -> SentArray:
    """Declares a float32 row of the shape `sizes` for each of some items: `Update.rows[name]`,
    added up item by item.
    """
    return SentArray("rows", name, sizes, "float32", when, reveals, only_if)


def dense(name: str, *sizes: Size, when: str, reveals: str, only_if: str = "") -> SentArray:
    """Declares a float32 array of the shape `sizes`: `Update.dense[name]`, added up over the
    devices of each group.
    """
    return SentArray("dense", name, sizes, "float32", when, reveals, only_if)


def shown(
    name: str,
    *sizes: Size,
    when: str,
    reveals: str,
    only_if: str = "",
    below: str | int | None = None,
    least: int | None = None,
) -> SentArray:
    """Declares a float32 array of the shape `sizes` that is not added up: the server sees each, and
    its sender. `Update.shown[name]`.

    below: its numbers are whole, at least `least` (or 0) and less than this size, since the server
    uses them as places in its arrays. least alone: they are at least this.
    """
    return SentArray("shown", name, sizes, "float32", when, reveals, only_if, below, least)


def weight(*, when: str, reveals: str, usual: float | None = None) -> SentArray:
    """Declares the weight of a device: `Update.weight`, added up. Without this entry every device
    must weigh 1.

    usual: a weight that says nothing of its device, for a protection that hides weights; None = the
    mean number of interactions.
    """
    return SentArray("weight", "weight", (), "float32", when, reveals, usual=usual)


def pushed(name: str, *sizes: Size, dtype: str, when: str, reveals: str) -> SentArray:
    """Declares a part of the message that one peer pushes to another, who sees it as it is."""
    return SentArray("pushed", name, sizes, dtype, when, reveals)


@final
@dataclass(frozen=True)
class Traits:
    """Properties that every instance of an algorithm has."""

    predicts_ratings: bool = False
    """Scores are ratings on the scale of the data, before they are clipped to it."""
    draws_negatives: bool = True
    """Devices draw items that their user has not consumed, so the way of drawing them matters."""
    decided_by_user: tuple[str, ...] = ()
    """Settings that each user decides on their own device, whatever a server asks for."""
    usual_protocols: tuple[str, ...] = ()
    """The ways to hold out rows, the most usual first; () = leave-one-out, or five-fold
    cross-validation for predicted ratings. `X-given` is passed over if the parts that X published
    are absent.
    """
    groups: str = ""
    """The size that gives the number of sums of dense arrays and weights; "" = one sum."""
    holds_out_own: bool = False
    """Peers hold out some of their own rows, and judge by them the models that they receive."""
    same_rows: bool = False
    """Devices that send rows send one for each interaction, in every round for the same items.
    Sums of the same people are then equations in the same unknowns, however many devices fill a
    row.
    """
    learns_features: bool = False
    """The model of the server begins with what is known of the items (`catalogue.features`), so
    that a federation over a network has that in its list of items.
    """
    dp: Mapping[str, SettingValue] = field(default_factory=dict, hash=False)
    """Settings of `privacy.protection.Protection` that were measured for this algorithm, under the
    profile `dp`.
    """
    private_settings: Mapping[str, SettingValue] = field(default_factory=dict, hash=False)
    """Settings of the algorithm itself under the profiles `private` and `dp`, unless others are
    asked for.
    """
