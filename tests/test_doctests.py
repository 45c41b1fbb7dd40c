"""Every example in a docstring is run, in an empty folder, and leaves nothing behind there."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import entrenous

NAMES = sorted(
    info.name
    for info in pkgutil.walk_packages(entrenous.__path__, "entrenous.")
    if not info.name.endswith("__main__")
)


def test_the_walk_finds_the_modules():
    assert {
        "entrenous.core.keys",
        "entrenous.evaluate.metrics.ndcg",
        "entrenous.data.split.types",
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
    failed, _ = doctest.testmod(module, globs=globs, report=True)
    assert failed == 0
    assert list(tmp_path.iterdir()) == []
