"""Entrenous ("between us"): recommendations without collecting anyone's history.

    >>> import entrenous
    >>> run = entrenous.run("fpl", "ml-100k", rounds=20)        # doctest: +SKIP
    >>> run.metrics["hr@10"]                                    # doctest: +SKIP
    >>> run.recommend("42", n=10)                               # doctest: +SKIP

Importing this module loads nothing else; the names below are loaded when they are first used.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__version__ = "0.1.0"
LAZY = {
    # data in, results out
    "load": "entrenous.data.load",
    "from_frame": "entrenous.data.load",
    "synthetic": "entrenous.data.synthetic",
    "Interactions": "entrenous.data.interactions",
    "run": "entrenous.api.run",
    "open": "entrenous.api.run",
    "compare": "entrenous.api.compare",
    "tune": "entrenous.api.tuning",
    "attack": "entrenous.api.attacking",
    "audit": "entrenous.api.auditing",
    "Run": "entrenous.api.run",
    "evaluate": "entrenous.evaluate.protocol",
    "open_node": "entrenous.deploy.operate.recommend",
    # the user's own algorithm
    "Settings": "entrenous.core.contract.settings",
    "Float32Array": "entrenous.core.types",
    "Int32Array": "entrenous.core.types",
    "axes": "entrenous.core.contract.declarations",
    "rows": "entrenous.core.contract.declarations",
    "dense": "entrenous.core.contract.declarations",
    "shown": "entrenous.core.contract.declarations",
    "weight": "entrenous.core.contract.declarations",
    "Traits": "entrenous.core.contract.declarations",
    "Update": "entrenous.core.contract.update",
    "real": "entrenous.core.contract.update",
    "fold_name": "entrenous.core.keys",
    "generator": "entrenous.kernels.generator",
    "negatives": "entrenous.kernels.generator",
    "conform": "entrenous.runs.conformance",
    # the user's own metric, split or data set
    "QueryMetric": "entrenous.evaluate.metric_kinds",
    "ListMetric": "entrenous.evaluate.metric_kinds",
    "RatingMetric": "entrenous.evaluate.metric_kinds",
    "Split": "entrenous.data.split.types",
    "Held": "entrenous.data.split.types",
    "Dataset": "entrenous.data.dataset",
}
__all__ = ["__version__", *LAZY]


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'entrenous' has no attribute '{name}'")
    import importlib

    thing = getattr(importlib.import_module(LAZY[name]), name)
    # Kept, so that Python finds it by itself the next time.
    globals()[name] = thing
    return thing


def __dir__() -> list[str]:
    return sorted(__all__)


class _Room(ModuleType):
    """A package with the name of a public function (`entrenous.audit`): once it is imported, it is
    called as the function is.
    """

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return __getattr__(self.__name__.rpartition(".")[2])(*arguments, **named)


class _Front(ModuleType):
    """This module, which notices when such a package is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in LAZY and isinstance(value, ModuleType):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Front
