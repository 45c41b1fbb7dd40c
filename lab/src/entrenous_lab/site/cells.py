"""Tutorials as scripts in the percent format, which editors and jupytext open as notebooks: parsed,
executed without a Jupyter server, and written as a page of Markdown and as a notebook.

A cell begins with `# %%`. `[markdown]` behind it makes the cell text, `[bash]` makes it a command
of the shell (both are comments in the script), and `[raises]` says that the code ends in the
package's error, which the page then shows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

Kind = Literal["code", "raises", "markdown", "bash"]
HEAD = re.compile(r"# %%(?: \[(markdown|bash|raises)\])?")
WIDTH = "92"
SECONDS = 1800
# Executes the cells of stdin, a JSON list of [kind, text], and prints a JSON list of outputs.
KERNEL = Path(__file__).with_name("kernel.py")


class Cell(NamedTuple):
    """A cell of a tutorial."""

    kind: Kind
    text: str
    """Its content, without the comment signs of text and commands."""


class Output(NamedTuple):
    """The output of a cell."""

    text: str = ""
    """All that it printed, and its last expression."""
    svg: str = ""
    """The picture that its last expression is, or ""."""


def parsed(script: str) -> list[Cell]:
    """Returns the cells of a script, empty ones left out."""
    cells: list[tuple[Kind, list[str]]] = []
    for line in script.splitlines():
        head = HEAD.fullmatch(line)
        if head:
            cells.append((cast("Kind", head[1] or "code"), []))
        elif cells:
            cells[-1][1].append(line)
    made = []
    for kind, lines in cells:
        if kind in ("markdown", "bash"):
            lines = [re.sub(r"^# ?", "", line) for line in lines]
        text = "\n".join(lines).strip("\n")
        if text:
            made.append(Cell(kind, text))
    return made


def executed(
    cells: Sequence[Cell], files: Sequence[Path] = (), data: Path | None = None
) -> list[Output]:
    """Runs cells in order, in a new interpreter and a new folder that holds `files`, and returns an
    output for each. data: the folder of downloaded data sets; None = an empty one.

    Raises RuntimeError with the traceback of a cell that fails, and subprocess.TimeoutExpired.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            shutil.copy(file, folder)
        # The reader's own data folder and settings must not show in a page.
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "ENTRENOUS_DATA": str(data or Path(folder) / "data"),
            "COLUMNS": WIDTH,
            "NO_COLOR": "1",
            "PYTHONIOENCODING": "utf-8",
        }
        said, errors, code = _run(cells, folder, environment)
        if code:
            raise RuntimeError(errors[-4000:])
        real = str(Path(folder).resolve())
        outputs = []
        for text, svg in json.loads(said):
            plain = text.replace(real + "/", "").replace(real, ".")
            outputs.append(Output(plain.rstrip(), svg))
    return outputs


def _run(
    cells: Sequence[Cell], folder: str, environment: Mapping[str, str]
) -> tuple[str, str, int]:
    """Runs cells in a process of their own, and ends whatever they have left running. Returns what
    the process printed, its errors, and its exit code.
    """
    pipe = subprocess.PIPE
    command = [sys.executable, str(KERNEL)]
    with subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        cwd=folder,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            asked = json.dumps([[cell.kind, cell.text] for cell in cells])
            said, errors = process.communicate(asked, timeout=SECONDS)
        finally:
            # A cell may have started a server, and a later cell, which would end it, have failed.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return said, errors, process.returncode


def page(script: Path, cells: Sequence[Cell], outputs: Sequence[Output]) -> str:
    """Returns the tutorial as Markdown. A picture is named after the script and its cell."""
    name = script.stem
    parts = []
    for number, (cell, output) in enumerate(zip(cells, outputs, strict=True)):
        if cell.kind == "markdown":
            parts.append(cell.text)
            continue
        language = "bash" if cell.kind == "bash" else "python"
        parts.append(f"```{language}\n{cell.text}\n```")
        if output.text:
            parts.append(f"```text\n{output.text}\n```")
        if output.svg:
            parts.append(f"![The picture that the lines above draw]({name}-{number}.svg)")
    # The title, and below it how to run the page.
    title, _, rest = "\n\n".join(parts).partition("\n")
    about = (
        f"*Executed from [{script.name}]({script.name}); as a notebook: [{name}.ipynb]"
        f"({name}.ipynb). The data is [books.csv](books.csv), a made-up book club.*"
    )
    return f"{title}\n\n{about}\n{rest}\n"


def notebook(cells: Sequence[Cell], outputs: Sequence[Output]) -> str:
    """Returns the tutorial as a notebook of Jupyter's format 4.5, outputs included."""
    made = []
    for number, (cell, output) in enumerate(zip(cells, outputs, strict=True)):
        entry: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}}
        text = cell.text
        if cell.kind == "bash":
            text = f"%%bash\n{text}"
        entry["source"] = text.splitlines(keepends=True)
        if cell.kind == "markdown":
            entry["cell_type"] = "markdown"
        else:
            entry.update(cell_type="code", execution_count=None, outputs=_displayed(output))
        made.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _displayed(output: Output) -> list[dict[str, Any]]:
    """Returns the outputs of a code cell as a notebook keeps them."""
    made: list[dict[str, Any]] = []
    if output.text:
        lines = (output.text + "\n").splitlines(keepends=True)
        made.append({"output_type": "stream", "name": "stdout", "text": lines})
    if output.svg:
        picture = {"image/svg+xml": output.svg.splitlines(keepends=True)}
        made.append({"output_type": "display_data", "data": picture, "metadata": {}})
    return made


def written(script: Path, cells: Sequence[Cell], outputs: Sequence[Output]) -> dict[str, str]:
    """Returns the files of an executed tutorial by name: page, notebook, pictures."""
    files = {
        f"{script.stem}.md": page(script, cells, outputs),
        f"{script.stem}.ipynb": notebook(cells, outputs),
    }
    for number, output in enumerate(outputs):
        if output.svg:
            files[f"{script.stem}-{number}.svg"] = output.svg
    return files
