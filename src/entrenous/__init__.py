"""Entrenous ("between us"): recommendations without collecting anyone's history.

    >>> import entrenous
    >>> data = entrenous.load("ml-100k")                                # doctest: +SKIP
    >>> run = entrenous.run("pfpl+", data, protocol="loo-99", seed=0)   # doctest: +SKIP
    >>> run.metrics["hr@10"]                                            # doctest: +SKIP
    >>> run.recommend(user="42", n=10)                                  # doctest: +SKIP

Importing this module loads NumPy and nothing heavier; the names below are loaded when they are first used.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
_LAZY = {
    "load": "entrenous.data.load",
    "from_frame": "entrenous.data.load",
    "synthetic": "entrenous.data.synthetic",
    "Interactions": "entrenous.data.interactions",
    "run": "entrenous.runs.pipeline",
    "compare": "entrenous.runs.pipeline",
}
__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'entrenous' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
