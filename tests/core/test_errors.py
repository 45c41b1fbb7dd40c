"""Errors are one line, whatever is in them, and come out of another process as they went in."""

from __future__ import annotations

import copy
import enum
import importlib
import importlib.util
import inspect
import multiprocessing
import pickle
import pkgutil
import typing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import entrenous
from entrenous.core.errors import InputError
from entrenous.core.types import BoolArray

FORKED = multiprocessing.get_context("fork")
SECONDS = 60.0
# A value for each type that an error is made of.
MADE_OF: dict[Any, Any] = {
    str: "ratings.csv:7",
    int: 7,
    bool: True,
    bytes: b"\x00signed",
    BoolArray: np.array([False, True]),
    Mapping[str, int] | None: {"round": 3},
    InputError: InputError("ratings.csv:7", "no number", expected="1 to 5", fix="drop it"),
}
AROUND: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "pickle of an old protocol": lambda error: pickle.loads(pickle.dumps(error, 0)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def public_errors() -> list[type[BaseException]]:
    """The exception classes of all modules of the package, and of its network if it is here."""
    found = set()
    packages = [entrenous]
    if importlib.util.find_spec("entrenous_network"):
        packages.append(importlib.import_module("entrenous_network"))
    for package in packages:
        before = f"{package.__name__}."
        for module in pkgutil.walk_packages(package.__path__, before):
            if module.name.endswith("__main__"):
                continue
            for thing in vars(importlib.import_module(module.name)).values():
                is_error = isinstance(thing, type) and issubclass(thing, BaseException)
                if is_error and thing.__module__.startswith(before):
                    found.add(thing)
    return sorted(found, key=lambda kind: kind.__qualname__)


def made(kind: type[BaseException]) -> BaseException:
    """An error with a value for each parameter of its class, and a note."""
    hints = {}
    if inspect.isfunction(kind.__init__):
        hints = typing.get_type_hints(kind.__init__)
        del hints["return"]
    named = {name: of(hint) for name, hint in hints.items()}
    error = kind(**named) if named else kind("ratings.csv:7: no number")
    error.add_note("while reading")
    return error


def of(hint: Any) -> Any:
    """A value of the type of a parameter."""
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)[0]
    if isinstance(hint, enum.EnumType):
        return next(iter(hint))
    return MADE_OF[hint]


def told(error: BaseException | None) -> tuple[Any, ...]:
    """All that the receiver of an error may look at."""
    return type(error), str(error), repr(error.args), repr(sorted(vars(error).items()))


def raised(error: BaseException) -> None:
    """The work of a pool that fails."""
    raise error


@pytest.fixture(scope="module")
def errors() -> list[BaseException]:
    """One error of each class, those with fields of their own among them."""
    every = [made(kind) for kind in public_errors()]
    assert {"InputError", "ContractError", "BadRows", "BudgetSpent"} <= {
        type(error).__name__ for error in every
    }
    return every


@pytest.mark.parametrize("way", AROUND)
def test_an_error_is_copied_whole(errors: list[BaseException], way: str) -> None:
    for error in errors:
        assert told(AROUND[way](error)) == told(error)


def out_of_an_executor(errors: list[BaseException]) -> Iterator[BaseException | None]:
    """Errors that a process of an executor raised."""
    with ProcessPoolExecutor(1, FORKED) as pool:
        for error in errors:
            yield pool.submit(raised, error).exception(SECONDS)


def out_of_a_pool(errors: list[BaseException]) -> Iterator[BaseException | None]:
    """Errors that a process of a pool raised."""
    with FORKED.Pool(1) as pool:
        for error in errors:
            with pytest.raises(Exception) as why:
                pool.apply_async(raised, (error,)).get(SECONDS)
            yield why.value
        # Its process ends by itself: one that is ended by a signal has been seen to stay.
        pool.close()
        pool.join()


@pytest.mark.parametrize("through", [out_of_an_executor, out_of_a_pool])
def test_an_error_comes_out_of_another_process(errors: list[BaseException], through: Any) -> None:
    # A worker of a pool ends at Ctrl-C itself, and hands nothing back.
    sent = [error for error in errors if isinstance(error, Exception)]
    for error, came in zip(sent, through(sent), strict=True):
        assert told(came) == told(error)


def test_a_wrong_call_in_a_pool_ends_no_other_work() -> None:
    with ProcessPoolExecutor(1, FORKED) as pool:
        wrong = pool.submit(entrenous.run, "nosuch", "ml-100k")
        right = pool.submit(abs, -1)
        with pytest.raises(InputError, match="nosuch") as here:
            entrenous.run("nosuch", "ml-100k")
        assert told(wrong.exception(SECONDS)) == told(here.value)
        assert right.result(SECONDS) == 1


def test_a_long_problem_is_cut_before_its_remedy() -> None:
    error = InputError("a.csv:1", "x" * 2_000, expected="less", fix="say y=1")
    assert len(str(error)) == 600
    assert str(error).endswith("…; expected less; say y=1")
