"""Every example in a docstring is run, in an empty folder, and leaves nothing behind there.

Modules without examples are not imported here: `>>>` in the source tells who has some.
"""

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT

SOURCES = (ROOT / "src", *sorted(ROOT.glob("packages/*/src")), ROOT / "lab" / "src")


def names() -> list[str]:
    """The modules of all distributions, and of the lab, that have examples to run."""
    below = []
    for source in SOURCES:
        files = [path for path in sorted(source.rglob("*.py")) if has_examples(path)]
        below += [path.relative_to(source).with_suffix("") for path in files]
    return [".".join(path.parts).removesuffix(".__init__") for path in below]


def has_examples(path: Path) -> bool:
    """Whether a line of a file is an example that is not skipped."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return any(line.lstrip().startswith(">>> ") and "+SKIP" not in line for line in lines)


NAMES = names()


def test_the_walk_finds_the_modules():
    assert {
        "entrenous.core.keys",
        "entrenous.evaluation.metrics.defined",
        "entrenous.data.split.types",
        "entrenous_network.secure_sum.quorum",
        "entrenous_lab.papers.confirm",
    } <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_examples(name, tmp_path, monkeypatch):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if str(missing.name).startswith("entrenous"):
            raise
        pytest.skip(f"an optional extra is not installed: {missing.name}")
    monkeypatch.chdir(tmp_path)
    globs = {
        **vars(module),
        "np": np,
    }  # examples may build arrays although their module has no need to
    failed, tried = doctest.testmod(module, globs=globs, report=True)
    assert failed == 0 and tried > 0
    assert list(tmp_path.iterdir()) == []
