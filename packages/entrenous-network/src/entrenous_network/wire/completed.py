"""`completed`: types of messages that several threads may decode at once."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def completed(kind: type[T]) -> type[T]:
    """Completes a type of msgspec where it is defined, and returns it.

    msgspec completes a type when it is first decoded, and shows it to other threads before it is
    complete: a thread that decodes the same type meanwhile ends the process by a segmentation
    fault (msgspec 0.22).
    """
    msgspec.msgpack.Decoder(kind)
    return kind
