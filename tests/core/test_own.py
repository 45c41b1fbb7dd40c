"""Algorithms by their place: files, modules and notebooks; what cannot be loaded is one line with
file and line.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import ROOT

from entrenous.core.errors import InputError
from entrenous.core.registry.discover import is_place, lasting, short
from entrenous.core.registry.own import load_place, place_of
from entrenous.core.registry.program import source_sha256
from entrenous.systems.named import kind_of

EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(EXAMPLE.read_text())
    return path


def test_a_file_its_class_and_a_module_are_places(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = load_place(str(file))
    assert (
        kind.__name__ == "MyAlgorithm"
        and load_place(f"{file}:MyAlgorithm") is kind
        and kind_of(str(file)) == (kind, {})
    )
    assert load_place(place_of(kind)) is kind and place_of(kind) == f"{file}:MyAlgorithm"
    monkeypatch.syspath_prepend(file.parent)
    own = load_place("mine:MyAlgorithm")
    assert (
        own is not kind
        and place_of(own) == "mine:MyAlgorithm"
        and source_sha256(own) == source_sha256(kind)
    )


def test_a_module_in_the_working_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    file.rename("only_here.py")
    assert load_place("only_here:MyAlgorithm").__name__ == "MyAlgorithm"


def test_a_changed_file_is_another_class_with_another_source(file: Path) -> None:
    before = load_place(str(file))
    file.write_text(file.read_text().replace('"""Each device prefers', '"""A device prefers'))
    worded = load_place(str(file))
    assert worded is not before and source_sha256(worded) == source_sha256(
        before
    )  # prose is no code
    file.write_text(file.read_text().replace("self.weight * mean", "2 * self.weight * mean"))
    assert source_sha256(load_place(str(file))) != source_sha256(before)


def test_a_module_beside_it_counts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(file.parent)
    beside = file.with_name("beside_mine.py")
    beside.write_text("STEP = 1\n")
    file.write_text(f"from beside_mine import STEP\n{file.read_text()}")
    before = source_sha256(load_place(str(file)))
    beside.write_text("STEP = 2\n")
    assert source_sha256(load_place(str(file))) != before


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (None, "{file}", "cannot be read (no such file or directory); expected a Python file"),
        (
            "x = 1\n1 / 0\n",
            "{file}",
            "mine.py:2: cannot be imported: ZeroDivisionError: division by zero",
        ),
        ("x = (\n", "{file}", "mine.py:1: cannot be imported: SyntaxError"),
        ("import nothing_such\n", "{file}", "mine.py:1: cannot be imported: ModuleNotFoundError"),
        ("raise SystemExit('bye')\n", "{file}", "mine.py:1: cannot be imported: SystemExit: bye"),
        (
            "x = 1\n",
            "{file}",
            "no class of settings; expected a class MyAlgorithm(entrenous.Settings)",
        ),
        (
            "class A: pass\n",
            "{file}:A",
            "A is no class of settings; expected class A(entrenous.Settings)",
        ),
        ("x = 1\n", "{file}:x", "x is no class of settings"),
        (
            "from entrenous import Settings\nclass A(Settings): pass\nclass B(Settings): pass\n",
            "{file}",
            "2 classes of settings; expected",
        ),
        (
            "from entrenous import Settings\nclass Mine(Settings): pass\n",
            "{file}:Min",
            "there is no 'Min' in it; did you mean 'Mine'?",
        ),
        (None, "nothing_such:A", "cannot be imported: ModuleNotFoundError"),
        (None, "numpy:array", "array is no class of settings"),
        (None, "numpy:nothing_such", "there is no 'nothing_such' in it"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(
    text: str | None, place: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as refused:
        load_place(place.format(file=path))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_class_inside_a_function_has_no_place() -> None:
    from entrenous import Settings

    class Inner(Settings):
        pass

    with pytest.raises(
        InputError, match=r"the class Inner is not found in its module .* define it there"
    ):
        place_of(Inner)


def test_names_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [
        is_place(name) for name in ("a.py", "./a.py:B", "a.b:C", "fpl", "pfpl+", "gossip-age-gmf")
    ] == [True] * 3 + [False] * 3
    assert (
        lasting("./a.py:B") == f"{tmp_path}/a.py:B"
        and lasting("a.py") == f"{tmp_path}/a.py"
        and lasting("a.b:C") == "a.b:C"
    )
    assert [short(name) for name in ("/x/a.py", "/x/a.py:B", "a.b:C", "pfpl+")] == [
        "a",
        "B",
        "C",
        "pfpl+",
    ]
