"""Of Flower only the public interface is used: three modules, and no attribute that begins with an
underscore.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from paths import ROOT

FILES = sorted((ROOT / "packages/entrenous-flower/src/entrenous_flower").glob("*.py"))
PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp"}
PYTHONS_OWN = {"__name__", "_replace"}  # of every class, of every NamedTuple


def modules(tree: ast.AST) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    named = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    return named | {
        str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
    }


def hidden(tree: ast.AST) -> list[str]:
    """Attributes with an underscore of anything but `self`, and what reaches those by their
    names.
    """
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_")
    ]
    foreign = [
        ast.unparse(node)
        for node in found
        if ast.unparse(node.value) != "self" and node.attr not in PYTHONS_OWN
    ]
    named = [
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in {"getattr", "setattr", "vars"}
    ]
    imported = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    return foreign + named + [name for name in imported if name.startswith("_")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_the_public_interface_is_used(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert {name for name in modules(tree) if name.split(".")[0] == "flwr"} <= PUBLIC
    assert hidden(tree) == []


def test_hidden_ones_are_seen() -> None:
    assert hidden(
        ast.parse("grid._client.push(); setattr(app, 'x', 1); from flwr.app import _x; self._own")
    ) == ["grid._client", "setattr", "_x"]
    assert modules(ast.parse("import flwr.proto\nfrom flwr.common.serde import x")) == {
        "flwr.proto",
        "flwr.common.serde",
    }


def test_there_are_files_to_look_at() -> None:
    assert len(FILES) == 7
