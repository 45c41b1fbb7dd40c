"""Connections are counted when they are accepted: silent ones, which never begin a handshake, hold no more places than their share."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from entrenous.deploy.flower.accepting import BoundedSocket
from entrenous.deploy.flower.keys import make_keys

MOST, EACH, SILENT = 30, 20, 200


def listening() -> BoundedSocket:
    plain = socket.create_server(("127.0.0.1", 0), backlog=512)
    plain.setblocking(False)
    return BoundedSocket(fileno=plain.detach(), most=MOST, from_address=EACH)


async def served(context: ssl.SSLContext) -> tuple[int, int, int]:
    """Connections there are while hundreds are silent before TLS, how many of them are left once these have gone, and answers then."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(2))
        writer.close()

    own = listening()
    port, answers = own.getsockname()[1], 0
    server = await asyncio.start_server(answer, sock=own, ssl=context)
    silent = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(SILENT)]
    await asyncio.sleep(0.5)
    during = own.open.total()
    for writer in silent:
        writer.close()
    await asyncio.sleep(0.5)
    after = own.open.total()
    theirs = ssl.create_default_context()
    theirs.check_hostname, theirs.verify_mode = False, ssl.CERT_NONE
    for _ in range(2 * EACH):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=theirs)
        writer.write(b"hi")
        answers += await reader.readexactly(2) == b"hi"
        writer.close()
        await asyncio.sleep(0.01)
    server.close()
    return during, after, answers


def test_silent_connections_are_bounded_before_their_handshake(tmp_path: Path) -> None:
    make_keys(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    assert asyncio.run(served(context)) == (EACH, 0, 2 * EACH)


def test_the_limit_of_all_counts_too() -> None:
    own = listening()
    own.open.update({"10.0.0.1": 15, "10.0.0.2": 15})
    other = socket.create_connection(own.getsockname())
    with pytest.raises(ConnectionAbortedError):
        own.accept()
    assert other.recv(1) == b"" and own.open.total() == 30
    other.close()
    own.close()
