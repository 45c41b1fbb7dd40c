"""Readers: formats, headers, delimiters, compression, folders and what is said about them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from entrenous.core.errors import InputError
from entrenous.data.columns import find_roles, plain
from entrenous.data.formats import delimited, layout
from entrenous.data.interactions import SECOND
from entrenous.data.load import from_frame, load
from entrenous.data.options import LoadKeywords, LoadOptions
from entrenous.data.table import ColumnTable

ROWS = [
    ("1", "10", "5", "881250949"),
    ("1", "11", "4", "881250950"),
    ("2", "10", "3", "881250951"),
    ("2", "12", "2", "881250952"),
]


def joined(delimiter: str, header: str = "", end: str = "\n") -> str:
    return header + "".join(delimiter.join(row) + end for row in ROWS)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


CSV = joined(",", "user_id,item_id,rating,timestamp\n")
PACKED = gzip.compress(gzip.compress(CSV.encode(), mtime=0), mtime=0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV),
        ("a.csv", joined(",", "userId,movieId,rating,timestamp\n")),
        ("a.csv", joined(",", "UID,Venue ID,Stars,UTC\n", "\r\n")),
        ("a.csv", joined(",")),
        ("a.tsv", joined("\t", "user\titem\tcount\ttime\n")),
        ("u.data", joined("\t")),
        ("ratings.dat", joined("::")),
        ("a.txt", joined(" ")),
        ("a.txt", joined("|")),
        ("a.inter", joined("\t", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n")),
        ("a.CSV", CSV),
        ("a.csv", CSV.replace("10,", '"10",')),
        ("a.csv", "\n" + CSV.replace("\n", "\n\n") + "\n\n"),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("a.csv.bz2", bz2.compress(CSV.encode())),
        ("a.csv.xz", lzma.compress(CSV.encode())),
    ],
)
def test_every_format_is_the_same_data(name: str, content: str | bytes, tmp_path: Path) -> None:
    data = load(write(tmp_path / name, content))
    assert data.users.ids.tolist() == ["1", "2"] and data.items.ids.tolist() == ["10", "11", "12"]
    assert data.item.tolist() == [0, 1, 0, 2]
    assert data.value.tolist() == [5, 4, 3, 2]
    assert data.time is not None and (data.time // SECOND).tolist() == [
        881250949,
        881250950,
        881250951,
        881250952,
    ]
    assert data.name == "a" or name != "a.csv"


def test_parquet_and_zip(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        ROWS, schema=["user_id", "item_id", "rating", "timestamp"], orient="row"
    ).cast(pl.Int64)
    frame.write_parquet(tmp_path / "a.parquet")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("folder/a.csv", CSV)
    left, right = load(tmp_path / "a.parquet"), load(tmp_path / "a.zip")
    assert np.array_equal(left.item, right.item) and np.array_equal(left.time, right.time)


@pytest.mark.parametrize(
    ("first", "orders"),
    [
        (["1", "2"], ["user_id,item_id"]),
        (["1", "2", "3.5"], ["user_id,item_id,rating"]),
        (["1", "2", "881250949"], ["user_id,item_id,timestamp"]),
        (["1", "2", "2014-04-07"], ["user_id,item_id,timestamp"]),
        (["u1", "i1", "3", "881250949"], ["user_id,item_id,rating,timestamp"]),
        (["123456789", "214536502", "3", "881250949"], ["user_id,item_id,rating,timestamp"]),
        (["881250949", "196", "242"], ["user_id,item_id,rating", "timestamp,user_id,item_id"]),
        (["1", "2014-04-07", "214", "3"], ["user_id,timestamp,item_id,rating"]),
        (["1", "2014-04-07T10:51:09.277Z", "214536502"], ["user_id,timestamp,item_id"]),
        (["u1", "i1", "3", "4"], []),
        (["alice", "bread"], []),
        (["1", "2", "x"], []),
        (["1;2;3", "4"], []),
        (["1", "2", "3", "4", "5"], []),
    ],
)
def test_the_columns_that_a_file_without_a_header_may_have(
    first: list[str], orders: list[str]
) -> None:
    assert [",".join(names) for names in layout.readings([first])] == orders


def test_names_make_the_first_line_data(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "bread,alice\nmilk,alice\nbread,bob\neggs,bob\n")
    with pytest.raises(InputError, match=r"a.csv:1: no usual column name among bread, alice"):
        load(path)
    data = load(path, names=["item", "user"])
    assert len(data) == 4 and "bread" in data.items
    with pytest.raises(InputError, match="2 columns; expected 3"):
        load(path, names=["item", "user", "rating"])


def test_a_first_line_that_is_one_quoted_field_is_one_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '"alice,bread"\n1,2\n')
    with pytest.raises(InputError, match=r"a\.csv:1: only one column; expected at least two"):
        load(path)


def headed(*names: str) -> ColumnTable:
    return ColumnTable(frame=pl.DataFrame({name: ["1", "2"] for name in names}), source="x")


def test_usual_names_by_preference_and_without_case() -> None:
    assert plain("User_ID") == plain("userId") == "userid"
    roles = find_roles(headed("movieId", "title", "userId", "Date"), LoadOptions())
    assert roles == ("userId", "movieId", None, "Date")
    assert layout.is_header(["a", "b", "c"], LoadOptions(user="a")) and not layout.is_header(
        ["a", "b", "c"], LoadOptions()
    )
    with pytest.raises(InputError, match="did you mean 'movieId'"):
        find_roles(headed("userId", "movieId"), LoadOptions(item="movie_Id"))
    with pytest.raises(InputError, match="two roles"):
        find_roles(headed("user", "item"), LoadOptions(item="user"))


def test_recbole_headers_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "a.inter", "user_id:token\tuser_id:token\n1\t2\n")
    with pytest.raises(InputError, match=r"a\.inter:1: column name 'user_id' occurs twice"):
        load(path)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('1,"1"0,5,1', "a quote inside a field"),
        ('1,1"0"2,5,1', "a quote inside a field"),
        ('1,"10,5,1', "a quoted field does not end"),
        ('1,"10"",5,1', "a quoted field does not end"),
    ],
)
def test_quotes_must_enclose_a_field(line: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refusal:
        load(write(tmp_path / "a.csv", CSV + line + "\n"))
    assert f"a.csv:6: {says}" in str(refusal.value)


def test_quoted_fields_keep_commas_and_quotes(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.csv", CSV + '"3, three","say ""hi""",1,1\n'))
    assert "3, three" in data.users and 'say "hi"' in data.items


def test_blocks_do_not_change_what_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = CSV + "".join(f"{n},{n % 7},1,881250949\n" for n in range(3, 500))
    path = write(tmp_path / "a.csv", many + "9,9,9\n" + "8,8,8,8\n")
    messages = []
    for block in (64, 1000, 1 << 24):
        monkeypatch.setattr(delimited, "BLOCK", block)
        with pytest.raises(InputError) as refusal:
            load(path)
        messages.append(str(refusal.value))
    assert len(set(messages)) == 1
    assert f"a.csv:{5 + 497 + 1}: 3 columns" in messages[0]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", "x", "the name says JSON (.json), the content is not"),
        ("a.csv", b"\x80\x04.", "the content is a pickle of Python"),
        ("a.csv", b"(lp0\nI1\n", "the content is a pickle of Python"),
        ("a.npz", b"PK\x03\x04" + b"0" * 26 + b"a.npy", "the content is arrays of NumPy"),
        ("a.xls", b"PK\x03\x04" + b"0" * 26 + b"xl/a", "the content is an office document"),
        ("a.csv", b"\x89HDF", "the content is HDF5"),
        ("a.csv", "version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        ("a.csv", "\n<!DOCTYPE html>", "the content is a page"),
        ("a.csv.gz", PACKED, "the content is packed twice, .gz inside .gz"),
        ("a.rda.gz", gzip.compress(b"RDX3\n", mtime=0), "the content is data of R"),
        ("a.txt", "beer/name: a\nbeer/id: 1\n\nbeer/name: b\n", "the content is blocks of key"),
        ("a.txt", "user=1\nitem=a\nuser=2\nitem=b\n", "the content is blocks of key"),
        ("a.csv", ",a,b,c,d\n1,,5,,\n2,,,3,1.5\n", "the content is a table of users by items"),
        ("a.csv", "74,99,99,1,2\n" * 3, "the content is a table of users by items"),
        ("a.csv", bytes(9), "the content is binary"),
        ("a.csv", bytes(range(256)), "the content is binary"),
        ("a.parquet", CSV, "the name says .parquet, the content is something else"),
        ("a.gz", CSV, "the name says .gz, the content is something else"),
        ("a.csv", b"PAR1....PAR1", "the name says .csv, the content is .parquet"),
        ("a.parquet", b"PAR1....PAR", "the Parquet file is cut off"),
        ("a.parquet", b"PAR1....PAR1", "the Parquet file is damaged"),
        ("a.csv", CSV.replace("\n", "\r"), "a.csv:1: lines end in a carriage return alone"),
        ("a.csv", CSV.replace("\n1,11", "\n1\r,11"), "a.csv:3: a carriage return inside the line"),
        ("a.csv", CSV.replace("11", "1\x1b[31m1"), "a.csv:3: a control character (0x1b)"),
    ],
)
def test_what_is_not_a_table_is_refused(
    name: str, content: str | bytes, says: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refusal:
        load(write(tmp_path / name, content))
    assert says in str(refusal.value)


def test_a_path_goes_into_objects(tmp_path: Path) -> None:
    lines = [{"user": {"id": row[0]}, "item": {"film": {"id": int(row[1])}}} for row in ROWS]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    data = load(path, user="user.id", item="item.film.id")
    assert (data.users.ids.tolist(), data.items.ids.tolist()) == (["1", "2"], ["10", "11", "12"])
    with pytest.raises(InputError, match=r"no column 'user\.ix'; did you mean"):
        load(path, user="user.ix", item="item.film.id")


def test_standard_input_is_read(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", CSV)
    line = f"cat {source} | {sys.executable} -m entrenous data check -"
    done = subprocess.run(line, shell=True, capture_output=True, check=True)
    assert done.stdout.startswith(b"OK: Interactions(stdin: ")


def test_a_compressed_file_that_explodes_is_refused(tmp_path: Path) -> None:
    bomb = write(tmp_path / "a.csv.gz", gzip.compress(b"\0" * (80 << 20)))
    with pytest.raises(InputError, match="more than 67,108,864 bytes"):
        load(bomb)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"duplicates": "newest"}, "load duplicates: got 'newest'"),
        ({"bad_share": 1.5}, "load bad_share: got '1.5'; expected less than or equal to 1"),
        ({"bad_share": "nan"}, "load bad_share: got 'nan'; expected a finite number"),
        ({"delimiter": "ab"}, "delimiter: got 'ab'"),
        ({"delimiter": "\n"}, "delimiter: got"),
        ({"encoding": "utf-9"}, "encoding: unknown encoding 'utf-9'"),
        ({"encoding": "zlib"}, "encoding: unknown encoding 'zlib'"),
        ({"scale": (5, 1)}, "scale: got"),
    ],
)
def test_options_that_cannot_be_meant(options: dict, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refusal:
        load(write(tmp_path / "a.csv", CSV), **options)
    assert str(refusal.value).startswith(says)


def folder(tmp_path: Path, files: dict[str, str | bytes]) -> Path:
    path = tmp_path / "films"
    path.mkdir()
    for name, content in files.items():
        write(path / name, content)
    return path


@pytest.mark.parametrize(
    "files",
    [
        {
            "interactions.csv": CSV,
            "items.csv": "item_id,title,genres\n10,Heat,Crime|Drama\n12,Zwölf,War\n",
        },
        {
            "ratings.csv": CSV,
            "movies.csv": 'movieId,title,genres\n12,"Zwölf",War\n10,Heat,Crime|Drama\n',
        },
        {
            "ratings.dat": joined("::"),
            "movies.dat": "10::Heat::Crime|Drama\n12::Zwölf::War\n".encode("latin-1"),
        },
        {"ratings.dat": joined("::"), "movies.dat": "10::Heat::Crime|Drama\n12::Zwölf::War\n"},
        {
            "films.inter": joined(
                "\t", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
            ),
            "films.item": (
                "item_id:token\tmovie_title:token_seq\tgenre:token_seq\n10\tHeat\tCrime"
                " Drama\n12\tZwölf\tWar\n"
            ),
        },
    ],
    ids=["own", "latest", "1m", "10m", "recbole"],
)
def test_folders_with_titles_and_categories(files: dict[str, str | bytes], tmp_path: Path) -> None:
    data = load(folder(tmp_path, files))
    assert data.name == "films"
    assert data.features["title"].tolist() == ["Heat", "", "Zwölf"]
    assert data.features["category"].tolist() == ["Crime|Drama", "", "War"]


def test_items_beside_a_file(tmp_path: Path) -> None:
    rows = write(tmp_path / "a.csv", CSV)
    films = write(tmp_path / "films.csv", "item_id,name\n10,Heat\n")
    assert load(rows, items=films).features["title"].tolist() == ["Heat", "", ""]


def test_a_folder_without_known_files_and_one_with_too_many(tmp_path: Path) -> None:
    path = folder(tmp_path, {"notes.txt": "hello"})
    with pytest.raises(
        InputError, match=r"it is a folder without known files; expected interactions\.parquet"
    ):
        load(path)
    for name in ("a.inter", "b.inter"):
        write(path / name, "user_id:token\titem_id:token\n1\t2\n")
    with pytest.raises(InputError, match="without known files"):
        load(path)


def test_keywords_of_load_are_its_options() -> None:
    """`LoadKeywords` is what editors show, `LoadOptions` is what is checked: the same names."""
    assert set(LoadKeywords.__annotations__) == set(LoadOptions.model_fields)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"delimiter": ";"}, "from_frame delimiter: it is an option of files"),
        ({"usr": "a"}, "from_frame usr: unknown setting; did you mean 'user'?"),
    ],
)
def test_a_frame_refuses_options_of_files_and_unknown_ones(option: dict, says: str) -> None:
    with pytest.raises(InputError) as refusal:
        from_frame([("a", "x"), ("b", "y")], **option)
    assert says in str(refusal.value)
