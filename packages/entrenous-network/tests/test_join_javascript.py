"""A device in JavaScript, in Node, joins by a link while the server works; what links and servers that
lie get.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.links.https import HttpsServerLink
from federation_links import server_sha256, simulated, until
from javascript import (
    DEVICE,
    INSISTED,
    LOTS,
    NODE,
    PEOPLE,
    csv_of,
    done,
    founded_with,
    links_to,
    rows_of,
    served,
)

pytestmark = pytest.mark.skipif(NODE is None, reason="Node is absent")

COMES = 2  # rounds that are done when somebody comes: the lot of the next one draws them
TERMS: dict[str, Any] = {**LOTS, "rounds": 6}


def test_a_device_in_javascript_joins_by_a_link_while_the_server_works(tmp_path: Path) -> None:
    made = founded_with(tmp_path, "fcf", TERMS)
    rows = rows_of(TERMS)
    folder = tmp_path / "js"
    (tmp_path / "rows.csv").write_text(csv_of(rows, PEOPLE - 1))
    reached, joined = threading.Event(), threading.Event()

    def progress(number: int, total: int, what: str) -> None:
        if number == COMES:
            reached.set()
            assert joined.wait(120)

    def come(link: str) -> tuple[int, str]:
        ended = done(DEVICE, "join", folder, link, tmp_path / "rows.csv", *INSISTED)
        return ended.returncode, ended.stderr

    def refused(cases: list[tuple[list[str], str]]) -> None:
        words = [[link, *INSISTED, *more] for (link, *more), _ in cases]
        (tmp_path / "cases.json").write_text(json.dumps(words))
        script = DEVICE.with_name("join_cases.mjs")
        ended = done(script, folder, tmp_path / "rows.csv", tmp_path / "cases.json")
        assert ended.returncode == 0, ended.stderr
        for line, (_, said) in zip(json.loads(ended.stdout), cases, strict=True):
            assert said in line and "\n" not in line, (said, line)
        assert not (folder / "device.json").exists()

    def work(stop: threading.Event, link: HttpsServerLink) -> None:
        try:
            assert reached.wait(120)
            good, cases = links_to(made, link)
            refused(cases)
            code, line = come(good)
            assert code == 0, line
            assert line.startswith(f"run {made.terms.run}, server 127.0.0.1:")
            assert come(good)[0] == 2
            own = json.loads((folder / "device.json").read_text())["name"]
            device = threading.Thread(target=done, args=(DEVICE, "run", folder))
            device.start()
            until(lambda: own in link.present())
        finally:
            joined.set()
        device.join(120)

    digest = served(made, work, "js", progress=progress)
    members = Members.read(made.server / MEMBERS, PEOPLE)
    assert len(members.nodes) == PEOPLE
    training = simulated(
        made, rows, cohorts=lambda number, users: users[users < PEOPLE - (number < COMES)]
    )
    assert digest == server_sha256(training)
    without = simulated(made, rows, cohorts=lambda number, users: users[users < PEOPLE - 1])
    assert digest != server_sha256(without)
    state = json.loads((folder / "state.json").read_text())
    assert state["inputs"] == 1 and state["trained"]
