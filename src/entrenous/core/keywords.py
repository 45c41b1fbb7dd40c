"""Options that are said once: the fields of a dataclass are the keywords of a function, and the
text under each field is its help.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from .errors import InputError, did_you_mean

P = ParamSpec("P")
Asked = TypeVar("Asked")
Result = TypeVar("Result")


def called_with(
    kind: Callable[P, Asked],
) -> Callable[[Callable[[Asked], Result]], Callable[P, Result]]:
    """Gives a function of one dataclass the signature of that dataclass: callers write
    `run("fpl", rounds=20)`, and the function gets `RunRequest("fpl", rounds=20)`.

    Type checkers and editors see the fields as parameters, and so does `inspect.signature`. A
    keyword whose value is None has its default. The function raises InputError for an unknown
    keyword.
    """

    def decorate(function: Callable[[Asked], Result]) -> Callable[P, Result]:
        name = function.__name__

        @wraps(function)
        def called(*arguments: P.args, **keywords: P.kwargs) -> Result:
            return function(_asked(kind, name, arguments, keywords))

        signature = inspect.signature(kind)
        returns = inspect.signature(function).return_annotation
        called.__signature__ = signature.replace(return_annotation=returns)  # type: ignore[attr-defined]
        return called

    return decorate


def _asked(
    kind: Callable[..., Asked], name: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Asked:
    """Makes the dataclass of a call. Raises InputError for arguments that do not fit it."""
    signature = inspect.signature(kind)
    known = signature.parameters
    for keyword in keywords:
        if keyword not in known:
            fix = did_you_mean(keyword, known)
            raise InputError(name, f"unknown option '{keyword}'", fix=fix)
    # Callers write `rounds=None` for "as usual", whatever the usual value is.
    named = {keyword: value for keyword, value in keywords.items() if value is not None}
    try:
        signature.bind(*arguments, **named)
    except TypeError as wrong:
        raise InputError(name, str(wrong)) from None
    return kind(*arguments, **named)


def at_least(where: str, value: int | None, least: int) -> None:
    """Raises InputError, naming `where`, for a number below `least`, and for what is no whole
    number. None passes.
    """
    # NaN is below nothing, but it is no whole number.
    if value is not None and (not hasattr(value, "__index__") or value < least):
        raise InputError(where, f"got {value}", expected=f"a whole number from {least}")


def names_of(*kinds: type) -> list[str]:
    """Returns the names of the fields of some dataclasses."""
    return [field.name for kind in kinds for field in fields(kind)]


def values(options: Any, *kinds: type) -> dict[str, Any]:
    """Returns the values of a dataclass by name, of those fields alone that `kinds` have; () = of
    all. The values are not copied.
    """
    names = names_of(*kinds or (type(options),))
    return {name: getattr(options, name) for name in names}


def field_texts(kind: type) -> dict[str, str]:
    """Returns the text under each field of a dataclass and of its bases, as one paragraph. {} where
    the source is not installed.
    """
    texts: dict[str, str] = {}
    # A class overrides the texts of its bases.
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            texts |= _texts_of_class(cast(type, base))
    return texts


def _texts_of_class(kind: type) -> dict[str, str]:
    """Reads the texts under the fields from the source of a class: Python keeps none of them."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    # A text under a field is a statement of its own, right after the field.
    for statement, below in zip(definition.body, definition.body[1:], strict=False):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(below, ast.Expr):
            continue
        field = statement.target
        text = below.value
        is_text = isinstance(text, ast.Constant) and isinstance(text.value, str)
        if isinstance(field, ast.Name) and is_text:
            texts[field.id] = " ".join(ast.literal_eval(text).split())
    return texts
