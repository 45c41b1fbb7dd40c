"""`python -m entrenous.deploy.flower.server_process`: takes our run's task from the SuperLink and runs Flower's ServerApp in this process.

It stands where flower-superexec and flwr-serverapp would: one process less, its death is seen at once, its token is on no command
line, and no other program than our own is ever started. Arguments: private address, CA file or -, file with the secret, run, parent.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from queue import Queue

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
PATIENCE = 60.0  # s until the task must be there


def main(arguments: list[str]) -> None:
    address, ca, secret, run, parent = arguments
    from flwr.superlink.runtime import run_serverapp

    root = None if ca == "-" else Path(ca).read_bytes()
    token = _acquire(address, root, Path(secret).read_bytes(), int(run))
    run_serverapp(
        address,
        Queue(),
        token,
        insecure=root is None,
        certificates=root,
        parent_pid=int(parent),
        runtime_dependency_install=False,
    )


def _acquire(address: str, ca: bytes | None, secret: bytes, run: int) -> str:
    """The token of the one task of `run`; other tasks are left alone (Flower takes them back after 30 s)."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
    from flwr.supercore.runtime import RuntimeHttpClient

    version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
    signs = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=frozenset({ACQUIRE}))
    until = time.monotonic() + PATIENCE
    with RuntimeHttpClient.from_server_address(address, ca is None, ca, [version, signs]) as client:
        while time.monotonic() < until:
            found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
            if found.token and found.task.run_id == run:
                return str(found.token)
            time.sleep(0.1)
    raise TimeoutError(f"no task of run {run} within {PATIENCE:g} s")


if __name__ == "__main__":
    main(sys.argv[1:])
