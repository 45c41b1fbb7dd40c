"""The identity of the code that a training imports, so that an outcome of other code is not taken
for its own.
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
    """The identity of the source of some modules of this package and of all that they import from
    it, directly or not.

    Imports inside functions count, imports for type checking alone do not. Neither do comments,
    docstrings and layout. without: modules that are imported and not used in what is identified;
    what they alone import does not count either.
    """
    said = "".join(
        f"{name} {_read(name).sha256}\n" for name in sorted(closure(*modules, without=without))
    )
    return hashlib.sha256(said.encode()).hexdigest()


class _ReadModule(NamedTuple):
    """What a module imports from this package, and the identity of its source."""

    imports: frozenset[str]
    sha256: str


@cache
def _read(name: str) -> _ReadModule:
    tree, package = (
        ast.parse(source_of(path_of(name))),
        name if path_of(name).name == "__init__.py" else name.rpartition(".")[0],
    )
    wanted = {one for node in _imports(tree) for one in _targets(node, package)}
    return _ReadModule(
        frozenset(wanted), hashlib.sha256(ast.dump(without_docstrings(tree)).encode()).hexdigest()
    )


def source_sha256(kind: type) -> str:
    """The identity of the source of a class and of what it imports from this package, directly or
    not; of a class of one's own too.

    Of one's own its file counts, with the modules that it imports from the same folder; in a
    notebook the class alone. "" where no source can be found, as at a bare prompt."""
    if is_first_party(kind.__module__):
        return program_sha256(kind.__module__)
    texts = _own_texts(kind)
    trees = [ast.parse(text) for text in texts]
    ours = {one for tree in trees for node in _imports(tree) for one in _targets(node, "")}
    said = "".join(f"{ast.dump(without_docstrings(tree))}\n" for tree in trees)
    return hashlib.sha256(f"{said}{program_sha256(*ours)}".encode()).hexdigest() if texts else ""


def _own_texts(kind: type) -> list[str]:
    """The source of a class that is not of this package, and of the modules beside it that it
    imports.
    """
    module = sys.modules.get(kind.__module__)
    file, loaded = getattr(module, "__file__", None), getattr(module, "__entrenous_source__", None)
    if file is None:
        try:
            return [inspect.cleandoc(inspect.getsource(kind))]
        except (OSError, TypeError):
            return []
    found, waiting = dict[Path, str](), [Path(file)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = loaded if loaded is not None and path == Path(file) else source_of(path)
            names = [one for node in _imports(ast.parse(found[path])) for one in _named(node)]
            waiting += [
                beside for name in names if (beside := path.with_name(f"{name}.py")).is_file()
            ]
    return [found[path] for path in sorted(found)]


def _named(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The names by which a module beside this one may be imported: their first parts."""
    if isinstance(node, ast.Import):
        return [one.name.partition(".")[0] for one in node.names]
    return [node.module.partition(".")[0]] if node.module else [one.name for one in node.names]


def closure(*modules: str, without: tuple[str, ...] = ()) -> set[str]:
    """The names of some modules and of all first-party modules that they import, directly or not,
    but through `without`.
    """
    found, waiting = set[str](), list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(imported(name) - found - {*without})
    return found


@cache
def imported(name: str) -> frozenset[str]:
    """The first-party modules that a module imports; with each module the packages that it lies in,
    whose files run first.
    """
    wanted = _read(name).imports
    parents = {one.rsplit(".", depth)[0] for one in wanted for depth in range(1, one.count("."))}
    return frozenset(one for one in wanted | parents if "." in one)


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import, but those under `if TYPE_CHECKING`."""
    for node in _statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not (
            isinstance(node, ast.If)
            and ast.unparse(next(ast.iter_child_nodes(node))).startswith("TYPE_CHECKING")
        ):
            yield from _imports(node)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """What a node holds that is a statement, or holds some: an expression holds none, and is most
    of a tree.
    """
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        held = getattr(node, part, None)
        yield from held if isinstance(held, list) else ()


def _targets(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """The first-party modules of one import statement: `from .a import b` is a.b if that is a
    module, and a.
    """
    if isinstance(node, ast.Import):
        return [one.name for one in node.names if is_first_party(one.name) and "." in one.name]
    parent = (
        ".".join(package.split(".")[: len(package.split(".")) + 1 - node.level])
        if node.level
        else ""
    )
    base = ".".join(filter(None, (parent, node.module)))
    if not is_first_party(base):
        return []
    names = [
        LAZY.get(one.name, f"{base}.{one.name}") if base == PACKAGE else f"{base}.{one.name}"
        for one in node.names
    ]
    return [one for one in (base, *names) if path_of(one).is_file()]


def is_first_party(module: str) -> bool:
    """Tells whether a module is of this package, or of a distribution beside it such as
    `entrenous_lab`.
    """
    first = module.partition(".")[0]
    return first == PACKAGE or first.startswith(f"{PACKAGE}_")


@cache
def _root(package: str) -> Path:
    """The folder of a first-party package. It is found and not imported; a package that is not
    there has a path that does not exist.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return Path(package)
    return Path(spec.submodule_search_locations[0])


def path_of(name: str) -> Path:
    """The file of a module of a first-party package; a path that does not exist if it is none."""
    first, *rest = name.split(".")
    inside = _root(first).joinpath(*rest)
    return inside / "__init__.py" if inside.is_dir() else inside.with_name(f"{inside.name}.py")


def source_of(path: Path) -> str:
    """The text of a module."""
    return path.read_text(encoding="utf-8")


def without_docstrings(tree: ast.AST) -> ast.AST:
    """The tree without docstrings, in place."""
    body = getattr(tree, "body", None)
    if (
        isinstance(body, list)
        and body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
    ):
        tree.body = body[1:]  # type: ignore[attr-defined]
    for node in _statements(tree):
        without_docstrings(node)
    return tree
