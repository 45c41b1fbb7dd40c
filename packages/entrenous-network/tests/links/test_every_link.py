"""The same tests over every link: in memory, over HTTPS with TLS and without, over Flower's
grid.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from entrenous_lab.memory_link import MemoryServerLink
from entrenous_network.frames.frames import opened
from entrenous_network.links.admission import here
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.links.polling import PollingNode
from entrenous_network.links.polling import serve as serve_nodes
from entrenous_network.links.port import Answer, ServerLink
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.server import exchange
from entrenous_network.server.server import FederationServer, serve
from federation_links import (
    by_lot,
    federation,
    logged,
    nodes_of,
    ratings,
    server_sha256,
    simulated,
)

Answers = Mapping[str, Answer]
PATIENCE = 240.0


@contextmanager
def memory(made: FoundedFederation, answers: Answers, keys: Any) -> Iterator[ServerLink]:
    with closing(MemoryServerLink(answers)) as link:
        yield link


@contextmanager
def https(
    made: FoundedFederation, answers: Answers, keys: Any, *, tls: bool = True
) -> Iterator[ServerLink]:
    """A server's link, and its nodes as tasks of one thread, each with a connection."""
    from entrenous_network.agreement.members import Members

    members, stop = Members.read(made.server / "members.json", made.terms.users), threading.Event()
    folder = made.server / "keys"
    with closing(
        HttpsServerLink(
            HttpsPlan(port=0, keys=folder if tls else None), made.terms.run, members.nodes, 1 << 20
        )
    ) as link:
        link.start()
        nodes = [
            PollingNode(lambda name=name: here(keys[name], made.terms.run, name), answer)  # type: ignore[misc]
            for name, answer in answers.items()
        ]
        more = {"say": lambda text: None, "tls": tls}
        at_work = threading.Thread(
            target=serve_nodes,
            args=(link.address, folder / "ca.crt" if tls else None, nodes, stop),
            kwargs=more,
        )
        at_work.start()
        try:
            yield link
        finally:
            stop.set()
            at_work.join(PATIENCE)


@contextmanager
def plain(made: FoundedFederation, answers: Answers, keys: Any) -> Iterator[ServerLink]:
    with https(made, answers, keys, tls=False) as link:
        yield link


@contextmanager
def grid(made: FoundedFederation, answers: Answers, keys: Any) -> Iterator[ServerLink]:
    pytest.importorskip("flwr")
    from entrenous_flower.greeter import Greeter
    from entrenous_flower.grid_link import GridLink
    from grid_in_memory import GridInMemory, as_task

    as_task()
    yield GridLink(
        GridInMemory(dict(enumerate(answers.values(), start=1000))),
        Greeter.of(made.server),
        say=lambda text: None,
    )


LINKS: dict[str, Callable[..., Any]] = {
    "memory": memory,
    "https": https,
    "plain": plain,
    "flower": grid,
}
over = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
over_sockets = pytest.mark.parametrize("link", [https, grid], ids=["https", "flower"])


def served(
    made: FoundedFederation,
    link: Callable[..., Any],
    each: Callable[[str, bytes, Answer], bytes] | None = None,
) -> str | None:
    """The model after all rounds. each: answers in place of a node, with its name, the request, and
    what it would answer by.
    """
    nodes = nodes_of(made)
    answers = {
        name: (lambda frame, name=name, node=node: each(name, frame, node.answer))
        if each
        else node.answer  # type: ignore[misc]
        for name, node in nodes.items()
    }
    try:
        with link(made, answers, {name: node.key for name, node in nodes.items()}) as opened_link:
            return serve(opened_link, made.server)
    finally:
        for node in nodes.values():
            node.close()


@over
def test_the_model_is_that_of_one_process(tmp_path: Path, link: Callable[..., Any]) -> None:
    made = federation(tmp_path / "f", 4, 2)
    assert served(made, link) == server_sha256(simulated(made))


@over
def test_by_lot_under_masks_it_is_that_of_one_process_too(
    tmp_path: Path, link: Callable[..., Any]
) -> None:
    few = ratings(20)
    made = by_lot(tmp_path / "f", rounds=2, people=4, cohort=5, data=few, deadline=PATIENCE)
    assert served(made, link) == server_sha256(simulated(made, few))


@over_sockets
def test_an_answer_that_is_lost_is_asked_for_again(
    tmp_path: Path, link: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer of every node is nonsense on its way: refused, asked for again, the same
    model.
    """
    monkeypatch.setattr(exchange, "AGAIN", 0.3)
    made, before = federation(tmp_path / "f", 3, 1), set[str]()

    def spoilt(name: str, frame: bytes, answer: Answer) -> bytes:
        said = answer(frame)
        if opened(frame).head.kind != "work" or name in before:
            return said
        before.add(name)
        return said[:-1] + bytes([said[-1] ^ 1])

    assert served(made, link, spoilt) == server_sha256(simulated(made))
    assert sum("refused wrong-digest" in line for line in logged(made.server)) >= 3


@over_sockets
def test_who_is_away_is_left_out_at_the_deadline(
    tmp_path: Path, link: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that fails at every request: the round ends at its deadline with those who are
    there.
    """
    # Its default is bound when the server is defined: 30 seconds, for one that takes no model.
    monkeypatch.setattr(FederationServer._give, "__defaults__", (0.5,))
    made = federation(tmp_path / "f", 4, 1, quorum=0.5, deadline=3.0)

    def fails(name: str, frame: bytes, answer: Answer) -> bytes:
        return b"" if name == "node-2" and opened(frame).head.kind != "who" else answer(frame)

    assert served(made, link, fails) is not None
    assert "round 0: 15 of 20 devices" in logged(made.server)
