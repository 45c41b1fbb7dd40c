"""Whole files as people have them, after reports from the field: formats that are recognised by
their content, columns that could be read two ways, and lines around the table.
"""

from __future__ import annotations

import gzip
import json
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from read_files import pairs, put, refused, said

from entrenous.core.errors import InputError
from entrenous.data.interactions import SECOND
from entrenous.data.load import from_frame, load

# ---- JSON ----------------------------------------------------------------------------------------

REVIEWS = [
    {"user_id": "007", "asin": "B0", "rating": 5.0, "text": 'a\n"b"', "timestamp": 1588687728923},
    {"user_id": 7, "asin": "B1", "rating": 3, "text": None, "timestamp": 1588687728924},
    {"user_id": 18446744073709551615, "asin": "B2", "rating": 4.5, "timestamp": 1588687728925},
]
JSON_LINES = "".join(json.dumps(row) + "\n" for row in REVIEWS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", JSON_LINES),
        ("a.ndjson", JSON_LINES.replace("\n", "\r\n")),
        ("a.json", JSON_LINES.rstrip()),
        ("a.json.gz", gzip.compress(JSON_LINES.encode(), mtime=0)),
        ("a.txt", "\n\n" + JSON_LINES),
        ("a.json", "".join(repr(row) + "\n" for row in REVIEWS)),
    ],
)
def test_json_by_content(name: str, content: str | bytes, tmp_path: Path) -> None:
    """Case 13: TiSASRec.pytorch#8, librec#145; RecBole#2017 for Python's own spelling."""
    data = load(put(tmp_path, name, content))
    assert pairs(data) == [("007", "B0"), ("18446744073709551615", "B2"), ("7", "B1")]
    assert data.value.tolist() == [5, 4.5, 3]
    assert data.time is not None and data.time.max() == 1588687728925 * SECOND // 1000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            '{"user_id": 1, "item_id": 2}\n{"user_id": 1, "item_id"\n',
            "a.json:2: the line is no whole",
        ),
        ('{"user_id": 1, "item_id": 2}\n[1, 2]\n', "a.json:2: it is a list"),
        ('\n[{"user_id": 1,\n "item_id": 2}]', "a.json:1: the file is one list"),
        ("[]", "a.json:1: the file is one list"),
        ('{\n"user_id": 1\n}', "a.json:1: the line is no whole JSON object"),
        ('{"user_id": {"0": 1}, "item_id": {"0": 2}}', "to_json(orient="),
        ('{"user_id": 1, "user_id": 2}\n', "a key occurs twice"),
        ('{"user_id": 1, "item_id": "x"}\n{"user_id": 1.0, "item_id": "y"}\n', "a.json:2: user id"),
        ('{"user_id": [1], "item_id": "x"}\n' * 2, "the user column 'user_id' holds lists"),
        ('{"a": ' + "[" * 100_000 + "\n", "a.json:1: the line is no whole JSON object"),
        ("{'a': " + "-" * 100_000 + "1}\n", "a.json:1: the line is no whole JSON object"),
        (
            '{"user_id": 1, "item_id": 2}\n' + "{'user_id': 1, 'item_id': 3}\n",
            "all as dictionaries of Python",
        ),
        # Reviews and games of Steam, a person a line.
        (
            "{'user_id': 'u', 'item_id': [{'id': '7', 'playtime': 6}]}\n" * 2,
            "a.json:1: the item column 'item_id' holds lists or objects",
        ),
        (
            '{"user_id": null, "item_id": 3}\n{"user_id": {"id": "u"}, "item_id": 2}\n',
            "a.json:2: the user column 'user_id' holds lists or objects",
        ),
        (
            '{"user_id": 1, "item_id": 2, "rating": {"stars": 3}}\n' * 2,
            "a.json:1: the value column 'rating' holds lists or objects",
        ),
        (
            '{"user_id": 1, "item_id": 2, "timestamp": [3]}\n' * 2,
            "a.json:1: the time column 'timestamp' holds lists or objects",
        ),
        ("{'a': __import__('os').getcwd()}\n", "a.json:1: the line is no whole JSON object"),
        ("x,y\n", "the name says JSON (.json), the content is not"),
    ],
)
def test_json_that_is_no_table(content: str, says: str, tmp_path: Path) -> None:
    assert says in refused(put(tmp_path, "a.json", content))


def test_json_of_many_objects_keeps_late_keys(tmp_path: Path) -> None:
    early = [json.dumps({"user_id": n % 90, "item_id": n}) for n in range(20_001)]
    late = [json.dumps({"user_id": 1, "item_id": -1, "rating": 2, "genres": ["a", "b"]})]
    message = refused(put(tmp_path, "a.jsonl", "\n".join(early + late)))
    assert "a.jsonl:1: the value is empty" in message
    data = load(tmp_path / "a.jsonl", value="")
    assert len(data) == 20_002


# ---- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "line", "names"),
    [
        ("clicks.dat", "{u},2014-04-07T10:51:09.277Z,2145365{u},4", "user_id,timestamp,item_id,"),
        ("a.csv", "88125094{u},19{u},24{u}", "timestamp,user_id,item_id"),
        ("b.csv", "{u},2014-04-07,2145365{u}", "user_id,timestamp,item_id"),
        ("even.txt", "{u} 5{u} 6{u} 7{u}", "user_id,item_id,rating"),
        ("pair.txt", "{u} 5{u} 6{u}", "user_id,item_id,rating"),
        ("Beauty.csv", "B00000000{u},A000000000{u},5.0,149000000{u}", "item_id,user_id,rating"),
    ],
)
@pytest.mark.beside
def test_columns_that_could_be_read_two_ways(
    name: str, line: str, names: str, tmp_path: Path
) -> None:
    """Cases 05 and 14: Surprise#386, #454; the clicks of yoochoose."""
    path = put(tmp_path, name, "".join(line.format(u=user) + "\n" for user in range(1, 6)))
    message = refused(path)
    assert f"{name}:1: " in message and f"--load names={names}" in message
    # The remedies that it prints get further.
    for option in message.split("--load ")[1:]:
        option_name, _, value = option.split(" ")[0].partition("=")
        assert len(load(path, **{option_name: value.split(",") if "," in value else value}))


def test_a_header_that_may_be_a_row(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "u,i,3\nv,j,4\nw,k,5\n")
    message = refused(path)
    assert "may be a header or a row" in message and "names=user_id,item_id,column3" in message
    assert len(load(path, names=["user_id", "item_id", "rating"])) == 3
    assert len(load(path, user="u", item="i")) == 2


def test_a_time_in_the_third_place(tmp_path: Path) -> None:
    """Case 25: RecBole#1653."""
    rows = [(1, 11, 1593878903), (2, 12, 1593878904), (3, 13, 1593878905)]
    data = from_frame(rows)
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    file = load(put(tmp_path, "a.csv", text))
    assert data.time is not None and file.time is not None
    assert data.time.tolist() == file.time.tolist() == [t * SECOND for _, _, t in rows]
    assert set(data.value) == {1}
    assert from_frame([(1, 11, 4.5), (2, 12, 3)]).time is None


# ---- ids -----------------------------------------------------------------------------------------


def test_ids_of_64_unsigned_bits_and_more(tmp_path: Path) -> None:
    """Case 17: NVTabular#770. The order is that of the numbers."""
    ids = [2**64 - 1, 9446744073709551615, 12, 10**30]
    text = "user_id,item_id\n" + "".join(f"{name},{row}\n" for row, name in enumerate(ids))
    data = load(put(tmp_path, "a.csv", text))
    assert data.users.ids.tolist() == [str(name) for name in sorted(ids)]
    frame = pl.DataFrame({"user_id": pl.Series(ids[:3], dtype=pl.UInt64), "item_id": [1, 2, 3]})
    frame.write_parquet(tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet").users.ids.tolist() == ["12", *map(str, ids[1::-1])]


def test_uuids_and_mixed_kinds_in_frames() -> None:
    """Case 18: Merlin#1093, LibRecommender#167."""
    names = [uuid.UUID(int=number) for number in range(3)]
    data = from_frame(pd.DataFrame({"user_id": names, "item_id": ["x", "y", "z"]}))
    assert data.users.ids.tolist() == [str(name) for name in names]
    mixed = from_frame(pd.DataFrame({"user_id": [1, "a", 2], "item_id": ["x", "y", "z"]}))
    assert mixed.users.ids.tolist() == ["1", "2", "a"]
    assert from_frame([("u", "x", 4), ("v", "y", 3.5), ("w", "z", 5)]).value.tolist() == [4, 3.5, 5]


# ---- around the table ----------------------------------------------------------------------------

TABLE = "user_id,item_id,rating\n1,a,3\n1,b,4\n2,c,5\n"


@pytest.mark.parametrize(
    ("name", "content", "note"),
    [
        (
            "konect.tsv",
            "% bip weighted\n% 3 2 3\n1\t1\t5\t1000000000\n2\t3\t3\t1000000002\n",
            "comment",
        ),
        ("snap.txt", "# Directed graph\n# FromNodeId\tToNodeId\n0\t4\n0\t5\n1\t2\n", "comment"),
        (
            "named.txt",
            "# made by hand\n# user_id item_id rating\nann x 1\nbob y 2\n",
            "named by a comment",
        ),
        ("title.csv", "# exported, by the shop\n" + TABLE, "comment"),
        ("excel.csv", "sep=;\n" + TABLE.replace(",", ";"), "declares the delimiter ';'"),
        (
            "spare.csv",
            TABLE.replace("3\n", "3,\n").replace("4\n", "4,\n").replace("5\n", "5,\n"),
            "rows end",
        ),
        ("blanks.txt", "1  4  5\n1  5   4\n 2 6  3 \n", "several blanks"),
        ("dos.csv", TABLE.replace("\n", "\r\n") + "\x1a", "DOS"),
        (
            "unread.csv",
            TABLE.replace("\n", ",x\n").replace("g,x", "g,note").replace("4,x", "4,\x0b"),
            "unread.csv:3",
        ),
        (
            "nul.csv",
            TABLE.replace("\n", ",x\n").replace("g,x", "g,note").replace("4,x", "4,\0"),
            "nul.csv:3",
        ),
        ("mysql.csv", TABLE.replace(",", ";").replace("b", '"say \\"b\\""'), "MySQL"),
    ],
)
def test_around_the_table(name: str, content: str, note: str, tmp_path: Path) -> None:
    """Cases 31, 32 and 33: KONECT, SNAP, Excel, Surprise#40, skyfield#707, communitynotes#411."""
    options = {"delimiter": ";"} if name == "mysql.csv" else {}
    data = load(put(tmp_path, name, content), **options)
    assert len(data) in (2, 3) and said(data, note), data.notes


@pytest.mark.parametrize(
    ("content", "at", "says"),
    [
        ("Export of the shop\n\n" + TABLE, 1, "skip_lines=2"),
        ("Export, 3 May, of the shop\n" + TABLE, 1, "skip_lines=1"),
        ("#1,2,3\n4,5,6\n", 1, "may be a comment or a row"),
        (TABLE.replace("b", "\x1b[1m"), 3, "a control character (0x1b) in column 'item_id'"),
        (TABLE.replace("user", "us\0er"), 1, "a NUL byte"),
        ("# nothing but this\n", 0, "blank lines or comments"),
        ('"user_id","item_id"\n"1","u","x"\n"2","v","y"\n', 2, "names=row,user_id,item_id"),
        (TABLE + '3,"d,4\n4,"e"x,4\n', 5, "does not end in its line"),
        (TABLE + '3,"e"x,4\n3,"d,4\n', 5, "a quote inside a field"),
        (TABLE + "3,d\n3,e,4,5\n", 5, "2 columns"),
        (TABLE + "3,d\n3," + "e" * 70_000 + ",4\n", 5, "2 columns"),
        (TABLE + "3," + "e" * 70_000 + ",4\n3,d\n", 5, "70,004 bytes long"),
    ],
)
def test_lines_that_are_no_rows(content: str, at: int, says: str, tmp_path: Path) -> None:
    message = refused(put(tmp_path, "a.csv", content))
    assert says in message and (not at or f"a.csv:{at}: " in message), message


def test_skipped_lines_and_names_of_r(tmp_path: Path) -> None:
    title = put(tmp_path, "a.csv", "Export, 3 May\nof, the shop\n" + TABLE)
    data = load(title, skip_lines=2)
    assert len(data) == 3 and said(data, "skipped, as declared: 2")
    with_rows = put(tmp_path, "r.csv", '"user_id","item_id"\n"1","u","x"\n"2","v","y"\n')
    assert len(load(with_rows, names=["row", "user_id", "item_id"], skip_lines=1)) == 2


@pytest.mark.parametrize("delimiter", ["\t", "|", " "])
def test_quoted_fields_without_commas(delimiter: str, tmp_path: Path) -> None:
    """Case 07: dietdatabase#43, readr#1402."""
    rows = ['"user_id"|"item_id"|"rating"', '"ann"|"x|y"|3', '"ann"|"y"|4', '"bob"|"z"|5']
    text = "\n".join(rows).replace("|", delimiter) + "\n"
    data = load(put(tmp_path, "a.txt", text))
    assert data.users.ids.tolist() == ["ann", "bob"] and f"x{delimiter}y" in data.items
    assert said(data, "quotes around fields")
    loose = load(put(tmp_path, "b.tsv", 'user_id\titem_id\nann\t"al" yank\nbob\t5" disc\n'))
    assert '"al" yank' in loose.items and said(loose, "quotes are part of the fields")


def test_lines_that_cannot_be_split_may_be_left_out(tmp_path: Path) -> None:
    good = [f"u{n},i{n % 7},3" for n in range(300)]
    bad = ["u,i", 'u,"i,3', 'u,"i"x,3', ""]
    lines = ["user_id,item_id,rating", *good[:100], *bad, *good[100:]]
    path = put(tmp_path, "a.csv", "\n".join(lines) + "\n")
    assert "a.csv:102: 2 columns" in refused(path)
    data = load(path, bad_rows="drop")
    assert len(data) == 300
    assert [(entry.rows, entry.first) for entry in data.reading.left_out] == [
        (1, f"{path}:103"),
        (1, f"{path}:104"),
        (1, f"{path}:102"),
    ]
    # The lines behind them keep their numbers.
    wrong = put(tmp_path, "b.csv", path.read_text() + "u1,i1,x\n")
    left_out = load(wrong, bad_rows="drop", bad_share=0.02).reading.left_out
    assert left_out[-1].first == f"{wrong}:{len(lines) + 1}"
    assert "4 of 304 rows are bad" in refused(wrong, bad_rows="drop")
    cut = put(tmp_path, "c.csv", path.read_text() + "u1,i")
    message = refused(cut, bad_rows="drop")
    assert f"c.csv:{len(lines) + 1}: 2 columns" in message and "seems cut off" in message


# ---- the file of items ---------------------------------------------------------------------------


def test_the_file_of_items_is_read_as_the_rows_or_as_utf_8(tmp_path: Path) -> None:
    """Case 10: ml4dummies_2ed#2."""
    rows = put(tmp_path, "ratings.csv", TABLE.replace(",", ";"))
    titles = "item_id;title\na;Caf\xe9\nb;M\xfcller\n"
    books = put(tmp_path, "books.csv", titles.encode("latin-1"))
    like_rows = load(rows, delimiter=";", encoding="latin-1", items=books)
    assert like_rows.features["title"].tolist() == ["Caf\xe9", "M\xfcller", ""]
    message = refused(rows, delimiter=";", items=books)
    assert "books.csv:2" in message and "write it in UTF-8" in message


# ---- other layouts -------------------------------------------------------------------------------


def test_a_damaged_table_is_no_list_of_items(tmp_path: Path) -> None:
    times = "".join(f"{user} {user + 5} 3 88125094{user}\n" for user in range(1, 9))
    message = refused(put(tmp_path, "a.txt", times + "9 14 3\n"))
    assert "a.txt:9: 3 columns" in message


def test_folders_of_parts(tmp_path: Path) -> None:
    """Case 39: NVTabular#1809; what Spark, Dask and Merlin write."""
    header = "user_id,item_id,timestamp\n"
    for part in range(12):
        row = "" if part == 5 else f"{part},{part % 3},15000000{part:02d}\n"
        put(tmp_path, f"out.csv/part-{part}.csv", header + row)
    put(tmp_path, "out.csv/_SUCCESS", "")
    put(tmp_path, "out.csv/.part-0.csv.crc", "x")
    put(tmp_path, "out.csv/part-12.csv", "")
    data = load(tmp_path / "out.csv")
    assert len(data) == 11 and said(data, "parts of one table: 11")
    assert said(data, "parts without rows, left out: 2")
    # In the order of their numbers: part-10 follows part-9.
    assert data.row is not None and data.row.tolist() == list(range(11))
    put(tmp_path, "out.csv/part-11.csv", header + "1,x,y\n")
    assert "part-11.csv:2: the time 'y'" in refused(tmp_path / "out.csv")
    (tmp_path / "dask").mkdir()
    for part in range(2):
        frame = pl.DataFrame({"user_id": [part, 9], "item_id": ["a", "b"]})
        frame.write_parquet(tmp_path / f"dask/part.{part}.parquet")
    assert len(load(tmp_path / "dask")) == 3


def test_parts_that_differ(tmp_path: Path) -> None:
    put(tmp_path, "js/part-0.json", '{"user_id": 1, "item_id": 2}\n')
    put(tmp_path, "js/part-1.json", '{"user_id": 2, "item_id": 3, "rating": 3}\n')
    assert "part-0.json:1: the value is empty" in refused(tmp_path / "js")
    put(tmp_path, "csv/part-0.csv", "user_id,item_id\n1,2\n")
    put(tmp_path, "csv/part-1.csv", "user_id,item_id,rating\n2,3,3\n")
    assert "part-1.csv: its columns differ from those of" in refused(tmp_path / "csv")


def test_folders_by_the_values_of_columns(tmp_path: Path) -> None:
    """As Hive, Spark, pandas and polars write them, whose files have any name."""
    for folder, user in (("rating=5/x=a%20b", "9"), ("rating=4/x=__HIVE_DEFAULT_PARTITION__", "7")):
        put(tmp_path, f"log/{folder}/8af-0.csv", f"user_id,item_id\n{user},1\n{user},2\n1,{user}\n")
    data = load(tmp_path / "log", items=put(tmp_path, "items.csv", "item_id,title\n1,A\n"))
    assert data.value.tolist() == [4, 5, 4, 4, 5, 5]
    assert said(data, "the names of folders give a column: x")
    (tmp_path / "log/rating=5/loop").symlink_to(tmp_path / "log")
    assert "loop: it is a folder" in refused(tmp_path / "log")
    put(tmp_path, "log/_delta_log/0.json", "{}")
    assert "a log (_delta_log) says which of its files count" in refused(tmp_path / "log")


def test_parts_of_a_published_split(tmp_path: Path) -> None:
    from entrenous.data.split.read import read

    train = "1\t1\t5\t881250949\n1\t2\t4\t881250950\n2\t1\t3\t881250951\n3\t3\t3\t881250951\n"
    for number in (1, 2):
        put(tmp_path, f"ml/u{number}.base", train)
        put(tmp_path, f"ml/u{number}.test", "2\t2\t4\t881250960\n")
    with pytest.raises(InputError, match=r"it holds 2 splits: u1, u2; .* such as .*u1"):
        read(tmp_path / "ml")
    for name in ("u2", "u2.base", "u2.test"):
        assert len(read(tmp_path / "ml" / name).train) == 4
    header = "user_id:token\titem_id:token\n"
    for part, row in (("train", "1\t1\n2\t3\n"), ("valid", "1\t3\n"), ("test", "2\t1\n")):
        put(tmp_path, f"toy/toy.{part}.inter", header + row)
    split = read(tmp_path / "toy")
    assert split.validation is not None and len(split.test.rows) == 1
    with pytest.raises(InputError, match="no test file"):
        read(put(tmp_path, "half/x.train.inter", header))


def test_one_long_id_and_one_long_title_cost_little() -> None:
    """Case 38: NVTabular#770."""
    users = [f"user{number}" for number in range(5_000)]
    item = [number % 50 for number in range(len(users))]
    titles = {"item_id": list(range(50)), "title": ["x"] * 49 + ["y" * 300]}
    short = from_frame({"user_id": users, "item_id": item}, items=titles)
    long = from_frame({"user_id": ["x" * 250, *users[1:]], "item_id": item}, items=titles)
    assert long.users.ids.nbytes <= short.users.ids.nbytes
    assert short.features["title"].nbytes <= 8 * 50
    assert np.array_equal(long.users.ids, sorted(["x" * 250, *users[1:]]))
