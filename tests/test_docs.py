"""The documentation does what it says: the code in docs/add-your-own.md runs as written, and the
README's commands exist.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from paths import ROOT, SHARED, SOURCE, real

from tests.docstrings import FEW, public

PAGE = ROOT / "docs" / "add-your-own.md"
GROUPS = {
    f"entrenous.{group}"
    for group in ("algorithms", "commands", "datasets", "metrics", "splits", "experiments")
}  # of entry points
OTHERS = (ROOT / "lab", ROOT / "packages")  # the other distributions
EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"


def blocks(language: str, page: Path = PAGE) -> list[str]:
    """The code of one language in a page, docs/add-your-own.md, block by block."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


def test_the_algorithm_of_the_documentation_is_a_file_of_60_lines() -> None:
    assert blocks("python")[0] == EXAMPLE.read_text()
    assert len([line for line in EXAMPLE.read_text().splitlines() if line.strip()]) <= 60


def test_the_python_of_the_documentation_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real("ml-100k")
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))
    monkeypatch.chdir(tmp_path)
    page = ModuleType("documentation")
    monkeypatch.setitem(
        sys.modules, "documentation", page
    )  # as a notebook's cells: one after the other, in one module
    for code in blocks("python"):
        exec(compile(code, str(PAGE), "exec", dont_inherit=True), page.__dict__)
    said = capsys.readouterr().out
    assert (
        "Run(MyAlgorithm on ml-100k, loo-99, seed 0, 5 rounds: hr@10 " in said
        and r"\toprule" in said
    )
    assert 0 < page.run.metrics["first_place@10"] < 1
    page.test_my_algorithm_keeps_its_contract()


def test_a_model_that_was_kept_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    testclient = pytest.importorskip("fastapi.testclient")
    monkeypatch.chdir(tmp_path)
    page: dict[str, Any] = {}
    # The blocks after these log with libraries that tests do not need.
    for code in blocks("python", PAGE.with_name("keep.md"))[:2]:
        exec(compile(code, "keep.md", "exec", dont_inherit=True), page)
    app = testclient.TestClient(page["app"])
    assert app.get("/recommend/1?n=1").json() == ["12"]
    assert app.get("/recommend/nobody").status_code == 404


def test_the_readme_opens_with_its_purpose_an_example_and_what_is_not_protected() -> None:
    readme = (ROOT / "README.md").read_text()
    opening = ("**A Python package", "pip install", "make demo", "## What is not protected")
    said = [readme.index(words) for words in opening]
    assert said == sorted(said) and said[-1] < len(readme) / 2
    assert len(readme.split()) <= 500
    doors = [readme.index(f"**{who}**") for who in ("Researchers", "Engineers", "Everyone")]
    assert doors == sorted(doors)


def test_the_example_of_the_readme_prints_what_it_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text()
    example = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.S)
    assert example
    # The reader is in a clone, without a network.
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("ENTRENOUS_DATA", "nowhere")
    exec(compile(example[1], "README.md", "exec", dont_inherit=True), {})
    assert capsys.readouterr().out == example[2]


def test_the_links_of_the_readme_lead_to_files_of_the_clone() -> None:
    """A release has the address of the repository before each (tests/test_distribution.py)."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert len(links) > 10
    for link in links:
        assert (ROOT / link.partition("#")[0]).is_file(), link


def test_every_page_can_be_found_from_the_readme() -> None:
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"index.md"}
    assert "docs/index.md)" in (ROOT / "README.md").read_text()
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (docs / "index.md").read_text()))
    # A folder with a page of its own lists its pages there.
    for page in [page for page in linked if page.endswith("/README.md")]:
        folder = (docs / page).parent
        names = re.findall(r"\]\(([\w-]+\.md)\)", (docs / page).read_text())
        linked |= {(folder / name).relative_to(docs).as_posix() for name in names}
    assert pages == linked


def of_code(page: str) -> set[str]:
    """The Python files and the modules of Entrenous that a page names, links among them."""
    files = re.findall(r"(?<![\w./-])(?:[\w.-]+/)*\w[\w-]*\.py\b", page)
    return {*files, *re.findall(r"\bentrenous(?:\.[a-z_]\w*)+", page)}


def is_there(name: str, page: Path) -> bool:
    """Whether a file is there, from the page, the root, src, the package, or by its bare name; or a
    module or a name of one.
    """
    if name in GROUPS:
        return True
    if name.endswith(".py"):
        near = any(
            (folder / name).is_file()
            for folder in (
                page.parent,
                ROOT / "docs" / "examples",
                ROOT,
                SOURCE.parent,
                SOURCE,
                *OTHERS,
                *ROOT.glob("packages/*/src"),
            )
        )
        bare = "/" not in name
        return near or (bare and any(any(top.rglob(name)) for top in (SOURCE, *OTHERS)))
    path = SOURCE.parent / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module, _, last = name.rpartition(".")
    held = SOURCE.parent / module.replace(".", "/")
    return any(
        last in file.read_text()
        for file in (held / "__init__.py", held.with_name(f"{held.name}.py"))
        if file.is_file()
    )


def test_a_name_that_is_not_there_is_seen() -> None:
    page = (
        "`models/fpl.py`, [fpl](../src/entrenous/systems/fpl.py),"
        " entrenous.runs.conformance.conform, `entrenous.fit.training`"
    )
    missing = {name for name in of_code(page) if not is_there(name, ROOT / "docs" / "fpl.md")}
    assert missing == {"models/fpl.py", "entrenous.fit.training"} and len(of_code(page)) == 4


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"], ids=lambda page: page.name
)
def test_the_files_and_modules_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    assert {name for name in of_code(text) if not is_there(name, page)} == set()
    links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link}
    assert {link for link in links if not (page.parent / link).exists()} == set()


def test_the_glossary_is_short_and_in_plain_sentences() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^- \*\*(.+?)\*\*(.*)$", page, re.M)
    assert 1 <= len(terms) == page.count("\n- ") <= 25
    assert len({term for term, _ in terms}) == len(terms)
    for term, said in terms:
        assert said.endswith(".") and len(re.findall(r"[.](?: |$)", said)) <= 2, term


def test_no_public_docstring_is_too_short_to_stand_alone() -> None:
    short = {".".join(one.module.split(".")[:2]) for one in public(SOURCE) if one.words <= FEW}
    assert {module for module in short} == set()
