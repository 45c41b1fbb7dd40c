"""The user's own algorithm, named by the place of its class: `my_module:MyAlgorithm`,
`./my_algo.py` or `./my_algo.py:MyAlgorithm`.

A file runs when it is loaded, as in any import: a place comes from the person who starts a program,
never from a server or a peer.
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
from .discover import place_parts


def load_place(place: str) -> Any:
    """Returns the class at a place, or a callable with presets from its module's ALGORITHMS. Raises
    InputError, with file and line, for a module that cannot be imported and a class that is no
    algorithm.
    """
    where, class_name = place_parts(place)
    module = _from_file(Path(where), place) if where.endswith(".py") else _from_path(where, place)
    classes = _classes(module)
    known = {**classes, **getattr(module, "ALGORITHMS", {})}
    if class_name:
        # A class that is imported into the module counts when it is named.
        maker = vars(module).get(class_name, known.get(class_name))
        return _checked(maker, class_name, place, known)
    if len(classes) == 1:
        return next(iter(classes.values()))
    if not known:
        raise InputError(
            place,
            "no class of settings",
            expected="a class MyAlgorithm(entrenous.Settings)",
        )
    raise InputError(
        place,
        f"{len(classes)} classes of settings",
        expected=f"{where}:NAME, NAME being one of {', '.join(known)}",
    )


def place_of(kind: type) -> str:
    """Returns the place of a class, from which this process can load it again. Raises InputError
    for a class that is made inside a function.
    """
    module = sys.modules.get(kind.__module__)
    if module is None or getattr(module, kind.__qualname__, None) is not kind:
        raise InputError(
            "algorithm",
            f"the class {kind.__name__} is not found in its module {kind.__module__} (any more)",
            expected="a class at the top level of a module or a notebook",
            fix="define it there",
        )
    own_file = getattr(module, "__entrenous_place__", "")
    return f"{own_file or kind.__module__}:{kind.__qualname__}"


def again(file: str, module: str, name: str, values: dict[str, Any]) -> Any:
    """Returns an instance of the class `name` of a file in another process, such as a worker, which
    loads the same file.

    Raises EntrenousError if the file there has another content.
    """
    kind = load_place(f"{file}:{name}")
    if kind.__module__ != module:
        raise EntrenousError(
            f"{file}: the file has changed, or is another one on this machine; expected the same"
            " everywhere"
        )
    return kind(**values)


def own_error(wrong: BaseException) -> str:
    """Returns an error with `file:line` of the last line of a user's own algorithm that it passed
    through; "" if there is none.
    """
    files = set()
    # Another thread may import something meanwhile; some modules are objects of other kinds.
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            files.add(vars(module).get("__entrenous_place__"))
    for frame in reversed(traceback.extract_tb(wrong.__traceback__)):
        if frame.filename in files:
            said = one_line(str(wrong), 300)
            return f"{frame.filename}:{frame.lineno}: {type(wrong).__name__}: {said}"
    return ""


def _classes(module: ModuleType) -> dict[str, Any]:
    """Returns the public settings classes that a module defines itself."""
    classes = {}
    for name, kind in vars(module).items():
        if name.startswith("_") or not _is_settings(kind):
            continue
        if kind.__module__ == module.__name__:
            classes[name] = kind
    return classes


def _is_settings(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Settings)


def _checked(maker: Any, name: str, place: str, known: dict[str, Any]) -> Any:
    """Returns the maker of an algorithm. Raises InputError if it is none, naming the nearest."""
    if maker is None:
        raise InputError(place, f"there is no '{name}' in it", fix=did_you_mean(name, known))
    if not isinstance(maker, partial) and not _is_settings(maker):
        raise InputError(
            place,
            f"{name} is no class of settings",
            expected=f"class {name}(entrenous.Settings)",
        )
    return maker


def _from_path(name: str, place: str) -> ModuleType:
    """Returns a module that Python finds by itself, or one of the working folder."""
    if name in sys.modules:
        return sys.modules[name]
    here = Path(f"{name.replace('.', '/')}.py")
    if importlib.util.find_spec(name.partition(".")[0]) is None and here.is_file():
        return _from_file(here, place)
    try:
        return importlib.import_module(name)
    except Exception as wrong:
        raise _broken(place, wrong) from None


def _from_file(path: Path, place: str) -> ModuleType:
    """Returns the module in a file, imported once for each content that the file has."""
    try:
        content = path.read_bytes()
    except OSError as wrong:
        reason = (wrong.strerror or str(wrong)).lower()
        raise InputError(place, f"cannot be read ({reason})", expected="a Python file") from None
    own = path.resolve()
    # Another content is another module, as in a notebook whose file was edited.
    digest = hashlib.sha256(str(own).encode() + content).hexdigest()
    name = f"{own.stem}_{digest[:12]}"
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
    # Annotations are read by way of `sys.modules`, even while the module is loaded.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as wrong:
        del sys.modules[name]
        if isinstance(wrong, Exception | SystemExit):
            raise _broken(place, wrong) from None
        raise
    return module


def _broken(place: str, wrong: BaseException) -> InputError:
    """Returns the error of an import, at the last line that is not of Python's own machinery."""
    where = place
    for frame in traceback.extract_tb(wrong.__traceback__):
        if "importlib" not in frame.filename and frame.filename != __file__:
            where = f"{frame.filename}:{frame.lineno}"
    if isinstance(wrong, SyntaxError) and wrong.filename:
        where = f"{wrong.filename}:{wrong.lineno}"
    return InputError(
        where,
        f"cannot be imported: {type(wrong).__name__}: {one_line(str(wrong), 200)}",
        expected=f"a module with {place}",
    )
