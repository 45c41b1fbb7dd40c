"""R4 and R5: whatever byte of a checkpoint is wrong it is noticed, and the checkpoint before is used; a journal or a checkpoint that was
cut off anywhere gives what is whole."""

from __future__ import annotations

import errno
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
from dying_processes import journal_and_die
from federation_links import FPL, PATIENCE, FaultyLink, federation, logged, nodes_of, process, server_sha256, simulated

from entrenous.core.errors import InputError
from entrenous.deploy.journal import FRAME, MARK, RECORD, Journal, JournalRecord, records
from entrenous.deploy.node import FederatedNode
from entrenous.deploy.server import serve
from entrenous.deploy.server_folder import ServerFolder

SAID = [(FRAME, b"first"), (MARK, b""), (FRAME, bytes(range(256)) * 9), (MARK, b"\0\0\0")]


def written(path) -> list[int]:
    """A journal of SAID, and where each of its records ends."""
    journal, ends = Journal(path), [0]
    for kind, content in SAID:
        journal.append(kind, content)
        ends.append(path.stat().st_size)
    journal.close()
    return ends


def test_read_back(tmp_path):
    written(tmp_path / "j")
    assert list(records(tmp_path / "j")) == [JournalRecord(*said) for said in SAID]


def test_r5_journal_cut_at_every_byte(tmp_path):
    ends = written(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    path = tmp_path / "cut"
    boundaries = {end + more for end in ends for more in (-1, 0, 1)}
    for length in sorted({*range(0, len(content) + 1, 7), *boundaries} & set(range(len(content) + 1))):
        path.write_bytes(content[:length])
        whole = sum(end <= length for end in ends) - 1
        assert list(records(path)) == [JournalRecord(*said) for said in SAID[:whole]]
        journal = Journal(path)  # goes on after the last whole one
        journal.append(MARK, b"after")
        journal.close()
        assert list(records(path)) == [*(JournalRecord(*said) for said in SAID[:whole]), JournalRecord(MARK, b"after")]


def test_a_changed_byte_ends_the_journal_there(tmp_path):
    ends, rng = written(tmp_path / "j"), random.Random(1)
    content = (tmp_path / "j").read_bytes()
    for _ in range(200):
        at = rng.randrange(len(content))
        (tmp_path / "j").write_bytes(content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :])
        whole = sum(end <= at for end in ends) - 1
        assert list(records(tmp_path / "j")) == [JournalRecord(*said) for said in SAID[:whole]]


def test_lengths_that_lie_cost_nothing(tmp_path):
    (tmp_path / "j").write_bytes(RECORD.pack(2**32 - 1, 0) + b"x" * 50)
    assert list(records(tmp_path / "j")) == []
    (tmp_path / "j").write_bytes(RECORD.pack(0, 0) * 5)
    assert list(records(tmp_path / "j")) == []


@pytest.mark.parametrize("when", ["write", "half a write", "fsync", "fsync, and it cannot be cut off"])
def test_r6_what_a_full_disk_did_not_take_is_not_there(when, tmp_path, monkeypatch):
    journal, write, cut = Journal(tmp_path / "j"), os.write, os.ftruncate
    journal.append(FRAME, b"first")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    def half(file, content):
        monkeypatch.setattr(os, "write", full)
        return write(file, content[: len(content) // 2])

    monkeypatch.setattr(os, "write", {"write": full, "half a write": half}.get(when, write))
    monkeypatch.setattr(os, "fsync", full if "fsync" in when else os.fsync)
    monkeypatch.setattr(os, "ftruncate", full if "cut" in when else cut)
    with pytest.raises(OSError, match=r"No space left on device: '.*j'"):
        journal.append(FRAME, b"second, which is longer")
    monkeypatch.undo()
    journal.append(FRAME, b"third")
    journal.close()
    assert [record.content for record in records(tmp_path / "j")] == [b"first", b"third"]


def test_r2_what_counts_is_on_the_disk_with_its_name(tmp_path, monkeypatch):
    """A machine that loses power keeps the names a folder had when it was last flushed, and the bytes a file had. So a new journal's name
    is flushed before its first record is written, and each record before `append` returns."""
    names, bytes_, flush = set[str](), dict[int, int](), os.fsync

    def flushed(handle):
        found = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if found.is_dir():
            names.update(path.name for path in found.iterdir())
        else:
            bytes_[found.stat().st_ino] = found.stat().st_size
        flush(handle)

    monkeypatch.setattr(os, "fsync", flushed)
    journal = Journal(tmp_path / "j")
    assert names == {"j"} and (tmp_path / "j").stat().st_size == 0
    for kind, content in SAID:
        journal.append(kind, content)
        found = (tmp_path / "j").stat()
        assert bytes_[found.st_ino] == found.st_size
    journal.close()


@pytest.mark.parametrize("step", ["open", "cut off", "open folder", "flush folder", "write", "half a write", "flush"])
def test_r2_killed_while_a_journal_is_made(step, tmp_path):
    """The process dies at each step of making the second round's journal and of its first record; the run ends as it should."""
    founded = federation(tmp_path / "f", nodes=2, rounds=3)
    child = process(journal_and_die, str(tmp_path / "f"), step)
    child.join(PATIENCE)
    assert child.exitcode == -signal.SIGKILL
    assert newest(founded)[0] == 1
    nodes = {path.name: FederatedNode(path) for path in sorted((tmp_path / "f" / "nodes").iterdir())}
    digest = serve(FaultyLink({name: node.answer for name, node in nodes.items()}), founded.server)
    assert digest == server_sha256(simulated(founded))


# ---- checkpoints -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A federation after its 3 rounds."""
    founded = federation(tmp_path_factory.mktemp("trained") / "f", nodes=2)
    nodes = nodes_of(founded)
    serve(FaultyLink({name: node.answer for name, node in nodes.items()}), founded.server)
    return founded


def newest(founded) -> tuple[int, list[str]]:
    """The round that a restarted server goes on from, and what it logs on the way."""
    before = len(logged(founded.server))
    folder = ServerFolder(founded.server)
    try:
        found = folder.newest(founded.terms.make())
    finally:
        folder.close()
    return found[0], logged(founded.server)[before:]


def test_r4_any_changed_byte_of_a_checkpoint_is_noticed(trained):
    path, rng = trained.server / "checkpoint-server-000000003.safetensors", random.Random(2)
    content = path.read_bytes()
    try:
        for _ in range(200):
            at = rng.randrange(len(content))
            path.write_bytes(content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :])
            number, lines = newest(trained)
            assert number == 2 and len(lines) == 1
            assert path.name in lines[0] and "damaged" in lines[0]  # the file's name says its round
    finally:
        path.write_bytes(content)
    assert newest(trained) == (3, [])


def test_r5_a_checkpoint_that_was_cut_off_is_not_used(trained):
    path = trained.server / "checkpoint-server-000000003.safetensors"
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    try:
        for length in {0, 1, 7, 8, 9, header - 1, header, header + 1, *range(0, len(content), 41), len(content) - 1}:
            path.write_bytes(content[:length])
            assert newest(trained)[0] == 2
    finally:
        path.write_bytes(content)


def test_r4_with_no_checkpoint_left_it_does_not_start_anew_by_itself(trained):
    paths = sorted(trained.server.glob("checkpoint-*"))
    whole = {path: path.read_bytes() for path in paths}
    assert len(whole) == 2
    try:
        for path in paths:
            path.write_bytes(b"damaged")
        with pytest.raises(InputError, match="none of its 2 checkpoints can be read"):
            newest(trained)
    finally:
        for path, content in whole.items():
            path.write_bytes(content)


def test_r4_the_rounds_of_a_damaged_checkpoint_are_done_again_to_the_same_bits(tmp_path):
    founded = federation(tmp_path / "f", nodes=3, rounds=5, settings=FPL)
    nodes = nodes_of(founded)
    link = FaultyLink({name: node.answer for name, node in nodes.items()})
    digest = serve(link, founded.server)
    path = founded.server / "checkpoint-server-000000005.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert serve(link, founded.server) == digest == server_sha256(simulated(founded))
    assert any(path.name in line for line in logged(founded.server))
    private = simulated(founded).devices
    for node in nodes.values():
        number, state = node.store.newest_state()
        assert number == 5
        for name, array in state.items():
            assert np.array_equal(array, getattr(private, name)[node.shard.users])
