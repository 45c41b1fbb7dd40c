"""What a peer tells its user: the same lists and hit rates that a simulation makes of the same
scores, ties included.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from entrenous_network.operate.device import recommend
from entrenous_network.operate.founding import found
from entrenous_network.operate.plans import FoundingPlan
from entrenous_network.peers.folder import PeerFolder
from entrenous_network.peers.node import PeerNode
from entrenous_network.peers.running import PeerTold
from small_gossip import shop

from entrenous.evaluation.recommend import tie_places

SETTINGS = {"factors": 4, "redraw": 2, "learning_rate_user": 0.05}
ITEMS, SEED = 60, 3


@pytest.fixture
def folder(tmp_path: Path) -> PeerFolder:
    """A peer that has trained once."""
    data = shop(6, items=ITEMS, each=12)
    plan = FoundingPlan(peers=True, settings=SETTINGS, seed=SEED)
    made = found(tmp_path / "f", data, plan, nodes=6)
    folder = PeerFolder(made.nodes["node-3"])
    node = folder.node()
    node.start()
    folder.state.save(node.arrays(), 0, node.fresh, {}, [])
    return folder


def test_equal_scores_stand_in_the_order_of_the_federation(
    folder: PeerFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PeerNode, "scores", lambda node: np.ones(ITEMS, np.float32))
    own = {folder.items.ids[i] for i in folder.rows.item}
    order = [folder.items.ids[i] for i in np.argsort(tie_places(ITEMS, SEED))]
    user, _, items = recommend(folder.folder, None, ITEMS)
    listed = [row["item"] for row in items]
    assert (
        user == "u2"
        and listed == [item for item in order if item not in own]
        and len(listed) == ITEMS - len(own)
    )


def test_the_best_scores_stand_first(folder: PeerFolder) -> None:
    node = folder.node()
    own, scores = set(folder.rows.item.tolist()), node.scores()
    best = sorted((i for i in range(ITEMS) if i not in own), key=lambda i: -scores[i])[:5]
    listed = [row["item"] for row in recommend(folder.folder, "u2", 5)[2]]
    assert listed == [folder.items.ids[i] for i in best]


def test_a_peer_tells_what_it_saved_and_is_not_well_when_nobody_is_known(
    folder: PeerFolder,
) -> None:
    """What `entrenous node --metrics` serves of a peer."""
    node, told = folder.node(), PeerTold(folder.folder)
    assert told.trouble() is None  # before its first push nothing is known
    about = {
        "events": 9,
        "pushes": 4,
        "known": 5,
        "time": 1e9,
        "errors": 0,
        "tally": {"pushed.ok": 7},
        "hr@20": None,
    }
    folder.state.save(node.arrays(), 1, [], about, [])
    lines = [line for line in told.text().splitlines() if not line.startswith("#")]
    found = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
    assert found["entrenous_peers_known"] == 5
    assert (
        found['entrenous_tally_total{event="pushed.ok"}'] == 7
        and found["entrenous_last_saved_seconds"] == 1e9
    )
    assert (
        found["entrenous_ticket_ends_seconds"] == folder.me.ticket.until and told.trouble() is None
    )
    folder.state.save(node.arrays(), 1, [], about | {"known": 0}, [])
    trouble = told.trouble()
    assert trouble is not None and trouble.kind == "alone"
    assert not any(word in told.text() for word in ("u2", "item", *map(str, folder.items.ids[:3])))
