"""A node without a server: how often it tries, and what it takes for hopeless."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate

import httpx
import pytest

pytest.importorskip("flwr")

from entrenous.core.errors import InputError
from entrenous.deploy.flower import node
from entrenous.deploy.flower.keys import Keys
from entrenous.deploy.flower.node import ATTEMPTS, MINUTE, Backoff, clock_of, refusal_of, serve
from entrenous.deploy.flower.place import environment, split_address
from entrenous.deploy.flower.superlink_process import is_fresh


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


def refused(status: int, seconds: float) -> httpx.HTTPStatusError:
    """A server's refusal, from a machine whose clock is so many seconds behind this one's."""
    there = formatdate(time.time() - seconds, usegmt=True)
    request = httpx.Request("POST", "https://server.example:8443/")
    return httpx.HTTPStatusError(
        "refused", request=request, response=httpx.Response(status, headers={"date": there}, request=request)
    )


@pytest.mark.parametrize(
    ("seconds", "words"), [(3600, r"36\d\d s ahead of the server's"), (-3605, r"36\d\d s behind the server's")]
)
def test_r10_a_clock_an_hour_off_is_named_and_tried_again(monkeypatch: pytest.MonkeyPatch, seconds: float, words: str) -> None:
    """It was "this key is not registered", and the end of the node."""
    stop, said = threading.Event(), list[str]()

    def connected(*given: object) -> None:
        if len(said) == 2:
            stop.set()
        raise refused(401, seconds)

    monkeypatch.setattr(node, "_connected", connected)
    monkeypatch.setattr(node, "FIRST", 0.01)
    serve("127.0.0.1:9", Keys(private=b"any"), bytes, stop, say=said.append)  # type: ignore[arg-type]
    assert len(said) == 3 and all(re.search(words, line) and "trying again" in line and "\n" not in line for line in said)


def test_a_key_that_is_not_registered_is_still_hopeless() -> None:
    assert clock_of(refused(401, 1)) == "" == clock_of(refused(503, 3600)) == clock_of(ConnectionError())
    found = refusal_of(refused(401, 1), Keys(private=b"any"))  # type: ignore[arg-type]
    assert found is not None and "not registered" in str(found)


def test_a_signed_time_that_is_old_vouches_for_nobody() -> None:
    """The gate lets in large bodies by it: what was heard once on the way must not be good for ever."""
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    ages = {0: True, 299: True, 310: False, 86_400: False, -4: True, -60: False}
    for age, fresh in ages.items():
        assert is_fresh((now - timedelta(seconds=age)).isoformat().encode(), now) is fresh, age
    with pytest.raises(ValueError, match="isoformat"):
        is_fresh(b"yesterday", now)
