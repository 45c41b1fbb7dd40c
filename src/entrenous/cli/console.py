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
    """Prints the one JSON object of a command on stdout. Raises ValueError for NaN, which is not
    JSON.
    """
    print(json.dumps(thing, allow_nan=False, default=str), flush=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str = "") -> None:
    """Prints a table on stdout: text to the left, numbers to the right, floats with four digits,
    and nothing for None.
    """
    from rich.markup import escape
    from rich.table import Table

    caption = escape(plain(title)) or None
    grid = Table(title=caption, title_justify="left", title_style="bold")
    for number, header in enumerate(headers):
        is_numeric = bool(rows) and all(isinstance(row[number], int | float) for row in rows)
        name = escape(plain(header))
        grid.add_column(name, justify="right" if is_numeric else "left", overflow="fold")
    # Escaped, since ids such as [bold] are markup to rich.
    for row in rows:
        grid.add_row(*(escape(_text(value)) for value in row))
    console = output()
    # A file or a pipe has no width; rich would fold at 80 characters.
    if not console.is_terminal:
        console.width = 160
    console.print(grid)


@contextmanager
def goes_on(how: str) -> Iterator[None]:
    """Ends with `how`, a line on how to continue, when Ctrl-C is pressed in this context."""
    from ..core.errors import Interrupted

    try:
        yield
    # A layer below may know better how to continue.
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(how) from None


@contextmanager
def advice_if_it_diverges() -> Iterator[None]:
    """Adds advice to the error of a training that diverges in this context, unless the error has
    some already.
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
    """Returns rich's console on stdout. It raises BrokenPipeError when the reader of the output has
    left, so that `main` ends quietly.
    """
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Output()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return plain(str(value))


@contextmanager
def progress_bar(algorithm: str = "") -> Iterator[Callable[[int, int, str], None]]:
    """Yields a function that shows progress as a bar on stderr. Before the first step, it tells the
    user if the device code of `algorithm` has to be compiled.
    """
    from ..api.progress import progress_bar as bar

    # Not announced before the first step: options may still be refused, and then nothing compiles.
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
    from ..core.compiling import COMPILES
    from ..systems.named import kind_of

    if not COMPILES:
        return
    from ..core.compiled_code import compiled_functions, is_ready

    kind, _ = kind_of(algorithm)
    by_module = [compiled_functions(module) for module in _device_code(kind)]
    # Functions that are called by compiled ones alone have no entry of their own in the cache.
    if all(any(map(is_ready, functions)) for functions in by_module):
        return
    is_kept = all(function.stats.cache_path for functions in by_module for function in functions)
    how_often = (
        "once, some seconds; cached afterwards" if is_kept else "in each process, some seconds"
    )
    say(f"compiling {algorithm}'s device code for this machine: {how_often}")


def _device_code(kind: Any) -> list[ModuleType]:
    """Returns the modules with compiled functions of an algorithm, or of the policy and the model
    that it is composed of.
    """
    from ..systems.gossip_learning import GossipLearning

    parts = (kind.policy_class, kind.model_class) if issubclass(kind, GossipLearning) else (kind,)
    modules = []
    for part in parts:
        own = sys.modules[part.__module__]
        # A module that imports `njit` compiles functions of its own; kernels have their room.
        if "njit" in vars(own):
            modules.append(own)
        for value in vars(own).values():
            if isinstance(value, ModuleType) and ".kernels." in value.__name__:
                modules.append(value)
    return modules
