"""Under masks, too, a node is shut out and a server goes back to a kept model; and neither gives an
operator who lies one node's update.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from federation_links import (
    FaultyLink,
    federation,
    logged,
    nodes_of,
    quick_pauses,
    server_sha256,
    simulated,
)
from lying_sums import SubtractingServer

from entrenous.cli import main
from entrenous.core.contract.update import Total
from entrenous.core.errors import InputError
from entrenous.deploy.agreement.members import MEMBERS, Members
from entrenous.deploy.frames.frames import FrameParts, Head, opened
from entrenous.deploy.frames.request import NodeRequest
from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.node.secure_node import inputs
from entrenous.deploy.operate import going_back
from entrenous.deploy.operate.founding import FoundedFederation
from entrenous.deploy.operate.going_back import kept_rounds
from entrenous.deploy.operate.membership import invite, shut_out
from entrenous.deploy.operate.running import status
from entrenous.deploy.server.leaving import resting_with
from entrenous.deploy.server.secure_server import SecureRound
from entrenous.deploy.server.server import RoundsLost, serve
from entrenous.deploy.server.server_folder import ServerFolder
from entrenous.privacy.secure_sum.memory import PastSum
from entrenous.privacy.secure_sum.refusal import SumRefused
from entrenous.privacy.secure_sum.terms import Floors
from entrenous.runs.store import read_arrays

HALF = Floors(people=9, parties=3, occupancy=0.0)  # 20 users of six nodes: 4, 4, 3, 3, 3, 3
NAMES = [f"node-{number}" for number in range(1, 7)]
ROUNDS = 10
LIAR = "node-2"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)


def masked(folder: Path, rounds: int = ROUNDS, **terms: Any) -> FoundedFederation:
    more = {"deadline": 1.0, **terms}
    return federation(
        folder, 6, rounds, "fcf", settings={"factors": 4}, secure="masks", floors=HALF, **more
    )


class Watched(FaultyLink):
    """A link that notes who is asked what, and stops the server when a round is first asked
    about.
    """

    def __init__(self, made: FoundedFederation, stop_at: int = -1) -> None:
        self.real, self.stop, self.stop_at = nodes_of(made), Event(), stop_at
        super().__init__({name: node.answer for name, node in self.real.items()})
        self.asked: list[tuple[str, str, int]] = []
        self.heads: list[Head] = []

    def send(self, address: str, frame: FrameParts, seconds: float) -> None:
        head = opened(bytes(frame)).head
        self.heads.append(head)
        self.asked.append((address, head.kind, head.round))
        if head.round == self.stop_at:
            self.stop.set()
        super().send(address, frame, seconds)

    def masked_rounds(self) -> set[int]:
        """The rounds whose masked inputs were asked for."""
        return {number for _, kind, number in self.asked if kind == "mask"}

    def shut(self) -> None:
        for node in self.real.values():
            node.close()


def served(made: FoundedFederation, stop_at: int = -1) -> tuple[str | None, Watched]:
    link = Watched(made, stop_at)
    try:
        return serve(link, made.server, link.stop), link
    finally:
        link.shut()


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command says, which must have gone well."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    found = "".join(capsys.readouterr())
    assert ended.value.code == 0, found
    return found


# ---- going back ----------------------------------------------------------------------------------


def test_going_back_has_new_numbers_and_the_model_of_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`rewind` refused under masks. FCF draws nothing, so what is done again comes out the same, to
    the bit.
    """
    made = masked(tmp_path / "f")
    _, before = served(made, stop_at=6)
    assert max(before.masked_rounds()) == 5
    lines = said(capsys, "federation", "rewind", made.server.parent, "--rounds", 4)
    assert "from 6 rounds back to 4; the next one has the number 7" in lines
    assert "nodes answer 4 rounds more by themselves, and 6 are to come" in lines
    for name, folder in made.nodes.items():
        told = said(capsys, "federation", "rewind", folder, "--rounds", 4)
        assert "updates of 6 rounds have left, in masked sums; of 13 may" in told, name
    found, after = served(made)
    assert found == server_sha256(simulated(made))
    assert (
        after.masked_rounds() == set(range(7, 13))
        and not before.masked_rounds() & after.masked_rounds()
    )
    assert status(made.server)["round"] == ROUNDS and status(made.server)["lost"] == 0
    assert all(
        list(node.store.past_sums()) and inputs(node.store) == 12
        for node in nodes_of(made).values()
    )


def test_nodes_go_on_by_themselves_where_little_is_undone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = masked(tmp_path / "f")
    served(made, stop_at=1)
    # round 1 was open: nodes may have answered, so its number and one of their sums are gone
    assert "from 1 rounds back to 1; the next one has the number 2\n" in said(
        capsys, "federation", "rewind", made.server, "--rounds", 1
    )
    found, after = served(made)
    assert found == server_sha256(simulated(made)) and after.masked_rounds() == set(range(2, 11))


def test_going_back_to_the_start_keeps_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = masked(tmp_path / "f")
    served(made, stop_at=3)
    assert "from 3 rounds back to 0; the next one has the number 4" in said(
        capsys, "federation", "rewind", made.server, "--rounds", 0
    )
    assert kept_rounds(made.server).keys() == {0}
    for folder in made.nodes.values():
        said(capsys, "federation", "rewind", folder, "--rounds", 0)
    assert served(made)[0] == server_sha256(simulated(made))


def test_a_node_answers_no_further_round_than_its_owner_allows(tmp_path: Path) -> None:
    """A server that goes back again and again gets the sums of the terms and a tenth more, and then
    refusals that say why.
    """
    made = masked(tmp_path / "f")
    served(made, stop_at=6)
    going_back.go_back(made.server, 2)
    link = Watched(made)
    receive, refused = link.receive, iter(range(3000))

    def patient(seconds: float) -> list[tuple[str, bytes]]:
        # The last sum is there, and as many times as this the nodes are asked in vain for another.
        summed = {inputs(node.store) for node in link.real.values()}
        if summed == {made.terms.sums} and next(refused) == 100:
            link.stop.set()
        return receive(seconds)

    link.receive = patient  # type: ignore[method-assign]
    assert serve(link, made.server, link.stop) is None
    assert all(inputs(node.store) == made.terms.sums == 11 for node in link.real.values())
    assert any(
        "withheld, sums" in line or "withheld from node-1: withheld, sums" in line
        for line in logged(made.server)
    )
    link.shut()
    assert status(made.server)["round"] == 7


def test_a_rewind_that_is_killed_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the new checkpoint was written or not, no number comes again."""
    made = masked(tmp_path / "f")
    served(made, stop_at=6)
    commit, drop = ServerFolder.commit, going_back.drop_models

    def die(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ServerFolder, "commit", die)
    with pytest.raises(KeyboardInterrupt):
        going_back.go_back(made.server, 4)
    monkeypatch.setattr(ServerFolder, "commit", commit)
    calls = iter([drop, die])
    monkeypatch.setattr(
        going_back, "drop_models", lambda *arguments, **more: next(calls)(*arguments, **more)
    )
    with pytest.raises(KeyboardInterrupt):
        going_back.go_back(made.server, 4)
    monkeypatch.setattr(going_back, "drop_models", drop)
    assert going_back.go_back(made.server, 4).number == 7
    for folder in made.nodes.values():
        going_back.allow_sums(folder, 4)
    found, after = served(made)
    assert found == server_sha256(simulated(made)) and min(after.masked_rounds()) == 7


def test_a_server_from_a_backup_goes_on_behind_what_nodes_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = masked(tmp_path / "f")
    served(made, stop_at=2)
    shutil.copytree(made.server, tmp_path / "backup")
    served(made, stop_at=5)
    shutil.rmtree(made.server)
    shutil.copytree(tmp_path / "backup", made.server)
    lines = said(capsys, "federation", "rewind", made.server, "--rounds", 2, "--after", 5)
    assert "the next one has the number 6" in lines
    for folder in made.nodes.values():
        said(capsys, "federation", "rewind", folder, "--rounds", 2)
    assert served(made)[0] == server_sha256(simulated(made))


def test_going_back_costs_no_more_epsilon_than_the_owner_said(tmp_path: Path) -> None:
    made = masked(
        tmp_path / "f",
        profile="private",
        draws="secret",
        protect={"clip": 2.5, "noise": 100.0, "people": 9, "parties": 3},
    )
    node = made.nodes["node-1"]
    proven = made.terms.proven(9)
    assert proven is not None
    path = node / "node.json"
    path.write_text(path.read_text().replace('"epsilon": null', f'"epsilon": {proven}'))
    assert going_back.allow_sums(node, 0).most == made.terms.sums  # nothing has left yet
    with_store = FederatedNode(node)
    with_store.store.note("inputs", "5")
    with_store.close()
    with pytest.raises(InputError, match="its 16 rounds may spend epsilon"):
        going_back.allow_sums(node, 0)


# ---- shutting out --------------------------------------------------------------------------------


def test_a_node_is_shut_out_with_as_many_as_the_floors_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`shut-out` refused under masks. One node alone would be the difference of two sums, so others
    rest, and it says who.
    """
    made = masked(tmp_path / "f")
    served(made, stop_at=4)
    with pytest.raises(InputError, match="would tell what it sent") as why:
        shut_out(made.server.parent, LIAR)
    assert "--rest-others" in str(why.value) and "\n" not in str(why.value)
    assert Members.read(made.server / MEMBERS, 20).nodes.keys() == set(NAMES)  # nothing is written
    lines = said(capsys, "federation", "shut-out", made.server.parent, LIAR, "--rest-others")
    members = Members.read(made.server / MEMBERS, 20)
    resting = sorted(name for name, member in members.nodes.items() if member.rests)
    assert (
        len(resting) == 2
        and f"; {', '.join(resting)} rest; a server at work takes it up before its next round"
        in lines
    )
    found, link = served(made)
    assert found is not None
    asked = {name for name, kind, _ in link.asked if kind == "advert"}
    assert asked == set(NAMES) - {LIAR, *resting} and len(asked) == 3
    given = {name for name, kind, _ in link.asked if kind == "model"}
    assert given == set(NAMES) - {LIAR}  # who rests has the trained model
    assert f"finished: {ROUNDS} rounds, model {found}" in logged(made.server)


def test_nobody_rests_while_no_sum_had_the_node(tmp_path: Path) -> None:
    """Of a liar that spoils each round before anybody consented to a sum nothing can be told."""
    made = masked(tmp_path / "f")
    assert shut_out(made.server.parent, LIAR).resting == []
    found, link = served(made)
    assert found is not None and {name for name, _, _ in link.asked} == set(NAMES) - {LIAR}


def test_an_operator_who_shuts_out_one_node_alone_gets_no_sum_without_it(tmp_path: Path) -> None:
    """By hand, in the list, past what the command allows: nodes hold the sum against those that
    they remember.
    """
    made = masked(tmp_path / "f")
    served(made, stop_at=4)
    members = Members.read(made.server / MEMBERS, 20)
    (made.server / MEMBERS).write_text(members.without(LIAR).text())
    with pytest.raises(
        RoundsLost,
        match=("no sum came of 100 rounds in a row; the model is trained in 4 of 10 rounds"),
    ):
        served(made)
    held = SubtractingServer(made)  # nor does one that does not even look at what it has summed
    for moved in (0.0, 1e-6, 0.5):
        held.own.round += 1
        assert (
            held.sum_of(200 + held.own.round, [name for name in NAMES if name != LIAR], moved)
            is None
        )
        assert all(
            "apart" in held.said[name] or "twice" in held.said[name]
            for name in NAMES
            if name != LIAR
        )
    held.close()


def test_too_few_to_be_left_is_said_with_numbers(tmp_path: Path) -> None:
    made = federation(
        tmp_path / "f",
        4,
        4,
        "fcf",
        settings={"factors": 4},
        secure="masks",
        floors=HALF,
        deadline=1.0,
    )
    served(made, stop_at=2)
    with pytest.raises(
        InputError, match=r"3 nodes with 9 people, and 3 with 9 people have to be left of 4 with 20"
    ) as why:
        shut_out(made.server.parent, LIAR, rest_others=True)
    assert "found the federation anew" in str(why.value)


def test_who_rests_is_nobodys_choice_and_the_fewest() -> None:
    """The same for everybody who counts, another for another run; those who were in no sum beside
    it are not asked of.
    """
    people = dict.fromkeys((f"n{number:02d}" for number in range(20)), 50)
    whole = PastSum(bytes(32), people)
    floors = Floors(people=100, parties=3)
    first = resting_with("n03", people, [whole], floors, "run")
    assert (
        first is not None
        and len(first) == 2
        and first == resting_with("n03", people, [whole], floors, "run")
    )
    assert (
        len(
            {
                tuple(resting_with("n03", people, [whole], floors, str(run)) or ())
                for run in range(20)
            }
        )
        > 10
    )
    assert resting_with("n03", people, [], floors, "run") == []
    assert (
        resting_with("n03", people, [whole], Floors(people=100, parties=3, apart=False), "run")
        == []
    )
    part = PastSum(bytes(32), {name: 50 for name in people if name != "n03"})
    assert resting_with("n03", people, [part], floors, "run") == []
    left = {name: 50 for name in people if name not in {"n03", *first}}
    second = resting_with(
        "n07" if "n07" in left else "n08", left, [whole, PastSum(bytes(32), left)], floors, "run"
    )
    assert second is not None and len(second) == 2


def test_invitations_stay_refused(tmp_path: Path) -> None:
    """Owners have agreed on all who may ever be in a sum with them."""
    made = masked(tmp_path / "f")
    with pytest.raises(InputError, match="agreed on who takes part"):
        invite(made.server.parent, [])


# ---- both ----------------------------------------------------------------------------------------


def test_a_model_that_a_liar_has_dragged_away_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It drags from round 4 on: shut out, and back to the model of round 4, which was summed with
    it before.
    """
    made = masked(tmp_path / "f")
    honest: Callable[..., tuple[Any, Total]] = FederatedNode.train_sum

    def train_sum(self: FederatedNode, request: NodeRequest) -> tuple[Any, Total]:
        devices, total = honest(self, request)
        if self.name == LIAR and request.round >= 4:
            for array in total.dense.values():
                array *= 20  # as much as all others together, which no length gives away
        return devices, total

    monkeypatch.setattr(FederatedNode, "train_sum", train_sum)
    served(made, stop_at=6)
    said(capsys, "federation", "shut-out", made.server.parent, LIAR, "--rest-others")
    then, _ = read_arrays(kept_rounds(made.server)[4])
    spoilt, _ = read_arrays(kept_rounds(made.server)[6])
    said(capsys, "federation", "rewind", made.server.parent, "--rounds", 4)
    now, _ = read_arrays(made.server / "checkpoint-server-000000007.safetensors")
    models = [name for name in now if name.startswith("server.")]
    assert all(np.array_equal(now[name], then[name]) for name in models)
    assert not all(np.array_equal(now[name], spoilt[name]) for name in models)
    for folder in made.nodes.values():
        said(capsys, "federation", "rewind", folder, "--rounds", 4)
    found, link = served(made)
    assert found is not None
    assert min(link.masked_rounds()) == 7 and LIAR not in {name for name, _, _ in link.asked}


def test_after_a_shut_out_nodes_draw_anew_from_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last round before it was lost after all had consented: from that model they would answer
    all of them again, or nobody.
    """
    made = masked(tmp_path / "f", rounds=20)
    taken = SecureRound._total
    spoilt = [3]

    def total(self: SecureRound, own: Any) -> Total:
        if self._now.round in spoilt:
            raise SumRefused("vector", "a node lied")
        return taken(self, own)

    monkeypatch.setattr(SecureRound, "_total", total)
    _, link = served(made, stop_at=4)
    before = {head.model for head in link.heads if head.round in (3, 4)}
    assert (
        status(made.server)["lost"] == 1 and len(before) == 1
    )  # a lost round's model is asked again
    shut_out(made.server.parent, LIAR, rest_others=True)
    found, link = served(made)
    after = {head.model for head in link.heads if head.kind == "mask"}
    assert found is not None and len(after) == 20 - 3 and not before & after
    assert f"finished: 20 rounds, model {found}" in logged(made.server)
    assert status(made.server)["lost"] <= 2  # round 4 was open when the list changed


@pytest.mark.parametrize("quorum", [0.7, 1.0])
def test_sums_keep_their_noise_without_who_left(tmp_path: Path, quorum: float) -> None:
    """Under the profile private a sum has the noise of at least so many people as the quorum says:
    as many have to be left.
    """
    floors, noisy = (
        Floors(people=6, parties=3),
        {"profile": "private", "draws": "secret", "quorum": quorum},
    )
    made = federation(
        tmp_path / "f", 10, 4, "fcf", settings={"factors": 4}, floors=floors, deadline=1.0, **noisy
    )
    served(made, stop_at=2)
    if quorum == 1.0:
        with pytest.raises(InputError, match="and 3 with 16 people have to be left of 10 with 20"):
            shut_out(made.server.parent, "node-02", rest_others=True)
        return
    done = shut_out(made.server.parent, "node-02", rest_others=True)
    assert (done.users, len(done.resting)) == (2, 2)
    found, link = served(made)
    assert found is not None and status(made.server)["round"] == 4
    assert sum("14 of 14 devices" in line for line in logged(made.server)) == 2
    assert not {"node-02", *done.resting} & {
        name for name, kind, _ in link.asked if kind == "advert"
    }


def test_the_remedy_that_a_server_names_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A liar spoils rounds until the server ends: shut out, back to the rounds that it names, and
    the training is finished.
    """
    made = masked(tmp_path / "f")
    honest: Callable[..., tuple[Any, Total]] = FederatedNode.train_sum

    def train_sum(self: FederatedNode, request: NodeRequest) -> tuple[Any, Total]:
        devices, total = honest(self, request)
        if self.name == LIAR and request.round >= 3:
            for array in total.dense.values():
                array[...] = 1 << 62
        return devices, total

    monkeypatch.setattr(FederatedNode, "train_sum", train_sum)
    with pytest.raises(
        RoundsLost, match=r"trained in 3 of 10 rounds.*shut-out.*rewind --rounds 3"
    ) as why:
        served(made)
    assert "\n" not in str(why.value)
    with pytest.raises(RoundsLost):  # to start it again is no remedy, and loses nothing more
        served(made)
    assert status(made.server)["lost"] == 2
    said(capsys, "federation", "shut-out", made.server.parent, LIAR, "--rest-others")
    assert "nodes answer 6 rounds more by themselves, and 7 are to come" in said(
        capsys, "federation", "rewind", made.server.parent, "--rounds", 3
    )
    for folder in made.nodes.values():
        said(capsys, "federation", "rewind", folder, "--rounds", 3)
    found, link = served(made)
    assert found is not None and f"finished: {ROUNDS} rounds, model {found}" in logged(made.server)
    assert link.masked_rounds() == set(range(5, 12))
    assert status(made.server)["lost"] == 0
