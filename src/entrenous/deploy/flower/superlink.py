"""Starts a SuperLink and our server's program, and keeps both running: `supervise`, until the server is done or told to stop."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from ...core.errors import EntrenousError, InputError
from ...core.files import write_private
from .keys import public_pem
from .place import environment, refuse_plain

READY = 60.0  # s that a SuperLink may take to answer (2 s on an idle machine)
DEATHS = 10  # of one process within PERIOD: then something is wrong that a restart does not mend
PERIOD = 600.0  # s
LOG_BYTES = 10 << 20  # a longer log is put aside; one such is kept
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class SuperlinkPlan:
    """The settings of a server to be supervised. keys: a folder of `make_keys` (None = plain text, no node authentication); its
    nodes/*.pub may connect, also those added later.

    target: `module:function`, called as function(link, state) in the server's process. body: the largest request in bytes.
    """

    state: Path
    host: str = "127.0.0.1"
    port: int = 8443
    keys: Path | None = None
    insecure: bool = False
    target: str = "entrenous.deploy.server:serve"
    body: int = 64 << 20


def supervise(plan: SuperlinkPlan, stop: threading.Event, say: Say = print) -> None:
    """Run SuperLink and server until the target returns or `stop` is set; both have then ended. The caller turns SIGTERM into
    `stop`.

    Raises InputError when keys, address or port cannot be used or the target refused its input, and EntrenousError, naming a log,
    when a process died again and again.
    """
    with Supervisor(plan, say, stop) as running:
        while not stop.wait(0.1):
            if running.step():
                return


@final
class Supervisor:
    """A SuperLink and a server's process, each in a process group of its own, on sockets that this process holds open."""

    def __init__(self, plan: SuperlinkPlan, say: Say = print, stopping: threading.Event | None = None) -> None:
        if plan.keys is None:
            refuse_plain("server", plan.host, plan.insecure)
        self.plan, self.say, self._stopping = plan, say, stopping or threading.Event()
        self.folder = (plan.state / "flower").absolute()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sockets: list[socket.socket] = []
        self._deaths: dict[str, list[float]] = {"superlink": [], "server": []}
        self._known: set[Path] = set()
        self._looked = 0.0
        self.superlink: subprocess.Popen[bytes] | None = None
        self.server: subprocess.Popen[bytes] | None = None
        self.run = 0

    def __enter__(self) -> Supervisor:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """The address host:port at which nodes connect; the port is a free one if the plan says 0."""
        return _show(self._sockets[0])

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the running parts, by name."""
        both = {"superlink": self.superlink, "server": self.server}
        return {name: process.pid for name, process in both.items() if process is not None and process.poll() is None}

    def start(self) -> None:
        """Start all processes, which takes 3 to 5 s. Raises an error if one of them does not come up."""
        for name in ("secret", "superexec.secret"):
            _secret(self.folder / name)
        (self.folder / "outcome.json").unlink(missing_ok=True)
        self._sockets = [_listen(self.plan.host, self.plan.port), _listen("127.0.0.1", 0)]
        self._start_superlink()
        if not self._ready() and not self._stopping.is_set():
            raise EntrenousError(f"the SuperLink does not come up: {_last_line(self.folder / 'superlink.log')}")
        if not self._stopping.is_set():
            self._let_in()
            self._start_server()

    def step(self) -> bool:
        """Restart processes that have died and admit new keys; True when the server is done. Call it a few times a second."""
        if self.server is not None and self.server.poll() is not None and (self.folder / "outcome.json").exists():
            return self._ended()
        import httpx

        with suppress(httpx.HTTPError):  # the SuperLink died meanwhile, or is not itself; a later step tries again
            if (
                self.superlink is not None
                and self.superlink.poll() is not None
                and self._may_restart("superlink", self.superlink)
            ):
                self._start_superlink()
                if not self._ready():
                    return False  # the next step counts this death too
            if self.server is not None and self.server.poll() is not None and self._may_restart("server", self.server):
                self._start_server()
            if time.monotonic() - self._looked > 2.0:
                self._shorten_logs()
                self._let_in()
        return False

    def stop(self) -> None:
        """End server and SuperLink within 4 s: SIGTERM to each process group, then SIGKILL."""
        for process, seconds in ((self.server, 2.0), (self.superlink, 1.5)):
            if process is not None:
                end_group(process, seconds)
        for each in self._sockets:
            each.close()
        self._sockets = []

    def _ended(self) -> bool:
        outcome = json.loads((self.folder / "outcome.json").read_bytes())
        if outcome["outcome"] == "refused":
            raise EntrenousError(outcome["line"])
        return True

    def _start_superlink(self) -> None:
        plan, (nodes, private) = self.plan, self._sockets
        tls = ["--insecure"]
        if plan.keys is not None:
            names = ("--ssl-certfile", "server.crt"), ("--ssl-keyfile", "server.key"), ("--ssl-ca-certfile", "ca.crt")
            tls = [*(part for flag, name in names for part in (flag, str(plan.keys / name))), "--enable-supernode-auth"]
        own = [str(nodes.fileno()), str(private.fileno()), str(os.getpid()), str(self.folder / "secret"), str(plan.body)]
        flower = [
            "--isolation",
            "process",
            "--database",
            str(self.folder / "state.db"),
            "--disable-runtime-dependency-installation",
        ]
        flower += ["--superexec-auth-secret-file", str(self.folder / "superexec.secret"), "--port", str(private.getsockname()[1])]
        fds = (nodes.fileno(), private.fileno())
        self.superlink = self._spawn("superlink_process", [*own, *flower, *tls], "superlink.log", fds)

    def _start_server(self) -> None:
        """A new run, for a task that has lost its process cannot be taken up again; the old run's messages go with it."""
        from .control import operator, start_run, stop_run

        with operator(*self._operator()) as client:
            if previous := _number(self.folder / "run"):
                stop_run(client, previous)
            self.run = start_run(client, {"state": str(self.plan.state.absolute()), "target": self.plan.target})
        (self.folder / "run").write_text(str(self.run))
        ca = str(self.plan.keys / "ca.crt") if self.plan.keys is not None else "-"
        arguments = [_show(self._sockets[1]), ca, str(self.folder / "superexec.secret"), str(self.run), str(os.getpid())]
        self.server = self._spawn("server_process", arguments, "server.log")

    def _spawn(self, module: str, arguments: list[str], log: str, fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        path = self.folder / log
        command = [sys.executable, "-m", f"{__package__}.{module}", *arguments]
        with open(path, "ab") as file:
            variables = environment(os.environ, self.folder / "home")
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=variables, pass_fds=fds, start_new_session=True
            )

    def _ready(self) -> bool:
        """Waits for the SuperLink's first answer; False if it died, or had to be killed for it did not come within READY seconds."""
        import httpx

        until, superlink = time.monotonic() + READY, self.superlink
        scheme, verify = ("http", True) if self.plan.keys is None else ("https", _context(self.plan.keys / "ca.crt"))
        with httpx.Client(verify=verify, trust_env=False, timeout=2.0) as client:  # type: ignore[arg-type]
            while superlink is not None and superlink.poll() is None and time.monotonic() < until and not self._stopping.is_set():
                with suppress(httpx.HTTPError):
                    if client.get(f"{scheme}://{_show(self._sockets[1])}/health").status_code == 200:
                        return True
                time.sleep(0.1)
        if superlink is not None:
            end_group(superlink, 1.0)
        return False

    def _let_in(self) -> None:
        """Registers the public keys that have appeared in the keys' nodes folder, and shuts out those whose files have gone, also
        while nobody looked: the SuperLink's database outlives this process. Shutting out is for good (Flower takes no key twice), so
        nobody is shut out while a file there cannot be read."""
        from .control import operator, register, registered, unregister

        first, self._looked = self._looked == 0.0, time.monotonic()
        there = set((self.plan.keys / "nodes").glob("*.pub")) if self.plan.keys is not None else set()
        if self.plan.keys is None or (there == self._known and not first):
            return
        read = [self._named(public) for public in sorted(there)]
        names = dict(filter(None, read))
        with operator(*self._operator()) as client:
            new, refused = register(client, names)
            for public in new:
                self.say(f"{names[public]} may connect now")
            for public in refused:
                self.say(f"{names[public]} was shut out before and may not connect; it needs a new key")
            gone = [public for public, _ in registered(client) if public not in names] if None not in read else []
            for public in gone:
                unregister(client, public)
                self.say("a node whose key is gone may not connect any more")
        self._known = there

    def _shorten_logs(self) -> None:
        """A long log is copied aside and begun anew; its process appends, so it goes on at the new beginning."""
        for log in self.folder.glob("*.log"):
            if log.stat().st_size > LOG_BYTES:
                shutil.copyfile(log, log.with_suffix(".log.1"))
                os.truncate(log, 0)

    def _named(self, public: Path) -> tuple[bytes, str] | None:
        """A public key file as key and name; None, and a line, for a file that is none: the others are let in all the same."""
        try:
            return public_pem(public), public.stem
        except InputError as error:
            self.say(str(error))
            return None

    def _operator(self) -> tuple[str, bytes | None, str]:
        ca = (self.plan.keys / "ca.crt").read_bytes() if self.plan.keys is not None else None
        return _show(self._sockets[1]), ca, (self.folder / "secret").read_text().strip()

    def _may_restart(self, name: str, process: subprocess.Popen[bytes]) -> bool:
        """Whether a process that has died may start again now: at once, then after 0.5, 1, 2, ... 30 s."""
        now, deaths, log = time.monotonic(), self._deaths[name], self.folder / f"{name}.log"
        if getattr(process, "counted", False) is False:
            process.counted = True  # type: ignore[attr-defined]
            deaths[:] = [at for at in deaths if now - at < PERIOD] + [now]
            self.say(f"the {name} has died ({_how(process.returncode)}); starting it again")
            if len(deaths) >= DEATHS:
                raise EntrenousError(f"the {name} died {DEATHS} times within {PERIOD:g} s: {_last_line(log)} (see {log})")
        return now - deaths[-1] >= (0.0 if len(deaths) < 2 else min(30.0, 0.25 * 2 ** (len(deaths) - 1)))


def end_group(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Ends a process and all that it started: SIGTERM to its group, SIGKILL after `seconds`. Its number is its own until `wait`."""
    with suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises InputError where the address is not ours or is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise InputError(
            "server", f"cannot listen on {host}:{port}: {error.strerror}", fix="choose another port or address"
        ) from error


def _show(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _context(ca: Path) -> object:
    import ssl

    return ssl.create_default_context(cafile=str(ca))


def _secret(path: Path) -> None:
    """32 random bytes as text, readable by their owner alone; kept once made."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())


def _number(path: Path) -> int:
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text.isdigit() else 0


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")
