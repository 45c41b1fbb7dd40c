"""A frame as the content of a Flower message: one record with one value of bytes."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, RecordDict

NAME = "frame"


def record_of(frame: bytes) -> RecordDict:
    """The content of a message that carries a frame."""
    return RecordDict({NAME: ConfigRecord({NAME: frame})})


def frame_in(message: Message) -> bytes | None:
    """The frame that a message carries; None where it carries an error or anything else."""
    record = message.content.get(NAME) if message.has_content() else None
    frame = record.get(NAME) if isinstance(record, ConfigRecord) else None
    return frame if isinstance(frame, bytes) else None
