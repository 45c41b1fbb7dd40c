"""Programs in a process of their own, compiled or as plain Python (NUMBA_DISABLE_JIT=1), which must
print the same. Compiled code runs in a forked child; plain Python needs a new interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys

from forked import run
from paths import PYTHONPATH


def printed(program: str, *arguments: str, compiled: bool) -> str:
    """What a program prints. Plain uint64 arithmetic warns that it wraps around; such warnings are
    left out.
    """
    own = {
        "NUMBA_DISABLE_JIT": "0" if compiled else "1",
        "PYTHONPATH": PYTHONPATH,
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-c", program, *arguments]
    ran = (run if compiled else subprocess.run)(
        command, env={**os.environ, **own}, capture_output=True, text=True, timeout=250, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.strip()


def printed_both_ways(program: str, *arguments: str) -> str:
    """What a program prints, after a check that plain Python prints what compiled code does."""
    compiled = printed(program, *arguments, compiled=True)
    assert printed(program, *arguments, compiled=False) == compiled
    return compiled
