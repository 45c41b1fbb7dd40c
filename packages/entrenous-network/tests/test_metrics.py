"""What operators see, GET /metrics and the log as JSON: it parses, it counts, and nothing private
is in it.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from entrenous_lab.memory_link import MemoryServerLink
from entrenous_network.agreement.certificates import expiry, make_keys
from entrenous_network.frames.frames import Code
from entrenous_network.links.metrics import LinkTally, Metrics, exposition, served
from entrenous_network.node import node_watch
from entrenous_network.operate import running
from entrenous_network.operate.founding import free_ports
from entrenous_network.server import server
from entrenous_network.server.server_folder import ServerFolder
from federation_links import answers_of, federation, nodes_at, nodes_of
from paths import ROOT

from entrenous.core.errors import InputError

OPS = ROOT / "ops"
SAMPLE = re.compile(r'entrenous_([a-z_]+)(?:\{(\w+)="([a-z0-9._-]+)"\})? (\d+\.\d+(?:e\+\d+)?)')
FAMILIES = {
    "rounds_done",
    "rounds",
    "round_seconds",
    "halted",
    "answers_total",
    "requests_total",
    "connections_refused_total",
    "last_commit_seconds",
    "rounds_lost_total",
    "disk_errors_total",
    "liars",
}
# A number of a model has many digits; sizes and times have too, with an exponent.
PRIVATE = re.compile(r"patient|film|node-|\[|\d\.\d{7,}(?!\d|e\+)")


def parsed(text: str) -> dict[tuple[str, str], float]:
    """The samples by name and label. Fails for what is not in the text format of Prometheus."""
    found, families = dict[tuple[str, str], float](), set[str]()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("gauge", "counter") and kind == (
                "counter" if name.endswith("_total") else "gauge"
            )
            families.add(name.removeprefix("entrenous_"))
        elif not line.startswith("# HELP "):
            sample = SAMPLE.fullmatch(line)
            assert sample is not None and sample[1] in families, line
            found[sample[1], sample[3] or ""] = float(sample[4])
    assert text.endswith("\n") and families - {"certificate_ends_seconds"} == FAMILIES
    return found


def fetched(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as found:
        return str(found.read().decode())


@pytest.mark.parametrize("workers", [1, 2])
def test_metrics_count_rounds_requests_and_connections_and_name_nobody(
    tmp_path: Path, workers: int
) -> None:
    made = federation(tmp_path / "f", nodes=4, rounds=4)
    own, port = free_ports(2)
    scraped: list[str] = []
    began = int(time.time())
    make_keys(made.server / "keys")
    place = json.loads((made.server / "place.json").read_text())
    (made.server / "place.json").write_text(json.dumps({**place, "port": own}))

    def scrape(name: str, frame: bytes) -> None:
        scraped.append(fetched(port))

    failed: list[BaseException] = []

    def serve() -> None:
        try:
            running.run_server(
                made.server,
                threading.Event(),
                lambda text: None,
                workers=workers,
                metrics=port,
                log_format="json",
            )
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    with nodes_at(made, f"127.0.0.1:{own}", scrape):
        thread.join(240.0)
    assert not failed and not thread.is_alive() and len(scraped) >= 16
    last = parsed(scraped[-1])
    assert all(parsed(text)["rounds", ""] == 4 for text in scraped) and not any(
        PRIVATE.search(text) for text in scraped
    )
    assert last["rounds_done", ""] >= 3 and last["answers_total", "accepted"] >= 12
    assert last["halted", ""] == 0 and last["last_commit_seconds", ""] >= began
    assert last["rounds_lost_total", ""] == last["disk_errors_total", ""] == 0
    assert last["certificate_ends_seconds", ""] == int(expiry(made.server / "keys").timestamp())
    assert max(parsed(text).get(("requests_total", "answer"), 0) for text in scraped) >= 8
    lines = [json.loads(line) for line in (made.server / "server.log").read_text().splitlines()]
    assert [line["round"] for line in lines if line["event"] == "round"] == [0, 1, 2, 3] and lines[
        -1
    ]["event"] == "finish"


def test_a_log_of_json_says_time_level_event_round_node_and_code_and_nothing_private(
    tmp_path: Path,
) -> None:
    made = federation(tmp_path / "f", nodes=4, rounds=2)

    class Twice(MemoryServerLink):  # type: ignore[misc]
        def receive(self, seconds: float) -> list[tuple[str, bytes]]:
            found = super().receive(seconds)
            return [
                each for one in found for each in (one, one, (one[0], b"junk patient-1x film-2y"))
            ]

    nodes = nodes_of(made)
    with closing(ServerFolder(made.server, log_format="json")) as held:
        server.serve_opened(Twice(answers_of(nodes)), held)
    text = (made.server / "server.log").read_text()
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    assert all(
        {"time", "level", "event", "text"}
        <= line.keys()
        <= {"time", "level", "event", "text", "round", "node", "code"}
        for line in lines
    )
    again = [line for line in lines if line.get("code") == "duplicate"]
    assert (
        {line["node"] for line in again} <= set(nodes)
        and again
        and again[0]["level"] == "warning"
        and again[0]["event"] == "refused"
    )
    assert [line for line in lines if line.get("code") == "not-a-frame" and "node" not in line]
    assert (
        "patient" not in text
        and "film" not in text
        and "junk" not in text
        and not re.search(r"\d\.\d{4,}|\d+e[+-]\d|array\(", text)
    )
    assert {line["event"] for line in lines} >= {"start", "round", "finish", "refused"}
    assert not PRIVATE.search(exposition(held.said, LinkTally()))


def test_metrics_are_on_loopback_alone_and_there_is_nothing_else() -> None:
    with served(Metrics(dict), 0) as port:
        parsed(fetched(port))
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetched(port, "/")
        with (
            pytest.raises(InputError, match="--metrics: cannot listen"),
            served(Metrics(dict), port),
        ):
            pass
        with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), 5.0):
            pass


def test_the_sample_alerts_name_metrics_that_exist() -> None:
    """ops/alerts.yml would otherwise be silent for ever after a metric got another name."""
    yaml = pytest.importorskip("yaml")
    text = (OPS / "alerts.yml").read_text()
    groups = yaml.safe_load(text)["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    told = {"last_contact_seconds", "finished", "certificate_ends_seconds", "hit_rate"} | FAMILIES
    assert len(rules) == len({rule["alert"] for rule in rules})
    for rule in rules:
        used = set(re.findall(r"entrenous_([a-z_]+)", rule["expr"]))
        assert used <= told and (used or "up{" in rule["expr"]), rule["alert"]
        for label, value in re.findall(r'([a-z]+)!?=~?"([^"]*)"', rule["expr"]):
            known = {"job": {"entrenous-server", "entrenous-node"}, "code": set(Code)}
            assert value in known[label], rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"] and rule["annotations"]["do"]
    # The two of a node that FAMILIES, of a server, does not have.
    source = Path(node_watch.__file__).read_text()
    assert '"last_contact_seconds"' in source and '"finished"' in source
    # And the one of a server whose devices test new rows.
    assert "entrenous_hit_rate 0.3" in exposition({"hit_rate": 0.3}, LinkTally())


def test_labels_are_escaped_and_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = exposition({"answers": {'a"b\n': 1}}, LinkTally())
    assert r'entrenous_answers_total{code="a\"b\n"} 1.0' in text
    monkeypatch.setattr("entrenous_network.links.metrics.find_spec", lambda name: None)
    with (
        pytest.raises(
            InputError, match=r"prometheus-client is not installed; pip install .*network"
        ),
        served(Metrics(dict), 0),
    ):
        pass
    # Whoever wants no metrics needs no library.
    with served(Metrics(dict), None) as port:
        assert port == 0
