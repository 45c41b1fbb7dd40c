"""What whoever runs a federation meets: exit codes of real processes, health, metrics and status of
both ends, a pace, a halted server.
"""

from __future__ import annotations

import errno
import resource
import signal
import socket
import sqlite3
import ssl
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from entrenous_network.links.health import DiskHealth
from entrenous_network.links.polling import (
    Refused,
    refusal_of,
)
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.node_watch import AWAY, NodeWatch, ShopWatch, node_status
from entrenous_network.operate.founding import free_ports
from entrenous_network.operate.running import status_of_server
from entrenous_network.server.server import serve
from federation_links import (
    PATIENCE,
    FaultyLink,
    federation,
    logged,
    nodes_at,
    ratings,
    server_sha256,
    simulated,
    until,
)
from over_https import socket_there
from service_processes import at_a_port, process

from entrenous.core.errors import InputError, NotYet, StartAgain, may_pass


def ended(*words: object, **more: Any) -> tuple[int, str]:
    """The exit code of `entrenous WORDS`, and its last line."""
    with process(*words, **more) as started:
        out, err = started.communicate(timeout=PATIENCE)
        assert "Traceback" not in out + err, err
        return started.returncode, err.splitlines()[-1] if err else ""


def asked(port: int, path: str = "/v1/health") -> tuple[int, str]:
    """The status and text of a GET on loopback; (0, "") while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


def samples(port: int) -> dict[str, float]:
    """What /metrics tells, by name and labels; {} while nobody listens."""
    lines = [line for line in asked(port, "/metrics")[1].splitlines() if not line.startswith("#")]
    return {
        name.removeprefix("entrenous_"): float(value)
        for name, _, value in (line.rpartition(" ") for line in lines)
    }


def at_main_port(port: int, ca: Path) -> tuple[int, str]:
    """GET /v1/health of a server, over TLS, as anybody may ask."""
    trusted = ssl.create_default_context(cafile=str(ca))
    found = httpx.get(
        f"https://127.0.0.1:{port}/v1/health", verify=trusted, trust_env=False, timeout=30
    )
    return found.status_code, found.text


# ---- exit codes ----------------------------------------------------------------------------------


def test_a_port_that_another_process_has_is_to_be_tried_again(tmp_path: Path) -> None:
    made, port = at_a_port(tmp_path / "f", nodes=2)
    with socket.create_server(("127.0.0.1", port)):
        code, line = ended("server", made.server)
        assert code == 75 and "cannot listen on 127.0.0.1" in line
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for words in (("server", made.server), ("node", made.nodes["node-1"])):
            code, line = ended(*words, "--metrics", taken.getsockname()[1])
            assert code == 75 and "--metrics: cannot listen on" in line


@pytest.mark.parametrize("part", ["server", "node"])
def test_r8_a_folder_that_another_process_runs_is_to_be_tried_again(
    tmp_path: Path, part: str
) -> None:
    made, _ = at_a_port(tmp_path / "f", nodes=2)
    folder = made.server if part == "server" else made.nodes["node-1"]
    with process(part, folder) as first:
        until(
            lambda: (
                (folder / "lock").exists()
                and (folder / "lock").read_text().strip() == str(first.pid)
            )
        )
        code, line = ended(part, folder)
    assert code == 75 and f"process {first.pid} is at work on it" in line


def test_of_errors_of_the_system_those_pass_that_a_restart_may_survive() -> None:
    assert all(
        may_pass(OSError(number, ""))
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EADDRINUSE, errno.EMFILE)
    )
    assert not any(
        may_pass(OSError(number, ""))
        for number in (errno.EACCES, errno.ENOENT, errno.EROFS, errno.EFBIG)
    )
    assert may_pass(MemoryError()) and not may_pass(ValueError())
    corrupt, full = sqlite3.DatabaseError(), sqlite3.OperationalError()
    corrupt.sqlite_errorcode, full.sqlite_errorcode = 11, 13
    assert may_pass(full) and not may_pass(corrupt)
    found = refusal_of(Refused(401, "unknown-node", ""))
    # No restart of the server mends this.
    assert not isinstance(refusal_of(Refused(401, "wrong-run", "")), NotYet)
    assert (
        isinstance(found, NotYet)
        and isinstance(found, StartAgain)
        and isinstance(found, InputError)
    )


# ---- health, a halt, a pace ----------------------------------------------------------------------


def test_a_server_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """Before: /v1/health said ok while nothing could be written."""
    data = ratings(items=400)
    made, port = at_a_port(
        tmp_path / "f", rounds=4, data=data, settings={"factors": 8, "triples": 1}
    )
    metrics, hold, ca = free_ports()[0], Event(), made.server / "keys" / "ca.crt"
    answered: list[str] = []

    def third_round_waits(name: str, frame: bytes) -> None:
        answered.append(name)
        if len(answered) == 2 * len(made.nodes) + 1:
            hold.wait(PATIENCE)

    with process("server", made.server, "--metrics", metrics) as server:
        until(lambda: asked(metrics) == (200, "ok\n"))
        until(lambda: socket_there(port))
        assert at_main_port(port, ca) == (200, "ok\n")
        with nodes_at(made, f"127.0.0.1:{port}", third_round_waits):
            until(lambda: len(answered) > 2 * len(made.nodes))
            # Libraries that load later would leave a cut file of their bytecode for everybody.
            assert samples(metrics)["halted"] == 0
            hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (900, hard))
            # a block is tried, unless the journal of the round that begins has failed already
            status, text = asked(metrics)
            assert status == 503 and text.startswith("disk: ") and "File too large" in text
            hold.set()
            until(lambda: "cannot be written" in asked(metrics)[1])
            status, text = asked(metrics)
            assert status == 503 and text.startswith("disk: ") and "File too large" in text
            assert at_main_port(port, ca) == (503, "disk\n")  # no file is named to strangers
            assert samples(metrics)["disk_errors_total"] >= 1 and samples(metrics)["halted"] == 0
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
            until(lambda: asked(metrics)[0] in (200, 0))
            assert server.wait(PATIENCE) == 0
    assert logged(made.server)[-1].split(" ")[-1] == server_sha256(simulated(made, data))


def test_a_write_that_failed_counts_until_it_is_made_though_a_block_can_be_written(
    tmp_path: Path,
) -> None:
    """A disk that is nearly full takes a block, and no model."""
    disk = DiskHealth(tmp_path)
    assert disk.trouble() is None and not list(tmp_path.iterdir())
    disk.failed("round 3: the checkpoint", OSError(errno.ENOSPC, "No space left on device"))
    trouble = disk.trouble()
    assert (
        trouble is not None
        and trouble.kind == "disk"
        and "round 3: the checkpoint cannot be written" in trouble.text
    )
    disk.failing.pop("round 3: the checkpoint")
    assert disk.trouble() is None and disk.errors == 1


def test_a_halted_server_with_metrics_stays_to_be_seen_and_without_ends(tmp_path: Path) -> None:
    """Before: `halted 1` stood for a second, then nobody listened: an alarm that reads every 15 s
    never fired.
    """
    made, port = at_a_port(tmp_path / "f", rounds=3, most_move=1e-9)
    metrics, ca = free_ports()[0], made.server / "keys" / "ca.crt"
    with (
        process("server", made.server, "--metrics", metrics) as server,
        nodes_at(made, f"127.0.0.1:{port}"),
    ):
        until(lambda: samples(metrics).get("halted") == 1)
        until(lambda: any(line.startswith("halted: ") for line in logged(made.server)))
        for _ in range(3):  # it stays
            assert server.poll() is None and samples(metrics)["halted"] == 1
            time.sleep(0.5)
        status, text = asked(metrics)
        assert status == 503 and text.startswith("halted: round 0: would move the model by")
        assert at_main_port(port, ca) == (503, "halted\n")
        assert status_of_server(made.server)["status"] == "halted"
        server.send_signal(signal.SIGTERM)
        _, err = server.communicate(timeout=PATIENCE)
    assert server.returncode == 2 and "would move the model by" in err.splitlines()[-1]
    with process("server", made.server) as again, nodes_at(made, f"127.0.0.1:{port}"):
        assert again.wait(PATIENCE) == 2


def test_a_pace_is_kept_across_a_restart_and_a_pause_ends_at_once(tmp_path: Path) -> None:
    made, port = at_a_port(tmp_path / "f", rounds=3)
    told: list[dict[str, Any]] = []
    with nodes_at(made, f"127.0.0.1:{port}"):
        for _ in range(2):
            with process("server", made.server, "--pace", "3600") as server:
                until(lambda pid=server.pid: pausing(made.server, pid))
                told.append(status_of_server(made.server))
                server.send_signal(signal.SIGTERM)
                assert server.wait(PATIENCE) == 0  # in a pause of an hour
        assert [one["round"] for one in told] == [1, 1]
        for one in told:
            assert one["running"] and abs(one["next_round"] - one["committed"] - 3600) < 1
        with process("server", made.server, "--pace", "0.1") as server:
            assert server.wait(PATIENCE) == 0
    assert logged(made.server)[-1].split(" ")[-1] == server_sha256(simulated(made))


def pausing(folder: Path, pid: int) -> bool:
    found = status_of_server(folder)
    return found.get("pid") == pid and found["status"] == "pausing"


# ---- nodes ---------------------------------------------------------------------------------------


def test_a_node_tells_of_itself_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    """Before: `expected a peer's`."""
    made, _ = at_a_port(tmp_path / "f", nodes=2, rounds=3)
    folder, metrics, began = made.nodes["node-1"], free_ports()[0], time.time()
    before = node_status(folder)
    assert (
        not before["running"]
        and before["round"] == 0
        and before["model_round"] is None
        and before["users"] == 10
    )
    with (
        process("node", folder, "--metrics", metrics) as node,
        process("node", made.nodes["node-2"]),
    ):
        until(
            lambda: (
                "connection_lost" in node_status(folder) and node_status(folder)["connection_lost"]
            )
        )
        assert asked(metrics) == (200, "ok\n")  # its server may be a while in coming
        with process("server", made.server) as server:
            assert server.wait(PATIENCE) == 0
        until(lambda: samples(metrics)["finished"] == 1)
        found = samples(metrics)
        assert found["rounds_done"] == found["rounds"] == found["model_round"] == 3
        assert found["last_contact_seconds"] >= began
        assert found['answers_total{code="given"}'] >= 4
        node.send_signal(signal.SIGTERM)
        assert node.wait(PATIENCE) == 0
    after = node_status(folder)
    assert (
        after["finished"]
        and after["round"] == 3
        and after["answers"]["sum"] == 3
        and after["last_contact"] >= began
    )
    assert not any("patient" in str(value) or "film" in str(value) for value in after.values())


def test_a_node_counts_what_it_refuses_by_code_and_is_not_well_while_it_fails(
    tmp_path: Path,
) -> None:
    made = federation(tmp_path / "f", nodes=2, rounds=2)
    clock = [1000.0]
    with closing(FederatedNode(made.nodes["node-1"])) as node:
        watch = NodeWatch(node.folder, node.terms, node.store.standing, clock=lambda: clock[0])
        watch.answered(node.answer(b"junk"))
        assert watch.about()["refused"] == {"not-a-frame": 1} and watch.trouble() is None
        node.store.advance = full  # type: ignore[method-assign]

        def answering(frame: bytes) -> bytes:
            said = node.answer(frame)
            watch.answered(said)
            return said

        link = FaultyLink({"node-1": answering})
        stop = Event()
        Thread(target=serve, args=(link, made.server, stop), daemon=True).start()
        until(lambda: watch.about()["refused"].get("failed"))
        stop.set()
        trouble = watch.trouble()
        assert trouble is not None and trouble.kind == "failed" and "OSError" in trouble.text
        assert 'answers_total{code="failed"}' in ShopWatch([watch]).text()


def full(*arguments: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_node_says_when_its_server_is_silent_and_not_when_it_has_all(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", nodes=1, rounds=2)
    clock = [1000.0]
    with closing(FederatedNode(made.nodes["node-1"])) as node:
        watch = NodeWatch(node.folder, node.terms, node.store.standing, clock=lambda: clock[0])
        watch.heard(0.0)
        clock[0] += AWAY - 1
        assert watch.trouble() is None
        clock[0] += 2
        watch.lost("no route")
        trouble = watch.trouble()
        assert trouble is not None and trouble.kind == "server" and "no route" in trouble.text
        serve(FaultyLink({"node-1": lambda frame: said(node, watch, frame)}), made.server)
        assert watch.finished() and watch.trouble() is None


def said(node: FederatedNode, watch: NodeWatch, frame: bytes) -> bytes:
    found = node.answer(frame)
    watch.answered(found)
    return found
