"""The identity of the code that a training imports, so that an outcome of other code is not taken
for an outcome of this one.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ... import LAZY

PACKAGE = __package__.partition(".")[0]


@cache
def program_sha256(*modules: str, without: tuple[str, ...] = ()) -> str:
    """Returns the identity of the source of some modules of this package and of all that they
    import from it, directly or not.

    Imports inside functions count, imports for type checking alone do not. Neither do comments,
    docstrings and layout. without: modules that are left out, with everything that they alone
    import.
    """
    names = sorted(closure(*modules, without=without))
    lines = "".join(f"{name} {_read(name).sha256}\n" for name in names)
    return hashlib.sha256(lines.encode()).hexdigest()


class _ReadModule(NamedTuple):
    """A module as its source has it."""

    imports: frozenset[str]
    """Modules that it imports from this package."""
    sha256: str
    """The identity of its source."""


@cache
def _read(name: str) -> _ReadModule:
    """Reads a first-party module, without importing it."""
    path = path_of(name)
    tree = ast.parse(source_of(path))
    package = name
    if path.name != "__init__.py":
        package = name.rpartition(".")[0]
    wanted: set[str] = set()
    for node in _imports(tree):
        wanted.update(_targets(node, package))
    # Comments and layout are not in the tree.
    dumped = ast.dump(without_docstrings(tree))
    digest = hashlib.sha256(dumped.encode()).hexdigest()
    return _ReadModule(frozenset(wanted), digest)


def source_sha256(kind: type) -> str:
    """Returns the identity of the source of a class and of all that it imports from this package,
    directly or not.

    For a user's own class it is that of its file and of the modules that the file imports from the
    same folder; in a notebook, of the class alone. "" if no source can be found, as at a bare
    prompt.
    """
    if is_first_party(kind.__module__):
        return program_sha256(kind.__module__)
    texts = _own_texts(kind)
    if not texts:
        return ""
    ours: set[str] = set()
    dumped = ""
    for text in texts:
        tree = ast.parse(text)
        for node in _imports(tree):
            ours.update(_targets(node, ""))
        dumped += f"{ast.dump(without_docstrings(tree))}\n"
    whole = dumped + program_sha256(*ours)
    return hashlib.sha256(whole.encode()).hexdigest()


def _own_texts(kind: type) -> list[str]:
    """Returns the source of a user's own class, and of what it imports from its folder."""
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        try:
            return [inspect.cleandoc(inspect.getsource(kind))]
        except (OSError, TypeError):
            return []
    texts: dict[Path, str] = {}
    # The file that was loaded counts as it was then.
    loaded = getattr(module, "__entrenous_source__", None)
    waiting = [Path(file)]
    while waiting:
        path = waiting.pop()
        if path in texts:
            continue
        if loaded is not None and path == Path(file):
            texts[path] = loaded
        else:
            texts[path] = source_of(path)
        for node in _imports(ast.parse(texts[path])):
            for name in _named(node):
                neighbour = path.with_name(f"{name}.py")
                if neighbour.is_file():
                    waiting.append(neighbour)
    return [texts[path] for path in sorted(texts)]


def _named(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Returns the first parts of imported names, which may be modules of the same folder."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if node.module:
        return [node.module.partition(".")[0]]
    return [alias.name for alias in node.names]


def closure(*modules: str, without: tuple[str, ...] = ()) -> set[str]:
    """Returns the names of some modules and of all first-party modules that they import, directly
    or not, except through `without`.
    """
    names: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting.extend(imported(name) - names - {*without})
    return names


@cache
def imported(name: str) -> frozenset[str]:
    """Returns the first-party modules that a module imports; with each module the packages that it
    lies in, whose files run first.
    """
    modules = set(_read(name).imports)
    for module in _read(name).imports:
        parent = module
        # Without the root package, which only hands on names.
        while parent.count(".") > 1:
            parent = parent.rpartition(".")[0]
            modules.add(parent)
    return frozenset(module for module in modules if "." in module)


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yields every import, except those under `if TYPE_CHECKING`."""
    for node in _statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not _for_types(node):
            yield from _imports(node)


def _for_types(node: ast.AST) -> bool:
    """Tells whether a statement is `if TYPE_CHECKING`."""
    if not isinstance(node, ast.If):
        return False
    condition = next(ast.iter_child_nodes(node))
    return ast.unparse(condition).startswith("TYPE_CHECKING")


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the parts of a node that are statements or hold some. Expressions, which are most of a
    tree, hold none.
    """
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        held = getattr(node, part, None)
        yield from held if isinstance(held, list) else ()


def _targets(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """Returns the first-party modules of one import statement: `from .a import b` is a.b if that is
    a module, and a.
    """
    imported_names = [alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        return [name for name in imported_names if is_first_party(name) and "." in name]
    parent = ""
    if node.level:
        # Each dot beyond the first goes one package up.
        parts = package.split(".")
        parent = ".".join(parts[: len(parts) + 1 - node.level])
    base = ".".join(filter(None, (parent, node.module)))
    if not is_first_party(base):
        return []
    # Names that the package itself offers are imported lazily from their modules.
    lazy = LAZY if base == PACKAGE else {}
    modules = [base, *(lazy.get(name, f"{base}.{name}") for name in imported_names)]
    return [module for module in modules if path_of(module).is_file()]


def is_first_party(module: str) -> bool:
    """Tells whether a module is of this package, or of another distribution of this project, such
    as `entrenous_lab`.
    """
    first = module.partition(".")[0]
    return first == PACKAGE or first.startswith(f"{PACKAGE}_")


@cache
def _root(package: str) -> Path:
    """Returns the folder of a first-party package, without importing it. A package that is not
    installed has a path that does not exist.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return Path(package)
    return Path(spec.submodule_search_locations[0])


def path_of(name: str) -> Path:
    """Returns the file of a module of a first-party package; a path that does not exist if it is
    none.
    """
    first, *rest = name.split(".")
    inside = _root(first).joinpath(*rest)
    if inside.is_dir():
        return inside / "__init__.py"
    return inside.with_name(f"{inside.name}.py")


def source_of(path: Path) -> str:
    """Returns the text of a module."""
    return path.read_text(encoding="utf-8")


def without_docstrings(tree: ast.AST) -> ast.AST:
    """Removes docstrings from a tree, in place, and returns it."""
    body = getattr(tree, "body", None)
    first = None
    if isinstance(body, list) and body:
        first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        tree.body = body[1:]  # type: ignore[attr-defined, index]
    for node in _statements(tree):
        without_docstrings(node)
    return tree
