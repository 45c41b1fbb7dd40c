"""Data flows one way, and what else the source shows: nothing heavy at import, keyed randomness, a
sealed test split.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePath

import pytest
from paths import NETWORK, ROOT, SOURCE

SRC = SOURCE
FILES = sorted(SRC.rglob("*.py"))
BESIDE = sorted(ROOT.glob("packages/*/src/**/*.py"))  # the neighbours, and the adapters
EVERY = [*FILES, *BESIDE]

# A room may import from its own line and from the lines above it. A new room takes its place here.
ORDER = (
    {"core"},
    {"core/lanes"},
    {"core/contract"},
    {"core/registry"},
    {"data", "data/formats", "data/sets"},
    {"data/split"},
    {"kernels", "privacy"},
    {"systems", "systems/central"},
    {"federation"},
    {"evaluation", "evaluation/metrics"},
    {"runs"},
    {"runs/tuning"},
    {"report"},
    {"api"},
    {"cli"},
    {"__main__"},
)
RANK = {name: place for place, names in enumerate(ORDER) for name in names}
# The same of the rooms of the network, which come after all of the package but its neighbours.
ORDER_OF_NETWORK = (
    "wire",
    "secure_sum",
    "agreement",
    "frames",
    "links",
    "server",
    "node",
    "peers",
    "operate",
    "commands",
)
RANK_OF_NETWORK = {name: place for place, name in enumerate(ORDER_OF_NETWORK)}
HEAVY = {
    "scipy",
    "matplotlib",
    "polars",
    "pandas",
    "pyarrow",
    "implicit",
    "torch",
    "sklearn",
    "threadpoolctl",
    "optuna",
}
ADAPTERS = {
    "uvicorn": ("links/", "operate/device_http.py"),
    "starlette": ("links/", "operate/device_http.py"),
    "httpx": ("links/",),
    "iroh": ("peers/iroh_link.py",),
    "prometheus_client": ("links/metrics.py",),
    "dp_accounting": ("privacy/accountant.py",),
}  # who alone may import an engine
READER = "core/contract/declared.py"  # who alone may ask an algorithm what it has
ALGORITHM_LIKE = {"algorithm", "_algorithm", "made", "kind", "kind_of", "maker", "configured"}
OPENS_TEST = {"data/split", "evaluation", "evaluation/metrics", "runs"}  # runs/tuning may not


def package(path: Path) -> str:
    """The first name below `entrenous`: `core` for core/keys.py, `cli` for cli.py, "" for the
    package's own __init__.
    """
    first = path.relative_to(SRC).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def below_source(path: Path) -> Path:
    """The path of a file below the folder `src` of its distribution."""
    parts = path.relative_to(ROOT).parts
    return Path(*parts[parts.index("src") + 1 :])


def imported(path: Path, node: ast.stmt) -> list[str]:
    """The absolute names of the modules that an import statement names; `from a import b` counts as
    both a and a.b.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        inside = below_source(path).parts[: -node.level]
        base = ".".join((*inside, *filter(None, [node.module])))
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def arrows(path: Path) -> set[str]:
    """The packages of Entrenous that a file imports from, anywhere in it."""
    names = (
        name for node in nodes(path) if isinstance(node, ast.stmt) for name in imported(path, node)
    )
    return {name.split(".")[1] for name in names if name.startswith("entrenous.")} & {
        package(file) for file in FILES
    }


def module(path: Path) -> str:
    """The absolute name of a file's module: `entrenous.core` for core/__init__.py."""
    return ".".join(below_source(path).with_suffix("").parts).removesuffix(".__init__")


def graph(source: Path = SRC) -> dict[str, set[str]]:
    """The files of a package that each of its files imports from, anywhere in it, also inside
    functions and `if TYPE_CHECKING`. The front door alone imports for type checkers what it loads
    when it is used.
    """
    every = sorted(source.rglob("*.py"))
    files = {module(path): path for path in every}
    names = {
        path: {
            name
            for node in nodes(path)
            if isinstance(node, ast.stmt)
            for name in imported(path, node)
        }
        for path in every
    }
    names[SRC / "__init__.py"] = set()
    return {
        str(path.relative_to(source)): {
            str(files[name].relative_to(source)) for name in names[path] & files.keys()
        }
        for path in every
    }


def circles(arrows_of: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """The strongly connected components of more than one node: all whose nodes reach each other."""
    reached = {start: reach(arrows_of, start) for start in arrows_of}
    together = {
        tuple(sorted(to for to in reached[start] if start in reached[to])) for start in arrows_of
    }
    return {names for names in together if len(names) > 1}


def reach(arrows_of: dict[str, set[str]], start: str) -> set[str]:
    """All that can be reached from a node along one arrow or more."""
    found: set[str] = set()
    ahead = set(arrows_of[start])
    while ahead:
        name = ahead.pop()
        found.add(name)
        ahead |= arrows_of[name] - found
    return found


def inflections(name: str) -> set[str]:
    """What a name becomes by an ending alone: plural, past, agent, -ing."""
    changed = (
        {name[:-1] + ending for ending in ("ies", "ied", "ier")} if name.endswith("y") else set()
    )
    changed |= {name[:-1] + "ing"} if name.endswith("e") else set()
    return changed | {name + ending for ending in ("s", "es", "d", "ed", "r", "er", "ing")}


def alike(names: set[str]) -> set[tuple[str, str]]:
    """The pairs of names of which one is an inflection of the other. A leading underscore does not
    count.
    """
    bare = {name.lstrip("_") for name in names}
    return {(name, other) for name in bare for other in inflections(name) & bare}


def asks_an_algorithm(node: ast.AST) -> bool:
    """Whether a node is `hasattr(algorithm, ...)` or `getattr(algorithm, ...)`, of any name that
    stands for an algorithm.
    """
    if not (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"hasattr", "getattr"}
    ):
        return False
    if (
        not node.args or ast.unparse(node.args[1])[1:3] == "__"
    ):  # `__name__` and the like: every class has it
        return False
    parts = list(ast.walk(node.args[0]))
    names = {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.attr for part in parts if isinstance(part, ast.Attribute)
    }
    return bool(names & ALGORITHM_LIKE)


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported: all but the bodies of functions and of `if
    TYPE_CHECKING`.
    """
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ("body", "orelse", "finalbody"):
                yield from at_import(getattr(node, part, []))


def where(path: Path, node: ast.AST) -> str:
    file = path.relative_to(SRC if path.is_relative_to(SRC) else ROOT)
    return f"{file}:{getattr(node, 'lineno', 0)}"


def hits(wrong, files: list[Path] = EVERY) -> list[str]:
    """`file:line: code` of every node for which `wrong(node)` holds."""
    return [
        f"{where(path, node)}: {ast.unparse(node)[:80]}"
        for path in files
        for node in nodes(path)
        if wrong(node)
    ]


def room(file: str) -> str:
    """The room of a file such as `systems/fpl.py`: its folder; of `__main__.py` itself."""
    folder = PurePath(file).parent.as_posix()
    return PurePath(file).stem if folder == "." else folder


def named_in_strings(path: Path) -> set[str]:
    """The files of the modules and packages that a file names in string constants, as
    `import_module` takes them: an arrow too, which no import statement shows."""
    found = set()
    for node in nodes(path):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.fullmatch(r"entrenous(\.\w+)+", text):
            target = SRC.joinpath(*text.split(".")[1:])
            file = target / "__init__.py" if target.is_dir() else target.with_suffix(".py")
            if file.is_file():
                found.add(str(file.relative_to(SRC)))
    return found


def arrows_back(arrows_of: dict[str, set[str]], rank: dict[str, int] = RANK) -> list[str]:
    """The imports of a room from one that comes later in an order."""
    return [
        f"{file} imports {target}"
        for file, targets in arrows_of.items()
        for target in sorted(targets - {"__init__.py"})
        if file != "__init__.py" and rank[room(target)] > rank[room(file)]
    ]


@pytest.mark.parametrize(("source", "rank"), [(SRC, RANK), (NETWORK, RANK_OF_NETWORK)])
def test_every_room_has_a_place_in_the_order(source: Path, rank: dict[str, int]) -> None:
    rooms = {room(str(path.relative_to(source))) for path in source.rglob("*.py")}
    assert rooms - {"__init__"} - rank.keys() == set()
    assert rank.keys() - rooms - {"__main__"} == set()  # and each place has a room


def test_an_arrow_back_is_seen():
    assert arrows_back({"data/load.py": {"runs/plan.py", "core/keys.py"}}) == [
        "data/load.py imports runs/plan.py"
    ]
    assert "systems/central/__init__.py" in named_in_strings(SRC / "systems" / "named.py")


def test_the_laboratory_and_the_adapters_are_not_known():
    """The package works without them: nothing names them, by import or by string."""
    others = ("entrenous_lab", "entrenous_flower", "flwr")
    found = [
        where(path, node)
        for path in FILES
        for node in nodes(path)
        if (isinstance(node, ast.Constant) and str(node.value).startswith(others))
        or (
            isinstance(node, ast.stmt)
            and any(one.startswith(others) for one in imported(path, node))
        )
    ]
    assert found == []


def test_no_arrow_runs_back():
    arrows_of = graph()
    for path in FILES:
        arrows_of[str(path.relative_to(SRC))] |= named_in_strings(path)
    assert arrows_back(arrows_of) == []
    assert arrows_back(graph(NETWORK), RANK_OF_NETWORK) == []


def test_a_circle_is_found():
    arrows_of = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"f"}, "f": {"e"}}
    assert circles(arrows_of) == {("b", "c"), ("e", "f")}
    seen = graph()
    assert "kernels/bpr_mf.py" in seen["systems/fpl.py"]
    assert "evaluation/metric_kinds.py" in seen["evaluation/metrics/defined.py"]


def test_no_circle_of_files():
    assert circles(graph()) == set() == circles(graph(NETWORK))


def test_names_that_differ_by_an_ending_are_seen():
    found = alike(
        {
            "store",
            "stored",
            "study",
            "studies",
            "cell",
            "_cells",
            "rank",
            "ranking",
            "merge",
            "merging",
            "ncf",
        }
    )
    assert found == {
        ("store", "stored"),
        ("study", "studies"),
        ("cell", "cells"),
        ("rank", "ranking"),
        ("merge", "merging"),
    }


def test_no_two_names_of_a_folder_differ_by_an_ending_alone():
    folders = {folder for path in FILES for folder in path.parents if folder.is_relative_to(SRC)}
    names = {
        folder: (
            {file.stem for file in FILES if file.parent == folder}
            | {one.name for one in folders if one.parent == folder}
        )
        for folder in folders
    }
    assert {
        (str(folder.relative_to(SRC)), *pair) for folder in folders for pair in alike(names[folder])
    } == set()


def test_every_class_name_is_defined_once():
    """A search for a class name finds one class."""
    at: dict[str, list[str]] = {}
    for path in EVERY:
        for node in at_import(tree(path).body):
            if isinstance(node, ast.ClassDef):
                at.setdefault(node.name, []).append(where(path, node))
    assert {name: places for name, places in at.items() if len(places) > 1} == {}


def test_nothing_lies_loose_beside_the_rooms():
    loose = {path.name for path in SRC.iterdir() if path.is_file()}
    assert loose == {"__init__.py", "__main__.py", "py.typed"}


def test_an_algorithm_is_asked_what_it_has_in_one_place():
    asking = {
        str(path.relative_to(SRC)) for path in FILES if any(map(asks_an_algorithm, nodes(path)))
    }
    assert asking - {READER} == set()


def test_core_imports_nothing_else():
    assert [
        (path.name, arrows(path))
        for path in FILES
        if package(path) == "core" and arrows(path) - {"core"}
    ] == []


def test_nothing_heavy_is_imported_at_import_time():
    found = [
        f"{where(path, node)}: {name}"
        for path in EVERY
        for node in at_import(tree(path).body)
        for name in imported(path, node)
        if name.split(".")[0] in HEAVY
    ]
    assert found == []


def test_each_engine_is_imported_by_its_adapter_alone():
    found = [
        f"{where(path, node)}: {name}"
        for path in [*FILES, *NETWORK.rglob("*.py")]
        for node in nodes(path)
        if isinstance(node, ast.stmt)
        for name in imported(path, node)
        if name.split(".")[0] in ADAPTERS
        and not str(Path(*below_source(path).parts[1:])).startswith(ADAPTERS[name.split(".")[0]])
    ]
    assert found == []


def test_importing_entrenous_loads_numpy_and_nothing_heavier():
    heavy = (
        "numba",
        "scipy",
        "matplotlib",
        "polars",
        "pydantic",
        "torch",
        "pandas",
        "pyarrow",
        "implicit",
        "rich",
        "cyclopts",
    )
    code = f"import sys, entrenous; print(sorted(set({heavy}) & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    assert ran.stdout.strip() == "[]"


def test_algorithms_are_discovered_without_optional_libraries():
    optional = (
        "torch",
        "implicit",
        "polars",
        "pandas",
        "matplotlib",
    )  # scipy is loaded by numba itself
    find = (
        "import sys; from entrenous.systems.named import algorithms; found ="
        " len(algorithms()) > 0; "
    )
    code = f"{find}print(found, sorted(set({optional}) & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    assert ran.stdout.strip() == "True []"


@pytest.mark.parametrize(
    "module",
    [
        "pickle",
        "cPickle",
        "dill",
        "cloudpickle",
        "joblib",
        "marshal",
        "shelve",
        "random",
        "pandas",
        "matplotlib.pyplot",
    ],
)
def test_a_module_that_is_never_imported(module):
    found = [
        where(path, node)
        for path in EVERY
        for node in nodes(path)
        if isinstance(node, ast.stmt)
        and {
            name for name in imported(path, node) if name == module or name.startswith(module + ".")
        }
    ]
    assert found == []


def test_no_code_is_made_from_text_and_no_pickle_is_loaded():
    assert (
        hits(
            lambda node: (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in {"eval", "exec", "compile", "__import__"}
            )
        )
        == []
    )
    assert (
        hits(
            lambda node: (
                isinstance(node, ast.keyword)
                and node.arg == "allow_pickle"
                and ast.unparse(node.value) != "False"
            )
        )
        == []
    )


def test_randomness_comes_from_keys_alone():
    assert (
        hits(
            lambda node: (
                isinstance(node, ast.Attribute)
                and ast.unparse(node) in {"np.random", "numpy.random"}
            )
        )
        == []
    )
    assert (
        hits(
            lambda node: (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").startswith("numpy")
                and "random" in ast.unparse(node)
            )
        )
        == []
    )


def test_arithmetic_is_strict():
    relaxed = {"fastmath", "parallel"}
    assert (
        hits(
            lambda node: (
                isinstance(node, ast.keyword)
                and node.arg in relaxed
                and ast.unparse(node.value) != "False"
            )
        )
        == []
    )


def test_the_test_split_is_opened_by_evaluation_alone():
    sealed = [path for path in FILES if room(str(path.relative_to(SRC))) not in OPENS_TEST]
    sealed += BESIDE
    assert hits(lambda node: isinstance(node, ast.Attribute) and node.attr == "test", sealed) == []
    by_name = "getattr(", "'test'"
    assert (
        hits(
            lambda node: (
                isinstance(node, ast.Call) and all(part in ast.unparse(node) for part in by_name)
            ),
            sealed,
        )
        == []
    )


def test_device_code_is_compiled_by_the_decorator_that_needs_no_place_for_a_cache():
    """`numba.njit(cache=True)` fails where nothing can be written: `core.compiling.njit` does not."""
    importing = {
        where(path, node)
        for path in EVERY
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module == "numba"
    }
    assert importing == set(), "take njit from core/compiling.py"
