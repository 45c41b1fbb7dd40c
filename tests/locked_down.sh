#!/usr/bin/env bash
# What a hardened container gives a program, without a container: no root, no capability, no network, no home, everything read-only
# but one folder in memory. In it a run, a report, a terminal of latin-1 and a pool of forked workers, from the wheel alone.
#   sudo bash tests/locked_down.sh dist/entrenous-*.whl [PYTHON]
# Needs root, unshare and setpriv (util-linux), a package index, and a PYTHON that other users may execute.
set -eu
wheel=$(readlink -f "$1")
python=${2:-/usr/bin/python3}
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
chmod 755 "$home"
"$python" -m venv "$home/venv"
"$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
"$home/venv/bin/python" - > "$home/rows.csv" <<'PYTHON'
print("user,item,time")
for user in range(40):
    for turn in range(8):
        print(f"u{user},i{(7 * user + turn * (turn + user)) % 30},{1_700_000_000 + turn}")
PYTHON
cat > "$home/forked.py" <<'PYTHON'
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import entrenous


def hits(seed):
    return entrenous.run("popular", sys.argv[1], protocol="random-80-20", seed=seed).metrics["hr@10"]


if __name__ == "__main__":
    here = [hits(seed) for seed in range(3)]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        assert list(pool.map(hits, range(3))) == here
PYTHON
cat > "$home/inside.sh" <<'SHELL'
set -eu
mount --make-rprivate /
mkdir -p /run/writable
mount -t tmpfs -o mode=1777 tmpfs /run/writable
mount --bind / / && mount -o remount,ro,bind /
cd /run/writable
alone() {
  setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all \
    env -i "PATH=$1/venv/bin:/usr/bin:/bin" HOME=/nonexistent "${@:2}"
}
! alone "$1" touch "$1/written" 2> /dev/null
set -x
alone "$1" entrenous run fpl --data "$1/rows.csv" --protocol random-80-20 --rounds 2
alone "$1" PYTHONIOENCODING=latin-1 LC_ALL=C entrenous run popular --data "$1/rows.csv" --protocol random-80-20
alone "$1" entrenous report latest --out report.html
alone "$1" timeout 300 python "$1/forked.py" "$1/rows.csv"
SHELL
unshare --mount --net bash "$home/inside.sh" "$home"
echo "locked down: all done"
