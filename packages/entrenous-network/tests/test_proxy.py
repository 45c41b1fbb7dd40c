"""ops/haproxy.cfg and ops/nginx.conf before a real server on loopback: nodes work through them, and
each address is limited by itself.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from entrenous_network.agreement.certificates import make_keys
from entrenous_network.frames.frames import FrameParts
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.operate.founding import free_ports
from federation_links import until
from over_https import RUN, members, routes, shown, socket_there
from paths import ROOT

PATIENCE, LARGEST = 60.0, 100_000
OWN = "client_body", "proxy", "fastcgi", "uwsgi", "scgi"  # folders of nginx
NODE, STRANGER, SILENT = "127.0.0.1", "127.0.0.2", "127.0.0.3"


class Behind(NamedTuple):
    """A server, and the port of the proxy in front of it."""

    program: str
    link: HttpsServerLink
    port: int
    keys: Path

    def client(self, source: str = NODE) -> httpx.Client:
        trust = ssl.create_default_context(cafile=str(self.keys / "ca.crt"))
        transport = httpx.HTTPTransport(verify=trust, local_address=source)
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            transport=transport,
            trust_env=False,
            timeout=PATIENCE,
        )


def configured(program: str, folder: Path, keys: Path, port: int, server: int) -> list[str]:
    """The command that starts a proxy with its file of ops/, with this test's ports and keys in
    it.
    """
    source = ROOT / "ops" / ("haproxy.cfg" if program == "haproxy" else "nginx.conf")
    text, pem, own = source.read_text(encoding="utf-8"), folder / "server.pem", folder / source.name
    who = "user root; " if os.geteuid() == 0 else ""
    pem.write_bytes((keys / "server.crt").read_bytes() + (keys / "server.key").read_bytes())
    for before, after in {
        "127.0.0.1:8444": f"127.0.0.1:{server}",
        "bind :8443": f"bind 127.0.0.1:{port}",
        "listen 8443": f"listen 127.0.0.1:{port}",
        "/etc/haproxy/entrenous.pem": str(pem),
        "/var/lib/entrenous/server/keys": str(keys),
        "worker_processes auto;": (
            f"{who}worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;"
        ),
        "access_log off;": (
            "access_log off; " + " ".join(f"{name}_temp_path {folder}/{name};" for name in OWN)
        ),
    }.items():
        text = text.replace(before, after)
    own.write_text(text)
    return (
        [program, "-db", "-f", str(own)]
        if program == "haproxy"
        else [program, "-p", str(folder), "-c", str(own)]
    )


@pytest.fixture(params=["haproxy", "nginx"])
def behind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Behind]:
    program = str(request.param)
    if shutil.which(program) is None:
        pytest.skip(f"no {program}")
    keys = tmp_path / "keys"
    make_keys(keys)
    (port,) = free_ports()
    with ExitStack() as after:
        link = HttpsServerLink(HttpsPlan(port=0, proxy="127.0.0.1"), RUN, members(), LARGEST)
        link.start()
        after.callback(link.close)
        command = configured(program, tmp_path, keys, port, int(link.address.rpartition(":")[2]))
        check = [*command, "-c"] if program == "haproxy" else [*command, "-t"]
        assert subprocess.run(check, capture_output=True, text=True).returncode == 0
        proxy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after.callback(proxy.wait)
        after.callback(proxy.terminate)
        until(lambda: socket_there(port))
        yield Behind(program, link, port, keys)


def test_a_question_is_held_for_20_s_and_answers_are_acknowledged(behind: Behind) -> None:
    link = behind.link
    with ThreadPoolExecutor(2) as pool, behind.client() as one, behind.client() as other:
        held, began = pool.submit(other.get, "/v1/work", headers=shown("node-2")), time.monotonic()
        asking = pool.submit(one.get, "/v1/work", headers=shown())
        until(lambda: {"node-1", "node-2"} <= set(link.present()))
        link.send("node-1", FrameParts([b"work"]), PATIENCE)
        assert asking.result(PATIENCE).content == b"work"
        sending = pool.submit(one.post, "/v1/answer", content=b"x" * 50_000, headers=shown())
        assert link.receive(PATIENCE) or link.receive(
            PATIENCE
        )  # the first says that a node is ready
        link.acknowledge()
        assert sending.result(PATIENCE).status_code == 200
        assert held.result(PATIENCE).status_code == 204 and time.monotonic() - began > 19.0


def test_who_hangs_up_behind_a_proxy_is_not_there(behind: Behind) -> None:
    with ThreadPoolExecutor(1) as pool:
        other = behind.client()
        asking = pool.submit(other.get, "/v1/work", headers=shown("node-3"), timeout=1.0)
        with suppress(httpx.HTTPError):
            asking.result(PATIENCE)
        other.close()
    until(lambda: "node-3" not in behind.link.present())


def test_a_flood_of_one_address_is_refused_by_the_proxy_and_nodes_of_another_are_answered(
    behind: Behind,
) -> None:
    codes: list[int] = []
    behind.link.send("node-1", FrameParts([b"work"]), PATIENCE)

    def flood(n: int) -> None:
        with behind.client(STRANGER) as own:
            # On slow cores the proxy's rate allows more of them.
            for _ in range(600):
                if codes.count(0) + codes.count(429) > 100:
                    return
                try:
                    codes.append(own.get("/v1/work").status_code)
                except httpx.HTTPError:
                    codes.append(0)

    with ThreadPoolExecutor(8) as pool, behind.client() as node:
        flooding = [pool.submit(flood, n) for n in range(8)]
        for _ in range(20):
            assert node.get("/v1/work", headers=shown()).content == b"work"
        for each in flooding:
            each.result(PATIENCE)
        assert set(codes) <= {0, 401, 429} and codes.count(0) + codes.count(429) > 100
        assert node.get("/v1/work", headers=shown()).content == b"work"
    assert (
        behind.link.guard.refused == behind.link.guard.evicted == 0
    )  # the proxy is not taken for a stranger


def test_silent_connections_of_one_address_leave_others_alone(behind: Behind) -> None:
    silent = [
        socket.create_connection(("127.0.0.1", behind.port), source_address=(SILENT, 0))
        for _ in range(150)
    ]
    behind.link.send("node-1", FrameParts([b"work"]), PATIENCE)
    with behind.client() as node:
        assert node.get("/v1/work", headers=shown()).content == b"work"
    assert behind.link.guard.open < 10
    if behind.program == "haproxy":  # it counts before TLS
        until(lambda: sum(closed(each) for each in silent) >= 80)
    for each in silent:
        each.close()


def closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_every_route_of_the_application_comes_through(behind: Behind) -> None:
    """With the server's own answer, and a browser's question beforehand, which shows no key."""
    direct = httpx.Client(base_url=f"http://{behind.link.address}", trust_env=False)
    with behind.client() as through, direct:
        for path in routes():
            for method in ("GET", "POST", "OPTIONS"):
                key = {} if method == "OPTIONS" else {"authorization": "Entrenous no-key"}
                said = through.request(method, path, headers=key)
                meant = direct.request(method, path, headers=key)
                assert (said.status_code, said.text) == (meant.status_code, meant.text), path


def test_tls_1_2_long_bodies_and_other_paths_are_refused(behind: Behind) -> None:
    old = ssl.create_default_context(cafile=str(behind.keys / "ca.crt"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        socket.create_connection(("127.0.0.1", behind.port)) as plain,
    ):
        old.wrap_socket(plain, server_hostname="127.0.0.1")
    with behind.client() as node:
        assert node.get("/metrics").status_code == 404
        assert node.get("/v1/health").text == "ok\n"
    trust = ssl.create_default_context(cafile=str(behind.keys / "ca.crt"))
    with trust.wrap_socket(
        socket.create_connection(("127.0.0.1", behind.port), PATIENCE), server_hostname="127.0.0.1"
    ) as raw:
        head = (
            "POST /v1/answer HTTP/1.1\r\nhost: x\r\nauthorization:"
            f" {shown()['authorization']}\r\ncontent-length: {65 << 20}\r\n\r\n"
        )
        raw.sendall(head.encode())
        assert raw.recv(100).split(b" ")[1] == b"413"
