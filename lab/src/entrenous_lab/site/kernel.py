"""Executes the cells of a tutorial: a program of its own, which `cells.executed` starts.

It reads a JSON list of [kind, text] and prints a JSON list of [what was printed, the picture].
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import subprocess
import sys
from types import ModuleType
from typing import Any


def run_cell(kind: str, text: str, names: dict[str, Any]) -> tuple[str, str]:
    """Runs one cell in the namespace `names` and returns its output and its picture."""
    if kind == "markdown":
        return "", ""
    if kind == "bash":
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{text}\n{done.stdout}{done.stderr}")
        return done.stdout, ""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = _raised(text, names) if kind == "raises" else _evaluated(text, names)
    picture = value._repr_svg_() if hasattr(value, "_repr_svg_") else ""
    said = printed.getvalue()
    if value is not None and not picture:
        said += f"{value}\n" if kind == "raises" else f"{value!r}\n"
    return said, picture or ""


def _evaluated(text: str, names: dict[str, Any]) -> Any:
    """Executes statements; returns the value of the last one if it is an expression."""
    tree = ast.parse(text)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "<tutorial>", "exec"), names)
        return None
    tree.body.pop()
    exec(compile(tree, "<tutorial>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<tutorial>", "eval"), names)


def _raised(text: str, names: dict[str, Any]) -> str:
    """Executes statements that end in an error of the package, and returns its line."""
    from entrenous.core.errors import EntrenousError

    try:
        _evaluated(text, names)
    except EntrenousError as bad:
        return f"{type(bad).__name__}: {bad}"
    raise RuntimeError(f"no error was raised by:\n{text}")


def main() -> None:
    """Runs the cells of stdin in one namespace."""
    cells = json.load(sys.stdin)
    # As in a notebook, the cells are the main module: a class of theirs is found by its module.
    tutorial = ModuleType("__main__")
    sys.modules["__main__"] = tutorial
    outputs = [run_cell(kind, text, tutorial.__dict__) for kind, text in cells]
    sys.stdout.write(json.dumps(outputs))


if __name__ == "__main__":
    main()
