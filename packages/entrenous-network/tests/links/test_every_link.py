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
from entrenous_network.links.admission import here
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.links.polling import PollingNode
from entrenous_network.links.polling import serve as serve_nodes
from entrenous_network.links.port import Answer, ServerLink
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.server.server import serve
from federation_links import (
    by_lot,
    federation,
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


def served(made: FoundedFederation, link: Callable[..., Any]) -> str | None:
    """The model after all rounds."""
    nodes = nodes_of(made)
    answers = {name: node.answer for name, node in nodes.items()}
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
