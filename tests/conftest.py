"""What holds for every test."""

from __future__ import annotations

import sys

if (
    "hypothesis" in sys.modules
):  # as a rule it is, as a plugin of pytest; it takes a second to import, so it is not where nobody needs it
    import properties  # noqa: F401
