"""`entrenous`: the command line. Results and JSON go to stdout, everything else to stderr; bad
input is one line and exit code 2.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from ..core.errors import (
    CheckFailed,
    EntrenousError,
    EntrenousWarning,
    Interrupted,
    NotYet,
    StartAgain,
    may_pass,
    one_line,
)
from ..core.printed import plain

SERVICES = ("server", "node")  # commands that live on: a server, and a node, relay or peer


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: runs a command and exits with 0 (done), 1 (a check failed), 2 (bad input),
    70 (our bug), 75 (start it again), 130 (interrupted)."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with _collecting(words), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # An overflow: values that are not finite are refused by name later.
            warnings.simplefilter("ignore", RuntimeWarning)
            code = _run(arguments)
            sys.stdout.flush()
    except CheckFailed as broken:
        _fail(str(broken), 1)
    except NotYet as bad:
        _fail(str(bad), 75 if _is_service(words) else 2)
    except StartAgain as ended:
        _fail(str(ended), 75)
    except EntrenousError as bad:
        _fail(str(bad))
    except KeyboardInterrupt as stopped:
        _fail(f"interrupted; {stopped}" if isinstance(stopped, Interrupted) else "interrupted", 130)
    except BrokenPipeError:
        # The reader of the output has left, as `head` does. Python flushes stdout once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError as bad:
        _fail(one_line(f"out of memory: {bad}"), _code(words, bad))
    except OSError as bad:
        _fail(one_line(f"{bad.filename or 'system'}: {bad.strerror or bad}"), _code(words, bad))
    except Exception as bug:
        # A library may wrap the error of a full disk in one of its own.
        if may_pass(bug):
            _fail(one_line(f"{type(bug).__name__}: {bug}"), _code(words, bug))
        if os.environ.get("ENTRENOUS_DEBUG"):
            raise
        from ..core.registry.own import own_line

        # An error in a user's algorithm is the user's: it names the line.
        if where := own_line(bug):
            _fail(
                one_line(
                    f"{where}: {type(bug).__name__}: {one_line(str(bug), 300)}; ENTRENOUS_DEBUG=1"
                    " shows how it came to that"
                )
            )
        _fail(
            one_line(
                f"a bug of entrenous, please report it: {type(bug).__name__}: {bug};"
                " ENTRENOUS_DEBUG=1 shows where"
            ),
            70,
        )
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _collecting(words: Sequence[str]) -> Iterator[None]:
    """A context in which cyclic garbage is collected seldom, for a command that ends by itself: to
    search its data, which is no garbage, took an eighth of its time. A service collects as Python
    does: its rounds leave cycles that are full of arrays.
    """
    usual = gc.get_threshold()
    if not _is_service(words):
        gc.set_threshold(100_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _is_service(words: Sequence[str]) -> bool:
    """Returns True for the command line of a service: a server, a node, a relay or a peer."""
    return next((word for word in words if not word.startswith("-")), "") in SERVICES


def _code(words: Sequence[str], error: BaseException) -> int:
    """The exit code for what the system refuses: 75 where a service may go on later, 2
    elsewhere.
    """
    return 75 if _is_service(words) and may_pass(error) else 2


def _run(arguments: Sequence[str] | None) -> Any:
    """The result of a command. Raises InputError for a command line that cannot be understood."""
    from cyclopts import CycloptsError

    from .lists import fill

    app = _app()
    try:
        fill(app, sys.argv[1:] if arguments is None else arguments)
        return app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
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
    print(f"error: {plain(text)}", file=sys.stderr)
    sys.exit(code)


# cyclopts.App: imported here so that `import entrenous` stays light
def _app():  # type: ignore[no-untyped-def]
    from cyclopts import App, Parameter

    from .. import __version__
    from .console import output

    app = App(
        name="entrenous",
        version=__version__,
        console=output(),
        default_parameter=Parameter(negative=()),  # --json has no --no-json
        suppress_keyboard_interrupt=False,
        help="Recommendations without collecting anyone's history. Start with: entrenous demo",
    )
    _add_commands(app)
    return app


def _add_commands(app: Any) -> None:
    """Adds every command to a cyclopts.App, group by group, and the option that installs completion
    for the shell.
    """
    from cyclopts import App, Group

    from .brought import brought

    groups = _groups()
    for name, commands in brought().groups.items():
        groups.setdefault(name, []).extend(commands)
    for number, (name, commands) in enumerate(groups.items()):
        group = Group(name, sort_key=number)
        for command in commands:
            if isinstance(command, App):
                command.group = group
                app.command(command)
            else:
                app.command(command, group=group)
    here = Group("Options", sort_key=len(groups))
    app["--help"].group = app["--version"].group = here
    app.register_install_completion_command(
        add_to_startup=False, group=here, help="Complete commands and options with Tab."
    )


def _groups() -> dict[str, list[Any]]:
    """The commands by group: functions, and apps that group further commands."""
    from . import (
        about,
        ask,
        attack,
        audit,
        checking,
        compare,
        data,
        demo,
        members,
        receipt,
        run,
        serve,
        stored,
        tune,
    )

    return {
        "Start": [
            demo.demo,
            run.run,
            ask.recommend,
            ask.predict,
            stored.runs,
            stored.report,
            stored.export,
        ],
        "Research": [
            compare.compare,
            tune.tune,
            audit.audit,
            checking.leakcheck,
            checking.check,
            about.algorithms,
            about.explain,
        ],
        "Privacy": [receipt.receipt, attack.attack],
        "Data": [data.app, data.split],
        # federation's app with what is in founding and members
        "Network": [members.app, serve.server, serve.node],
    }
