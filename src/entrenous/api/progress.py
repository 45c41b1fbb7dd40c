"""Progress of long work on stderr: a bar on a terminal, ten lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.contract.protocols import Progress
from ..core.printed import plain


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A Progress that draws a bar on stderr, or prints ten lines where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield _print_tenths
        return
    # Loaded here, since a program without a terminal has no need of it.
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None)

        def show(done: int, total: int, what: str) -> None:
            bars.update(task, completed=done, total=total, description=escape(plain(what)))

        yield show


def _print_tenths(done: int, total: int, what: str) -> None:
    """Prints a line for each tenth of the work. It is called after each step, or after each
    hundredth where there are many steps.
    """
    step = max(1, total // 100)
    tenth = done * 10 // total
    tenth_before = (done - step) * 10 // total
    if done == total or tenth != tenth_before:
        print(plain(f"{what} {done}/{total}"), file=sys.stderr, flush=True)
