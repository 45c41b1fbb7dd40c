"""docs/results/attackers.md names tests that are there."""

from __future__ import annotations

import re

from paths import ROOT

PAGE = ROOT / "docs" / "results" / "attackers.md"


def test_every_test_that_the_threat_model_names_is_there() -> None:
    file, found = "", 0
    for named, test in re.findall(
        r"`((?:[\w/-]+\.py)?)(?:::(test_\w+))?`", PAGE.read_text(encoding="utf-8")
    ):
        file = named or file
        if not (named or test):
            continue
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not test or re.search(rf"^(?:async )?def {test}\(", text, re.M), (file, test)
        found += 1
    assert found >= 24
