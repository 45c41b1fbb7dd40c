"""`entrenous`: the command line. Results and JSON go to stdout, everything else to stderr. Bad
input ends with one line and exit code 2.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from ..core.errors import (
    CheckFailed,
    EntrenousError,
    EntrenousWarning,
    InputError,
    Interrupted,
    NotYet,
    StartAgain,
    may_pass,
    one_line,
)
from ..core.printed import plain
from .screen import any_screen, log_on_screen

# Commands of a distribution of its own, which a clone has beside the package.
LABORATORY = ("bench", "experiment", "papers")
FOLDER = r"\1; `run` writes runs into --out, and the commands that read them have --runs"
SERVICES = ("server", "node")  # commands that live on: a server, and a node or peer


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits with 0 (done), 1 (a check failed), 2 (bad input), 70 (a bug of
    entrenous), 75 (a service to be started again) or 130 (interrupted)."""
    with any_screen(), log_on_screen():
        _end_with_code(arguments)


def _end_with_code(arguments: Sequence[str] | None) -> None:
    """Runs a command and raises SystemExit with its code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with _collecting(words), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # NumPy warns of an overflow; values that are not finite are refused by name later.
            warnings.simplefilter("ignore", RuntimeWarning)
            code = _run(words)
            # Here rather than at the interpreter's end, so that a closed pipe is caught below.
            sys.stdout.flush()
    except CheckFailed as broken:
        _fail(str(broken), 1)
    except NotYet as bad:
        # Something that may come, such as a port: a supervisor starts a service again by code 75.
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
        from ..core.registry.own import own_error

        # An error in the user's own algorithm is no bug of entrenous: the line names its place.
        said = own_error(bug)
        if said:
            _fail(one_line(f"{said}; ENTRENOUS_DEBUG=1 shows how it came to that"))
        if isinstance(bug, ModuleNotFoundError) and not str(bug.name).startswith("entrenous"):
            # A node may be installed without what it does not use, such as the reader of files.
            name = str(bug.name).partition(".")[0]
            _fail(f"{name} is not installed, and this command needs it; pip install {name}")
        said = f"a bug of entrenous, please report it: {type(bug).__name__}: {bug}"
        _fail(one_line(f"{said}; ENTRENOUS_DEBUG=1 shows where"), 70)
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _collecting(words: Sequence[str]) -> Iterator[None]:
    """Collects cyclic garbage seldom while a command runs that ends by itself: searching its data,
    which is no garbage, took an eighth of its time. A service collects as usual, since its rounds
    leave cycles that hold arrays.
    """
    usual = gc.get_threshold()
    if not _is_service(words):
        gc.set_threshold(100_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _is_service(words: Sequence[str]) -> bool:
    """Returns True for the command line of a service: a server, a node or a peer."""
    return _command_of(words) in SERVICES


def _command_of(words: Sequence[str]) -> str:
    """Returns the command of a command line, "" if there is none."""
    # Options before the command are those of entrenous itself.
    return next((word for word in words if not word.startswith("-")), "")


def _code(words: Sequence[str], error: BaseException) -> int:
    """Returns the exit code for an error of the system: 75 for a service that may continue later,
    else 2.
    """
    if _is_service(words) and may_pass(error):
        return 75
    return 2


def _run(words: Sequence[str]) -> Any:
    """Runs a command and returns its result. Raises EntrenousError for a command line that cannot
    be understood.
    """
    from cyclopts import CycloptsError

    from .lists import fill

    app = _app()
    command = _command_of(words)
    if command in LABORATORY and command not in app:
        raise InputError(
            f"entrenous {command}",
            "it comes with the laboratory, entrenous-lab, which is not installed",
            fix="pip install ./lab in a clone of Entrenous",
        )
    try:
        # Lists of names in help texts are made for the command that was asked alone.
        fill(app, words)
        if command == "data":
            words = ["/dev/stdin" if word == "-" else word for word in words]
        return app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as bad:
        # cyclopts breaks its sentences into lines, and ends some with a full stop.
        said = one_line(" ".join(str(bad).split()))
        # One folder with two names, neither of which is spelt like the other.
        said = re.sub("(?<=: --)(runs|out)[.].*", FOLDER, said)
        sentence = said if said.endswith("..") else said.removesuffix(".")
        raise EntrenousError(f"{sentence}; see `entrenous --help`") from None


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    where = f" ({filename}:{lineno})"
    if issubclass(category, EntrenousWarning):
        where = ""
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
    in the shell.
    """
    from cyclopts import App, Group

    from .brought import absent, brought

    groups = _groups()
    # Commands of other packages come after ours, in our groups or in theirs.
    for name, commands in brought().groups.items():
        groups.setdefault(name, []).extend(commands)
    for name, commands in absent(groups).items():
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
    """Returns the commands by group: functions, and apps that hold further commands."""
    # Imported when the command line is read, so that `import entrenous.cli` stays light.
    from . import (
        about,
        ask,
        checking,
        compare,
        data,
        demo,
        evaluating,
        run,
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
            about.algorithms,
            about.explain,
        ],
        # Three questions of trust: other programs, experiments, declarations.
        "Checks": [evaluating.evaluate, checking.leakcheck, checking.check],
        "Privacy": [],
        "Data": [data.app, data.split],
    }
