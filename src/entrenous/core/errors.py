"""Errors that a user meets: one line that says what is wrong, where, what was expected, and what to
do.
"""

from __future__ import annotations

import copy
import copyreg
import difflib
import errno
from collections.abc import Callable, Iterable
from typing import Any, Self

# What the system refuses now and may grant later.
PASSING = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.EBUSY,
        errno.ETIMEDOUT,
        errno.EADDRINUSE,
        errno.EADDRNOTAVAIL,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
    }
)
# The same in SQLite: busy, locked, no memory, input or output, full.
PASSING_SQLITE = frozenset({5, 6, 7, 10, 13})
# Characters of an error, and of the problem in it, whatever else it says.
LINE = 600
LEAST_PROBLEM = 80


class EntrenousError(Exception):
    """Base of every error that the command line prints as one line, with exit code 2."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew from its message and its fields: an error comes out of a worker process whatever
        # the constructor of its class takes.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class CheckFailed(EntrenousError):
    """A check that was asked for did not pass: one line, and exit code 1."""


class StartAgain(EntrenousError):
    """Ends a program for a cause that may be gone when it is started again, as a service manager
    does: one line, exit code 75.
    """


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in work that can be continued. Its text says how."""


class EntrenousWarning(UserWarning):
    """A warning about a result that is still valid."""


class InputError(EntrenousError):
    """Bad input. Reads `where: problem; expected ...; fix`.

    Args:
        where: `file:line`, a config path such as `--set pi`, or the name of the thing.
        problem: what is wrong with it.
        expected: what would have been right.
        fix: what the user can do.
    """

    def __init__(self, where: str, problem: str, *, expected: str = "", fix: str = "") -> None:
        self.where = where
        self.problem = problem
        self.expected = expected
        self.fix = fix
        wanted = f"expected {expected}" if expected else ""
        remedy = "".join(f"; {part}" for part in (wanted, fix) if part)
        # A long problem is cut before the remedy, which is what the user needs most.
        room = max(LEAST_PROBLEM, LINE - len(where) - len(remedy) - 2)
        super().__init__(one_line(f"{where}: {one_line(problem, room)}{remedy}", LINE))

    def reworded(self, word: Callable[[str], str]) -> Self:
        """Returns the same error with each of its texts in other words."""
        # A subclass may be made of other things than texts, and keeps them.
        other = copy.copy(self)
        where = word(self.where)
        problem = word(self.problem)
        expected = word(self.expected)
        InputError.__init__(other, where, problem, expected=expected, fix=word(self.fix))
        return other


class NotYet(StartAgain, InputError):
    """Raised for a cause that may pass without anybody changing the input: a full disk, a port that
    another process still has, a server that does not know a node yet. Reads as an InputError. The
    exit code is 75 in a service, 2 in a command that ends by itself.
    """


def may_pass(error: BaseException) -> bool:
    """Tells whether the system, or SQLite, refused for a cause that may be gone at the next
    attempt, such as a full disk.
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno in PASSING
    # The lowest eight bits are the code, the others its detail.
    return getattr(error, "sqlite_errorcode", -1) & 0xFF in PASSING_SQLITE


class NonFiniteError(EntrenousError):
    """Raised for a score, a weight or an update that is NaN or infinite. A NaN would rank first
    under a plain comparison.
    """


def one_line(text: str, limit: int = LINE) -> str:
    """Returns a text without line breaks or control characters, cut at `limit` characters."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    if len(clean) <= limit:
        return clean
    return clean[: limit - 1] + "…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `did you mean 'x'?`, or the list of what is known.

    >>> did_you_mean("pfpl-", ["pfpl+", "random"])
    "did you mean 'pfpl+'?"
    """
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known: {', '.join(known) or 'none'}"
