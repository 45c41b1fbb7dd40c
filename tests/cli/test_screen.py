"""What came from outside is shown through one filter: no title, name or address moves the cursor,
or turns the text around it.
"""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from command_line import Command, write_shop
from hostile_text import HOSTILE, OBEYED

import entrenous
from entrenous.api.progress import progress_bar
from entrenous.cli import main
from entrenous.cli.console import say, table, tell
from entrenous.cli.screen import any_screen
from entrenous.core.cells import harmless, is_formula
from entrenous.core.printed import plain
from entrenous.data.split.read import read

SOURCE = Path(entrenous.__file__).parent
PRINTS = {
    "cli/console.py",
    "cli/__init__.py",
    "api/progress.py",
}  # each through `plain`, `one_line` or JSON


def test_the_filter_leaves_nothing_that_a_terminal_obeys() -> None:
    shown = plain(HOSTILE)
    assert not OBEYED & set(shown) and shown.startswith("ok\\u001b]0;owned\\u0007")
    assert shown.endswith("\\u0085\\ud800\\udb40\\udc41")
    assert plain("naïve ﷺ 日本 👩‍🚀 [bold]") == "naïve ﷺ 日本 👩‍🚀 [bold]"
    assert plain("a\nb\tc", keep="\n") == "a\nb\\u0009c"
    assert json.loads(plain(json.dumps({"a": "\x9b\u202e"}, ensure_ascii=False))) == {
        "a": "\x9b\u202e"
    }


@pytest.mark.parametrize("hostile", [HOSTILE, *sorted(OBEYED)])
def test_no_way_to_the_screen_is_past_the_filter(
    hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    say(f"server {hostile}, WITHOUT TLS")
    tell(f"user {hostile}")
    table([f"title {hostile}"], [[hostile], ["[red]not markup[/red] [link=x]"]], title=hostile)
    out, err = capsys.readouterr()
    assert not (OBEYED - {"\n"}) & set(out + err)
    assert "WITHOUT TLS" in err and err.count("\n") == 1
    assert "[red]not markup[/red]" in out


def test_only_files_that_filter_print() -> None:
    """A bare print anywhere else is a way past the filter."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        if any(isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls):
            found.add(name)
    assert found == PRINTS


def test_hostile_ids_in_a_data_file_reach_the_screen_written_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, data = Command(capsys), tmp_path / "shop.csv"
    rows = "".join(f"u{n % 9}\u009b2K,i{n * 7 % 11}\u202e,{1 + n % 5}\n" for n in range(60))
    data.write_text(f"user_id,item_id,rating\n{rows}", encoding="utf-8")
    command(
        "run", "popular", "--data", data, "--protocol", "random-80-20", "--out", tmp_path / "runs"
    )
    said = command("recommend", "latest", "--user", "u1\u009b2K", "--runs", tmp_path / "runs")
    assert said.code == 0 and "\\u009b" in said.out and "\\u202e" in said.out
    assert not OBEYED & set((said.out + said.err).replace("\n", ""))
    wrong = command(
        "recommend", "latest", "--user", "nobody\x1b[2K\u009b\u202e", "--runs", tmp_path / "runs"
    )
    assert wrong.code == 2 and not OBEYED & set(wrong.err.replace("\n", ""))


# ---- what a spreadsheet would run ----------------------------------------------------------------


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "'=1", "''-1"])
def test_a_cell_that_would_run_is_made_harmless_and_can_be_had_back(text: str) -> None:
    assert is_formula(text) and harmless(text) == f"'{text}"
    frame = pl.DataFrame({"x": [harmless(text)]})
    from entrenous.core.cells import ESCAPED, FORMULA

    assert frame.select(pl.col("x").str.replace(ESCAPED, "${1}")).item() == text
    assert pl.DataFrame({"x": [text]}).select(
        pl.col("x").str.replace(FORMULA, "'${1}")
    ).item() == harmless(text)


def test_export_writes_no_formula_and_says_what_it_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, data = Command(capsys), tmp_path / "shop.csv"
    users = ["=cmd|' /C calc'!A0", "+u1", "-u2", "@u3", "u4", "u5", "u6", "u7"]
    rows = "".join(f'"{users[n % 8]}",=i{n * 7 % 11},{1 + n % 5}\n' for n in range(64))
    data.write_text(f"user_id,item_id,rating\n{rows}", encoding="utf-8")
    command(
        "run", "popular", "--data", data, "--protocol", "random-80-20", "--out", tmp_path / "runs"
    )
    said = command(
        "export", "latest", "--out", tmp_path / "to", "--runs", tmp_path / "runs", "--format", "csv"
    )
    assert said.code == 0 and "a leading '" in said.err and "recommendations.csv" in said.err
    for path in (tmp_path / "to").iterdir():
        for column in pl.read_csv(path, infer_schema=False).iter_columns():
            assert not [
                cell
                for cell in column
                if (cell and cell[0] in "=@\t\r")
                or (cell[:1] in ("+", "-") and not _is_number(cell))
            ]
    best = pl.read_csv(tmp_path / "to" / "recommendations.csv", infer_schema=False)
    assert {f"'{user}" for user in users[:4]} <= set(best["user"]) and set(users[4:]) <= set(
        best["user"]
    )


def test_a_split_written_for_spreadsheets_is_read_back_with_its_own_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, data = Command(capsys), tmp_path / "shop.csv"
    rows = "".join(f"=u{n % 8},@i{n * 7 % 11},{1 + n % 5}\n" for n in range(64))
    data.write_text(f"user_id,item_id,rating\n{rows}", encoding="utf-8")
    said = command("split", data, "--protocol", "random-80-20", "--out", tmp_path / "to")
    assert said.code == 0 and "19 ids got a leading '" in said.err and "reads the split" in said.err
    assert (tmp_path / "to" / "users.csv").read_text().splitlines()[1].startswith("'=u")
    train = read(tmp_path / "to").train
    assert set(train.users.ids) == {f"=u{n}" for n in range(8)}
    assert set(train.items.ids) == {f"@i{n}" for n in range(11)}


def test_progress_shows_a_name_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as progress:
        progress(1, 1, f"trial {HOSTILE}")
    err = capsys.readouterr().err
    assert "trial ok" in err and not (OBEYED - {"\n"}) & set(err)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


# ---- screens that lack characters ----------------------------------------------------------------


def narrow(monkeypatch: pytest.MonkeyPatch, encoding: str) -> tuple[io.BytesIO, io.BytesIO]:
    """Gives this process a stdout and a stderr of an encoding; returns what is written to them."""
    out = io.BytesIO()
    err = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out, encoding=encoding))
    # As Python opens it.
    replacing = io.TextIOWrapper(err, encoding=encoding, errors="backslashreplace")
    monkeypatch.setattr("sys.stderr", replacing)
    return out, err


def test_a_screen_without_a_character_shows_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = narrow(monkeypatch, "latin-1")
    with any_screen():
        table(["hr@10 ↑"], [["日本 ±1 naïve"]])
        say("−1 日")
    sys.stdout.flush()
    sys.stderr.flush()
    shown = out.getvalue().decode("latin-1")
    assert "hr@10 \\u2191" in shown and "\\u65e5\\u672c ±1 naïve" in shown
    assert err.getvalue().decode("latin-1") == "\\u22121 \\u65e5\n"
    # Afterwards the stream is as it was.
    with pytest.raises(UnicodeEncodeError):
        print("↑")


def test_a_run_ends_well_on_a_latin_1_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training was done, and then the arrow of its table was "a bug of entrenous"."""
    monkeypatch.chdir(tmp_path)
    rows = write_shop(tmp_path / "shop.csv")
    names, _, lines = rows.read_text().partition("\n")
    rows.write_text(f"{names}\n{lines.replace(',i', ',日')}", encoding="utf-8")
    command = ["run", "popular", "--data", "shop.csv", "--protocol", "random-80-20"]
    variables = {**os.environ, "PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "entrenous", *command],
        env=variables,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert b"hr@10 \\u2191" in done.stdout and b"bug" not in done.stderr
    asked = ["recommend", next(Path("runs").iterdir()).name, "--user", "u0"]
    for encoding, shown in (("latin-1", "\\u65e5"), ("utf-8", "日")):
        out, _ = narrow(monkeypatch, encoding)
        with pytest.raises(SystemExit):
            main(asked)
        assert shown in out.getvalue().decode(encoding)
