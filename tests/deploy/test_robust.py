"""`--profile robust` across a network: the server holds the updates of a round, defends against the
poisoned ones, and adds the rest.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from entrenous_lab.memory_link import MemoryServerLink
from federation_links import federation, nodes_of, ratings, server_of, server_sha256, simulated

from entrenous.core.errors import InputError
from entrenous.deploy.frames.contribution import of_total
from entrenous.deploy.frames.frames import Code, seal
from entrenous.deploy.links.https import HttpsPlan
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.operate.enrolment import told
from entrenous.deploy.operate.founding import FoundedFederation
from entrenous.deploy.operate.running import serve_by_workers
from entrenous.deploy.server.server import round_work, serve
from entrenous.deploy.server.server_folder import ServerFolder
from entrenous.federation.rounds import Rounds


def robust(folder: Path, nodes: int = 20, **more: Any) -> FoundedFederation:
    """A federation under `robust` whose nodes have one user each."""
    return federation(folder, nodes, 3, **{"profile": "robust", **more})


def test_the_model_is_that_of_a_simulation_under_robust_and_not_that_of_none(
    tmp_path: Path,
) -> None:
    made = robust(tmp_path / "f")
    nodes = nodes_of(made)
    digest = serve(
        MemoryServerLink({name: node.answer for name, node in reversed(nodes.items())}), made.server
    )
    assert digest == server_sha256(simulated(made))
    own = made.terms.make()
    plain = Rounds(own, ratings(), seed=made.terms.seed)
    assert digest != server_sha256(plain.advance(plain.start(), 3))


def test_terms_and_invitation_say_that_the_server_reads_each_update(tmp_path: Path) -> None:
    made = robust(tmp_path / "f")
    said = made.terms.limits()
    assert (
        said.startswith("profile robust: the server reads each device's update")
        and "histories too" in said
    )
    assert (
        said in told(made.server.parent / "invitations" / "node-01")
        and '"defence": "robust"' in made.terms.text()
    )


def test_a_sum_of_several_users_would_hide_a_liar_and_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="defence looks at the update of each device"):
        robust(tmp_path / "g", nodes=4)
    assert not (tmp_path / "g").exists()
    with closing(ServerFolder(robust(tmp_path / "f").server)) as held:
        own = server_of(held)
        work = round_work(held, own.algorithm, own.contract, 0, own.state, own.draw_key(0))
        own.collecting.begin(work)
        key = FederatedNode(tmp_path / "f" / "nodes" / "node-01").key
        body = of_total(own.contract.empty_total()._replace(devices=1))
        said = {
            "run": held.terms.run,
            "node": "node-01",
            "model": work.model,
            "items": 18,
            "about": {"users": 1},
        }
        receipt = own.collecting.intake.receive(seal(key, "sum", body, **said))
        assert receipt.code is Code.WRONG_KIND


def test_a_server_that_was_killed_in_a_round_looks_at_what_its_journal_holds_too(
    tmp_path: Path,
) -> None:
    made = robust(tmp_path / "f")
    answers = {name: node.answer for name, node in nodes_of(made).items()}
    with closing(ServerFolder(made.server)) as held:
        own = server_of(held)
        work = round_work(held, own.algorithm, own.contract, 0, own.state, own.draw_key(0))
        own.collecting.begin(work)
        some = sorted(work.asked)[:7]
        own.collecting.take(
            [
                answers[name](bytes(own.collecting.requests.work(work, work.asked[name])))
                for name in some
            ]
        )  # type: ignore[attr-defined]
    assert serve(MemoryServerLink(answers), made.server) == server_sha256(simulated(made))
    assert "7 answers from the journal" in (made.server / "server.log").read_text()


def test_between_peers_there_is_no_server_to_defend(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="robust is what a server does"):
        federation(
            tmp_path / "f",
            20,
            algorithm="pepper-gmf",
            settings={},
            rounds=0,
            peers=True,
            profile="robust",
        )


def test_workers_cannot_look_at_all_updates_of_a_round(tmp_path: Path) -> None:
    with (
        closing(ServerFolder(robust(tmp_path / "f").server)) as held,
        pytest.raises(InputError, match="one process hears"),
    ):
        serve_by_workers(held, HttpsPlan("127.0.0.1", 0, None, True), 2, Event())
