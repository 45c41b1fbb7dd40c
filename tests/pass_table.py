"""Runs all tests that carry an id of a failure test and writes what passed: `make failures`.

    python tests/pass_table.py [--quick] [--from JUNIT.xml] [OUT.md]

A test belongs to an id when its name says so: `test_r1_...`, or a parameter `[b07-...]`; I7 is
number 07 of the study's input files. What is not found is said to have no test, or not to be built,
and why. Results are read from pytest's own record; nothing here is written by hand but what is
asked for.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

TESTS = Path(__file__).resolve().parent
ID = re.compile(r"(?:^test_|\[)([rcbagp]\d{1,2}b?)[_\-\]]")
FILE = re.compile(r"(?:^test_|\[)(0[1-9]|[1-4]\d)[_ ]")  # of the study's list of input files
MUTATED = "10000_mutated_frames"
FILES = (
    "missing file",
    "a folder",
    "no read permission",
    "empty",
    "header only",
    "only blank lines",
    "wrong delimiter",
    "mixed delimiters",
    "too few columns",
    "too many columns",
    "rating is no number",
    "rating NaN",
    "rating inf",
    "rating off the scale",
    "negative or overflowing time",
    "milliseconds among seconds",
    "float user id",
    "empty user id",
    "a row twice",
    "rows that contradict each other",
    "a user with one row",
    "an item only in the test part",
    "a single user",
    "a user with every item",
    "UTF-8 BOM",
    "UTF-16",
    "Latin-1",
    "CRLF",
    "last line cut off",
    "NUL bytes",
    "quoted fields with line ends",
    "a line of 10 MB",
    "gzip called .csv",
    "gzip cut off",
    "zip that leaves its folder",
    "symlink loop",
    "FIFO or /dev/zero",
    "decimal comma",
    "thousands separators",
    "id beyond 2^63",
    "formulas in ids",
    "settings: unknown, of a wrong type, out of range",
)
# The groups of ids: their title, and what must follow where a line says nothing else.
GROUPS: dict[str, tuple[str, str]] = {
    "R": ("A server that is killed", ""),
    "C": ("Nodes that come and go", ""),
    "B": (
        "Bad updates",
        "Unless its line says otherwise, an update is refused with a code of its own, and the"
        " model is unchanged.",
    ),
    "A": ("What leaks", ""),
    "P": ("Colluders", ""),
    "G": ("Peers", ""),
    "I": (
        "Input files",
        "Each gives one line that says where, what, and what was expected; or it is read, and a"
        " line says how.",
    ),
}
# What happens, and what must follow where that is not what its group says.
ASKED: dict[str, str] = {
    "R1": "SIGKILL: the same final sha256",
    "R2": "killed before acknowledgement: an answer sent again counts once",
    "R3": "killed at each step of writing a checkpoint: the old or the new one loads",
    "R4": "a random byte of a checkpoint flipped: detected; the one before loads",
    "R5": "journal and checkpoint cut off anywhere: the whole prefix loads",
    "R6": "disk full: the round does not count; training continues with room",
    "R7": "folder read-only, missing, foreign: an error before round 1",
    "R8": "two servers on one folder: the second names the pid of the first",
    "R9": "SIGTERM: exit code 0, and it can resume",
    "R10": "clocks that jump by an hour: no replay accepted, no round lost",
    "R11": "files of another format: refused by version",
    "C1": "30 % of the nodes away: HR@10 within 0.02",
    "C2": "50 % away, below the quorum: the round does not count",
    "C2b": "all away: waits, ends on SIGTERM",
    "C3": "20 % of the nodes too slow: rounds end at the deadline",
    "C4": "node SIGKILLed at fetch, train, upload, wait: one contribution",
    "C5": "server not reachable: at most 10 attempts a minute",
    "C6": "10,000 nodes: memory at most model + journal + 200 MB",
    "C7": "one process, threads, devices, gateways, sockets: the same sha256",
    "B1": "NaN",
    "B2": "infinity",
    "B3": "minus infinity",
    "B4": "denormals: accepted",
    "B5": "1e30",
    "B6": "other number of factors",
    "B7": "other number of items",
    "B8": "transposed",
    "B9": "one row that would broadcast",
    "B10": "float64, float16, int32",
    "B12": "an item twice",
    "B13": "a negative item",
    "B14": "an item beyond the last",
    "B15": "more rows than 2T",
    "B16": "no rows: accepted as nothing",
    "B17": "count or weight 0, negative, 1e9, NaN",
    "B18": "the round before",
    "B19": "the round after",
    "B20": "another run",
    "B21": "another model",
    "B22": "the same answer twice",
    "B23": "a second, different answer",
    "B24": "unknown node",
    "B25": "bad signature",
    "B26": "signature of another node",
    "B27": "an answer of before a restart",
    "B28": "a length that lies",
    "B29": "a length of 2 GB: refused before allocation",
    "B30": "cut off",
    "B31": "one byte a second: closed at the deadline",
    "B32": "a pickle: never executed",
    "B33": "a zip bomb",
    "B34": "a name that is not UTF-8",
    "B35": "100 connections with one key",
    "B*": "10,000 mutated frames: no exception, model unchanged",
    "A1": "consumed items in what FPL sends: none at pi = 0; else a share of pi",
    "A2": "p_u, history and raw ratings in what leaves: in no outgoing byte",
    "A3": "secure sum, 0-30 % drop out: exact; below the threshold nothing",
    "A4": "secure sum, both kinds of share, or a small cohort: refused",
    "A5": "noise, norms, accountant, budget: variance within 3 %",
    "A6": "canaries: a lower bound below the claimed epsilon",
    "A7": "a server that shows one node another model: found out",
    "A8": "what a server learns: the study's figures",
    "A9": "what a log says: no items, vectors or names",
    "A10": "TLS beyond loopback: on; plaintext refused",
    "P1": "10 % of the nodes, robust profile: ER@10 <= 0.01",
    "P2": "20 %: ER@10 <= 0.2",
    "P3": "30 %: reported as broken",
    "P4": "gossip: 10 % of the peers send NaN: HR@10 within 0.02",
    "P5": "gossip: 10 % flip the sign: HR@10 within 0.03",
    "P6": "gossip: 10 % push one item: ER@10 <= 0.3, or documented",
    "P7": "200 keys of one machine: no weight at first",
    "G1": "30 % of messages lost: HR@10 within 0.03",
    "G2": "delays of 0-5 rounds: HR@10 within 0.03",
    "G3": "half of the peers leave and return: HR@10 within 0.03",
    "G4": "cut in two for 30 rounds: grows together again",
    "G5": "killed, back with an old one: no model counts twice",
    "G6": "all neighbours dead: keeps its model and tries again",
    "G7": "1,000 peers: within its memory",
    **{f"I{number}": what for number, what in enumerate(FILES, start=1)},
}
NOT_BUILT = {"P7": "the operator gives one ticket for each key"}


class Case(NamedTuple):
    """One test that ran. outcome: passed, failed or skipped; measured: what it noted of itself."""

    name: str
    outcome: str
    seconds: float
    measured: str


def id_of(name: str) -> str | None:
    """R1 for test_r1_..., B7 for test_bad_update[b07-...]; None without an id.

    >>> id_of("test_bad_update[b07-wrong-items]"), id_of("test_c2b_nobody"), id_of("test_refused[01 missing file]"), id_of("test_b_codes")
    ('B7', 'C2b', 'I1', None)
    """
    if MUTATED in name:
        return "B*"
    found, file = ID.search(name), FILE.search(name)
    if found is None:
        return None if file is None else f"I{int(file[1])}"
    letter, number = found[1][0].upper(), found[1][1:]
    return f"{letter}{int(number.rstrip('b'))}{'b' if number.endswith('b') else ''}"


def collected(marks: str) -> list[str]:
    """The node ids of all tests with an id."""
    files = [
        str(path.relative_to(TESTS))
        for path in sorted(TESTS.rglob("test_*.py"))
        if re.search(
            r"def test_[rcbagp]\d|def test_b_|def test_\d\d_|\"b\d\d-|^    \"\d\d [a-z]",
            path.read_text(),
            re.M,
        )
    ]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks, *files]
    listed = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    if listed.returncode not in (0, 5):
        sys.exit(f"tests cannot be collected:\n{listed.stdout[-3000:]}{listed.stderr[-1000:]}")
    names = [line for line in listed.stdout.splitlines() if "::" in line]
    return [
        f"{TESTS.name}/{name.removeprefix(f'{TESTS.name}/')}"
        for name in names
        if id_of(name.split("::")[-1]) is not None
    ]


def cases(record: Path) -> list[Case]:
    """What pytest has recorded."""
    found = []
    for case in ElementTree.parse(record).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = (
            "failed"
            if kinds & {"failure", "error"}
            else "skipped"
            if "skipped" in kinds
            else "passed"
        )
        noted = [
            each.get("value", "")
            for each in case.iter("property")
            if each.get("name") == "measured"
        ]
        found.append(
            Case(case.get("name", ""), outcome, float(case.get("time", 0)), "; ".join(noted))
        )
    return found


def lines(found: Iterable[Case]) -> list[str]:
    """The groups with a line for each id: what happens, what must follow, and what was noted."""
    by_id: dict[str, list[Case]] = {}
    for case in found:
        by_id.setdefault(id_of(case.name) or "", []).append(case)
    said = list[str]()
    for letter, (title, otherwise) in GROUPS.items():
        said += ["", f"## {title}", "", *([otherwise, ""] if otherwise else [])]
        for name in [one for one in ASKED if one.startswith(letter)]:
            noted = result(name, by_id.get(name, []))
            said.append(f"* {name} {ASKED[name]}{f' ({noted})' if noted else ''}")
    return said


def result(name: str, own: list[Case]) -> str:
    """What the tests of an id noted, and how many did not pass; empty if all passed in silence."""
    if not own:
        return f"not built: {NOT_BUILT[name]}" if name in NOT_BUILT else "**no test**"
    counts = Counter(case.outcome for case in own)
    others = [f"**{counts[kind]} {kind}**" for kind in ("failed", "skipped") if counts[kind]]
    return "; ".join([*others, *(case.measured for case in own if case.measured)])


def page(found: list[Case], quick: bool) -> str:
    """docs/results/failures.md."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    seconds = sum(case.seconds for case in found)
    head = [
        "# Failure tests",
        "",
        (
            "Written by `make failures` from pytest's record. Each line says what happens, what"
            " must follow, and in brackets what a test measured. What failed, was skipped or has"
            " no test is bold; all else passed. A test belongs to an id by its name"
            " (`test_r1_...`, `[b07-...]`): `pytest -k r1_ -m ''` runs a line."
        ),
        "",
        (
            f"Commit {commit}, {time.strftime('%Y-%m-%d', time.gmtime())}, {os.cpu_count()} cores,"
            f" {len(found)} tests, {seconds:.0f} s{'; without the slow ones' if quick else ''}."
        ),
    ]
    return "\n".join([*head, *lines(found), ""])


def main() -> int:
    """Runs the tests, writes the page; 1 if any failed."""
    asked = argparse.ArgumentParser(description="run the failure tests and write what passed")
    asked.add_argument(
        "out", nargs="?", type=Path, default=TESTS.parent / "docs" / "results" / "failures.md"
    )
    asked.add_argument("--quick", action="store_true", help="without the slow ones")
    asked.add_argument("--from", dest="record", type=Path, help="a junit.xml that is there already")
    given = asked.parse_args()
    record = given.record
    if record is None:
        record = Path(tempfile.mkdtemp()) / "junit.xml"
        names = collected("not slow" if given.quick else "slow or not slow")
        marks = "slow or not slow"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            marks,
            "--timeout",
            "1800",
            "-o",
            "junit_family=xunit1",
            f"--junitxml={record}",
        ]
        subprocess.run([*command, *names], cwd=TESTS.parent, check=False)
    found = [case for case in cases(record) if id_of(case.name) is not None]
    given.out.write_text(page(found, given.quick), encoding="utf-8")
    bad = [case.name for case in found if case.outcome == "failed"]
    print(f"{given.out}: {len(found)} tests, {len(bad)} failed", *bad, sep="\n  ")
    return int(bool(bad) or not found)


if __name__ == "__main__":
    sys.exit(main())
