"""`entrenous`: the command line. Results and JSON go to stdout, everything else to stderr; bad input is one line and exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from ..core.errors import EntrenousError, one_line


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: runs a command and exits with 0 (done), 1 (a check failed), 2 (bad input), 130 (interrupted)."""
    from cyclopts import CycloptsError

    try:
        code = _app()(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as bad:
        _fail(f"{one_line(' '.join(str(bad).split()))}; see `entrenous --help`")
    except EntrenousError as bad:
        _fail(str(bad))
    except KeyboardInterrupt:
        print("interrupted; an unfinished run can be continued with `entrenous run --resume RUN`", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (MemoryError, OSError) as bad:
        _fail(f"{type(bad).__name__}: {one_line(str(bad))}")
    sys.exit(code if isinstance(code, int) else 0)


def _fail(text: str) -> None:
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def _app():  # type: ignore[no-untyped-def]  # cyclopts.App: imported here so that `import entrenous` stays light
    from cyclopts import App

    from .. import __version__
    from . import about, data, lab, run

    app = App(
        name="entrenous",
        version=__version__,
        help="Recommendations without collecting anyone's history. Start with: entrenous demo",
    )
    app.command(data.app)
    commands: list[Any] = [run.run, run.compare, run.recommend, run.runs, run.report, run.split, about.algorithms, about.explain]
    for command in [*commands, lab.experiment, lab.bench, lab.tune, lab.leakcheck, lab.demo]:
        app.command(command)
    return app
