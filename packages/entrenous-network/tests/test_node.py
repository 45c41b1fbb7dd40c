"""A node: asked again it says the same, it goes into every round with the private state it had
before, and it works for its own server only. C4: a node that dies at any stage comes back and has
contributed once.
"""

from __future__ import annotations

import errno
import json
import signal
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from asked_node import Asked
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.frames.frames import opened
from entrenous_network.frames.request import announced, announced_of
from entrenous_network.node.node import FederatedNode
from entrenous_network.server import exchange
from entrenous_network.server.server import serve
from federation_links import (
    SocketLink,
    federation,
    listening,
    nodes_of,
    server_sha256,
    simulated,
    until,
)

from entrenous.core.contract.protocols import arrays_of
from entrenous.core.errors import EntrenousError, InputError


@pytest.fixture
def one(tmp_path):
    made = Asked(federation(tmp_path / "f", rounds=9))
    yield made
    made.node.close()


def test_the_same_request_gets_the_same_bytes(one):
    request = one.request(0)
    first, state = one.node.answer(request), one.private()
    assert [one.node.answer(request) for _ in range(3)] == [first] * 3
    assert one.node.answer(one.request(0)) == first  # sealed anew: another nonce, the same question
    one.node.close()
    one.node = FederatedNode(one.node.folder)
    assert one.node.answer(request) == first and one.private() == state


def test_a_round_that_was_answered_is_never_opened_again(one):
    """Sums of one round over all users and over all but one tell what that one sent, however often
    a server says that it started.
    """
    first, state = one.node.answer(one.request(0)), one.private()
    for start in (0, 5, 6, 2**40):
        for other in ({"users": [0, 1, 2, 3]}, {"users": [2]}, {"seed": 2}):
            assert one.said(one.request(0, start=start, **other)) == ("refused", "past-round")
            assert one.private() == state
        assert one.node.answer(one.request(0, start=start)) == first


def test_a_node_answers_for_no_fewer_users_than_its_owner_says(tmp_path):
    made = federation(tmp_path / "f")
    about = made.nodes["node-1"] / "node.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "least_users": 3}))
    one = Asked(made)
    assert one.said(one.request(0, users=[2])) == ("refused", "too-few-users")
    assert one.said(one.request(0, users=[0, 1])) == ("refused", "too-few-users")
    assert one.private()[0] == 0
    assert one.said(one.request(0, users=[0, 1, 2]))[0] == "sum"
    one.node.close()


def test_a_round_that_is_long_ago_is_refused(one):
    for number in range(8):
        assert one.said(one.request(number))[0] == "sum"
    state = one.private()
    assert one.said(one.request(2, seed=5, start=6)) == ("refused", "past-round")
    assert one.private() == state


REFUSED = {
    "another server": ("bad-signature", {"signer": Ed25519PrivateKey.generate()}),
    "another run": ("wrong-run", {"run": "0" * 32}),
    "another kind": ("wrong-kind", {"kind": "run-this"}),
    "another model": ("wrong-model", {"model": bytes(32)}),
    "users of another node": ("not-asked", {"users": [0, 19]}),
    "users out of order": ("not-asked", {"users": [1, 0]}),
    "a user twice": ("not-asked", {"users": [1, 1]}),
    "nobody": ("wrong-count", {"users": []}),
    "more users than it has": ("wrong-count", {"about": {"users": 10**6}}),
    "another number of users": ("malformed", {"about": {"users": 2}}),
    "no number of users": ("wrong-count", {"about": {}}),
}


def test_a_node_refuses(one):
    state = one.private()
    for what, (code, changed) in REFUSED.items():
        assert one.said(one.request(0, **changed)) == ("refused", code), what
        assert one.private() == state, what
    assert one.said(one.request(0))[0] == "sum"


def test_a_full_disk_is_an_answer_and_the_round_can_be_done_later(one, monkeypatch):
    def full(*arguments):
        raise sqlite3.OperationalError("database or disk is full")

    state = one.private()
    with monkeypatch.context() as patch:
        patch.setattr(one.node.store, "advance", full)
        assert one.said(one.request(0)) == ("refused", "failed")
        patch.setattr(
            one.node.store,
            "advance",
            lambda *a: (_ for _ in ()).throw(OSError(errno.EIO, "input/output error")),
        )
        assert one.said(one.request(0)) == ("refused", "failed")
    assert one.private() == state
    assert one.said(one.request(0))[0] == "sum" and one.private()[0] == 1


def test_r11_files_of_another_format_are_refused_by_its_number(tmp_path):
    founded = federation(tmp_path / "f", nodes=2)
    folder = founded.nodes["node-1"]
    about = json.loads((folder / "node.json").read_text())
    (folder / "node.json").write_text(json.dumps({**about, "format": 10}))
    with pytest.raises(InputError, match="format 10; expected format 9"):
        FederatedNode(folder)
    (folder / "node.json").write_text(json.dumps(about))
    db = sqlite3.connect(folder / "store.sqlite")
    with db:
        db.execute("update fact set value = '10' where name = 'format'")
    db.close()
    with pytest.raises(InputError, match="format 10; expected format 9"):
        FederatedNode(folder)


@pytest.mark.parametrize(
    "name", ["node.json", "terms.json", "items.jsonl", "identity.key", "store.sqlite"]
)
@pytest.mark.parametrize("how", ["missing", "empty", "nonsense"])
def test_a_damaged_folder_is_said_in_one_line(name, how, tmp_path):
    folder = federation(tmp_path / "f", nodes=2).nodes["node-1"]
    (folder / name).unlink()
    if how != "missing":
        (folder / name).write_bytes(b"" if how == "empty" else b"{\x00\xffnonsense" * 100)
    with pytest.raises(EntrenousError) as error:
        FederatedNode(folder)
    assert name in str(error.value) and "\n" not in str(error.value)


# ---- C4 ------------------------------------------------------------------------------------------


def test_c4_nodes_killed_at_every_stage(tmp_path, monkeypatch):
    """Four real node processes, each SIGKILLed at another stage of its second round, come back from
    their folders: the same model, the same private vectors, one contribution each."""
    monkeypatch.setattr(exchange, "AGAIN", 0.5)
    founded, died = federation(tmp_path / "f", nodes=4), dict[str, int]()
    stages = dict(zip(founded.nodes, ("fetch", "train", "upload", "wait"), strict=True))
    sockets = {name: str(tmp_path / f"{name}.socket") for name in founded.nodes}
    lines = {
        name: listening(sockets[name], founded.nodes[name], stage, 2)
        for name, stage in stages.items()
    }

    class Watched(SocketLink):
        """Starts a node again when it has died."""

        def present(self):
            for name, line in lines.items():
                if line.exitcode is not None:
                    died[name] = line.exitcode
                    Path(sockets[name]).unlink()
                    lines[name] = listening(sockets[name], founded.nodes[name])
            return super().present()

    try:
        until(lambda: all(Path(socket).exists() for socket in sockets.values()))
        link = Watched(sockets)
        assert serve(link, founded.server) == server_sha256(simulated(founded))
        link.close()
    finally:
        for line in lines.values():
            line.kill()
            line.join()
    assert died == dict.fromkeys(stages, -signal.SIGKILL)
    assert (founded.server / "server.log").read_text().count("20 of 20 devices") == 3
    answers = json.loads((founded.server / "status.json").read_text())["answers"]
    assert answers.pop("accepted") == 12  # 4 nodes, 3 rounds
    # Each is asked again now and then, and says the same again, also when the round is over.
    assert answers.keys() <= {"duplicate", "late", "past-round"}
    private = simulated(founded).devices
    for node in nodes_of(founded).values():
        for name, array in node.store.newest_state()[1].items():
            assert np.array_equal(array, getattr(private, name)[node.shard.users])
        node.close()


@pytest.mark.parametrize(("name", "lie"), [("q", np.nan), ("b", np.inf), ("q", -np.inf)])
def test_a_signed_request_with_a_number_that_is_none_is_refused_and_changes_nothing(one, name, lie):
    """The server's signature is right and so is the model's hash: the values are not, and none of
    them is kept.
    """
    honest, state = one.model(), one.private()
    model = {**honest, name: honest[name].copy()}
    model[name].reshape(-1)[-1] = lie
    one.model = lambda seed=1: model
    assert one.said(one.request(0)) == ("refused", "malformed")
    assert one.said(one.request(0, kind="model")) == ("refused", "malformed")
    assert (
        one.private() == state
        and one.node.store.model() is None
        and one.node.store.answered(0) is None
    )
    one.model = lambda seed=1: honest
    assert one.said(one.request(0))[0] == "sum"


@pytest.mark.parametrize("name", ["cali3f-gmf", "fedfast-gmf", "rfrec", "metamf"])
def test_every_part_that_all_receive_is_bound_to_the_announced_model(tmp_path, name):
    """Where the server delivers to each device its own, nodes still hold what is shared against one
    hash: a lying server cannot show one node another table, another number of the round, or another
    kind of round.
    """
    clustered = {"clusters": 3} if name in ("cali3f-gmf", "fedfast-gmf") else {}
    one = Asked(federation(tmp_path / "f", 4, 2, name, settings={"factors": 4, **clustered}))
    contract = one.node.contract
    model = announced_of(contract, one.download())
    honest = contract.delivered(one.download(), one.node.shard.users)
    tried = 0

    def asked(download) -> tuple[str, str]:
        return one.said(one.request(0, download=download, model=model))

    for field in contract.shared:
        other = arrays_of(honest)[field].copy()
        other.reshape(-1)[-1] = (
            not other.reshape(-1)[-1] if other.dtype == bool else other.reshape(-1)[-1] + 1
        )
        said = asked(honest._replace(**{field: other}))
        assert said[0] == "refused" and said[1] in ("wrong-model", "malformed"), field
        tried += said[1] == "wrong-model"
    assert tried >= len(contract.shared) - 1 > -1 and contract.shared
    assert asked(honest)[0] == "sum"
    one.node.close()


def test_a_round_after_the_last_one_is_refused_and_changes_nothing(one):
    """Of the terms' 9: numbers from 0 to 8. The largest that a message holds is more than the store
    can.
    """
    state = one.private()
    for number in (9, 10, 2**31, 2**63, 2**64 - 1):
        assert one.said(one.request(number)) == ("refused", "future-round")
        model = one.request(number, kind="model")
        assert number == 9 or one.said(model) == ("refused", "future-round")
        assert one.private() == state
        assert one.node.store.model() is None
    assert one.said(one.request(8))[0] == "sum"


@pytest.mark.parametrize("lie", [1e30, -3e38, 1e9])
@pytest.mark.parametrize("users", [[2], [0, 1, 2, 3, 4]])
def test_a_download_of_huge_finite_numbers_leaves_a_node_as_it_was(one, lie, users):
    """Trained on, they would make private vectors from which no round leads back."""
    honest, state = one.model(), one.private()
    one.model = lambda seed=1: {**honest, "q": np.full_like(honest["q"], lie)}
    assert one.said(one.request(0, users=users)) in (
        ("refused", "too-large"),
        ("refused", "failed"),
        ("refused", "not-finite"),
    )
    assert one.private() == state and one.node.store.answered(0) is None
    one.model = lambda seed=1: honest
    assert one.said(one.request(0, users=users))[0] in ("sum", "update")


@pytest.mark.parametrize(
    ("name", "field", "lie"),
    [
        ("cali3f-gmf", "at", -1),
        ("rfrec", "clients", 1),
        ("rfrec", "clients", 19),
        ("rfrec", "clients", 2**40),
    ],
)
@pytest.mark.parametrize("users", [1, 5])
def test_numbers_within_their_range_that_fit_nothing_else_are_refused(
    tmp_path, name, field, lie, users
):
    """No network for a device, other sums than there are: compiled loops would read and write
    beyond their arrays.
    """
    clustered = {"clusters": 3} if name == "cali3f-gmf" else {}
    one = Asked(federation(tmp_path / "f", 4, 2, name, settings={"factors": 4, **clustered}))
    asked = np.arange(users)
    honest = one.node.contract.delivered(one.download(), asked)

    def said(download) -> str:
        model = announced(one.node.contract, download)
        return one.said(one.request(0, users=asked, download=download, model=model))[0]

    lying = honest._replace(**{field: np.full_like(getattr(honest, field), lie)})
    assert said(lying) == "refused" and one.private()[0] == 0
    assert said(honest) in ("sum", "update")
    one.node.close()


def test_a_fault_in_an_algorithm_is_an_answer(one, monkeypatch):
    """Not the end of the node; by the error's class alone, for its text may name rows."""
    monkeypatch.setattr(one.node.shard, "work", lambda *a, **k: [][1])
    monkeypatch.setattr(one.node, "_secret", None)
    found = opened(one.node.answer(one.request(0)))
    assert (
        found.head.kind == "refused"
        and bytes(found.body) == b"failed\nIndexError"
        and one.private()[0] == 0
    )
