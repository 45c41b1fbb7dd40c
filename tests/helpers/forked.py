"""Children that are there at once: forked from a process that has imported the package and loaded
compiled code, where a new interpreter would take one or two seconds of CPU time for it.

The fixture `forked_children` (conftest.py) puts `Forked` in the place of `subprocess.Popen`, for
the test and for the package. A child has its own process, environment, folder and streams, and its
parent is the server that forked it. Tests keep the real `subprocess` where they ask what a new
interpreter does: what it imports, which settings it reads at import, who ends with whom.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any
from unittest.mock import patch

from network_namespace import CLONE_NEWNET
from network_namespace import OWN as NETWORK

PARENT = "ENTRENOUS_PARENT"  # as entrenous_network.operate.processes names it


class Forked(subprocess.Popen[Any]):
    """`subprocess.Popen`, whose child is forked if it is this Python with `-c CODE` or `-m MODULE`,
    after `-I` or not: a forked child has the paths of its fork server in either case.
    """

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,
        pass_fds: Sequence[int],
        cwd: Any,
        env: Mapping[str, str] | None,
        startupinfo: Any,
        creationflags: int,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        restore_signals: bool,
        gid: Any,
        gids: Any,
        uid: Any,
        umask: int,
        start_new_session: bool,
        process_group: int,
    ) -> None:
        """What the constructor calls when the streams are open."""
        plain = preexec_fn is None and not shell and (gid, gids, uid) == (None, None, None)
        words = [str(word) for word in args] if isinstance(args, list | tuple) else []
        self._child: Any = None
        python, program = words[:1] == [sys.executable], words[1:]
        if program[:1] == ["-I"]:
            program = program[1:]
        if not plain or not python or program[:1] not in (["-c"], ["-m"]):
            super()._execute_child(  # type: ignore[misc]
                args,
                executable,
                preexec_fn,
                close_fds,
                pass_fds,
                cwd,
                env,
                startupinfo,
                creationflags,
                shell,
                p2cread,
                p2cwrite,
                c2pread,
                c2pwrite,
                errread,
                errwrite,
                restore_signals,
                gid,
                gids,
                uid,
                umask,
                start_new_session,
                process_group,
            )
            return
        # A stream that nobody redirects is that of this process, not that of the fork server.
        streams = (p2cread, c2pwrite, errwrite)
        handles = {number: number if at == -1 else at for number, at in enumerate(streams)}
        handles.update((number, number) for number in pass_fds)
        self._child = process(
            _work,
            program,
            dict(os.environ if env is None else env),
            os.fspath(os.getcwd() if cwd is None else cwd),
            [(number, DupFd(handle)) for number, handle in handles.items()],
            start_new_session,
            _network(),
        )
        self.pid = self._child.pid
        self._child_created = True
        self._close_pipe_fds(  # type: ignore[attr-defined]
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
        )

    def _internal_poll(self, *how: Any, **more: Any) -> int | None:
        if self._child is None:
            return super()._internal_poll(*how, **more)  # type: ignore[misc,no-any-return]
        self._join(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int | None:
        if self._child is None:
            return super()._wait(timeout)  # type: ignore[misc,no-any-return]
        self._join(timeout)
        if self.returncode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _join(self, timeout: float | None) -> None:
        if self.returncode is None:
            self._child.join(timeout)
            self.returncode = self._child.exitcode


def _network() -> Any:
    """A handle of the network namespace of this thread; None where there are no namespaces."""
    if not os.path.exists(NETWORK):
        return None
    handle = os.open(NETWORK, os.O_RDONLY)
    try:
        return DupFd(handle)
    finally:
        os.close(handle)


def _work(
    words: list[str],
    env: dict[str, str],
    cwd: str,
    handles: list[tuple[int, Any]],
    session: bool,
    network: Any,
) -> None:
    """What a new interpreter would do, in the child."""
    if session:
        os.setsid()
    if network is not None:
        _enter(network.detach())
    received = [(number, handle.detach()) for number, handle in handles]
    _put_in_place(received)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")
    os.environ.clear()
    os.environ.update(env)
    os.environ.pop(
        "PYTEST_VERSION", None
    )  # the fork server has imported pytest; the child is no test
    if PARENT in env:
        os.environ[PARENT] = str(os.getppid())
    os.chdir(cwd)
    kind, what, *arguments = words
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


def _enter(network: int) -> None:
    """Moves this process into a network namespace, unless it is there: the fork server may have
    been started before its parent entered it (network_namespace.py)."""
    try:
        if os.fstat(network).st_ino != os.stat(NETWORK).st_ino:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.setns(network, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(network)


def _put_in_place(received: list[tuple[int, int]]) -> None:
    """Gives file descriptors their numbers, one of which may be another's present one."""
    free = max(max(number, handle) for number, handle in received) + 1
    moved = []
    for place, (number, handle) in enumerate(received):
        os.dup2(handle, free + place)
        os.close(handle)
        moved.append((number, free + place))
    for number, handle in moved:
        os.dup2(handle, number)
        os.close(handle)


def run(command: Sequence[str], **how: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with a forked child."""
    with patch.object(subprocess, "Popen", Forked):
        return subprocess.run(command, **how)


def process(work: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """A process of its own, forked from one that has imported all of this: it starts at once, also
    where many tests run.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["preloaded_server"])
    # Preloading looks nowhere else. One thread for products of matrices: children that are asked to
    # have one come too late, since the fork server has loaded the library.
    below = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    first = {"PYTHONPATH": os.pathsep.join(below), "OPENBLAS_NUM_THREADS": "1"}
    with patch.dict(os.environ, first):
        started = context.Process(target=work, args=arguments, daemon=True)
        started.start()
    return started
