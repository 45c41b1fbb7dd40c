"""Which files a reader opens to understand each algorithm, and how many lines they have: python tests/files_to_open.py [NAME...]

The algorithm's own module and what it imports from the package, to the end, without core/ (the language all of it is written in). One file
that offers several systems counts once for each.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "entrenous"
ROOMS = ("algorithms", "kernels", "privacy", "baselines")  # where what belongs to an algorithm can be
MOST = 4
SYSTEMS: dict[str, tuple[str, ...]] = {
    "fpl": ("algorithms/fpl.py",),
    "fcf": ("algorithms/fcf.py",),
    "cali3f": ("algorithms/cali3f.py",),
    "fedfast": ("algorithms/fedfast.py",),
    "fedavg": ("algorithms/fedavg.py",),
    "ditto": ("algorithms/ditto.py",),
    "reptile": ("algorithms/reptile.py",),
    "fedrec": ("algorithms/fedrec.py",),
    "fedrec++": ("algorithms/fedrec_pp.py",),
    "fbalf": ("algorithms/fbalf.py",),
    "fbalf-bayes": ("algorithms/fbalf_bayes.py",),
    "fedmf": ("algorithms/fedmf.py",),
    "metamf": ("algorithms/metamf.py",),
    "rfrec": ("algorithms/rfrec.py",),
    "fedavg-prme-g": ("algorithms/fedavg_prme.py",),
    "reptile-prme-g": ("algorithms/reptile_prme.py",),
    "fedfast-prme-g": ("algorithms/fedfast_prme.py",),
}
# One file has the policies, and names both models: a reader of one system opens the model of that system alone.
GOSSIP = {
    "gmf": ("algorithms/pepper.py", "algorithms/_gossip_gmf.py", "kernels/gmf_node.py", "kernels/gmf_train.py"),
    "prme-g": ("algorithms/pepper.py", "algorithms/_gossip_prme.py", "algorithms/_prme.py", "kernels/prme.py"),
}


def imports(path: Path) -> set[Path]:
    """The files of ROOMS that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        for target in (base.with_suffix(".py"), *((base / alias.name).with_suffix(".py") for alias in node.names)):
            if target.is_file() and target.is_relative_to(SOURCE) and target.relative_to(SOURCE).parts[0] in ROOMS:
                found.add(target)
    return found


def closure(first: Path) -> list[Path]:
    """A file and what it imports, to the end."""
    found, left = [], [first]
    while left:
        path = left.pop(0)
        if path not in found:
            found.append(path)
            left += sorted(imports(path))
    return found


def systems() -> dict[str, list[Path]]:
    """{system: the files to open}."""
    alone = {name: closure(SOURCE / files[0]) for name, files in SYSTEMS.items()}
    for policy in ("pepper", "gossip-age", "gossip-average", "gossip-reptile"):
        alone |= {f"{policy}-{model}": [SOURCE / file for file in files] for model, files in GOSSIP.items()}
    return alone


def main(names: list[str]) -> None:
    """Prints a line for each system."""
    for name, files in systems().items():
        if not names or name in names:
            lines = {str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
            print(
                f"{name:22} {len(files)} files {sum(lines.values()):5} lines: {', '.join(f'{n} {c}' for n, c in lines.items())}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
