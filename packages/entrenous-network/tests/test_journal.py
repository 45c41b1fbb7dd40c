"""R4 and R5: whatever byte of a checkpoint is wrong it is noticed, and the checkpoint before is
used; a journal or a checkpoint that was cut off anywhere gives what is whole."""

from __future__ import annotations

import errno
import itertools
import os
import random
from pathlib import Path

import numpy as np
import pytest
from entrenous_network.frames.frames import opened
from entrenous_network.server.journal import (
    BEFORE,
    Journal,
    read,
)
from entrenous_network.server.server import serve
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    FPL,
    FaultyLink,
    copied,
    federation,
    linked,
    logged,
    nodes_of,
    server_sha256,
    simulated,
)

from entrenous.core.errors import InputError

SAID = [b"first", b"", bytes(range(256)) * 9, b"\0\0\0"]


def full(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


def written(path) -> list[int]:
    """A journal of SAID, and where each of its records ends."""
    journal, ends = Journal(path), [0]
    for content in SAID:
        journal.append(content)
        ends.append(path.stat().st_size)
    journal.close()
    return ends


def test_r5_journal_cut_at_every_byte(tmp_path):
    """An append that was cut short was never acknowledged: it is gone, and is no damage."""
    ends = written(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    path = tmp_path / "cut"
    boundaries = {end + more for end in ends for more in range(-2, 40)}
    for length in sorted(
        {*range(0, len(content) + 1, 7), *boundaries} & set(range(len(content) + 1))
    ):
        path.write_bytes(content[:length])
        whole = sum(end <= length for end in ends[1:])
        assert read(path) == (SAID[:whole], ends[whole], False), length
        journal = Journal(path)  # goes on after the last whole one
        journal.append(b"after")
        journal.close()
        assert read(path)[::2] == ([*SAID[:whole], b"after"], False), length


def places(ends: list[int]) -> list[tuple[int, int]]:
    """Bytes of a journal of SAID, each with the record that it is a part of: every byte of what is
    before and behind each content, and some of each content."""
    found: list[tuple[int, int]] = []
    for number, (before, after) in enumerate(itertools.pairwise(ends)):
        around = {*range(before, before + BEFORE + 3), *range(after - 7, after)}
        chosen = around.union(range(before, after, 97))
        found += [(at, number) for at in sorted(chosen & set(range(before, after)))]
    return found


def test_a_flipped_bit_ends_what_is_read_and_is_told(tmp_path):
    """Of every bit of lengths, kinds and checksums, and of some of each content: the records before
    it are read, and the journal goes on behind them. The whole file is put aside."""
    ends = written(tmp_path / "j")
    content = (tmp_path / "j").read_bytes()
    for number, (at, damaged) in enumerate(places(ends)):
        path = tmp_path / f"flipped-{number}"
        for bit in range(8):
            flipped = content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]
            path.write_bytes(flipped)
            assert read(path) == (SAID[:damaged], ends[damaged], True), (at, bit)
        for _ in "damaged", "opened again":
            journal = Journal(path)
            assert journal.damaged
            journal.append(b"after")
            journal.close()
        after = [b"after"] * 2
        assert read(path)[::2] == ([*SAID[:damaged], *after], False)
        assert (tmp_path / f"{path.name}.damaged").read_bytes() == flipped


def test_what_a_node_sends_is_never_taken_for_a_record(tmp_path):
    """A frame holds whole journals, and is damaged before them: nothing in it is read as a record
    of the server's.
    """
    written(tmp_path / "other")
    inner = (tmp_path / "other").read_bytes()
    journal = Journal(tmp_path / "j")
    journal.append(b"first", inner * 3, b"last")
    journal.close()
    content = bytearray((tmp_path / "j").read_bytes())
    content[content.index(inner) - 1] ^= 1
    (tmp_path / "j").write_bytes(content)
    assert read(tmp_path / "j").records == [b"first"]


def test_a_server_logs_what_is_damaged_once_and_counts_the_rest(tmp_path):
    """Three of four answers are in the journal when the server starts again; one bit of the second
    is another. The nodes of that one and of the third are asked again, and the model is the one
    that it would have been.
    """
    founded, answers = federation(tmp_path / "f", nodes=4, rounds=1, settings=FPL), list[bytes]()
    other = copied(founded, tmp_path / "other")

    def kept(node):
        def answer(frame):
            said = node.answer(frame)
            answers.extend([said] if opened(said).head.kind == "sum" else [])
            return said

        return answer

    serve(FaultyLink({name: kept(node) for name, node in nodes_of(other).items()}), other.server)
    path = founded.server / "round-000000000-000.journal"
    journal = Journal(path)
    journal.append(*answers[:3])
    journal.close()
    content = bytearray(path.read_bytes())
    content[content.index(answers[1]) + 200] ^= 16
    path.write_bytes(content)
    nodes = nodes_of(founded)
    digest = serve(linked(nodes), founded.server)
    assert digest == server_sha256(simulated(founded))
    lines = [line for line in logged(founded.server) if "damaged" in line]
    said = "is damaged: what cannot be read is asked for again"
    assert lines == [f"{path.name} {said}"]
    assert "round 0: 1 answers from the journal" in logged(founded.server)


@pytest.mark.parametrize(
    "when", ["write", "half a write", "fsync", "fsync, and it cannot be cut off"]
)
def test_r6_what_a_full_disk_did_not_take_is_not_there(when, tmp_path, monkeypatch):
    journal, write, cut = Journal(tmp_path / "j"), os.write, os.ftruncate
    journal.append(b"first")

    def half(file, content):
        monkeypatch.setattr(os, "write", full)
        return write(file, content[: len(content) // 2])

    monkeypatch.setattr(os, "write", {"write": full, "half a write": half}.get(when, write))
    monkeypatch.setattr(os, "fsync", full if "fsync" in when else os.fsync)
    monkeypatch.setattr(os, "ftruncate", full if "cut" in when else cut)
    with pytest.raises(OSError, match=r"No space left on device: '.*j'"):
        journal.append(b"second, which is longer")
    monkeypatch.undo()
    journal.append(b"third")
    journal.close()
    assert not read(tmp_path / "j").damaged
    assert read(tmp_path / "j").records == [b"first", b"third"]


def test_records_that_came_together_wait_for_the_disk_once(tmp_path, monkeypatch):
    journal, flush, waits = Journal(tmp_path / "j"), os.fsync, []

    def flushed(file):
        waits.append(file)
        return flush(file)

    monkeypatch.setattr(os, "fsync", flushed)
    journal.append(b"first", b"second")
    journal.append()
    assert len(waits) == 1
    journal.close()
    assert read(tmp_path / "j").records == [b"first", b"second"]


def test_r2_what_counts_is_on_the_disk_with_its_name(tmp_path, monkeypatch):
    """A machine that loses power keeps the names a folder had when it was last flushed, and the
    bytes a file had. So a new journal's name is flushed before its first record is written, and
    each record before `append` returns.
    """
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
    for content in SAID:
        journal.append(content)
        found = (tmp_path / "j").stat()
        assert bytes_[found.st_ino] == found.st_size
    journal.close()


# ---- checkpoints ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A federation after its 3 rounds."""
    founded = federation(tmp_path_factory.mktemp("trained") / "f", nodes=2)
    nodes = nodes_of(founded)
    serve(linked(nodes), founded.server)
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
            path.write_bytes(
                content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
            )
            number, lines = newest(trained)
            assert number == 2 and len(lines) == 1
            assert path.name in lines[0] and "damaged" in lines[0]  # the file's name says its round
    finally:
        path.write_bytes(content)
    assert newest(trained) == (3, [])


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
    link = linked(nodes)
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
