"""A frame as Flower's content: one record with one bytes value, so that it is one leaf in the tree of objects that Flower sends."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr.app import RecordDict

NAME = "frame"


def record_of(frame: bytes) -> RecordDict:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({NAME: ConfigRecord({NAME: frame})})


def leaf_of(tree: Any) -> str | None:
    """The id of the object with the frame in a message's tree: message, its content, one record. None for any other tree."""
    content = tree.children[0] if len(tree.children) == 1 else None
    record = content.children[0] if content is not None and len(content.children) == 1 else None
    return str(record.object_id) if record is not None and not record.children else None


def frame_in(identity: str, content: bytes) -> bytes | None:
    """The frame in an object's bytes; None where they are not what their id (SHA-256) says, or anything but a frame."""
    from flwr.app import ConfigRecord

    if sha256(content).hexdigest() != identity:
        return None
    try:
        record = ConfigRecord.inflate(content)
    except Exception:  # whatever a stranger's bytes do to Flower's reader, they are no frame
        return None
    frame = record.get(NAME) if len(record) == 1 else None
    return frame if isinstance(frame, bytes) else None
