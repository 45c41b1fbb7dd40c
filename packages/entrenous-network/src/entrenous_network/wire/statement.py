"""The words before the head of a frame, in the bytes that its sender signs."""

from __future__ import annotations

# So a signature is good for nothing else. The head has the digest of the body: all is signed.
DOMAIN = b"entrenous frame 1\n"
