"""Entrenous ("between us"): recommendations without collecting anyone's history.

    >>> import entrenous
    >>> run = entrenous.run("fpl", "ml-100k", rounds=20)        # doctest: +SKIP
    >>> run.metrics["hr@10"]                                    # doctest: +SKIP
    >>> run.recommend("42", n=10)                               # doctest: +SKIP

Importing this module loads nothing else; the names below are loaded when they are first used.
docs/python.md has a line on each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entrenous_audit.python.attacking import AttackEffect as AttackEffect
    from entrenous_audit.python.attacking import attack as attack
    from entrenous_audit.python.auditing import Audit as Audit
    from entrenous_audit.python.auditing import audit as audit
    from entrenous_audit.python.receipts import DeviceReceipt as DeviceReceipt
    from entrenous_audit.python.receipts import receipt as receipt
    from entrenous_network.operate.device import Device as Device

    from .api.catalogue import Explanation as Explanation
    from .api.catalogue import algorithms as algorithms
    from .api.catalogue import datasets as datasets
    from .api.catalogue import explain as explain
    from .api.catalogue import metrics as metrics
    from .api.checks import Leakcheck as Leakcheck
    from .api.checks import leakcheck as leakcheck
    from .api.compare import Comparison as Comparison
    from .api.compare import compare as compare
    from .api.outside import EvaluatedFiles as EvaluatedFiles
    from .api.outside import evaluate_files as evaluate_files
    from .api.recommender import Recommender as Recommender
    from .api.recommender import split as split
    from .api.results import Figure as Figure
    from .api.run import Run as Run
    from .api.run import open as open
    from .api.run import run as run
    from .api.tuning import TunedSettings as TunedSettings
    from .api.tuning import tune as tune
    from .core.contract.declarations import Traits as Traits
    from .core.contract.declarations import axes as axes
    from .core.contract.declarations import dense as dense
    from .core.contract.declarations import rows as rows
    from .core.contract.declarations import shown as shown
    from .core.contract.declarations import weight as weight
    from .core.contract.declared import ContractError as ContractError
    from .core.contract.own_rows import OwnRows as OwnRows
    from .core.contract.settings import Settings as Settings
    from .core.contract.update import Update as Update
    from .core.contract.update import real as real
    from .core.errors import EntrenousError as EntrenousError
    from .core.errors import EntrenousWarning as EntrenousWarning
    from .core.errors import InputError as InputError
    from .core.errors import NonFiniteError as NonFiniteError
    from .core.keys import fold_name as fold_name
    from .core.types import Float32Array as Float32Array
    from .core.types import Int32Array as Int32Array
    from .data.dataset import Dataset as Dataset
    from .data.events import Event as Event
    from .data.events import Events as Events
    from .data.interactions import Interactions as Interactions
    from .data.load import from_frame as from_frame
    from .data.load import load as load
    from .data.split.stream import stream as stream
    from .data.split.types import Held as Held
    from .data.split.types import Split as Split
    from .data.synthetic import synthetic as synthetic
    from .evaluation.metric_kinds import ListMetric as ListMetric
    from .evaluation.metric_kinds import QueryMetric as QueryMetric
    from .evaluation.metric_kinds import RatingMetric as RatingMetric
    from .evaluation.protocol import evaluate as evaluate
    from .kernels.generator import generator as generator
    from .kernels.generator import negatives as negatives
    from .runs.conformance import conform as conform
    from .runs.train import Round as Round

__version__ = "0.2.0"
# The same names for the interpreter, which loads each when it is first used.
PLACES = {
    "api.catalogue": "Explanation algorithms datasets explain metrics",
    "api.checks": "Leakcheck leakcheck",
    "api.compare": "Comparison compare",
    "api.outside": "EvaluatedFiles evaluate_files",
    "api.recommender": "Recommender split",
    "api.results": "Figure",
    "api.run": "Run open run",
    "api.tuning": "TunedSettings tune",
    "core.contract.declarations": "Traits axes dense rows shown weight",
    "core.contract.own_rows": "OwnRows",
    "core.contract.declared": "ContractError",
    "core.contract.settings": "Settings",
    "core.contract.update": "Update real",
    "core.errors": "EntrenousError EntrenousWarning InputError NonFiniteError",
    "core.keys": "fold_name",
    "core.types": "Float32Array Int32Array",
    "data.dataset": "Dataset",
    "data.events": "Event Events",
    "data.interactions": "Interactions",
    "data.load": "from_frame load",
    "data.split.stream": "stream",
    "data.split.types": "Held Split",
    "data.synthetic": "synthetic",
    "evaluation.metric_kinds": "ListMetric QueryMetric RatingMetric",
    "evaluation.protocol": "evaluate",
    "kernels.generator": "generator negatives",
    "runs.conformance": "conform",
    "runs.train": "Round",
}
# Names of neighbours, which may be absent.
NEAR = {
    "entrenous_audit.python.attacking": "AttackEffect attack",
    "entrenous_audit.python.auditing": "Audit audit",
    "entrenous_audit.python.receipts": "DeviceReceipt receipt",
    "entrenous_network.operate.device": "Device",
}
OWN = {name: f"entrenous.{place}" for place, names in PLACES.items() for name in names.split()}
LAZY = {**OWN, **{name: place for place, names in NEAR.items() for name in names.split()}}
# Without those of neighbours, so that `from entrenous import *` needs none.
__all__ = ["__version__", *OWN]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in LAZY:
            raise AttributeError(f"module 'entrenous' has no attribute '{name}'")
        import importlib

        try:
            module = importlib.import_module(LAZY[name])
        except ModuleNotFoundError as absent:
            if name in OWN or absent.name != LAZY[name].partition(".")[0]:
                raise
            from .core.registry.neighbours import neighbour

            extra = absent.name.removeprefix("entrenous_")
            raise neighbour(extra).missing(f"entrenous.{name}") from None
        thing = getattr(module, name)
        # Kept, so that Python finds it by itself the next time.
        globals()[name] = thing
        return thing


def __dir__() -> list[str]:
    return sorted({*__all__, *LAZY})
