"""The test vectors of docs/protocol.md are those of the sources, the page names every code and
route, and a device in JavaScript, which knows only the page and the vectors, computes the same.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.frames.frames import Code
from entrenous_network.links.https import HttpsServerLink
from entrenous_network.operate.device_http import ROUTES
from entrenous_network.operate.founding import (
    FoundedFederation,
)
from entrenous_network.secure_sum.party_list import Demands, PartyList, refusal
from entrenous_network.secure_sum.refusal import CODES
from entrenous_network.wire.statement import Head
from federation_links import ratings, server_sha256, simulated
from javascript import (
    DEVICE,
    INSISTED,
    LOTS,
    NODE,
    PATIENCE,
    PLAIN,
    csv_of,
    done,
    founded_with,
    in_node,
    joined,
    requested,
    rows_of,
    served,
)
from paths import NETWORK, ROOT

from entrenous.privacy.protection import UNCUT, Protection, narrow_bound
from tests.vectors import FOLDER, text_of, vectors

PAGE = ROOT / "docs" / "protocol.md"
LINKS = NETWORK / "links"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_vectors_are_those_of_the_sources() -> None:
    made = vectors()
    assert sorted(made) == sorted(path.name for path in FOLDER.glob("*.json"))
    differing = [name for name, text in made.items() if (FOLDER / name).read_text() != text]
    assert differing == [], "python -m tests.vectors --write"


def test_the_page_has_every_code(page: str) -> None:
    for code in (*(code.value for code in Code), *CODES):
        assert f"`{code}`" in page, code


def test_the_page_has_every_refusal_over_http_with_its_status(page: str) -> None:
    joining = NETWORK / "operate" / "newcomers.py"
    source = "\n".join(path.read_text() for path in (*LINKS.glob("*.py"), joining))
    refusals = set(re.findall(r'Denied\((\d+), "([a-z-]+)"\)', source))
    assert len(refusals) > 10
    for status, word in refusals:
        assert re.search(rf"\n\* {status}: .*`{word}`", page), (status, word)


def test_the_page_has_every_text_that_begins_a_signature_or_hash(page: str) -> None:
    sources = [path for path in NETWORK.rglob("*.py") if "peers" not in path.parts]
    text = "\n".join(path.read_text() for path in sources if path.name != "tickets.py")
    begun = set(re.findall(r'b?"(entrenous [a-z ]+\d?)(?:\\0|\\n)?[^"]*"', text))
    signed = {each for each in begun if re.search(r"\d$|seed|share|group", each)}
    assert {"entrenous frame 1", "entrenous secure sum 8"} <= signed
    for each in signed:
        assert f'"{each}"' in page, each


def test_the_page_has_every_field_of_a_head_and_every_route(page: str) -> None:
    for field in Head.__struct_fields__:
        assert f"\n* `{field}` " in page, field
    routes = re.findall(r'Route\("(/v1/[a-z]+)"', (LINKS / "application.py").read_text())
    assert len(set(routes)) == 5
    for route in (*routes, *ROUTES):
        assert route in page, route


# ---- a device in JavaScript ----------------------------------------------------------------------

needs_node = pytest.mark.skipif(NODE is None, reason="Node is absent")
MANY = 8  # rounds of a federation whose device is killed


@needs_node
def test_javascript_reproduces_the_vectors() -> None:
    ended = done(DEVICE.with_name("vectors.mjs"))
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == len(list(FOLDER.glob("*.json")))


@pytest.fixture
def mixed(tmp_path: Path, request: pytest.FixtureRequest) -> FoundedFederation:
    """A federation as of `founded_with`, whose other device, in JavaScript, has joined by its own
    means. The parameter: an algorithm, and terms.
    """
    name, terms = request.param
    asked = requested(tmp_path / "js", "browser")
    founded = founded_with(tmp_path, name, terms, asked)
    rows = rows_of(terms)
    joined(tmp_path / "js", founded.nodes["browser"], rows, len(rows.users) - 1, INSISTED)
    return founded._replace(nodes={**founded.nodes, "browser": tmp_path / "js"})


def device_ran(folder: Path, kill_at: int, killed: threading.Event) -> None:
    """Runs the device in JavaScript to its end. kill_at: the round after which it is killed and
    started again. killed: is set then.
    """
    device = subprocess.Popen(in_node(DEVICE, "run", folder), stderr=subprocess.PIPE, text=True)
    try:
        while answered(folder) < kill_at and device.poll() is None:
            time.sleep(0.001)
        device.kill()
        device.communicate()
        assert answered(folder) < MANY - 1, "the device was killed too late to prove anything"
        killed.set()
        again = in_node(DEVICE, "run", folder)
        device = subprocess.Popen(again, stderr=subprocess.PIPE, text=True)
        _, said = device.communicate(timeout=PATIENCE)
        assert device.returncode == 0, said
    finally:
        device.kill()
        device.wait()


def answered(folder: Path) -> int:
    """The newest round that the device has answered; -1 for none."""
    path = folder / "state.json"
    return int(json.loads(path.read_text())["round"]) if path.exists() else -1


def model_of(made: FoundedFederation, kill_at: int) -> str | None:
    """The model with which the server of a mixed federation ends. kill_at: as of `device_ran`."""
    killed = threading.Event()

    def progress(done: int, of: int, what: str) -> None:
        # However busy the machine is, rounds are left when the device comes back.
        if done > kill_at + 1:
            killed.wait(PATIENCE)

    def work(stop: threading.Event, link: HttpsServerLink) -> None:
        device_ran(made.nodes["browser"], kill_at, killed)

    return served(made, work, "browser", progress=progress)


@needs_node
@pytest.mark.parametrize("mixed", [("fpl", {**PLAIN, "rounds": MANY})], indirect=True)
def test_a_device_in_javascript_that_is_killed_goes_on_and_the_model_is_the_same(
    mixed: FoundedFederation,
) -> None:
    digest = model_of(mixed, kill_at=3)
    assert digest == server_sha256(simulated(mixed, ratings(users=6)))


@needs_node
def test_the_contract_in_javascript_says_what_ours_says(tmp_path: Path) -> None:
    """Random lists of people, crowds of a shop, and how far numbers may be from 0."""
    made = {"refusals": contract_cases(), "bounds": bound_cases(), "crowds": crowd_cases()}
    (tmp_path / "cases.json").write_text(text_of(made))
    said = {case["said"] for case in made["refusals"]}
    assert said == {None, "many", "again", "spent", "close"}
    ended = done(DEVICE.with_name("lots_cases.mjs"), tmp_path / "cases.json")
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) == sum(len(cases) for cases in made.values())


def bound_cases() -> list[dict[str, Any]]:
    """Sums of more and more people, and how far from 0 our numbers may be in them; None where noise
    or people do not fit."""
    cases = []
    for cohort in (5, 868, 869, 1024, 1822, 1823, 2048, 3780, 3781, 4096, 7741, 7742, 8192):
        for groups in (1, 2):
            protection = {"bits": 32, "sampling": "poisson", "groups": groups}
            said = narrow_bound(Protection.model_construct(**protection), cohort / groups)
            settings = {"cohort": cohort, "users": 100_000}
            case = {"protection": protection, "settings": settings}
            for share in (0.0, 0.5, 0.6, 4.0, 4.1):
                fits = said is not None and UNCUT * share <= said
                cases.append({**case, "share": share, "said": said if fits else None})
    assert {case["said"] for case in cases} == {32, 16, 8, 4, None}
    return cases


def contract_cases() -> list[dict[str, Any]]:
    """Lists of people, and what our rule says of each."""
    drawn = np.random.default_rng(3)
    cases = []
    for _ in range(400):
        demands = Demands(people=10, answers=3)
        old = int(drawn.integers(0, 3))
        lists = [
            sorted(drawn.choice(40, drawn.integers(8, 23), replace=False).tolist())
            for _ in range(drawn.integers(0, 4))
        ]
        listed = sorted({0, *drawn.choice(40, drawn.integers(8, 22), replace=False).tolist()})
        if lists and drawn.random() < 0.5:
            # Somebody is exchanged, or nobody.
            listed = [*lists[0][1:], drawn.integers(40)] if drawn.random() < 0.7 else lists[0]
            listed = sorted({int(person) for person in listed})
        models = [f"{number}" for number in range(len(lists))]
        model = str(drawn.integers(0, 6))
        answered = [
            PartyList(each.encode(), tuple(map(str, people)))
            for each, people in zip(models, lists, strict=True)
        ]
        asked = PartyList(model.encode(), tuple(map(str, listed)))
        past = [{"model": one.model.decode(), "people": one.people} for one in answered]
        cases.append(
            {
                "people": asked.people,
                "model": model,
                "past": past,
                "demands": {"floor": 10, "answers": 3, "members": 40, "gone": old},
                "said": refusal(asked, 40, answered, demands, old),
            }
        )
    return cases


def crowd_cases() -> list[dict[str, Any]]:
    """Sums of 250 people, many of one shop's, and what our rule says of each."""
    people = tuple(f"n{at:03d}" for at in range(250))
    cases = []
    for marked in (249, 26, 25):
        shops = dict.fromkeys(people[-marked:], bytes.fromhex("5e" * 32))
        said = refusal(PartyList(bytes(32), people), 600, (), Demands(), 0, shops)
        marks = dict.fromkeys(shops, "5e" * 32)
        cases.append({"members": 600, "shops": marks, "people": people, "said": said})
    assert [case["said"] for case in cases] == ["shop", "shop", None]
    return cases


@needs_node
@pytest.mark.parametrize(
    ("name", "settings", "terms", "why"),
    [
        ("fcf", {"form": "gram"}, PLAIN, "form=gram; expected printed"),
        ("fpl", {"user_step": "once"}, PLAIN, "user_step=once; expected triple"),
        ("fpl", {}, {**PLAIN, "protect": {"rows": "padded"}}, "a protection of which"),
        (
            "fcf",
            {},
            PLAIN,
            "the server can read what this device sends; expected masks, or paper=1",
        ),
        ("fcf", {}, LOTS, "its draws are public; expected secret ones, or public=1"),
        ("pfedrec", {}, PLAIN, "pfedrec; expected one of fcf, fpl"),
    ],
)
@pytest.mark.beside
def test_a_device_in_javascript_does_not_join_what_it_does_not_know(
    tmp_path: Path, name: str, settings: dict[str, Any], terms: dict[str, Any], why: str
) -> None:
    request = requested(tmp_path / "js", "browser")
    founded = founded_with(tmp_path, name, {**terms, "settings": settings}, request)
    rows = tmp_path / "rows.csv"
    rows.write_text(csv_of(rows_of(terms), 5))
    ended = done(DEVICE, "join", tmp_path / "js", founded.nodes["browser"], rows)
    assert ended.returncode == 2 and why in ended.stderr, ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    # A device that may not join is left as it was.
    assert sorted(path.name for path in (tmp_path / "js").iterdir()) == [
        "identity.key",
        "request.json",
    ]


LIES = ["known", "twice", "number", "nameless", "untold", "features", "field", "beyond"]
LIES += ["retired item", "gone twice", "json", "cut", "long", "root", "size", "body"]


@needs_node
@pytest.mark.parametrize("mixed", [("fpl", PLAIN)], indirect=True)
def test_a_device_in_javascript_refuses_a_request_that_is_not_the_operator_s(
    mixed: FoundedFederation, tmp_path: Path
) -> None:
    """What the device answers to frames that it must not take: see refusals.mjs."""
    folder = mixed.nodes["browser"]
    operator = (mixed.server / "identity.key").read_text().strip()
    ended = done(DEVICE.with_name("refusals.mjs"), folder, operator)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "stranger": "bad-signature",
        "run": "wrong-run",
        "kind": "wrong-kind",
        "round": "future-round",
        "users": "wrong-count",
        "other": "not-asked",
        "model": "wrong-model",
        "nan": "malformed",
        "huge": "too-large",
        "gram": "malformed",
        "cut": "truncated",
        "full": ["BadInput", "BadInput"],
        "forgotten": "withheld",
        "written": "waits, withheld",
        "good": "waits, update",
        "again": "the same",
        "past": "past-round",
        "lower": "past-round",
        "items stranger": "bad-signature",
        **{f"items {lie}": "malformed" for lie in LIES},
        "items kept": "the same",
        "items good": "items",
        "items recommended": False,
        "items retired again": "malformed",
        "items after": "x",
        "items unknown": "wrong-items",
    }
