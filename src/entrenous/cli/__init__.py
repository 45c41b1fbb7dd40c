"""`entrenous`: the command line. Results and JSON go to stdout, everything else to stderr; bad input is one line and exit code 2."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TextIO

from ..core.errors import EntrenousError, EntrenousWarning, one_line


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: runs a command and exits with 0 (done), 1 (a check failed), 2 (bad input), 70 (our bug), 130 (interrupted)."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.simplefilter("ignore", RuntimeWarning)  # an overflow: what is not finite is refused by name later
            code = _run(arguments)
            sys.stdout.flush()
    except EntrenousError as bad:
        _fail(str(bad))
    except KeyboardInterrupt:
        _fail("interrupted; `entrenous runs` lists what can be continued with `entrenous run --resume RUN`", 130)
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError as bad:
        _fail(one_line(f"out of memory: {bad}"))
    except OSError as bad:
        _fail(one_line(f"{bad.filename or 'system'}: {bad.strerror or bad}"))
    except Exception as bug:
        if os.environ.get("ENTRENOUS_DEBUG"):
            raise
        _fail(one_line(f"a bug of entrenous, please report it: {type(bug).__name__}: {bug}; ENTRENOUS_DEBUG=1 shows where"), 70)
    sys.exit(code if isinstance(code, int) else 0)


def _run(arguments: Sequence[str] | None) -> Any:
    """The result of a command. Raises InputError for a command line that cannot be understood."""
    from cyclopts import CycloptsError

    try:
        return _app()(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as bad:
        said = one_line(" ".join(str(bad).split()))
        whole = said if said.endswith("..") else said.removesuffix(".")
        raise EntrenousError(f"{whole}; see `entrenous --help`") from None


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    where = "" if issubclass(category, EntrenousWarning) else f" ({filename}:{lineno})"
    print(f"warning: {one_line(str(message))}{where}", file=sys.stderr)


def _fail(text: str, code: int = 2) -> None:
    print(f"error: {text}", file=sys.stderr)
    sys.exit(code)


def _app():  # type: ignore[no-untyped-def]  # cyclopts.App: imported here so that `import entrenous` stays light
    from cyclopts import App, Parameter

    from .. import __version__
    from . import about, ask, compare, data, export, lab, members, peer_members, run, serve, tune
    from .console import output

    app = App(
        name="entrenous",
        version=__version__,
        console=output(),
        default_parameter=Parameter(negative=()),  # no --no-json beside --json
        suppress_keyboard_interrupt=False,
        help="Recommendations without collecting anyone's history. Start with: entrenous demo",
    )
    app.command(data.app)
    app.command(members.app)  # federation's, with what is in founding and members
    app.command(peer_members.app)  # peer's, likewise
    commands: list[Any] = [run.run, compare.compare, ask.recommend, ask.predict, export.export, run.runs, run.report, run.split]
    commands += [about.algorithms, about.explain]
    commands += [serve.server, serve.gateway, serve.device]
    for command in [*commands, lab.experiment, lab.bench, tune.tune, lab.leakcheck, lab.demo]:
        app.command(command)
    return app
