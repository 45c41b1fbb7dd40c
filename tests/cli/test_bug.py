"""A bug of ours is one line too; the developer asks for the traceback."""

from __future__ import annotations

import pytest

from entrenous import cli


def broken(arguments: object) -> None:
    raise ZeroDivisionError("division by zero")


def test_a_bug_is_one_line_and_exit_code_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_run", broken)
    with pytest.raises(SystemExit) as left:
        cli.main(["runs"])
    said = capsys.readouterr()
    assert left.value.code == 70 and said.out == ""
    assert said.err.startswith(
        "error: a bug of entrenous, please report it: ZeroDivisionError: division by zero"
    )
    assert said.err.count("\n") == 1


def test_the_developer_sees_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_run", broken)
    monkeypatch.setenv("ENTRENOUS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["runs"])
