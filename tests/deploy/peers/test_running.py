"""What a peer tells its user: the same lists and hit rates that a simulation makes of the same scores, ties included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_gossip import shop

from entrenous.core.errors import NonFiniteError
from entrenous.deploy.peers.folder import STATE, Folder
from entrenous.deploy.peers.founding import found
from entrenous.deploy.peers.keeping import Keeping
from entrenous.deploy.peers.node import RANKED, PeerNode
from entrenous.deploy.peers.running import recommend
from entrenous.evaluate.recommend import tie_places

SETTINGS = {"factors": 4, "redraw": 2, "learning_rate_user": 0.05}
ITEMS, SEED = 60, 3


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A peer that has trained once."""
    made = found(tmp_path / "peers", shop(6, items=ITEMS, each=12), 6, "pepper-gmf", settings=SETTINGS, seed=SEED)
    folder = Folder(made.peers[2])
    node = folder.node()
    node.start()
    keeping = Keeping(folder.path / STATE)
    keeping.save(node.arrays(), 0, node.fresh, {}, [])
    keeping.close()
    return folder


def test_equal_scores_stand_in_the_order_of_the_federation(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeerNode, "scores", lambda node: np.ones(ITEMS, np.float32))
    own = {folder.items.ids[i] for i in folder.rows().histories.item}
    order = [folder.items.ids[i] for i in np.argsort(tie_places(ITEMS, SEED))]
    listed = [row["item"] for row in recommend(folder.path, ITEMS)]
    assert listed == [item for item in order if item not in own] and len(listed) == ITEMS - len(own)


def test_the_best_scores_stand_first(folder: Folder) -> None:
    node = folder.node()
    node.start()
    own, scores = set(folder.rows().histories.item.tolist()), node.scores()
    best = sorted((i for i in range(ITEMS) if i not in own), key=lambda i: -scores[i])[:5]
    assert [(row["item"], row["score"]) for row in recommend(folder.path, 5)] == [
        (folder.items.ids[i], float(scores[i])) for i in best
    ]


def test_nothing_is_ranked_by_scores_that_are_no_numbers(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeerNode, "scores", lambda node: np.full(ITEMS, np.nan, np.float32))
    with pytest.raises(NonFiniteError, match="pepper-gmf: a score of user '2' is NaN"):
        recommend(folder.path, 5)


def test_the_hit_rate_of_equal_scores_is_that_of_their_order(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeerNode, "scores", lambda node: np.ones(ITEMS, np.float32))
    node, place = folder.node(), tie_places(ITEMS, SEED)
    sets = node.data.weighing
    ahead = [sum(place[j] < place[i] for j in others if j >= 0) for i, others in zip(sets.item, sets.candidates, strict=True)]
    assert node.hit_rate() == np.mean(np.array(ahead) < RANKED)
