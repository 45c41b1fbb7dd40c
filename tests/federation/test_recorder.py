"""What the recorder takes down is what devices send: all of it, under its declared names, in the
order of the users.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mean_embedding import MeanEmbedding

from entrenous.core.contract.update import Update, real
from entrenous.core.keys import key, local_key
from entrenous.data.synthetic import synthetic
from entrenous.federation.recorder import Recorder
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads


@pytest.fixture(scope="module")
def data() -> Any:
    return synthetic(users=30, items=40, interactions=300, seed=0)


def recorded(
    data: Any, view: Any, *, threads: int = 1, block: int = 0, limits: Any = ()
) -> tuple[Rounds, Recorder, Any]:
    recorder = Recorder(view)
    rounds = Rounds(
        MeanEmbedding(),
        data,
        executor=Threads(threads),
        block=block,
        limits=limits,
        recorder=recorder,
    )
    return rounds, recorder, rounds.advance(rounds.start(), 2)


def test_each_update_is_recorded_as_it_was_sent(data: Any) -> None:
    rounds, recorder, _ = recorded(data, "individual", threads=2, block=7)
    start, users = rounds.start(), np.arange(30)
    number = np.uint64(local_key(key(0, "rounds"), 0))
    _, update = rounds.algorithm.local(
        start.server, start.devices, data.histories(users), users, number
    )
    seen = recorder.rounds[0]
    assert (seen.round, recorder.rounds[1].round) == (0, 1) and seen.users.tolist() == list(
        range(30)
    )
    assert list(seen.sent) == ["ptr", "item", "q", "weight"]
    for name, expected in (
        ("ptr", update.ptr),
        ("item", update.item),
        ("q", update.rows["q"]),
        ("weight", update.weight),
    ):
        assert seen.sent[name].tobytes() == expected.tobytes(), name
    assert seen.received["q"].tobytes() == start.server.q.tobytes()


def test_a_sum_is_what_the_server_adds_up(data: Any) -> None:
    single, summed = (recorded(data, view)[1].rounds[0].sent for view in ("individual", "sum"))
    q = np.zeros((40, 4))
    np.add.at(
        q, single["item"], real(np.rint(single["q"].astype(np.float64) * 2**16).astype(np.int64))
    )
    assert (
        np.array_equal(summed["q"], q)
        and summed["senders"].tolist() == np.bincount(single["item"], minlength=40).tolist()
    )
    assert (
        summed["weight"].tolist() == [single["weight"].sum()]
        and "item" not in summed
        and "ptr" not in summed
    )


def test_recording_changes_no_result_and_sees_what_limits_leave(data: Any) -> None:
    plain = Rounds(MeanEmbedding(), data)
    expected = plain.advance(plain.start(), 2)
    assert recorded(data, "individual")[2].server.q.tobytes() == expected.server.q.tobytes()

    def halved(update: Update, keys: Any) -> Update:
        return update._replace(rows={name: row / 2 for name, row in update.rows.items()})

    _, recorder, _ = recorded(data, "individual", limits=[halved])
    whole = recorded(data, "individual")[1].rounds[0].sent["q"]
    assert np.array_equal(recorder.rounds[0].sent["q"], whole / 2)
