"""Fuzzing: whatever bytes a file holds, it loads or is refused with an InputError of one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import zipfile
from pathlib import Path

import polars as pl
import pytest

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.load import load

FILES = 1_000
ROWS = [
    (user, item, 1 + (user * item) % 5, 881_250_949 + 60 * user + item)
    for user in range(1, 7)
    for item in range(1, 9)
    if (user + item) % 3
]
TOKENS = [
    b"",
    b",",
    b";",
    b"\t",
    b"::",
    b"|",
    b" ",
    b"\n",
    b"\r",
    b"\r\n",
    b'"',
    b'""',
    b"'",
    b"\\",
    b"#",
    b"\x00",
    b"\x1a",
    b"\x1f",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc3\xa9",
    b"\xe9",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x8e\xac",
    b"x" * 300,
    b"x" * 70_000,
    b"7" * 40,
    b"-1",
    b"nan",
    b"inf",
    b"1e999",
    b"1.0",
    b"1,5",
    b"1.234.567",
    b"0x1f",
    b"None",
    b"null",
    b"=cmd()",
    b"9" * 20,
    b"9223372036854775807",
    b"881250949000",
    b"user_id",
    b"item_id",
    b"user_id:token",
    b"{",
    b"}",
    b"[" * 3_000,
    b'{"user_id": ',
    b"u'",
    b"1:\n",
    b"sep=;\n",
    b"% 1 2\n",
    b"rating:float",
    b"2012-04-03T18:00:09Z",
    b"Tue Apr 03 18:00:09 +0000 2012",
]


def originals() -> dict[str, bytes]:
    """Well-formed files of every kind that is read."""
    plain = ["user_id,item_id,rating,timestamp", *(",".join(map(str, row)) for row in ROWS)]
    csv = ("\n".join(plain) + "\n").encode()
    frame = pl.DataFrame(ROWS, schema=["user_id", "item_id", "rating", "timestamp"], orient="row")
    parquet, archive = io.BytesIO(), io.BytesIO()
    frame.write_parquet(parquet)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("ratings.csv", csv)
    typed = csv.replace(b",", b"\t").split(b"\n", 1)[1]
    return {
        "a.csv": csv,
        "b.csv": re.sub(rb"(?m)^(\d+),", rb'"\1, ""no"", \1",', csv).replace(b"\n", b"\r\n"),
        "c.tsv": csv.replace(b",", b"\t"),
        "d.inter": b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + typed,
        "e.dat": csv.split(b"\n", 1)[1].replace(b",", b"::"),
        "f.txt": csv.split(b"\n", 1)[1].replace(b",", b" "),
        "g.csv.gz": gzip.compress(csv, mtime=0),
        "h.csv.bz2": bz2.compress(csv),
        "i.csv.xz": lzma.compress(csv),
        "j.csv.zip": archive.getvalue(),
        "k.parquet": parquet.getvalue(),
        **other_layouts(),
    }


def other_layouts() -> dict[str, bytes]:
    """Well-formed files that are no tables: JSON, lists of items, impressions."""
    objects = "".join(f'{{"user_id": {n % 5}, "item_id": "i{n}"}}\n' for n in range(30))
    # Lines of several lengths, as lists have them.
    items = {n: range(n, n + 2 + n % 4) for n in range(9)}
    lists = "".join(f"{n} {' '.join(map(str, each))}\n" for n, each in items.items())
    shown = "".join(f"{n}\tU{n}\t11/11/2019 9:05:58 AM\tN1 N2\tN{n}-1 N99-0\n" for n in range(9))
    files = {
        "l.jsonl": objects,
        "n.json": objects.replace('"', "'"),
        "p.txt": lists,
        "q.tsv": shown,
    }
    return {name: text.encode() for name, text in files.items()}


def mutate(raw: bytes, rng: random.Random) -> bytes:
    """One to four random changes: a token put in or over, bytes flipped, a piece cut, doubled or
    moved, the end cut.
    """
    for _ in range(rng.choice([1, 1, 2, 4])):
        at, length = rng.randrange(len(raw) + 1), rng.choice([0, 1, 1, 2, 10, 100])
        piece = raw[at : at + length]
        match rng.randrange(6):
            case 0:
                raw = raw[:at] + rng.choice(TOKENS) + raw[at + length :]
            case 1:
                raw = (
                    raw[:at]
                    + bytes(byte ^ (1 << rng.randrange(8)) for byte in piece)
                    + raw[at + length :]
                )
            case 2:
                raw = raw[:at] + raw[at + length :]
            case 3:
                raw = raw[:at] + piece * 2 + raw[at + length :]
            case 4:
                raw = raw[:at]
            case 5:
                to = rng.randrange(len(raw) + 1)
                raw = raw[:to] + piece + raw[to:]
    return raw


def test_1000_mutated_files_load_or_are_refused(tmp_path: Path) -> None:
    rng, files, loaded = random.Random(0), originals(), 0
    for number in range(FILES):
        name = rng.choice(list(files))
        raw, path = mutate(files[name], rng), tmp_path / name
        path.write_bytes(raw)
        try:
            check(load(path))
            loaded += 1
        except InputError as refusal:
            message = str(refusal)
            assert message.isprintable() and len(message) <= 600, (
                f"file {number} ({name}): {message!r}"
            )
        except BaseException as other:
            raise AssertionError(
                f"file {number} ({name}) raised {type(other).__name__}: {other}"
            ) from other
    assert FILES * 0.1 < loaded < FILES * 0.9  # both outcomes are met


def check(data: Interactions) -> None:
    """What holds of every Interactions that was read."""
    assert data.ptr[0] == 0 and data.ptr[-1] == len(data) == len(data.value)
    assert (data.counts > 0).all() and (data.popularity > 0).all()
    assert len(set(data.users.ids.tolist())) == len(data.users) >= 2


@pytest.mark.beside
def test_the_originals_load(tmp_path: Path) -> None:
    for name, raw in originals().items():
        (tmp_path / name).write_bytes(raw)
        assert len(load(tmp_path / name)) > 20, name
