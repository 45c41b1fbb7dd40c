"""The test vectors of docs/protocol.md are those of the sources, the page names every code and
route, and a device in JavaScript, which knows only the page and the vectors, computes the same.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from paths import ROOT

from entrenous.deploy.frames.frames import Code, Head
from entrenous.deploy.links.device_http import ROUTES
from entrenous.privacy.secure_sum.refusal import CODES
from tests.vectors import FOLDER, vectors

PAGE = ROOT / "docs" / "protocol.md"
LINKS = ROOT / "src" / "entrenous" / "deploy" / "links"
DEVICE = ROOT / "tests" / "js" / "device.mjs"
NODE = shutil.which("node")


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_vectors_are_those_of_the_sources() -> None:
    made = vectors()
    assert sorted(made) == sorted(path.name for path in FOLDER.glob("*.json"))
    differing = [name for name, text in made.items() if (FOLDER / name).read_text() != text]
    assert differing == [], "python -m tests.vectors --write"


def test_a_change_of_one_number_is_seen() -> None:
    stored = json.loads((FOLDER / "draws.json").read_text())
    stored["draw"][0] = str(int(stored["draw"][0]) + 1)
    assert json.dumps(stored, indent=1) + "\n" != vectors()["draws.json"]


def test_the_page_has_every_code(page: str) -> None:
    for code in (*(code.value for code in Code), *CODES):
        assert f"`{code}`" in page, code


def test_the_page_has_every_refusal_over_http_with_its_status(page: str) -> None:
    source = "\n".join(path.read_text() for path in LINKS.glob("*.py"))
    refusals = set(re.findall(r'Denied\((\d+), "([a-z-]+)"\)', source))
    assert len(refusals) > 10
    for status, word in refusals:
        assert f"| {status} | `{word}` |" in page, (status, word)


def test_the_page_has_every_field_of_a_head_and_every_route(page: str) -> None:
    for field in Head.__struct_fields__:
        assert f"| `{field}` |" in page, field
    routes = re.findall(r'Route\("(/v1/[a-z]+)"', (LINKS / "application.py").read_text())
    assert len(routes) == 3
    for route in (*routes, *ROUTES):
        assert route in page, route
