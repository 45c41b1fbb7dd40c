"""`entrenous.Device`: an app's node on its own machine. What happens to a user counts from the next
round on, and what was forgotten leaves no more and is in no file.
"""

from __future__ import annotations

import re
import socket
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from command_line import Command, Printed
from entrenous_network.frames.frames import opened
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate import device_http
from entrenous_network.operate.device_http import TOKEN, OneDevice, PortBounds, serving
from entrenous_network.server.server import serve
from federation_links import (
    FaultyLink,
    federation,
    in_one_line,
    linked,
    nodes_of,
    ratings,
    server_sha256,
    simulated,
)

from entrenous import Device, InputError
from entrenous.core.types import Array
from entrenous.data.interactions import Interactions, build

USER = "patient-3x"  # the fourth user of node-1
# Values and times that are found in a file byte for byte, if they are there.
VALUE, TIME = 2.718281828, 1_234_567.0


def trained(folder: Path, **terms: Any) -> Any:
    """A federation of two nodes after its rounds."""
    made = federation(folder, nodes=2, **terms)
    nodes = nodes_of(made)
    serve(linked(nodes), made.server)
    for node in nodes.values():
        node.close()
    return made


def free_item(device: Device, user: str = USER) -> str:
    """An item that a user does not have."""
    had = {row["item"] for row in device.export(user=user)}
    return next(item for item in device._node.items.ids if item not in had)


def test_what_was_consumed_is_not_recommended_again_and_comes_back_in_an_export(
    tmp_path: Path,
) -> None:
    made = trained(tmp_path / "f")
    with Device(made.nodes["node-1"]) as device:
        best = device.recommend(3, user=USER).items[0]["item"]
        before = device.export(user=USER)
        device.consumed(best, 4.0, TIME, user=USER)
        assert best not in {one["item"] for one in device.recommend(18, user=USER).items}
        *rest, newest = device.export(user=USER)
        assert rest == before
        assert newest == {"user": USER, "item": best, "title": "", "value": 4.0, "time": TIME}
        # A row that comes again takes the place of the one before.
        device.consumed(best, 2.0, TIME, user=USER)
        assert device.export(user=USER)[-1]["value"] == 2.0
        assert len(device.export(user=USER)) == len(before) + 1


def test_lists_are_made_of_what_is_asked_for(tmp_path: Path) -> None:
    made = trained(tmp_path / "f")
    with Device(made.nodes["node-1"]) as device:
        first, second, *_ = [one["item"] for one in device.recommend(5, user=USER).items]
        only = device.recommend(5, only=[second], user=USER)
        assert [one["item"] for one in only.items] == [second]
        without = device.recommend(5, without=[first], user=USER)
        assert without.items[0]["item"] == second
        # A list cannot be longer than the catalogue, whatever is asked for.
        had = len(device.export(user=USER))
        assert len(device.recommend(100, user=USER).items) == 18 - had
        device.not_for_me(first, user=USER)
        assert device.recommend(5, user=USER).items == without.items
        # It is a wish of one user, and survives the process.
        with Device(made.nodes["node-1"]) as again:
            assert again.recommend(5, user=USER).items == without.items
            everything = again.recommend(18, user="patient-0x").items
        had = {row["item"] for row in device.export(user="patient-0x")}
        assert first in had | {one["item"] for one in everything}


def with_row(item: str) -> Interactions:
    """The rows of `ratings` and one more, as a simulation would load them."""
    rows = ratings()
    user = rows.users.index(USER)
    number = rows.items.index(item)
    extended = [
        np.append(column, new)
        for column, new in (
            (rows.user, user),
            (rows.item, number),
            (rows.value, VALUE),
            (rows.known_times(), round(TIME * 1e6)),
        )
    ]
    who, what, value, time = extended
    return build(
        who,
        what,
        value=value,
        time=time,
        features=dict(rows.features),
        users=rows.users,
        items=rows.items,
    )


def test_a_row_that_comes_before_the_first_round_trains_as_one_that_was_always_there(
    tmp_path: Path,
) -> None:
    made = federation(tmp_path / "f", nodes=2)
    with Device(made.nodes["node-1"]) as device:
        item = free_item(device)
    # The node is open already, as a running one is.
    nodes = nodes_of(made)
    with Device(made.nodes["node-1"]) as device:
        device.consumed(item, VALUE, TIME, user=USER)
    digest = serve(linked(nodes), made.server)
    assert digest == server_sha256(simulated(made, with_row(item)))
    assert digest != server_sha256(simulated(made))


def stored_bytes(folder: Path) -> bytes:
    """All bytes of all files of a node."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_the_bytes_of_what_was_forgotten_are_nowhere(tmp_path: Path) -> None:
    made = trained(tmp_path / "f")
    folder = made.nodes["node-1"]
    mark = struct.pack(">d", VALUE)
    with Device(folder) as device:
        item = free_item(device)
        before = device.export(user=USER)
        device.consumed(item, VALUE, TIME, user=USER)
        # In the file, or in its log of writes.
        assert mark in stored_bytes(folder)
        assert device.forget(item, user=USER) == 1
        assert mark not in stored_bytes(folder)
        assert device.export(user=USER) == before
        assert device.forget(item, user=USER) == 0


def vector(folder: Path, user: str) -> Array:
    """The private vector of a user of a node."""
    with closing(FederatedNode(folder)) as node:
        newest = node.store.newest_state()
        assert newest is not None
        (field,) = newest[1]
        return newest[1][field][node.rows.users.index(user)].copy()


def test_who_forgets_everything_begins_again_and_nobody_else_does(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", nodes=2)
    folder = made.nodes["node-1"]
    first = vector(folder, USER)
    nodes = nodes_of(made)
    serve(linked(nodes), made.server)
    learnt, other = vector(folder, USER), vector(folder, "patient-0x")
    assert not np.array_equal(first, learnt)
    with Device(folder) as device:
        device.not_for_me("film-1y", user=USER)
        assert device.forget(user=USER) == len(ratings().of_users([3]))
        assert device.export(user=USER) == []
        assert len(device.recommend(18, user=USER).items) == 18
    assert np.array_equal(vector(folder, USER), first)
    assert np.array_equal(vector(folder, "patient-0x"), other)
    assert learnt.tobytes() not in stored_bytes(folder)


def test_no_round_can_end_while_a_user_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state would be overwritten by the one that was read before."""
    folder = trained(tmp_path / "f").nodes["node-1"]
    begin = FederatedNode.begin_again
    tried: list[str] = []

    def begin_and_write(self: FederatedNode, place: int, private: Any) -> Any:
        with closing(sqlite3.connect(folder / "store.sqlite", timeout=0)) as other:
            try:
                other.execute("begin immediate")
            except sqlite3.OperationalError as locked:
                tried.append(str(locked))
        return begin(self, place, private)

    monkeypatch.setattr(FederatedNode, "begin_again", begin_and_write)
    with Device(folder) as device:
        device.forget(user=USER)
    assert tried == ["database is locked"]


def test_an_answer_that_was_made_with_a_forgotten_row_does_not_leave(tmp_path: Path) -> None:
    """The row is forgotten by another process while the node trains on it."""
    made = federation(tmp_path / "f", nodes=2, rounds=2)
    folder = made.nodes["node-1"]
    nodes = nodes_of(made)
    node = nodes["node-1"]
    train = node.train_sum
    forgotten: list[int] = []

    def forget_meanwhile(request: Any) -> Any:
        result = train(request)
        if not forgotten:
            with Device(folder) as device:
                forgotten.append(device.forget(user=USER))
        return result

    node.train_sum = forget_meanwhile  # type: ignore[method-assign]
    refused: list[bytes] = []

    def answer(frame: bytes) -> bytes:
        given = node.answer(frame)
        if opened(given).head.kind == "refused":
            refused.append(bytes(opened(given).body))
        return given

    link = FaultyLink({"node-1": answer, "node-2": nodes["node-2"].answer})
    serve(link, made.server)
    assert forgotten[0] > 0
    assert refused[0].startswith(b"withheld\nits users have forgotten rows")
    assert node.rows.counts[3] == 0


def test_a_paused_node_answers_nothing_of_a_user_and_still_recommends(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", nodes=2, rounds=2)
    folder = made.nodes["node-1"]
    nodes = nodes_of(made)
    refused: list[bytes] = []
    with Device(folder) as device:

        def answer(frame: bytes) -> bytes:
            given = opened(nodes["node-1"].answer(frame))
            if given.head.kind == "refused":
                refused.append(bytes(given.body))
                # The server asks again, once the owner lets the node take part.
                device.take_part()
            elif not refused and opened(frame).head.round == 1:
                device.pause()
                return answer(frame)
            return nodes["node-1"].answer(frame)

        serve(FaultyLink({"node-1": answer, "node-2": nodes["node-2"].answer}), made.server)
        assert refused == [b"withheld\nthe owner of this node has paused it"]
        device.pause()
        assert len(device.recommend(3, user=USER).items) == 3


def ahead(days: float) -> float:
    """Seconds since 1970 that are days after now."""
    return time.time() + days * 86_400


def timed(seconds: float) -> Interactions:
    """The rows of a user of the first node, all of one time."""
    own = ratings().of_users([3])
    return replace(own, time=np.full(len(own), round(seconds * 1e6)))


BAD: list[tuple[Callable[[Device], object], str]] = [
    (lambda device: device.consumed("film-99y", user=USER), "unknown item 'film-99y'"),
    (lambda device: device.consumed("film-1y", user="patient-99x"), "no user of this node"),
    (lambda device: device.consumed("film-1y", float("nan"), user=USER), "value: is nan"),
    (lambda device: device.consumed("film-1y", 1e31, user=USER), "value: is 1e"),
    (lambda device: device.consumed("film-1y", 1.0, float("inf"), user=USER), "time: is inf"),
    (lambda device: device.consumed("film-1y", True, user=USER), "value: is True"),
    (lambda device: device.consumed("film-1y", 1.0, -1.0, user=USER), "time: a row is of -1 s"),
    (lambda device: device.consumed("film-1y", 1.0, ahead(2), user=USER), "a day from now"),
    (lambda device: device.add(timed(ahead(2))), "a day from now; correct the time"),
    (lambda device: device.add(timed(-1.0)), "a row is of -1 s since 1970"),
    (lambda device: device.pause(user="patient-99x"), "user: no user of this node"),
    (lambda device: device.forget("film-99y", user=USER), "unknown item"),
    (lambda device: device.recommend(0, user=USER), "got 0"),
    (lambda device: device.recommend(101, user=USER), "at most 100 items"),
    (lambda device: device.recommend(3, only=["?"], user=USER), "unknown item"),
]


def test_bad_input_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    made = trained(tmp_path / "f", rounds=1)
    with Device(made.nodes["node-1"]) as device:
        before = device.export(user=USER)
        for act, line in BAD:
            with in_one_line(line):
                act(device)
            assert device.export(user=USER) == before, line


@pytest.mark.beside
def test_a_rating_is_asked_for_where_ratings_are_predicted(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", nodes=2, algorithm="fbalf-bayes")
    with Device(made.nodes["node-1"]) as device:
        with pytest.raises(InputError, match="a rating is missing"):
            device.consumed("film-1y", user=USER)
        device.consumed("film-1y", 3.0, user=USER)
        assert device.export(user=USER)[-1]["value"] == 3.0
        before = device.export(user=USER)
        with pytest.raises(InputError, match="a rating is 1e\\+06; expected a rating from"):
            device.consumed("film-1y", 1e6, user=USER)
        with pytest.raises(InputError, match="a rating is 9"):
            device.add(replace(ratings().of_users([3]), value=np.full(len(before) - 1, 9.0)))
        assert device.export(user=USER) == before


MOST = 32 << 20  # bytes of a head, more than the buffers of two sockets hold


# ---- over loopback HTTP --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a node whose device is served."""
    folder: Path = trained(tmp_path_factory.mktemp("served") / "f").nodes["node-1"]
    return folder


@pytest.fixture(scope="module")
def served(own: Path) -> Iterator[httpx.Client]:
    """A client of a device that is served, with its token."""
    folder = own
    with Device(folder) as device, serving(OneDevice(device), folder, 0) as port:
        token = (folder / TOKEN).read_text()
        assert (folder / TOKEN).stat().st_mode & 0o077 == 0
        headers = {"Authorization": f"Bearer {token}"}
        base = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=base, headers=headers, timeout=60) as client:
            yield client


def test_an_app_sees_over_http_what_a_program_sees(served: httpx.Client) -> None:
    first = served.get("/v1/recommend", params={"n": 3, "user": USER}).json()
    assert first["user"] == USER
    assert [one["score"] for one in first["items"]] == [None] * 3
    scored = served.get("/v1/recommend", params={"n": 3, "user": USER, "scores": "true"}).json()
    assert [type(one["score"]) for one in scored["items"]] == [float] * 3
    best, second = (one["item"] for one in first["items"][:2])
    only = served.get("/v1/recommend", params={"user": USER, "only": [second]}).json()
    assert [one["item"] for one in only["items"]] == [second]
    events = [
        {"event": "row", "item": best, "value": 4, "time": TIME, "user": USER},
        {"event": "not for me", "item": second, "user": USER},
    ]
    assert served.post("/v1/events", json=events).json() == {"taken": 2}
    after = served.get("/v1/recommend", params={"n": 18, "user": USER}).json()
    assert not {best, second} & {one["item"] for one in after["items"]}
    rows = served.get("/v1/rows", params={"user": USER}).json()
    assert rows[-1]["item"] == best
    assert rows[-1]["time"] == TIME
    forget = {"event": "forget", "item": best, "user": USER}
    assert served.post("/v1/events", json=forget).json() == {"taken": 1}
    assert served.get("/v1/rows", params={"user": USER}).json() == rows[:-1]
    assert served.get("/v1/receipt", params={"user": USER}).json()["rounds_answered"] == 3
    assert served.post("/v1/pause").status_code == 200
    assert served.post("/v1/take-part").status_code == 200
    # A gateway pauses as a whole, so nobody's pause is everybody's unnoticed.
    for user, said in ((USER, "users, who pause together; name none"), ("x", "no user of this")):
        refused = served.post("/v1/pause", params={"user": user})
        assert refused.status_code == 400 and said in refused.json()["error"]


def test_an_endless_head_is_cut_off(served: httpx.Client) -> None:
    """Any program of the machine may connect, without a token."""
    sent = 0
    with socket.create_connection((served.base_url.host, served.base_url.port or 0)) as line:
        line.sendall(b"GET /v1/health HTTP/1.1\r\nx: ")
        with suppress(ConnectionError):
            while sent < MOST:
                sent += line.send(b"a" * 65_536)
    assert sent < MOST
    assert served.get("/v1/health").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /v1/health HTTP/1.1\r\nx: ",
        b"POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n[",
    ],
)
def test_an_unfinished_request_is_closed_after_its_time(own: Path, sent: bytes) -> None:
    bounds = PortBounds(patience=0.1)
    with (
        Device(own) as device,
        serving(OneDevice(device), own, 0, bounds) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as line,
    ):
        line.sendall(sent)
        ended(line)


def test_connections_beyond_the_limit_are_closed_until_others_end(own: Path) -> None:
    bounds = PortBounds(connections=2, patience=600.0)
    with Device(own) as device, serving(OneDevice(device), own, 0, bounds) as port:
        health = f"http://127.0.0.1:{port}/v1/health"
        # One by one: the last is accepted once the others have their places.
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(bounds.connections)]
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as further:
                ended(further)
        with pytest.raises(httpx.TransportError):
            httpx.get(health, timeout=60)
        # A proper request on a place is answered, and the place is given back when it ends.
        held[0].sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert held[0].recv(12) == b"HTTP/1.1 200"
        ended(held[0])
        assert httpx.get(health, timeout=60).status_code == 200
        for line in held:
            line.close()


def ended(line: socket.socket) -> None:
    """Reads what comes until the other end has closed a connection."""
    with suppress(ConnectionError):
        while line.recv(65_536):
            pass


def test_nobody_without_the_token_gets_an_answer_about_a_user(served: httpx.Client) -> None:
    stranger = {"Authorization": "Bearer wrong"}
    for place in ("/v1/recommend", "/v1/rows", "/v1/receipt"):
        assert served.get(place, headers=stranger).status_code == 401
    for place in ("/v1/events", "/v1/pause", "/v1/take-part"):
        assert served.post(place, headers=stranger).status_code == 401
    for place in ("/v1/health", "/v1/ready", "/openapi.json"):
        assert served.get(place, headers=stranger).status_code == 200
    told = served.get("/openapi.json").json()
    assert set(told["paths"]) == {*device_http.ROUTES}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"[", "is no event .Input data was truncated"),
        (b"[" * 5000, "is no event .Expected"),
        (b"3", "is no event .Expected `object . array`, got `int`"),
        (b'{"event": "buy"}', "is no event .Invalid enum value 'buy'"),
        (b'{"event": "row"}', "item: is missing"),
        (b'{"event": "row", "item": 7}', "Expected `str . null`, got `int` - at `..item`"),
        (
            b'{"event": "row", "item": "film-1y", "value": true}',
            "Expected `float . null`, got `bool`",
        ),
        (b'{"event": "row", "item": "film-1y", "value": NaN}', "is no event .JSON is malformed"),
        (b'{"event": "row", "item": "nothing"}', "unknown item 'nothing'"),
        (b'{"event": "forget", "item": "film-1y", "user": "x"}', "event 0, user: no user of this"),
        (b'{"event": "row", "item": "film-1y", "rate": 3}', "Object contains unknown field `rate`"),
    ],
)
def test_a_bad_event_is_one_line_and_changes_nothing(
    served: httpx.Client, body: bytes, line: str
) -> None:
    before = served.get("/v1/rows").json()
    answer = served.post("/v1/events", content=body)
    assert answer.status_code == 400
    assert re.search(line, answer.json()["error"])
    assert served.get("/v1/rows").json() == before


def test_a_body_that_never_ends_is_cut_off(served: httpx.Client) -> None:
    answer = served.post("/v1/events", content=b" " * (device_http.MOST_BODY + 1))
    assert answer.status_code == 413


# ---- a file of new rows --------------------------------------------------------------------------


def added(command: Command, folder: Path, text: str, *words: str) -> Printed:
    file = folder.parent / "new.csv"
    file.write_text(text)
    return command("federation", "add", folder, "--data", file, *words)


def test_a_file_adds_rows_of_several_users(tmp_path: Path, command: Command) -> None:
    made = trained(tmp_path / "f", rounds=1)
    folder = made.nodes["node-1"]
    with Device(folder) as device:
        one, other = free_item(device), free_item(device, "patient-0x")
        before = len(device.export(user=USER)), len(device.export(user="patient-0x"))
        head = "user,item,rating,timestamp\n"
        rows = f"{USER},{one},1,1000007\npatient-0x,{other},5,1000008\n{USER},{one},3,1000009\n"
        done = added(command, folder, head + rows, "--load", "duplicates=last")
        assert done.code == 0 and "2 of 2 rows added" in done.err
        mine = device.export(user=USER)
        assert (mine[-1]["item"], mine[-1]["value"], mine[-1]["time"]) == (one, 3.0, 1_000_009.0)
        after = len(mine), len(device.export(user="patient-0x"))
        assert after == (before[0] + 1, before[1] + 1)


def test_strange_rows_are_refused_or_left_out_and_counted(tmp_path: Path, command: Command) -> None:
    made = trained(tmp_path / "f", rounds=1)
    folder = made.nodes["node-1"]
    with Device(folder) as device:
        one = free_item(device)
        before = device.export(user=USER)
        rows = f"user,item\n{USER},{one}\nsomebody,{one}\n{USER},nothing\n"
        line = added(command, folder, rows).error
        assert "1 row of an unknown user, first 'somebody'" in line
        assert "--ignore-unknown" in line
        assert device.export(user=USER) == before
        done = added(command, folder, rows, "--ignore-unknown")
        assert done.code == 0 and "1 of 3 rows added" in done.err
        assert device.export(user=USER)[-1]["item"] == one
