"""Receipts of nodes: what has left each user's device, counted by the node itself and kept in its
own store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asked_node import Asked
from command_line import Command
from entrenous_network.agreement.unsampled import epsilon_of_gaussian
from entrenous_network.node.node import FederatedNode
from entrenous_network.operate.receipt import receipt_of_node
from entrenous_network.operate.shop import name_of
from federation_links import by_lot, federation, trained


def test_a_receipt_tells_what_masked_sums_with_a_clip_have_spent(tmp_path: Path) -> None:
    """Nothing before a round is answered; then by the rounds, and by the people that the owner
    insists on.
    """
    protect = {"clip": 2.5, "noise_from": "system"}
    made = by_lot(tmp_path / "f", noise=100.0, bits=64, draws="secret", protect=protect)
    user = FederatedNode(made.nodes["node-01"]).rows.users[0]
    found = receipt_of_node(made.nodes["node-01"], user)
    assert (
        found["epsilon"] == 0 and "if 10 people in each sum add their noise" in found["because"][-1]
    )
    # Shares are for the ten people of a sum.
    left = epsilon_of_gaussian(40 * (5 / 10) ** 0.5, 4, 1e-5)
    assert made.terms.proven(5, 4) == pytest.approx(left)


def test_a_receipt_bounds_what_the_answers_so_far_tell(tmp_path: Path) -> None:
    """Of four answers, each of 2.5² / (2 ln 2) bits."""
    made = by_lot(tmp_path / "f", noise=1.0, protect={"clip": 2.5})
    trained(made)
    receipts = [receipt_of_node(folder) for folder in made.nodes.values()]
    found = max(receipts, key=lambda one: one["rounds_answered"])
    assert "at most 18.0 bits of you" in found["part"][3]


@pytest.mark.beside
def test_the_first_user_is_meant_where_none_is_named_and_a_shop_finds_its_customer(
    tmp_path: Path, command: Command
) -> None:
    node = federation(tmp_path / "f", rounds=2, draws="secret").nodes["node-1"]
    first, second = FederatedNode(node).rows.users.ids[:2]
    found = command("receipt", str(node), "--json").json
    assert found["user"] == first
    assert command("receipt", str(node), "--user", second, "--json").json["user"] == second
    shop = tmp_path / "shop"
    shop.mkdir()
    node.rename(shop / name_of(second))
    assert command("receipt", str(shop), "--user", second, "--json").json["user"] == second
    stranger = command("receipt", str(shop), "--user", "nobody")
    assert "none of the 1 customers has that id" in stranger.error
    assert "--user: is missing" in command("receipt", str(tmp_path / "no-node")).error


def asking(folder: Path, **terms: Any) -> Asked:
    return Asked(federation(folder, rounds=9, **{"draws": "secret", **terms}))


def ask(one: Asked, number: int, users: Any = None) -> None:
    assert one.said(one.request(number, users=users))[0] in ("sum", "update")


def names_of(one: Asked) -> list[str]:
    return one.node.rows.users.ids.tolist()


def answered(tmp_path: Path, **terms: Any) -> Asked:
    """Round 0 with all users of a node, round 1 with the first of them alone."""
    one = asking(tmp_path / "f", **terms)
    ask(one, 0)
    ask(one, 1, [0])
    return one


@pytest.mark.beside
def test_who_has_sent_nothing_is_told_so_and_of_no_attack_on_messages(
    tmp_path: Path, command: Command
) -> None:
    one = asking(tmp_path / "f")
    ask(one, 0, [0])
    # A store from before times of answers were noted.
    one.node.store.connection.execute("alter table given_away drop column time")
    other, first = (receipt_of_node(one.node.folder, names_of(one)[place]) for place in (1, 0))
    assert first["rounds"][0]["time"] is None and "time noted" not in first["part"][0]
    assert (
        other["part"] == ["You took no part so far; nothing of you has left this node."]
        and other["because"] == ["Nothing: you did not take part."]
        and other["expected"] == []
    )
    assert "could read" in first["part"][1] and first["expected"]
    known, member, leaving = first["part"][-3:]
    assert "knows that you are a member, and when you answered" in known
    assert "--attack user-membership" in member
    assert "cannot be undone" in leaving
    printed = command("receipt", str(one.node.folder), "--user", names_of(one)[1]).out
    assert (
        "nothing of you has left" in printed
        and "EXPOSED" not in printed
        and "What left" not in printed
    )
    one.node.close()


def test_of_messages_with_numbers_for_every_item_no_row_is_said_to_be_0(tmp_path: Path) -> None:
    one = asking(tmp_path / "f", algorithm="fcf", settings={"factors": 4})
    ask(one, 0, [0])
    found = receipt_of_node(one.node.folder, names_of(one)[0])
    assert found["rows"] is found["positives"] is None and found["numbers"] > 0
    assert any("numbers for every item at once" in said for said in found["part"])
    assert not any("draws are public" in said for said in found["part"])
    one.node.close()


def test_rows_and_positives_of_each_user_are_counted_as_they_leave(tmp_path: Path) -> None:
    one = answered(tmp_path)
    users, ids = one.node.shard.users, names_of(one)
    found = [receipt_of_node(one.node.folder, name) for name in ids]
    assert [len(each["rounds"]) for each in found] == [2] + [1] * (len(ids) - 1)
    kept = [one.node.store.given_away(int(user)) for user in users]
    assert kept[0][0].people == len(users) and kept[0][1].people == 1
    for each, name in zip(found, ids, strict=True):
        assert (
            each["user"] == name
            and each["rows"] == sum(line["rows"] for line in each["rounds"]) > 0
        )
        assert (
            0 < each["positives"] <= each["rows"]
            and each["history"] > 0
            and each["epsilon"] is None
        )
        times = [line["time"] for line in each["rounds"]]
        assert f"time noted is {times[0]}, the last one {times[-1]}." in each["part"][0]
        assert times[0].endswith("+00:00")
    one.node.close()


def test_who_was_once_alone_in_an_answer_is_told_so_and_the_others_are_not(tmp_path: Path) -> None:
    one = answered(tmp_path)
    first, other = (receipt_of_node(one.node.folder, name)["part"][1] for name in names_of(one)[:2])
    assert "could read each answer by itself" in first
    assert f"sums of {len(one.node.shard.users)} users" in other
    one.node.close()


def test_with_public_draws_a_receipt_says_that_nothing_was_counted(tmp_path: Path) -> None:
    one = answered(tmp_path, draws="public")
    found = receipt_of_node(one.node.folder, names_of(one)[0])
    assert found["rows"] is None and found["rounds_answered"] == 2
    assert any("draws are public" in said for said in found["part"])
    one.node.close()
