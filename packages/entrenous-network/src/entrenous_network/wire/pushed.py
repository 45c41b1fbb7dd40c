"""The body of a push between peers: one model, and the digest by which both ends, and a replay,
know that the model is the same.
"""

from __future__ import annotations

import hashlib

from entrenous.core.types import Float32Array

from .tensors import ALIGNED, LENGTH, Buffer, TensorField, read, write

NUMBER_BYTES = 4  # of a float32


def pack(model: Float32Array) -> bytes:
    """Returns a model, float32 [width], as safetensors bytes; equal models give equal bytes."""
    return write({"model": model})


def unpack(body: Buffer, width: int) -> Float32Array:
    """Returns the model of a body, float32 [width], a view of it. Raises wire.tensors.Malformed
    for anything else.
    """
    schema = {"model": TensorField("f4", (width,))}
    return read(body, schema)["model"]


def packed_bytes(width: int) -> int:
    """Returns the length in bytes of a packed model of `width` numbers."""
    nbytes = NUMBER_BYTES * width
    header = len(f'{{"model":{{"dtype":"F32","shape":[{width}],"data_offsets":[0,{nbytes}]}}}}')
    # `tensors.write` fills the header up with spaces, so that the numbers are aligned.
    header += -header % ALIGNED
    return LENGTH + header + nbytes


def digest(body: Buffer) -> bytes:
    """Returns the SHA-256 of a packed model, 32 bytes."""
    return hashlib.sha256(body).digest()
