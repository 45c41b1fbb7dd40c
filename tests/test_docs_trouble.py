"""docs/trouble.md quotes what the program says: each symptom is in a source of ours."""

from __future__ import annotations

import re

from paths import ROOT, SOURCE

PAGE = ROOT / "docs" / "trouble.md"


def symptoms() -> list[str]:
    """What stands in backticks in the first column of the page's tables, those of what is lost left
    out.
    """
    text = PAGE.read_text(encoding="utf-8").split("## Lost")[0]
    cells = re.findall(r"^\| (.*?) \|", text, re.M)
    return [quoted for cell in cells for quoted in re.findall(r"`([^`]+)`", cell)]


def said() -> str:
    """All that the library and its neighbours say, literals that follow each other joined."""
    files = [*SOURCE.rglob("*.py"), *ROOT.glob("packages/*/src/**/*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(files))
    return re.sub(r'"\s*\n?\s*f?"', "", text)


def test_every_symptom_is_what_the_program_says() -> None:
    source, found = said(), symptoms()
    assert len(found) > 50
    parts = {part.strip(" ;") for one in found for part in one.split("...")}
    assert {part for part in parts if part not in source} == set()


def test_the_page_is_found_from_the_one_on_networks() -> None:
    assert "(trouble.md)" in (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
