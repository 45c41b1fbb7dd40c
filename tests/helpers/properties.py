"""Hypothesis as the suite uses it: no example is judged by how long it takes, which says more about
the machine than about the code.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
