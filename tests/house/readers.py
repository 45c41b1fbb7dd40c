"""Which files a reader opens to understand an algorithm: its own, and what that imports, to the end.

Not counted: `core/lanes`, `core/compiling.py` with `core/compiled_code.py`, `core/keys.py` and
`core/errors.py`, the language that all is written in.
"""

from __future__ import annotations

import ast
from functools import cache, partial
from typing import Any

from entrenous.core.registry.program import is_first_party, path_of
from entrenous.systems.named import algorithms

from .source import PACKAGE, tree_of

LANGUAGE = (
    "core/lanes/",
    "core/compiling.py",
    "core/compiled_code.py",
    "core/keys.py",
    "core/errors.py",
)


def files_of(name: str) -> list[str]:
    """The files for an algorithm by its public name, such as `systems/fpl.py`."""
    kind = _class_of(algorithms()[name])
    skipped = _models() - {_model(kind)}
    found: list[str] = []
    waiting = [kind.__module__]
    if _model(kind):
        waiting.append(_model(kind))
    while waiting:
        module = waiting.pop(0)
        file = _file_of(module)
        if module in skipped or file in found or file.startswith(LANGUAGE):
            continue
        found.append(file)
        waiting += sorted(_imports(module))
    return found


def _file_of(module: str) -> str:
    """The file of a module, such as `systems/fpl.py`; with its package if that is another one."""
    name = path_of(module).as_posix()
    for folder in (PACKAGE.as_posix(), PACKAGE.parents[1].as_posix()):
        name = name.removeprefix(f"{folder}/")
    return name


def _class_of(maker: Any) -> Any:
    return maker.func if isinstance(maker, partial) else maker


def _model(kind: Any) -> str:
    """The module of the model that a gossip algorithm learns; "" for others."""
    model = getattr(kind, "model_class", None)
    return "" if model is None else str(model.__module__)


@cache
def _models() -> set[str]:
    """The modules of all gossip models. One file of policies names them all, and a reader of one
    system opens the model of that system alone."""
    return {_model(_class_of(maker)) for maker in algorithms().values()} - {""}


@cache
def _imports(module: str) -> frozenset[str]:
    """The modules of the package whose content a module imports, but for those of type checking."""
    path = path_of(module)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in _statements(tree_of(path)):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = node.module or ""
        if node.level:
            parent = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parent, *filter(None, [node.module])])
        if not is_first_party(base):
            continue
        inside = {f"{base}.{alias.name}" for alias in node.names}
        files = {name for name in inside if path_of(name).is_file()}
        found |= files or {base}
    return frozenset(found)


def _statements(tree: ast.AST) -> list[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    nodes: list[ast.AST] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        nodes.append(node)
        waiting += list(ast.iter_child_nodes(node))
    return nodes
