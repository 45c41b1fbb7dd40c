"""What ops/ and docs/network.md say is what the command line knows: every command and option of
units, Containerfile and page parses.
"""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from over_https import routes
from paths import NETWORK, ROOT

from entrenous.cli import _app

UNITS = sorted((ROOT / "ops").glob("*.service"))
PAGE = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")


def parses(words: list[str]) -> None:
    """Raises cyclopts' errors for a command, an option or a number of arguments that is not there;
    runs nothing.
    """
    _app().parse_args(words, exit_on_error=False, print_error=False)


def section(unit: Path, name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    text = unit.read_text(encoding="utf-8").split(f"[{name}]")[1]
    for line in re.split(r"^\[", text, flags=re.M)[0].splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_exists_and_may_write_its_own_folder_alone(unit: Path) -> None:
    service = section(unit, "Service")
    program, *words = shlex.split(service["ExecStart"][0].replace("%i", "shop-1"))
    assert program == "/opt/entrenous/bin/entrenous"
    parses(words)
    assert words[-1].startswith("/var/lib/" + service["StateDirectory"][0] + "/")
    for key, value in {
        "User": "entrenous",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "NoNewPrivileges": "yes",
        "Restart": "on-failure",
        "StateDirectoryMode": "0700",
        "CapabilityBoundingSet": "",
        "UMask": "0077",
        "LimitCORE": "0",
    }.items():
        assert service[key] == [value], key
    stays = "1 2" if "server" in unit.name else "2"  # lost rounds, bad input: see cli.main
    assert service["RestartPreventExitStatus"] == [stays]
    assert re.fullmatch(r"\d+G", service["MemoryMax"][0])
    assert "MemoryDenyWriteExecute" not in service  # Numba compiles


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_comes_back_for_as_long_as_a_disk_is_full(unit: Path) -> None:
    """Before: ten starts in ten minutes, each 2 s after the last, and systemd gave up within half a
    minute.
    """
    assert section(unit, "Unit")["StartLimitIntervalSec"] == [
        "0"
    ] and "StartLimitBurst" not in section(unit, "Unit")
    assert float(section(unit, "Service")["RestartSec"][0]) >= 5


def test_what_the_page_on_operating_names_is_told_and_its_commands_parse() -> None:
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    table = page.split("## Metrics")[1].split("Times are seconds")[0]
    named = {
        re.match(r"[a-z_]+", name)[0] for name in re.findall(r"`([a-z_]+(?:\{[a-z]+\})?)`", table)
    }  # type: ignore[index]
    named = {
        name for name in named if "_" in name or name in ("rounds", "nodes", "halted", "finished")
    } - {"entrenous_"}
    alarmed = set(re.findall(r"entrenous_([a-z_]+)", page))
    said = "".join(
        (NETWORK / name).read_text(encoding="utf-8")
        for name in ("links/metrics.py", "node/node_watch.py", "peers/running.py")
    )
    told = set(re.findall(r'(?:gauge|counter|counters|Family)\(\s*"([a-z_]+)"', said))
    assert len(told) >= 20 and named | alarmed == told
    for words in commands(page):
        parses(words)


def test_there_is_a_unit_for_a_server_and_one_for_every_node() -> None:
    assert [unit.name for unit in UNITS] == ["entrenous-node@.service", "entrenous-server.service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_a_unit(unit: Path, tmp_path: Path) -> None:
    shutil.copyfile(unit, tmp_path / unit.name)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / unit.name],
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = [
        line
        for line in (done.stderr + done.stdout).splitlines()
        if "is not executable" not in line and unit.stem in line
    ]
    assert said == []


def test_the_container_is_not_root_keeps_its_state_in_a_volume_and_starts_what_exists() -> None:
    lines = [
        line
        for line in (ROOT / "ops" / "Containerfile").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    last = [number for number, line in enumerate(lines) if line.startswith("FROM")][-1]
    final = lines[last:]
    assert "USER entrenous" in final and "VOLUME /var/lib/entrenous" in final
    assert 'ENTRYPOINT ["entrenous"]' in final
    assert not any("pip install" in line or "apt" in line for line in final)
    copied = next(line for line in lines if line.startswith("COPY pyproject"))
    assert all((ROOT / name).exists() for name in copied.split()[1:-1])
    assert "./packages/entrenous-network[peers]" in "\n".join(lines)


def test_containers_are_run_without_core_dumps() -> None:
    """A core dump has keys and histories in it."""
    told = [PAGE, (ROOT / "ops" / "Containerfile").read_text(encoding="utf-8")]
    for text in told:
        runs = re.findall(r"podman run(?:[^\n]*\\\n)*[^\n]*", text)
        assert runs and all("--ulimit core=0" in run for run in runs)


def commands(text: str) -> list[list[str]]:
    """Every `entrenous ...` of a page's shell blocks, continued lines joined, comments cut off."""
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.S)).replace("\\\n", " ")
    parts = [part for line in blocks.splitlines() for part in line.split("&&")]
    words = [shlex.split(part, comments=True) for part in parts]
    return [each[1:] for each in words if each and each[0] == "entrenous"]


def test_every_command_of_the_page_parses() -> None:
    found = commands(PAGE)
    assert len(found) > 15
    for words in found:
        parses(words)


def test_what_the_page_names_is_there() -> None:
    for name in re.findall(r"\]\(([^)#]+)\)", PAGE):
        if "://" not in name:
            assert (ROOT / "docs" / name).exists(), name


def test_the_firewall_opens_the_port_that_is_the_default() -> None:
    from entrenous_network.commands.founding import new

    rules = (ROOT / "ops" / "firewall.nft").read_text(encoding="utf-8")
    port = inspect.signature(new).parameters["port"].default
    assert f"tcp dport {port} accept" in rules and "policy drop" in rules
    assert f"EXPOSE {port}/tcp" in (ROOT / "ops" / "Containerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "listed"),
    [
        ("nginx.conf", r"location ~ \^/v1/\(([a-z|]+)\)\$ \{"),
        ("haproxy.cfg", r"deny_status 404 unless \{ path ([a-z0-9/ ]+) \}"),
    ],
)
def test_a_proxy_lets_the_routes_of_the_application_through(file: str, listed: str) -> None:
    """Before: neither `/v1/join` nor `/v1/authority`, so that nobody could join by a link."""
    [named] = re.findall(listed, (ROOT / "ops" / file).read_text(encoding="utf-8"))
    names = re.split(r"[| ]", named.replace("/v1/", ""))
    assert sorted(f"/v1/{name}" for name in names) == routes()


def test_haproxy_asks_a_browser_for_no_key_before_it_asks_a_page() -> None:
    text = (ROOT / "ops" / "haproxy.cfg").read_text(encoding="utf-8")
    [refused] = [line for line in text.splitlines() if "deny_status 401" in line]
    assert " !METH_OPTIONS " in refused
