"""The output of the command line: results as a table or as one JSON object on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..core.printed import plain

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str) -> None:
    """Print one line for the user on standard error, without what a terminal would obey."""
    print(plain(text), file=sys.stderr, flush=True)


def tell(text: object = "") -> None:
    """Print a result, of one line or more, on stdout, without what a terminal would obey."""
    print(plain(str(text), keep="\n"), flush=True)


def emit_json(thing: Mapping[str, Any]) -> None:
    """The one JSON object of a command, on stdout. NaN is not JSON and is refused."""
    print(json.dumps(thing, allow_nan=False, default=str), flush=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str = "") -> None:
    """A table on stdout: text to the left, numbers to the right, floats with four digits."""
    from rich.markup import escape
    from rich.table import Table

    grid = Table(title=escape(plain(title)) or None, title_justify="left", title_style="bold")
    for number, header in enumerate(headers):
        numeric = bool(rows) and all(isinstance(row[number], int | float) for row in rows)
        grid.add_column(
            escape(plain(header)), justify="right" if numeric else "left", overflow="fold"
        )
    for row in rows:
        grid.add_row(*(escape(_text(value)) for value in row))
    console = output()
    if not console.is_terminal:
        console.width = 160
    console.print(grid)


@contextmanager
def goes_on(how: str) -> Iterator[None]:
    """A context in which Ctrl-C ends with a line on how to continue. how: that line."""
    from ..core.errors import Interrupted

    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(how) from None


@contextmanager
def advice_if_it_diverges() -> Iterator[None]:
    """A context in which a training that diverges ends with advice. Errors that have advice already
    stay as they are.
    """
    from ..core.errors import InputError, NonFiniteError

    try:
        yield
    except NonFiniteError as bad:
        if isinstance(bad, InputError) or "learning rate" in str(bad):
            raise
        advice = (
            "lower its learning rates with --set (entrenous explain ALGORITHM lists its settings)"
        )
        raise NonFiniteError(f"training diverged: {bad}; {advice}") from bad


def output() -> Console:
    """rich's console on stdout. When the reader of the output has left, `main` ends the program
    quietly.
    """
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Output()


def _text(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else plain(str(value))


@contextmanager
def progress_bar(algorithm: str = "") -> Iterator[Callable[[int, int, str], None]]:
    """A bar of progress on stderr. Before the first step, when all options have been checked, the
    user is told if the device code of `algorithm` must be compiled.
    """
    from ..api.progress import progress_bar as bar

    announced = not algorithm
    with bar() as progress:

        def show(done: int, total: int, what: str) -> None:
            nonlocal announced
            if not announced:
                announce_compilation(algorithm)
                announced = True
            progress(done, total, what)

        yield show


def announce_compilation(algorithm: str) -> None:
    """Tells the user if the device code of an algorithm is not compiled on this machine yet."""
    from ..algorithms.named import kind_of

    code = _device_code(kind_of(algorithm)[0])
    if not all(map(_compiled, code)):
        say(
            f"compiling {algorithm}'s device code for this machine: once, some seconds; cached"
            " afterwards"
        )


def _device_code(kind: Any) -> list[ModuleType]:
    """The modules of an algorithm, or of the policy and the model that it is composed of, which are
    compiled.
    """
    from ..algorithms.gossip_learning import GossipLearning

    parts = (kind.policy_class, kind.model_class) if issubclass(kind, GossipLearning) else (kind,)
    modules = []
    for part in parts:
        own = sys.modules[part.__module__]
        if "njit" in vars(own):
            modules.append(own)
        for value in vars(own).values():
            if isinstance(value, ModuleType) and value.__name__.startswith("entrenous.kernels."):
                modules.append(value)
    return modules


def _compiled(module: ModuleType) -> bool:
    from pathlib import Path

    from numba import config

    source, own = Path(str(module.__file__)), getattr(config, "CACHE_DIR", "")
    cache = Path(own) if own else source.parent / "__pycache__"
    return any(cache.rglob(f"{source.stem}.*.nbi"))
