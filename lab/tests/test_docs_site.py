"""The documentation as a site: tutorials end as their pages say, generated pages are those of the
code, every page stands in the navigation and begins with its use, and no link is broken.
"""

from __future__ import annotations

import html
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from entrenous_lab.site import cells, reference
from entrenous_lab.site.stage import repository, staged
from paths import ROOT

import entrenous
from tests import paragraphs

DOCS = ROOT / "docs"
SCRIPTS = sorted((DOCS / "tutorials").glob("*.py"))
# Written by programs of lab/, in the words of their tables.
OTHERS_WRITE = {"claims.md", "measured.md", "failures.md", "results.md"}
# Words outside the reference and the results. It may only fall.
MOST_WORDS = 34_000
MOST_ROWS = 10
# A line of output of which a part differs between two runs of one program.
FLEETING = re.compile(r"^.*(?:process\.log|\bpid\b).*$", re.M)


def is_decision(page: Path) -> bool:
    """Tells whether a page is a record of a decision: docs/decisions/README.md lists these."""
    return page.parent.name == "decisions" and page.name != "README.md"


def words(text: str) -> list[str]:
    """The words and numbers of a text: the lines of tables differ between versions of libraries."""
    return re.findall(r"[\w.+%-]+", FLEETING.sub("", text))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_tutorial_ends_as_its_page_says(script: Path) -> None:
    parsed = cells.parsed(script.read_text(encoding="utf-8"))
    outputs = cells.executed(parsed, [script.with_name("books.csv")])
    now = cells.written(script, parsed, outputs)
    for name, text in now.items():
        stored = script.with_name(name).read_text(encoding="utf-8")
        assert words(text) == words(stored), f"python -m entrenous_lab.site {script.stem}"


def test_a_cell_that_fails_is_seen() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        cells.executed([cells.Cell("code", "1 / 0")])
    with pytest.raises(RuntimeError, match="no error was raised"):
        cells.executed([cells.Cell("raises", "1 + 1")])
    with pytest.raises(RuntimeError, match="false"):
        cells.executed([cells.Cell("bash", "false | cat")])


@pytest.mark.parametrize("name", sorted(reference.PAGES.keys() - {"commands"}))
def test_a_generated_page_is_that_of_the_code(name: str) -> None:
    stored = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")
    assert reference.PAGES[name]() == stored, f"python -m entrenous_lab.site {name}"


def test_the_page_of_commands_has_every_command_with_its_help() -> None:
    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    names = reference.names_of_commands()
    assert re.findall(r"^## `(\S+)`$", page, re.M) == names
    assert reference.EXAMPLES.keys() <= set(names)
    for name in names:
        for command in ([name], *([name, sub] for sub in reference.subcommands(name))):
            assert reference.help_of(command) in page, "python -m entrenous_lab.site commands"


@pytest.mark.slow
def test_the_page_of_commands_has_what_they_print() -> None:
    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    for name, printed in reference.example_outputs().items():
        assert " ".join(words(printed)) in " ".join(words(page)), name


def test_every_page_stands_in_the_navigation_once() -> None:
    listed = [page for pages in paragraphs.sections().values() for page in pages]
    assert sorted(listed) == sorted(page for page in DOCS.rglob("*.md") if not is_decision(page))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_a_page_begins_with_what_its_reader_will_be_able_to_do(page: Path) -> None:
    if page.name in OTHERS_WRITE or is_decision(page):
        pytest.skip("it is written by a program of lab/, or is the record of a decision")
    beginning = page.read_text(encoding="utf-8")[:600]
    assert re.match(r"# .+\n\n(?:\*Executed.*\n\n)?After this page you (?:can|know)", beginning)


def test_what_is_read_through_is_short_enough_to_be_read() -> None:
    assert paragraphs.words(paragraphs.read_through()) <= MOST_WORDS


@pytest.mark.parametrize("page", paragraphs.read_through(), ids=lambda page: page.stem)
def test_a_page_with_a_long_table_has_a_figure(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    rows = [table.count("\n") - 2 for table in re.findall(r"(?:^\|.*\n)+", text, re.M)]
    assert max(rows, default=0) <= MOST_ROWS or "![" in text or "```mermaid" in text


def test_numbers_below_one_have_a_leading_zero() -> None:
    for page in paragraphs.read_through():
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        assert re.findall(r"(?<![\w.])\.\d{2,}", text) == [], page.name


def test_links_out_of_docs_lead_to_pictures_or_to_the_repository(tmp_path: Path) -> None:
    staged(ROOT, tmp_path / "docs")
    page = (tmp_path / "docs" / "fpl.md").read_text(encoding="utf-8")
    picture = re.search(r"\]\((outside/\S+\.svg)\)", page)
    assert picture and (tmp_path / "docs" / picture[1]).is_file()
    for copy in (tmp_path / "docs").rglob("*.md"):
        for link in re.findall(r"\]\(([^)#\s]+)", copy.read_text(encoding="utf-8")):
            here = (copy.parent / link).resolve()
            assert "://" in link or here.is_relative_to(tmp_path / "docs"), (copy.name, link)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site. Fails where a link is broken."""
    builder = shutil.which("zensical", path=str(Path(sys.executable).parent))
    if builder is None:
        pytest.skip("Zensical is absent: pip install 'entrenous[docs]'")
    # A copy, since the builder writes beside the file that a link leads to.
    copy = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", copy)
    (copy / "src").symlink_to(ROOT / "src")
    staged(ROOT, copy / "build" / "docs")
    built = [builder, "build", "--strict"]
    done = subprocess.run(built, cwd=copy, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return copy / "build" / "site"


def test_the_site_is_built_and_no_link_is_broken(site: Path) -> None:
    assert (site / "index.html").is_file()
    # The search of the reader's browser finds a function of the package.
    assert "entrenous" in (site / "search.json").read_text()


def bare(signature: str) -> str:
    """A signature without `self`, modules of types, spaces, quotes, the last comma, and a default
    that is a function, which Python shows by its address.
    """
    plain = re.sub(r"[\s'\"]|\b[a-z]+\.", "", signature).replace("<factory>", "{}")
    plain = re.sub(r"=(?:lambda\w*:\w+|<function[^)]*?>)(?=[,)])", "", plain)
    return re.sub(r"^\(self,?", "(", plain).replace(",)", ")")


def test_the_reference_shows_the_signatures_that_python_shows(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    shown = {}
    for part in re.split(r'<div class="doc doc-object doc-function">', page)[1:]:
        name = re.search(r'id="(\S+)"', part)
        signature = re.search(r'<div class="doc-signature.*?</div>', part, re.S)
        assert name and signature
        text = html.unescape(re.sub(r"<[^>]*>", "", signature[0]))
        shown[name[1]] = text[text.index("(") :]
    for name, text in shown.items():
        assert bare(text) == bare(str(inspect.signature(pkgutil.resolve_name(name)))), name
    functions = filter(inspect.isfunction, map(entrenous.__getattr__, entrenous.LAZY))
    assert {f"{one.__module__}.{one.__name__}" for one in functions} <= shown.keys()


def test_one_address_stands_for_the_repository() -> None:
    """In pyproject.toml and in mkdocs.yml."""
    declared = re.search(r'^repository = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    if declared is None:
        pytest.skip("pyproject.toml names no address yet")
    assert repository(ROOT) == declared[1]
