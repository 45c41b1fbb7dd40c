"""An algorithm of one's own, by the place of its class: `my_module:MyAlgorithm`, `./my_algo.py` or
`./my_algo.py:MyAlgorithm`.

A file runs when it is loaded, as any import does: a place is taken from the person who starts a
program, never from a server or a peer.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ..contract.settings import Settings
from ..errors import EntrenousError, InputError, did_you_mean, one_line

NOTEBOOK = (  # the module of a script or a notebook: its classes are found by this process alone
    "__main__"
)


def is_place(name: str) -> bool:
    """Whether the name of an algorithm is a place rather than a name that a package offers.

    >>> is_place("./my_algo.py"), is_place("my_module:MyAlgorithm"), is_place("pfpl+")
    (True, True, False)
    """
    return ":" in name or name.endswith(".py")


def load_place(place: str) -> Any:
    """The class at a place, or a callable with presets from its module's ALGORITHMS. Raises
    InputError, with file and line, for what cannot be imported or is no algorithm."""
    where, wanted = _parts(place)
    module = _from_file(Path(where), place) if where.endswith(".py") else _from_path(where, place)
    known = {**_classes(module), **getattr(module, "ALGORITHMS", {})}
    if wanted:
        return _wanted(vars(module).get(wanted, known.get(wanted)), wanted, place, known)
    if len(_classes(module)) != 1:
        problem = (
            f"{len(_classes(module))} classes of settings" if known else "no class of settings"
        )
        expected = (
            f"{where}:NAME, NAME being one of {', '.join(known)}"
            if known
            else "a class MyAlgorithm(entrenous.Settings)"
        )
        raise InputError(place, problem, expected=expected)
    return next(iter(_classes(module).values()))


def place_of(kind: type) -> str:
    """The place of a class, from which this process can load it again. Raises InputError for a
    class that is made inside a function.
    """
    module = sys.modules.get(kind.__module__)
    if module is None or getattr(module, kind.__qualname__, None) is not kind:
        problem = (
            f"the class {kind.__name__} is not found in its module {kind.__module__} (any more)"
        )
        raise InputError(
            "algorithm",
            problem,
            expected="a class at the top level of a module or a notebook",
            fix="define it there",
        )
    own_file = getattr(module, "__entrenous_place__", "")
    return f"{own_file or kind.__module__}:{kind.__qualname__}"


def again(file: str, module: str, name: str, values: dict[str, Any]) -> Any:
    """An instance of the class `name` of a file in another process, such as a worker, which loads
    the same file.

    Raises EntrenousError where the file there has another content.
    """
    kind = load_place(f"{file}:{name}")
    if kind.__module__ != module:
        raise EntrenousError(
            f"{file}: the file has changed, or is another one on this machine; expected the same"
            " everywhere"
        )
    return kind(**values)


def own_line(wrong: BaseException) -> str:
    """`file:line` of the last line of an algorithm of one's own that an error passed through; ""
    where there is none.
    """
    files = {
        vars(module).get("__entrenous_place__")
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType)
    }
    frames = [
        frame for frame in traceback.extract_tb(wrong.__traceback__) if frame.filename in files
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def lasting(place: str) -> str:
    """A place that means the same in another folder: the path of a file made absolute."""
    where, wanted = _parts(place)
    if not where.endswith(".py"):
        return place
    return f"{Path(where).resolve()}{':' if wanted else ''}{wanted}"


def in_folder(name: str) -> str:
    """A name as it is typed in the folder of its file; any other name as it is.

    >>> in_folder("/home/me/my_algo.py:MyAlgorithm"), in_folder("fpl")
    ('./my_algo.py:MyAlgorithm', 'fpl')
    """
    where, wanted = _parts(name) if is_place(name) else (name, "")
    return f"./{Path(where).name}{':' if wanted else ''}{wanted}" if where.endswith(".py") else name


def short(name: str) -> str:
    """A name that a person reads in a table: of a place the class, or the file without its folder;
    any other name as it is.

    >>> short("/home/me/my_algo.py:MyAlgorithm"), short("/home/me/my_algo.py"), short("fpl")
    ('MyAlgorithm', 'my_algo', 'fpl')
    """
    where, wanted = _parts(name) if is_place(name) else (name, "")
    return wanted or (Path(where).stem if where.endswith(".py") else where)


def _parts(place: str) -> tuple[str, str]:
    """(file or module, name of a class or "")."""
    if place.endswith(".py"):
        return place, ""
    where, _, wanted = place.rpartition(":")
    return where, wanted


def _classes(module: ModuleType) -> dict[str, Any]:
    """The public settings classes that a module defines itself."""
    found = {
        name: kind
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Settings)
    }
    return {
        name: kind
        for name, kind in found.items()
        if kind.__module__ == module.__name__ and not name.startswith("_")
    }


def _wanted(found: Any, wanted: str, place: str, known: dict[str, Any]) -> Any:
    if found is None:
        raise InputError(place, f"there is no '{wanted}' in it", fix=did_you_mean(wanted, known))
    if not isinstance(found, partial) and not (
        isinstance(found, type) and issubclass(found, Settings)
    ):
        raise InputError(
            place,
            f"{wanted} is no class of settings",
            expected=f"class {wanted}(entrenous.Settings)",
        )
    return found


def _from_path(name: str, place: str) -> ModuleType:
    """A module that Python finds by itself, from the working folder too."""
    if name in sys.modules:
        return sys.modules[name]
    if (
        importlib.util.find_spec(name.partition(".")[0]) is None
        and Path(f"{name.replace('.', '/')}.py").is_file()
    ):
        return _from_file(Path(f"{name.replace('.', '/')}.py"), place)
    try:
        return importlib.import_module(name)
    except Exception as wrong:
        raise _broken(place, wrong) from None


def _from_file(path: Path, place: str) -> ModuleType:
    """The module in a file, imported once for each content that it has."""
    try:
        content = path.read_bytes()
    except OSError as wrong:
        raise InputError(
            place,
            f"cannot be read ({(wrong.strerror or str(wrong)).lower()})",
            expected="a Python file",
        ) from None
    own = path.resolve()
    name = f"{own.stem}_{hashlib.sha256(str(own).encode() + content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, own)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(
        __entrenous_place__=str(own),
        __entrenous_source__=content.decode("utf-8", "replace"),
        __entrenous_again__=partial(again, str(own), name),
    )
    sys.modules[name] = module  # annotations are read by way of it
    try:
        spec.loader.exec_module(module)
    except BaseException as wrong:
        del sys.modules[name]
        if isinstance(wrong, Exception | SystemExit):
            raise _broken(place, wrong) from None
        raise
    return module


def _broken(place: str, wrong: BaseException) -> InputError:
    """What went wrong in an import, at the last line that is not of Python's own machinery."""
    frames = [
        one
        for one in traceback.extract_tb(wrong.__traceback__)
        if "importlib" not in one.filename and one.filename != __file__
    ]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else place
    if isinstance(wrong, SyntaxError) and wrong.filename:
        where = f"{wrong.filename}:{wrong.lineno}"
    return InputError(
        where,
        f"cannot be imported: {type(wrong).__name__}: {one_line(str(wrong), 200)}",
        expected=f"a module with {place}",
    )
