"""Progress of long work on stderr: a bar on a terminal, ten lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.contract.protocols import Progress, silent
from ..core.printed import plain


@contextmanager
def progress_bar(shown: bool = True) -> Iterator[Progress]:
    """A Progress that draws a bar on stderr, or prints ten lines where stderr is not a terminal.
    shown: False = nothing.
    """
    if not shown or not sys.stderr.isatty():
        yield _lines if shown else silent
        return
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


@contextmanager
def asked_progress(progress: bool | Progress | None) -> Iterator[Progress]:
    """The Progress that a caller asks for: True, False, the caller's own function, or None = on a
    terminal and in a notebook, where a person is likely to look.
    """
    if callable(progress):
        yield progress
        return
    with progress_bar(
        sys.stderr.isatty() or "ipykernel" in sys.modules if progress is None else progress
    ) as shown:
        yield shown


def _lines(done: int, total: int, what: str) -> None:
    if done == total or done * 10 // total != (done - max(1, total // 100)) * 10 // total:
        print(plain(f"{what} {done}/{total}"), file=sys.stderr, flush=True)
