"""A node without a server: how often it tries, and what it takes for hopeless."""

from __future__ import annotations

import threading
import time

import pytest

pytest.importorskip("flwr")

from entrenous.core.errors import InputError
from entrenous.deploy.flower.keys import Keys
from entrenous.deploy.flower.node import ATTEMPTS, MINUTE, Backoff, serve
from entrenous.deploy.flower.place import environment, split_address


def attempts(seconds: float, *, succeed: bool = False) -> list[float]:
    """When a node tries within `seconds` of a clock of our own, when every attempt fails, or connects and fails at once."""
    now, made = 0.0, list[float]()
    backoff = Backoff(lambda: now)
    while now < seconds:
        now += max(0.0, backoff.pause())
        backoff.wait(_Never())
        made.append(now)
        if succeed:
            backoff.success(1)
        now += 0.01
    return made


class _Never(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return False


@pytest.mark.parametrize("succeed", [False, True])
def test_c5_at_most_ten_attempts_a_minute(succeed: bool) -> None:
    made = attempts(600, succeed=succeed)
    busiest = max(sum(at <= other < at + MINUTE for other in made) for at in made)
    assert busiest <= ATTEMPTS
    assert made[1] < 1.0
    assert len(made) >= 20  # and never gives up


def test_attempts_are_spread() -> None:
    assert len({tuple(attempts(30)) for _ in range(5)}) == 5


def test_c5_a_server_that_is_away_is_waited_for() -> None:
    stop, said = threading.Event(), list[str]()
    thread = threading.Thread(target=serve, args=("127.0.0.1:9", Keys(), bytes, stop), kwargs={"say": said.append})
    thread.start()
    end = time.monotonic() + 240
    while len(said) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    stop.set()
    thread.join(240)
    assert not thread.is_alive()
    assert len(said) >= 2
    assert all("trying again" in line for line in said)


@pytest.mark.parametrize("address", ["", "server", ":80", "server:", "server:0", "server:70000", "server:x"])
def test_an_address_has_host_and_port(address: str) -> None:
    with pytest.raises(InputError, match="is no address"):
        serve(address, Keys(), bytes, threading.Event())


def test_addresses_of_both_kinds() -> None:
    assert split_address("", "[::1]:8443") == ("::1", 8443)
    assert split_address("", "server.example:8443") == ("server.example", 8443)


def test_flowers_programs_are_quiet_whatever_they_inherit() -> None:
    from pathlib import Path

    told = {"FLWR_TELEMETRY_ENABLED": "1", "FLWR_HOME": "/elsewhere", "HTTPS_PROXY": "http://proxy:3128", "PATH": "/bin"}
    given = environment(told, Path("/state/home"))
    assert given["FLWR_TELEMETRY_ENABLED"] == "0"
    assert given["FLWR_DISABLE_UPDATE_CHECK"] == given["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert given["FLWR_HOME"] == "/state/home"
    assert given["PATH"] == "/bin"
    assert "HTTPS_PROXY" not in given
