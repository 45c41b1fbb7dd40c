"""The signatures of the site's reference: those that a caller sees. The site's builder reads the
source alone, where a decorated function shows what it wraps, such as `run(asked: RunKeywords)`.
"""

from __future__ import annotations

import inspect
from typing import Any

import griffe

import entrenous


class CalledSignatures(griffe.Extension):
    """Gives each public function the parameters and the docstring that its callers see. mkdocs.yml
    names this module.
    """

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Called by griffe for each function that it has read."""
        called = getattr(entrenous, func.name) if func.name in entrenous.LAZY else None
        if not inspect.isfunction(called) or f"{called.__module__}.{func.name}" != func.path:
            return
        parameters = inspect.signature(called).parameters.values()
        func.parameters = griffe.Parameters(*map(_parameter, parameters))
        func.docstring = griffe.Docstring(inspect.getdoc(called) or "", parent=func)


def _parameter(seen: inspect.Parameter) -> griffe.Parameter:
    """Returns a parameter as griffe has it."""
    default = None if seen.default is seen.empty else repr(seen.default)
    # A field of a dataclass whose default is made anew. All of ours are mappings.
    if default == "<factory>":
        default = "{}"
    kind = griffe.ParameterKind(seen.kind.description)
    return griffe.Parameter(seen.name, annotation=seen.annotation, kind=kind, default=default)
