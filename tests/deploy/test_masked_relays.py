"""Relays under masks: each relay's nodes are one group, whose sum it makes as a server does."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from federation_links import FaultyLink, federation, logged, nodes_of
from relays import DATA, FLOORS, RELAYS, Grown, Tree, masked_tree

from entrenous.deploy.agreement import groups
from entrenous.deploy.server.server import serve


def in_one_process(folder: Path, made: Tree, monkeypatch) -> str | None:
    """The model of a federation without relays whose groups are the nodes of the relays."""
    whole = federation(
        folder,
        12,
        made.terms.rounds,
        "fcf",
        DATA,
        {"factors": 4},
        secure="masks",
        floors=FLOORS,
        deadline=60.0,
        protect={"groups": 3},
    )
    names = sorted(whole.nodes)
    dealt = [frozenset(names[low : low + 4]) for low in (0, 4, 8)]
    with monkeypatch.context() as patch:
        patch.setattr(groups, "dealt", lambda members, run, count: dealt)
        link = FaultyLink({name: node.answer for name, node in nodes_of(whole).items()})
        return serve(link, whole.server)


def test_relays_under_masks_end_with_the_model_of_one_process(tmp_path, monkeypatch) -> None:
    made = masked_tree(tmp_path)
    with closing(Grown(made)) as grown:
        digest = serve(grown.links[""], made.server)
        print("\n".join(logged(made.server)))
        for r in RELAYS:
            print("\n".join(logged(made.relays[r] / "below" / "server")))
        assert digest == in_one_process(tmp_path / "whole", made, monkeypatch)
        assert all(node.recommender()[0] == 3 for node in grown.nodes.values())
