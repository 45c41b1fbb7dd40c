"""What an operator or a node wrote is shown through the filter, on the screen and in the log."""

from __future__ import annotations

from typing import Any

import pytest
from entrenous_network.server.server_folder import LogLine, written
from hostile_text import HOSTILE, OBEYED

from entrenous.cli.ask import Shown, show_list


def test_titles_of_an_operators_items_are_shown_written_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`federation recommend` shows titles of items.jsonl, which the operator wrote."""
    item = {"item": HOSTILE, "title": f"{HOSTILE} [bold]", "score": 0.5}
    show_list(f"for user {HOSTILE}", [item], Shown(scores=True))
    out = capsys.readouterr().out
    assert not (OBEYED - {"\n"}) & set(out) and "\\u001b]0;owned" in out


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_of_a_log_is_one_line_without_escapes(form: Any) -> None:
    line = written(LogLine(f"refused withheld from {HOSTILE}\nforged", "refused"), form).decode()
    assert not OBEYED & set(line) and line.count("\n") == 1
