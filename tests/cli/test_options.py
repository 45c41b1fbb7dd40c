"""The fields of a dataclass as options of a command: what is typed, and what the command gets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from cyclopts import App, Parameter

from entrenous.cli.options import documented, takes
from entrenous.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Plan:
    size: int = 3
    """How large."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By name."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    attacks: tuple[str, ...] = ()
    scale: tuple[float, float] = (1.0, 5.0)
    refit: bool | None = None
    apart: bool = True
    quick: bool = False
    kind: Literal["small", "large"] = "small"
    out: str | Path | None = None


@takes(Plan)
def command(name: str = "", /, *, kind: str = "own", **options: Any) -> dict[str, Any]:
    """Does it."""
    return {"name": name, "kind": kind, **options}


def typed(*words: str) -> dict[str, Any]:
    app = App(default_parameter=Parameter(negative=()))
    app.default(command)
    return app(list(words), exit_on_error=False, print_error=False, result_action="return_value")


@pytest.mark.parametrize(
    ("words", "got"),
    [
        ([], {}),
        (["--size", "4"], {"size": 4}),
        (["--set", "a=1", "--set", "b=@f.csv"], {"settings": {"a": "1", "b": "@f.csv"}}),
        (["--grid", "a=1,2", "--grid", "b=x"], {"grid": {"a": ["1", "2"], "b": ["x"]}}),
        (["--labels", "one:a=1", "--labels", "one:b=2"], {"labels": {"one": {"a": "1", "b": "2"}}}),
        (["--attack", "x", "--attack", "y"], {"attacks": ("x", "y")}),
        (["--scale", "1", "10"], {"scale": (1.0, 10.0)}),
        (["--refit"], {"refit": True}),
        (["--no-refit"], {"refit": False}),
        (["--no-apart"], {"apart": False}),
        (["--quick"], {"quick": True}),
        (["--out", "here"], {"out": Path("here")}),
    ],
)
def test_what_is_typed_arrives_as_the_type_of_the_field(
    words: list[str], got: dict[str, Any]
) -> None:
    assert typed(*words) == {"name": "", "kind": "own", **got}


def test_a_parameter_of_the_command_takes_the_place_of_a_field() -> None:
    assert typed("it", "--kind", "any") == {"name": "it", "kind": "any"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "a"], "--set: got 'a'; expected name=value; for example --set pi=0.5"),
        (["--set", "a=1", "--set", "a=2"], "--set: a is given twice; expected each setting once"),
        (["--labels", "a=1"], "--labels: got 'a=1'; expected LABEL:name=value"),
    ],
)
def test_a_wrong_value_names_the_option(words: list[str], said: str) -> None:
    with pytest.raises(InputError) as bad:
        typed(*words)
    assert str(bad.value).startswith(said)


def test_the_help_of_an_option_is_the_text_of_its_field() -> None:
    assert documented(command).split("\n") == [
        "Does it.",
        "",
        "Parameters",
        "----------",
        "size:",
        "    How large.",
        "settings:",
        "    By name. Written as name=value; may be repeated.",
    ]


@pytest.mark.beside
def test_options_load_nothing_heavy() -> None:
    code = (
        "import sys; import entrenous.runs.options, entrenous_audit.plan,"
        " entrenous_network.operate.plans; print([one for one in ('numpy', 'numba', 'cyclopts',"
        " 'pydantic') if one in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.stdout == "[]\n", shown.stderr
