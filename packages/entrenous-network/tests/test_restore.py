"""A server under masks that is restored from a copy from before people joined and items came: what
docs/repair.md says is run as its operator would, by the shell.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from entrenous_network.agreement.members import MEMBER, OwnEntry
from entrenous_network.operate.joining import join_by_link
from entrenous_network.operate.newcomers import make_link
from entrenous_network.operate.running import status
from federation_links import PATIENCE, logged, until
from paths import ROOT
from running_by_lot import DATA, OWNER, PEOPLE, Running
from service_processes import process

PAGE = (ROOT / "docs" / "repair.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.S)


def by_the_shell(script: str) -> str:
    """What the commands of a script say, all of which must go well."""
    known = f'entrenous() {{ {sys.executable} -m entrenous "$@"; }}; set -e; {script}'
    done = subprocess.run(["bash", "-c", known], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.usefixtures("forked_children")
def test_what_came_since_the_copy_is_given_back_and_rounds_count_again(tmp_path: Path) -> None:
    """Before: the page named a command that is refused, and nothing of lists."""
    with closing(Running(tmp_path)) as running:
        book = running.folder
        server = running.made.server
        copy = tmp_path / "backup" / "server"
        first = running.devices[0]
        with process("server", server, "--pace", "0.2") as living:
            running._run_devices()
            until(lambda: status(server)["round"] >= 2)
            shutil.copytree(server, copy)
            link = make_link(book, uses=1, days=1, an_hour=10)
            join_by_link(tmp_path / "late", str(link), DATA.of_users([PEOPLE]), OWNER)
            running.run(tmp_path / "late")
            new = tmp_path / "new.csv"
            new.write_text("item,title,lat,lon\nnew-1,A new one,40.1,40.2\n")
            by_the_shell(f"entrenous federation items {book} --add {new}")
            until(lambda: "new-1" in (first / "items.jsonl").read_text())
            until(lambda: OwnEntry.read(first / MEMBER).size == PEOPLE + 1)
            counted = status(server)["round"]
            until(lambda: status(server)["round"] > counted)
            living.kill()
        largest = max(int(n) for n in re.findall(r"round (\d+)", "\n".join(logged(server))))
        shutil.rmtree(server)
        shutil.copytree(copy, server)
        with process("server", server, "--pace", "0.2"):
            refusal = re.compile("refused withheld from person-.*: malformed, (members|items)")
            until(lambda: any(refusal.fullmatch(line) for line in logged(server)))
        shutil.rmtree(server)
        [block] = [block for block in BLOCKS if "items.jsonl" in block]
        commands = block.replace("entrenous server book/server\n", "")
        for name, meant in {
            "backup/server": copy,
            "book": book,
            "/var/lib/entrenous/shop-1": first,
            "/var/lib/entrenous/late": tmp_path / "late",
        }.items():
            assert name in commands
            commands = commands.replace(name, str(meant))
        by_the_shell(commands)
        before = logged(server)
        with process("server", server, "--pace", "0.2"):
            until(lambda: status(server).get("number", 0) > largest)
            # A sum of a number that is new to all.
            counted = re.compile(r"round (\d+): [1-9]\d* of \d+ devices")
            until(lambda: any(counted.fullmatch(line) for line in logged(server)[len(before) :]))
        assert status(server)["of"] == PEOPLE + 1
