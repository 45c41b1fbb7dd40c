"""Errors in the words of who reads them: Python speaks of arguments where the command line speaks
of options.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from ..core.errors import InputError
from ..core.keywords import called_with, field_texts

SETTING = re.compile(r"--(set|network|load|own|grid|search) ([a-z_]+)(?==|\b)")
WITH = re.compile(r"--(set|network|load|own|grid|search)\b(?!-)")
OPTION = re.compile(r"--([a-z][a-z-]*)")
NAMES = {"set": "settings", "search": "space"}  # arguments with another name than the option

P = ParamSpec("P")
Asked = TypeVar("Asked")
Result = TypeVar("Result")


def public(
    kind: Callable[P, Asked],
) -> Callable[[Callable[[Asked], Result]], Callable[P, Result]]:
    """Gives a function of one dataclass the signature and the documentation of that dataclass (see
    `core.keywords.called_with`), with errors that speak of arguments.
    """

    def decorate(function: Callable[[Asked], Result]) -> Callable[P, Result]:
        with_keywords = called_with(kind)(function)

        @wraps(with_keywords)
        def called(*arguments: P.args, **keywords: P.kwargs) -> Result:
            with in_python():
                return with_keywords(*arguments, **keywords)

        called.__doc__ = f"{function.__doc__}\n    Args:\n{_arguments(kind, function.__name__)}"
        return called

    return decorate


def _arguments(kind: Callable[..., object], name: str) -> str:
    """The fields of a dataclass with their texts, as a docstring lists them. The help of the
    command has the lists of names.
    """
    assert isinstance(kind, type)
    entries = []
    for field, text in field_texts(kind).items():
        text = re.sub(r"\{[a-z]+\}", f"see `entrenous {name} --help`", text)
        entry = f"{field}: {as_argument(text)}"
        entries += textwrap.wrap(entry, 92, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return "\n".join(entries)


@contextmanager
def in_python() -> Iterator[None]:
    """A context in which an InputError speaks of arguments."""
    try:
        yield
    except InputError as bad:
        if OPTION.search(str(bad)) is None:
            raise
        texts = (bad.where, bad.problem, bad.expected, bad.fix)
        where, problem, expected, fix = map(as_argument, texts)
        raise type(bad)(where, problem, expected=expected, fix=fix) from None


def as_argument(text: str) -> str:
    """A text in which options are arguments.

    >>> as_argument("--set pi: got 2"), as_argument(
    ...     "say how often to look with --every ROUNDS"), as_argument("--checkpoint-every: got -1")
    ("settings['pi']: got 2", 'say how often to look with every=ROUNDS', 'checkpoint_every: got -1')
    """
    # A command between backticks is typed as it stands.
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _without_options(part) for part in parts)


def _without_options(text: str) -> str:
    text = SETTING.sub(lambda found: f"{NAMES.get(found[1], found[1])}['{found[2]}']", text)
    text = WITH.sub(lambda found: NAMES.get(found[1], found[1]), text)
    text = re.sub(
        r"--([a-z][a-z-]*) ([A-Z]{2,}|[0-9.]+)",
        lambda found: f"{found[1].replace('-', '_')}={found[2]}",
        text,
    )
    text = re.sub(r"--no-([a-z-]+)", lambda found: f"{found[1].replace('-', '_')}=False", text)
    return OPTION.sub(lambda found: found[1].replace("-", "_"), text)
