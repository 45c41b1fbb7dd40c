"""Checks of one's own algorithm: that it does what it declares, on small data, in one call."""

from .conformance import conform

__all__ = ["conform"]
