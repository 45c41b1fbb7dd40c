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

Sizes that need no saying: `items` and `users` of the catalogue, `devices` of this delivery, and
every setting that is a whole number. Others come from the algorithm's method `sizes(catalogue)`.
Byte counts, `entrenous explain`, empty sums, wire formats, storage and checks are derived from the
declaration (core/contract/declared.py, core/contract/enforce.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, final


class UpTo(NamedTuple):
    """A size that the first array with it decides, and all others must have: at most the size
    called `most`.
    """

    name: str
    most: str

    def __str__(self) -> str:
        return self.name


Size: TypeAlias = str | int | UpTo


class Axes(NamedTuple):
    """The shape of an array in named sizes. Integers lie in least <= x < below, where a bound is
    given; floats are finite.
    """

    sizes: tuple[Size, ...]
    below: str | int | None = None
    least: int | None = None
    finite: bool = True


def axes(
    *sizes: Size, below: str | int | None = None, least: int | None = None, finite: bool = True
) -> Axes:
    """The shape of an annotated array, in named sizes.

    Args: sizes: names of sizes, or numbers; of what a device keeps without the axis of the devices,
        which all of it has. below: integers are less than this size or number, and at least 0
        unless `least` says otherwise. least: integers are at least this. finite: whether floats
        must be finite.

    >>> axes("devices", below="clusters").least
    0
    """
    return Axes(sizes, below, 0 if below is not None and least is None else least, finite)


Way: TypeAlias = Literal["rows", "dense", "shown", "weight", "pushed"]


class SentArray(NamedTuple):
    """One array that leaves a device, made by `rows`, `dense`, `shown`, `weight` or `pushed`.

    sizes: of one row or one array. when: how often it leaves. reveals: what who sees it learns.
    only_if: the setting without which it does not leave, "" = always. below, least: of what is
    shown, as in `shown`. usual: of a weight, as in `weight`."""

    way: Way
    name: str
    sizes: tuple[Size, ...]
    dtype: str
    when: str
    reveals: str
    only_if: str = ""
    below: str | int | None = None
    least: int | None = None
    usual: float | None = None

    @property
    def said(self) -> str:
        """Its shape and type in words.

        >>> rows("q", "factors", when="each round", reveals="...").said
        '[rows, factors] float32'
        """
        extents = [str(size) for size in self.sizes]
        if self.way == "rows":
            extents = ["rows", *extents]
        return f"[{', '.join(extents)}] {self.dtype}" if extents else self.dtype


def rows(name: str, *sizes: Size, when: str, reveals: str, only_if: str = "") -> SentArray:
    """A float32 row of the shape `sizes` for each of some items: `Update.rows[name]`, added up item
    by item.
    """
    return SentArray("rows", name, sizes, "float32", when, reveals, only_if)


def dense(name: str, *sizes: Size, when: str, reveals: str, only_if: str = "") -> SentArray:
    """A float32 array of the shape `sizes`: `Update.dense[name]`, added up over the devices (of a
    group).
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
    """A float32 array of the shape `sizes` that is not added up: the server sees it singly, and
    from whom. `Update.shown[name]`.

    below: its numbers are whole, at least `least`, or 0, and less than this size: what a server
    takes for places in its arrays. least alone: they are at least this.
    """
    return SentArray("shown", name, sizes, "float32", when, reveals, only_if, below, least)


def weight(*, when: str, reveals: str, usual: float | None = None) -> SentArray:
    """The weight of a device: `Update.weight`, added up. Without this entry every device must weigh
    1.

    usual: a weight that says nothing of a device, for a protection that hides who weighs how much;
    None = the mean number of interactions.
    """
    return SentArray("weight", "weight", (), "float32", when, reveals, usual=usual)


def pushed(name: str, *sizes: Size, dtype: str, when: str, reveals: str) -> SentArray:
    """A part of the message that one peer pushes to another, who sees it singly."""
    return SentArray("pushed", name, sizes, dtype, when, reveals)


@final
@dataclass(frozen=True)
class Traits:
    """Properties that every instance of an algorithm has.

    Args: predicts_ratings: scores are ratings on the scale of the data, before they are clipped to
        it. draws_negatives: devices draw items that their user has not consumed, so that how these
        are drawn matters. decided_by_user: settings that each user decides on their own device,
        whatever a server says. usual_protocols: how rows are held out unless said otherwise, the
        most usual first; () = leave-one-out, or five-fold
            cross-validation for predicted ratings. `X-given` is passed over where the parts that X
            published are not there.
        groups: the size that says into how many sums dense arrays and weights are added; "" = one.
        holds_out_own: peers hold rows of their own back, to judge by them the models that they
        receive. same_rows: devices that send rows send one for each interaction, in every round the
        same items: sums of the same people are then
            equations in the same unknowns, however many devices fill a row.
        private, dp: settings of `privacy.protection.Protection` that were measured for this
        algorithm under the profile of that name. private_settings: settings of the algorithm itself
        under either, unless others are asked for.
    """

    predicts_ratings: bool = False
    draws_negatives: bool = True
    decided_by_user: tuple[str, ...] = ()
    usual_protocols: tuple[str, ...] = ()
    groups: str = ""
    holds_out_own: bool = False
    same_rows: bool = False
    private: Mapping[str, Any] = field(default_factory=dict, hash=False)
    dp: Mapping[str, Any] = field(default_factory=dict, hash=False)
    private_settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
