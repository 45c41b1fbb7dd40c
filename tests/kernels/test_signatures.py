"""Each kernel is compiled once: whatever calls it hands it arrays of one kind.

A second form of a kernel costs as long as the first one to compile, and nothing else would show it.
"""

from __future__ import annotations

import subprocess
import sys

# One algorithm of each family, conformed to its declaration: with and without ratings and times,
# read-only and writable, many devices and one. What conform does not reach is trained for a round.
RUN = """
import gc, warnings
import entrenous
from entrenous.systems.named import algorithms
from entrenous.data.synthetic import synthetic
from entrenous.runs.conformance import conform
from numba.core.dispatcher import Dispatcher

warnings.simplefilter("ignore")
for name in ("fpl", "fcf", "fcf-newton", "cali3f-neumf", "ditto-gmf", "fbalf", "fedmf-ratings", "metamf"):
    conform(algorithms()[name]())
data = synthetic(users=30, items=40, interactions=300, seed=0)
for name in ("fpl", "fcf", "cali3f-neumf", "pepper-gmf"):
    entrenous.run(name, data, rounds=2, protocol="random-80-20")
for kernel in gc.get_objects():
    if isinstance(kernel, Dispatcher) and kernel.py_func.__module__.startswith("entrenous."):
        inlined = kernel.targetoptions.get("forceinline") or kernel.targetoptions.get("inline")
        print(kernel.py_func.__module__, kernel.py_func.__name__, bool(inlined),
              len(kernel.nopython_signatures))
"""


def test_every_kernel_has_one_compiled_form() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = (line.split() for line in done.stdout.splitlines() if line.startswith("entrenous."))
    forms = {
        f"{module}.{name}": int(many) for module, name, inlined, many in lines if inlined == "False"
    }
    used = {name for name, many in forms.items() if many}
    assert {"entrenous.kernels.ncf._train", "entrenous.kernels.fcf._solve"} <= used
    assert len(used) > 30
    assert {name: many for name, many in forms.items() if many > 1} == {}
