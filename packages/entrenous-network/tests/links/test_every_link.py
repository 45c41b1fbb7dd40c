"""The same tests over every link: in memory, over HTTPS with TLS and without, over Flower's
grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from entrenous_lab.memory_link import MemoryServerLink
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.links.https import HttpsPlan, HttpsServerLink
from entrenous_network.links.port import ServerLink
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.server.server import serve
from federation_links import (
    answers_of,
    by_lot,
    federation,
    nodes_at,
    nodes_of,
    ratings,
    server_sha256,
    simulated,
)

PATIENCE = 240.0


@contextmanager
def memory(made: FoundedFederation) -> Iterator[ServerLink]:
    with closing(MemoryServerLink(answers_of(nodes_of(made)))) as link:
        yield link


@contextmanager
def https(made: FoundedFederation, *, tls: bool = True) -> Iterator[ServerLink]:
    """A server's link, and its nodes as tasks of one thread, each with a connection."""
    members = Members.read(made.server / MEMBERS, made.terms.users)
    plan = HttpsPlan(port=0, keys=made.server / "keys" if tls else None)
    with closing(HttpsServerLink(plan, made.terms.run, members.nodes, 1 << 20)) as link:
        link.start()
        with nodes_at(made, link.address, tls=tls):
            yield link


@contextmanager
def plain(made: FoundedFederation) -> Iterator[ServerLink]:
    with https(made, tls=False) as link:
        yield link


@contextmanager
def grid(made: FoundedFederation) -> Iterator[ServerLink]:
    pytest.importorskip("flwr")
    from entrenous_flower.greeter import Greeter
    from entrenous_flower.grid_link import GridLink
    from grid_in_memory import GridInMemory, as_task

    as_task()
    nodes = dict(enumerate(answers_of(nodes_of(made)).values(), start=1000))
    yield GridLink(GridInMemory(nodes), Greeter.of(made.server), say=lambda text: None)


LINKS: dict[str, Callable[..., Any]] = {
    "memory": memory,
    "https": https,
    "plain": plain,
    "flower": grid,
}
over = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


def served(made: FoundedFederation, link: Callable[..., Any]) -> str | None:
    """The model after all rounds."""
    with link(made) as opened_link:
        return serve(opened_link, made.server)


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
