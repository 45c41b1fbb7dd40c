"""All that stands in the way of reading a file, in one error: each remedy is followed to the next
obstacle.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from ..core.errors import InputError
from .interactions import Interactions
from .load import load, load_arguments
from .options import LoadOptions

# The options that a remedy names first.
_OPTIONS = re.compile(r"(?:--load (?:'[^']*'|[^\s;)'])+ ?)+")


def check(name_or_path: str, given: Mapping[str, str]) -> Interactions:
    """Returns the interactions of a data set, file or folder that is here. given: options as text.

    Raises InputError: the first obstacle, the command with the options that take it and all behind
    it away, if there are such, and those behind it.
    """
    said = dict(given)
    refusals: list[InputError] = []
    while True:
        data = None
        try:
            data = load(name_or_path, fetch=False, **load_arguments(said))
        except InputError as refusal:
            refusals.append(refusal)
        if data is None:
            remedy = refusals[-1].fix
        elif refusals:
            # What is lost without a refusal, too.
            missed = [use.why for use in data.reading.columns if "--load time=" in use.why]
            remedy = "".join(missed)
        else:
            return data
        # What is said stays, so that this ends, and in the order in which it was met.
        more = {**said, **_options_of(remedy), **said}
        if more == said:
            break
        said = more
    first, *others = refusals
    fixes = [f"behind it, {each.where}: {each.problem}" for each in others]
    if data is not None:
        words = " ".join(f"--load {shlex.quote('='.join(pair))}" for pair in said.items())
        fixes.insert(0, f"all at once, if it is meant: entrenous data check {name_or_path} {words}")
    fix = "; ".join([*fixes, first.fix])
    raise InputError(first.where, first.problem, expected=first.expected, fix=fix)


def _options_of(text: str) -> dict[str, str]:
    """Returns the options of loading that a remedy names first."""
    named = _OPTIONS.search(text)
    words = shlex.split(named[0] if named else "")
    pairs = [word.partition("=") for word in words]
    return {name: value for name, _, value in pairs if name in LoadOptions.model_fields}
