"""The list of faults fits the source and the tests as they are; the program that tries them tells
what was noticed from what was not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.run import (
    PACKAGE,
    ROOT,
    Fault,
    Verdict,
    copy,
    dependents,
    exit_code,
    faults,
    is_test,
    main,
    wrong_with,
)

NETWORK = "packages/entrenous-network/src/entrenous_network"
ROOMS = (
    "core",
    "evaluation",
    "privacy",
    "federation",
    NETWORK,
    "data/split",
    "runs",
    f"{NETWORK}/wire",
)
HOLM = "tests/evaluate/test_significance.py::test_holm_by_hand"
SIGNIFICANCE = "evaluation/significance.py"


def fault(old: str, new: str, tests: str = HOLM) -> Fault:
    return Fault("one", SIGNIFICANCE, old, new, (tests,), "why")


def test_every_fault_fits_the_source_and_its_tests_exist() -> None:
    assert {one.name: wrong for one in faults() if (wrong := wrong_with(one))} == {}


def test_the_list_is_long_and_has_all_rooms_that_matter() -> None:
    listed = faults()
    rooms = {room: sum(one.file.startswith(f"{room}/") for one in listed) for room in ROOMS}
    assert len(listed) >= 40 and min(rooms.values()) >= 2, rooms
    for one in listed:
        assert one.why and "\n" not in one.why and not one.why.endswith("."), one.name
        assert one.name == one.name.lower() and " " not in one.name


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (fault("no such text", ""), "the old text occurs 0 times"),
        (fault("import", "import"), "the old text occurs"),
        (fault("def holm(", "def holm(("), "the new text is no Python"),
        (fault("def holm(", "def holm("), "the new text does the same"),
        (fault("def holm(", "def bonferroni(", HOLM + "_else"), "no such test: "),
        (
            fault("def holm(", "def bonferroni(")._replace(file="nowhere.py"),
            "nowhere.py: no such file",
        ),
    ],
)
def test_an_entry_that_no_longer_fits_says_why(entry: Fault, said: str) -> None:
    assert said in wrong_with(entry)


def test_an_entry_fits_code_that_a_formatter_laid_out_otherwise() -> None:
    entry = fault("f(a, [b, c])", "g(a)")
    assert entry.put_into("x = f(\n    a,\n    [b, c],\n)\n") == "x = g(a)\n"
    assert entry.put_into("x = f(a, [b, d])\n") == "x = f(a, [b, d])\n"


def test_tests_are_found_by_function_with_or_without_parameters() -> None:
    assert is_test(HOLM) and is_test(HOLM + "[any]")
    assert not is_test("tests/nowhere.py::test_holm_by_hand") and not is_test(
        "tests/evaluate/test_significance.py"
    )


def test_what_was_compiled_from_a_changed_module_is_left_out(tmp_path: Path) -> None:
    """numba does not see that a function it has inlined from another module is another one."""
    root = tmp_path / "checkout"
    for name in ("core/keys.py", "core/errors.py", "kernels/sampling.py"):
        path = root / PACKAGE / name
        (path.parent / "__pycache__").mkdir(parents=True, exist_ok=True)
        path.write_text((ROOT / PACKAGE / name).read_text())
        (path.parent / "__pycache__" / f"{path.stem}.f-1.py311.1.nbc").write_text("compiled")
    (root / PACKAGE / "core" / "__pycache__" / "errors.cpython-311.pyc.139915697345712").write_text(
        "half"
    )
    for name in ("tests", "lab/src", "lab/tests", "packages"):
        (root / name).mkdir(parents=True)
    for name in ("conftest.py", "pyproject.toml"):
        (root / name).touch()
    found = dependents("entrenous.core.keys", root)
    assert {
        "entrenous.core.keys",
        "entrenous.kernels.sampling",
    } <= found and "entrenous.core.errors" not in found
    copy(root, tmp_path / "copy", found)
    left = [path.name for path in (tmp_path / "copy").rglob("*.nbc")]
    assert left == ["errors.f-1.py311.1.nbc"]
    assert not list((tmp_path / "copy").rglob("*.1399*"))  # another process was writing it
    mine = (tmp_path / "copy" / PACKAGE / "core" / "keys.py").stat()
    assert mine.st_mtime == (root / PACKAGE / "core" / "keys.py").stat().st_mtime


@pytest.mark.beside
def test_one_that_is_noticed_one_that_is_not_and_one_that_is_stale(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """End to end, in copies; the checkout stays what it is. A test that cannot even be loaded has
    noticed nothing.
    """
    path = ROOT / PACKAGE / SIGNIFICANCE
    before = path.read_bytes()
    listed = [
        fault("np.minimum(adjusted, 1)", "np.minimum(values[order], 1)")._replace(name="seen"),
        fault("ROUNDING = 1e-12", "ROUNDING = 1e-11")._replace(name="unseen"),
        fault("no such text", "")._replace(name="old"),
        fault("def holm(", "def bonferroni(")._replace(name="broken"),
    ]
    assert main([], listed) == 1
    printed = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(("killed", "SURV", "STALE"))
    ]
    said = {line.split()[1]: line for line in printed}
    assert said["seen"].startswith("killed") and "test_holm_by_hand" in said["seen"]
    assert said["unseen"].startswith("SURVIVED") and said["broken"].startswith("STALE")
    assert said["old"].startswith("STALE") and "the old text occurs 0 times" in said["old"]
    assert path.read_bytes() == before


def test_one_that_was_not_noticed_is_enough_to_fail() -> None:
    killed, survived, stale = (
        Verdict("one", word, 1.0, "") for word in ("killed", "SURVIVED", "STALE")
    )
    assert exit_code([killed, killed]) == 0
    assert exit_code([killed, survived]) == exit_code([stale, killed]) == 1


def test_the_list_is_printed_and_an_unknown_name_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--list", "holm-dropped-in-tables"]) == 0
    assert "lab/src/entrenous_lab/papers/findings.py" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["no-such-fault"])
