"""What several tests of the network need."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command
from entrenous_network.agreement.certificates import make_keys
from federation_links import quick_pauses


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """A command in this process."""
    return Command(capsys)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers have pauses that suit a test, and deadlines in virtual time."""
    quick_pauses(monkeypatch)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's certificate, with its authority."""
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder)
    return folder
