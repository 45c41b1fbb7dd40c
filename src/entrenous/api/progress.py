"""Progress of long work: a bar on a terminal or in a notebook, ten lines on stderr elsewhere."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.contract.protocols import Progress
from ..core.printed import plain


def is_notebook() -> bool:
    """Tells whether this process is the kernel of a notebook."""
    # Neither is imported by us: a kernel has both.
    has_kernel = {"ipykernel", "IPython"} <= sys.modules.keys()
    return has_kernel and sys.modules["IPython"].get_ipython() is not None


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A Progress that draws a bar in a notebook or on stderr, or prints ten lines where stderr is
    not a terminal.
    """
    if is_notebook():
        bar = _NotebookBar()
        try:
            yield bar.show
        finally:
            bar.end()
        return
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


class _NotebookBar:
    """A bar below the cell of a notebook, which the next step draws anew and the end takes away.
    rich and tqdm write to stderr, which notebooks show in red, unless ipywidgets is installed.
    """

    def __init__(self) -> None:
        self._output: Any = None

    def show(self, done: int, total: int, what: str) -> None:
        """Draws the bar as a Progress says."""
        label = plain(f"{what} {done}/{total}")
        bar = f'<progress value="{done}" max="{total}"></progress>'
        self._draw(f"{bar} {html.escape(label)}", label)

    def end(self) -> None:
        """Takes the bar away."""
        if self._output is not None:
            self._draw("", "")

    def _draw(self, markup: str, text: str) -> None:
        """Draws the bar as HTML, or as a text where a kernel has no page."""
        bundle = {"text/html": markup, "text/plain": text}
        if self._output is None:
            display = sys.modules["IPython"].display.display
            self._output = display(bundle, raw=True, display_id=True)
        else:
            self._output.update(bundle, raw=True)


def _print_tenths(done: int, total: int, what: str) -> None:
    """Prints a line for each tenth of the work. It is called after each step, or after each
    hundredth where there are many steps.
    """
    step = max(1, total // 100)
    tenth = done * 10 // total
    tenth_before = (done - step) * 10 // total
    if done == total or tenth != tenth_before:
        print(plain(f"{what} {done}/{total}"), file=sys.stderr, flush=True)
