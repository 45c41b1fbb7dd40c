"""SECURITY.md names nothing that is not there: files, anchors, commands, options, profiles,
settings and make targets.
"""

from __future__ import annotations

import re

import pytest
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.operate.plans import FoundingPlan
from paths import ROOT

from entrenous.cli import _app
from entrenous.core.contract.declared import declared
from entrenous.core.errors import InputError
from entrenous.privacy.protection import DP, PRIVATE, PROFILES, protection_of
from entrenous.runs.plan import algorithm_of

PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
SPANS = re.findall(r"`([^`]+)`", PAGE)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_files_and_anchors_are_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert len(links) >= 5
    for link in links:
        name, _, anchor = link.partition("#")
        assert (ROOT / name).is_file(), link
        assert not anchor or anchor in anchors((ROOT / name).read_text(encoding="utf-8")), link


def test_every_span_is_of_a_kind_that_is_checked() -> None:
    kinds = (
        r"entrenous .*|--profile \w+|--protect \w+=\w+|make \w+("
        r" LOCKED=1)?|[\w/.-]+\.(toml|py|lock)"
    )
    assert [span for span in SPANS if not re.fullmatch(kinds, span)] == []


@pytest.mark.parametrize("span", [span for span in SPANS if span.startswith("entrenous ")])
def test_commands_parse(span: str) -> None:
    words = span.split()[1:]
    if words == ["--version"]:
        return
    _app().parse_args(words, exit_on_error=False, print_error=False)


def test_profiles_settings_files_and_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for span in SPANS:
        first, _, rest = span.partition(" ")
        if first == "--profile":
            assert rest in PROFILES
        elif first == "--protect":
            name, _, value = rest.partition("=")
            assert (
                str(
                    dict(protection_of(PRIVATE, {}, declared(algorithm_of("fpl", {})).traits))[name]
                ).lower()
                == value
            )
        elif first == "make":
            target = rest.partition(" ")[0]
            assert re.search(rf"^{target}:", makefile, re.M)
            assert "LOCKED" not in rest or "ifneq ($(LOCKED),)" in makefile
        elif first != "entrenous":
            assert (ROOT / span).is_file(), span


def test_what_it_says_of_differential_privacy_is_so() -> None:
    """The default of new federations is `private` and proves no epsilon; `dp` spends a budget."""
    assert FoundingPlan().profile == PRIVATE
    lot = {"sampling": "poisson", "answers": 11}
    own = protection_of(PRIVATE, lot, declared(algorithm_of("fpl", {})).traits)
    common = {
        "algorithm": "fpl",
        "users": 200,
        "items": 50,
        "rounds": 10,
        "operator": "00" * 32,
        "topology": "server",
    }
    terms = FederationTerms.parse(
        {**common, "profile": PRIVATE, "protection": own.model_dump(mode="json")}, "terms"
    )
    assert terms.proven(own.people) is None
    with pytest.raises(InputError, match="profile=dp together with topology=server, draws=secret"):
        FederationTerms.parse({**common, "profile": DP}, "terms")
    assert protection_of(DP, {}, declared(algorithm_of("fpl", {})).traits).epsilon
